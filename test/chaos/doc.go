// Package chaos kills and stops the processes of a pipeline at random, and its coordinator, and cuts the connections between them, and
// compares what the pipeline has committed in the end with what it must be.
//
// The one idea: a round is a whole pipeline, 2 sources → 3 counting tasks → 2 sinks, from its first record to its last, and nothing that
// happens in between may show. Invariant: every record of every source is committed exactly once, in order for its key, with the count
// that it has without crashes; a round counts only if a checkpoint had been completed, records were not committed at the kill, and some
// were processed again, and a run fails if too few rounds count.
//
// make chaos runs it: ROUNDS=n, SEED=n.
package chaos
