// Package sim runs whole jobs on a simulated network, and looks after each step whether everything is as it must be.
//
// Its one idea: what decides in weir holds no socket, goroutine, clock or lock, so one goroutine can play them all. A run is a
// few nodes with sources, operators and sinks, built of the very types that the sockets use (credit's cores, partitions, gates
// and pools, serde's writers and readers, task.Input with its aligner). Only the glue to netio is played: see node.go. The seed
// decides everything: sizes of pools and buffers, the shape of the job, delays, how many bytes each read and write takes, who
// stalls, which connection is cut or reset, which channel or checkpoint is killed. So a seed is a run, and can be looked at:
//
//	make sim SEEDS=5000         runs the seeds 1 to 5000, ends with "N passed, N failed"
//	make sim SEEDS=500 FIRST=9001
//	make sim SEED=44            runs one and prints what happened, a line for each thing
//
// What sleeps is woken only by what would wake it: a loop by the Wake functions that the types were given, by bytes and timers; a
// task by the notifiers of its gate and its pool, after the second look that they ask for.
//
// # Invariants
//
// After each step, for each channel: the credit that the sender has, or will hear of, the data under way and what is still to be
// told are at most the free buffers that the receiver holds for it; sequence numbers have no gap where they are sent and where they
// arrive; a receive pool has a segment for each free unit of credit, and has promised no more than it has. These come from books
// that the simulator keeps by decoding the bytes on the wire by itself (shadow.go).
//
// For each record that is taken: it is the next one that the sender wrote to this channel, byte for byte. So none is lost, doubled,
// damaged or out of order.
//
// For each completed checkpoint and channel: the records that the sender had written and those that the receiver had taken
// differ by what was persisted at both ends, byte for byte, and by nothing else. Aligned: they do not differ. At least once: the
// receiver may be ahead. After a reset, or the death of a channel, the job starts again from the last checkpoint, with what was in
// flight. The mode is the seed modulo 5: none, aligned, at least once, unaligned, timed.
//
// Killed in the middle are channels (by their sender, by their receiver, with a task: everything else goes on for a while, and a
// channel's error must name the channel, its partition and its peer) and checkpoints (aborted by the coordinator, cancelled
// by a source before or after its barrier, overtaken by the next one).
//
// In the end: as many records came through an operator as went in, every segment is home, and nothing was promised twice.
//
// Progress: something moves within 200 s of the virtual clock, longer than all that can go wrong at once; and no channel that
// could move stands still for 20 s, which is less than a task may stall: one channel is not held up by another.
//
// A set of runs counts what it had of all this (Exposure), by mode where that makes a difference, and fails if there was nothing of
// a kind: not one read that ended 17 bytes into a frame, no timed checkpoint completed after one that was killed.
//
// # Tests
//
// TestSeeds runs 200 seeds, TestReproducible compares runs of one seed. That it can fail was tried by hand; each of these turned it
// red: an AddCredit message that tells one too few; a partition that does not wake the loop; a loop that does not wake the task; a
// copy of an overtaken buffer that is not released, a failed message's segment that is not; a barrier that does not block its
// subpartition; buffers that are not finished before a barrier; a notice handed out after the rest of the buffer; records
// that are read on although a priority event waits; an unaligned barrier queued behind data at the sender, and at the gate; floating credit that does not go back; in-flight data that
// is not handed over.
//
// # What is not simulated
//
// Sockets and their batching (netio), blocking partitions, channels over ranges of subpartitions, compression, recovery of
// channel state from files, and whatever depends on two goroutines doing something in the same instant: steps are whole calls.
package sim
