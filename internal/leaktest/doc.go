// Package leaktest fails a test binary that leaves something behind: goroutines, file descriptors, shared or file mappings,
// and whatever a package counts itself (mapped arenas, segments out of their pool).
//
// Every package whose tests start, open or map something has
//
//	func TestMain(m *testing.M) { leaktest.Main(m) }
//
// Private anonymous mappings cannot be told from the Go runtime's own, so a package that makes them passes a Gauge.
//
// Invariant: what is there before the first test may be there after the last one, and nothing else.
package leaktest
