// Command callgrind counts the instructions of the innermost loops under valgrind: a gauge without noise, as the same program on
// the same data takes the same instructions on any machine, busy or not.
//
//	make callgrind                      # compare with bench/callgrind/baseline.txt
//	make callgrind ARGS=-write          # make that file anew
//
// The one idea: what a loop costs is counted between the entry and the return of one function, so that start, warm-up and the
// runtime are not in it. Invariant: a loop whose work does not come out right has no count.
//
// A Go program bears valgrind if it gets no signals: preemption by signals is off, and there is one processor and no collector.
// Counts depend on the compiler, so the baseline names it; with another one the comparison is shown and decides nothing.
package main
