// Package demo is weir's main job as a show: two senders and three receivers, processes of their own, over real text, with
// barriers, a receiver that falls asleep, and a proof at the end.
//
// The one idea: every line carries who sent it and its number, so that the outputs alone prove what arrived. Invariant: the proof
// reads what the receivers wrote to disk, nothing that they counted, and fails when there was nothing to prove: no line, no
// checkpoint, a receiver that never slept.
package demo
