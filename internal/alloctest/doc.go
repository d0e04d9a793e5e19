// Package alloctest asserts that a path allocates nothing, in bytes as well as in counts.
//
// testing.AllocsPerRun divides and rounds down: one allocation every second run reads as none. This package compares the
// process's allocation counters around the whole loop, so a single allocation in all n runs fails the test, and
// allocations by other goroutines that the path hands work to count too.
//
// Use it in files named alloc_test.go with the build constraint `!race`: the race detector allocates on its own.
// Tests that use it must not be parallel.
package alloctest
