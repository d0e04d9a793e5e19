// Command compare builds the benchmarks of two commits, runs them interleaved, shows what benchstat says, and fails on an
// allocation that was not there, or on a slow-down that is both significant and above 10 %.
//
//	go run . -base main                      # the working tree against main
//	go run . -base main -short               # allocations only, each benchmark for a moment
//	go run . -base main -bench Ledger -pkg ./credit -count 20
//
// The one idea: a machine that becomes slower meanwhile must slow both commits, so each round runs each package of both, the one
// that goes first by turns. Invariant: what decides is what benchstat compares; a benchmark that only one commit has decides nothing
// and is named.
package main
