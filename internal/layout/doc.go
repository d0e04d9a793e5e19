// Package layout holds no code, only tests of the tree itself: which package may import which, where package unsafe may
// appear, how long a file may be, that nothing is left open, and that every package explains itself.
//
// Invariant: an import never points up the layers of docs/architecture.md.
package layout
