// Package weir moves records between goroutines, processes and machines over many logical channels on few TCP connections,
// as the data plane of a stream processor does, and speaks the protocol of Apache Flink's.
//
// The one idea: the receiver decides how much is under way. It grants credits, a credit is a buffer that waits for its
// data, so memory is bounded at both ends from the start and a slow channel holds back no other on the wire. Records are read where
// the network put them; checkpoint barriers are aligned across channels, so that a snapshot taken at them is consistent.
//
// A [Node] has the memory, the loop and the address. An [Output] is a partition that others read: one goroutine writes to it, each
// of its subpartitions has one consumer. An [Input] reads subpartitions of other nodes, or of its own ([Local]): one goroutine takes elements
// from it. A [Task] is
// what checkpoints are taken of: an input, outputs, and the user's state; it goes on from a [Snapshot].
//
//	node, err := weir.Open(weir.Config{Listen: "127.0.0.1:6121"})
//	out, err := node.NewOutput(weir.OutputConfig{Name: "clicks", Subpartitions: 4})
//	err = out.Write(ctx, key, value)
//
// Invariants: each record that Write took arrives exactly once and in order at the consumer of its subpartition, or both ends get
// an error; no record behind a barrier is handed out before the checkpoint; in steady state no record and no buffer costs an
// allocation; every buffer is home when Close returns.
//
// Who waits for whom: Write waits for memory, that is, for the slowest subpartition's consumer, since the next record may be for
// it. Next waits for data, and meanwhile does the network's work of its node. Both end with their context.
//
// The layers below are public too: ringbuf, segment, netio, serde, credit, align and task.
package weir
