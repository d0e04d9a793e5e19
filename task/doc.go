// Package task is the loop that an operator runs in: it turns what a gate hands out into records, watermarks and
// checkpoints.
//
// Its one idea is that a task has one goroutine, and everything here belongs to it: an Input reads a gate, a Valve and the
// combiners make one stream of watermarks out of those of many channels, a Processor feeds an operator from one input, a
// MultiInput from several, and a Mailbox is the only way in for others. So whatever else has to be done, a timer, a
// checkpoint that the coordinator triggers, is done between two records and sees the operator at rest. A Loop puts the two
// together: mails, then a batch of records, then sleep. It runs on a goroutine of its own (Loop.Run), or inline on that of another
// loop, one turn at a time and without sleeping (Loop.Turn). Input.All and AllOf are the same as iterators.
//
// The invariants: the records of a channel are handed out in order, each once, however its bytes were cut into buffers; no
// record behind a barrier before the checkpoint's notice; watermarks increase strictly; no mail runs inside of a call
// that reads; every buffer is read to its end or given back.
//
// Who is told what: records and what belongs between them come as Element; a checkpoint as Checkpoint, followed by Completed if
// it may be unaligned, or by Aborted; the end of the data once, as EndOfData or Stopped, and EndOfInput when nothing follows,
// not even a checkpoint.
//
// Valve, AttributesCombiner, WatermarkCombiners, Selector and Mailbox are useful without the rest. Sources: Flink's
// StreamTaskNetworkInput, StreamOneInputProcessor, StreamMultipleInputProcessor, MultipleInputSelectionHandler,
// StatusWatermarkValve, RecordAttributesCombiner, WatermarkCombiner, TaskMailboxImpl, MailboxProcessor.
package task
