// Program interop exchanges records with a real Flink, each way, and checks at both ends what came of it. It runs cells: a release of
// Flink × who sends × a number of channels. In each cell one partition is sent over one connection by the pipelined exchange, with
// records from nothing to 20 MB, watermarks, twelve checkpoints (aligned, aligned with a long and with a short time limit,
// unaligned) and the end of the data.
//
// Both ends compute what is sent from a seed (script.go, Script.java) and compare each record. At a checkpoint, the bytes that the
// receiver had read, those that were in flight at either end, and those that the sender had written before the barrier must fit
// without a gap, for every channel; and each end compares the bytes in flight with what they should be. A cell without data, without
// all of its checkpoints, without one that turned unaligned, or with nothing in flight at one end proves nothing, and fails.
//
// weir's end uses the exported API of package weir with its defaults. Flink's end (src/main/java) is made of Flink's own classes: the
// network stack of a TaskManager, RecordWriter, SingleInputGate, CheckpointedInputGate with the handler of unaligned
// checkpoints, the spanning deserializer, the watermark valve.
package main
