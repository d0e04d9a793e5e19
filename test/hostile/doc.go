// Package hostile holds the proof that a peer which lies, stalls, floods or comes a thousandfold costs a node no more than it is
// configured for, and nobody else anything.
//
// Its one idea: an attack is a peer on a real socket against a node with default options, beside an honest transfer through
// the same node. While it lasts, what it costs is measured, the attacker's own side included: bytes of heap, goroutines, descriptors,
// segments. Each attack has its bounds, and the honest transfer must bring every record, in order, meanwhile.
//
//	make hostile
//
// prints the table that is in docs/security.md: attack, bounds, what was measured. Without the variable HOSTILE, which it
// sets, a node gives clients 2 s instead of 10 for their first message, and all else is the same.
//
// Invariant: no attack passes without exposure. Each one proves that it was carried out: connections that were accepted, answers
// that came, bytes that were taken.
package hostile
