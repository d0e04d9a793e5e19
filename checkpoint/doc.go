// Package checkpoint lets a pipeline of processes that is killed anywhere go on with nothing lost and nothing doubled.
//
// Its one idea is the epoch. A pipeline has one Coordinator and a fixed set of members, told apart by name. While all members are there,
// the pipeline is in an epoch: an attempt, with a number that belongs in the partition ids, since a partition that is streamed can
// be read once, and a producer that was started again is another partition. When any member is lost, the epoch is fenced:
// each source goes back to the last completed checkpoint, each sink drops what is not committed, and all open again
// with the next number. Who comes back with an old epoch, or under a name that another process has now, can commit nothing.
//
// A checkpoint goes like this. The coordinator sends a Trigger to all members. Sources put barrier n into their outputs and
// take a snapshot; the others take theirs when the barrier has come through, or, once all their inputs have ended, at the trigger.
// Each puts its parts into the Store, directly or through the coordinator, and acknowledges. When all have, the coordinator
// writes the metadata: that is the commit. Then it tells the members, and the sinks commit what they had prepared. A checkpoint
// that is declined or takes too long is aborted; what sinks prepared for it stays prepared, and belongs to the next one.
//
// At the end of data each member says so, the coordinator begins a last checkpoint without waiting for its time, and when
// the sinks have committed it, everybody goes.
//
// Invariants:
//   - A checkpoint is completed only if every member acknowledged it, in an epoch that was not fenced before its metadata was
//     on its way. The ids of completed checkpoints increase.
//   - An epoch begins from the newest whole checkpoint that is of the epoch before, or not newer than what that one began with.
//     It is written down before any member hears of it, and no number is used twice.
//   - A sink commits exactly what completed checkpoints contain: on their completion, or when an epoch begins from one.
//   - Metadata is written after all parts are durable, and deleted before any of them.
//
// The decisions are two state machines without I/O, goroutines, clocks or locks: the coordinator's (core) and a member's (side). Coordinator
// and Member drive them over TCP, optionally with TLS. The package knows nothing of weir's records: state is bytes, a barrier
// is an id. FileSource, FileSink, Transactions, DirStore and Archive are useful without the rest.
//
// # Protocol
//
// A frame is a length and a CRC-32C, both of 32 bits, big-endian, and what they are of: a byte that says what the message is, and its
// body: JSON of at most 512 KiB, or a chunk of at most 256 KiB of bytes. Each connection begins with a member's hello, which names
// the version, the member and its process. A connection for control then carries join (wants the next epoch) or resume (is in one,
// and lost the connection), and afterwards ack, decline, ended, fail and bye; the coordinator sends welcome (an epoch begins),
// resumed, trigger, completed, aborted, fenced, replaced, refused and goodbye. Either side gives a connection up that is silent for
// too long; members ping. After resume, resumed says what was completed and what is in flight, and the member says again what
// may have been lost, so that both ends agree. A connection for a part carries chunks one way, and done or refused as the answer.
//
// # Failures
//
// docs/guarantees.md lists them, each with the test that shows what happens.
package checkpoint
