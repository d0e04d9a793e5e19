// Command mutants breaks the sources in small ways, one at a time, and checks that the tests notice.
//
// Its one idea: a test proves something only if it can turn red. So each entry of the list names a breakage (one exact piece of
// text of one file and what takes its place) and the tests that must fail with it: a credit doubled, a wake-up dropped, a barrier
// that overtakes too much, a length off by one. The list stands in Go files by subject (ledger.go, rings.go, …) and is meant to
// be read.
//
//	make mutants                            all; ends with "N mutants, N killed, 0 survived"
//	make mutants ARGS="-run ledger"         those whose name matches
//	make mutants ARGS="-list"               what there is
//	make mutants ARGS="-sample 8"           a few, spread over the list
//
// Broken files are given to the compiler by an overlay, so the working tree is never touched. A function that is broken becomes a
// choice between what it was and each of its broken forms, made by an environment variable; so the tests of a package are compiled
// once, with all mutants in them, and not once for each (combine.go). What is neither function nor variable is compiled by itself.
//
// The named tests run without any breakage first, and must be there, run and pass. Then, for each mutant, each of them must fail: by an assertion, a panic, a data
// race, or the leak check at the end of its package; by hanging only if the entry says so. What doesn't compile is not killed but
// wrong, and so is an entry whose text is not in its file exactly once: the sources have moved on, and the entry has to follow.
//
// # Adding one
//
// Break something by hand, find the test that sees it, and enter both. If no test does, that is a finding: write the test. Entries
// that differ only in the place of the same slip prove nothing more.
package main
