// Package measure takes the figures of one process over one window of time: work done, CPU time, allocations, collections.
//
// The one idea: each process of a benchmark measures its own window with the same code, peers and weir alike, so that
// their figures can be compared. A window opens a warm-up after the first work and never covers start or end.
package measure
