// Package task is the loop that an operator runs in: it turns what a gate hands out into records, watermarks and
// checkpoints.
//
// Its one idea is that a task has one goroutine, and everything here belongs to it: an Input reads a gate, a Valve and the
// combiners make one stream of watermarks out of those of many channels, and a Mailbox is the only way in for others. So
// whatever else has to be done, a timer, a checkpoint that the coordinator triggers, is done between two records and sees
// the operator at rest.
//
// The invariants: the records of a channel are handed out in order, each once, however its bytes were cut into buffers; no
// record behind a barrier before the checkpoint's notice; watermarks increase strictly; no mail runs inside of a call
// that reads.
//
// Valve, AttributesCombiner, WatermarkCombiners and Mailbox are useful without the rest. Sources: Flink's
// StreamTaskNetworkInput, StatusWatermarkValve, RecordAttributesCombiner, WatermarkCombiner, TaskMailboxImpl.
package task
