// Package credit moves buffers between partitions and gates over channels whose receivers decide how much is in flight.
//
// Its one idea: credit is a count that the receiver grants. A sender may send one data buffer per credit and events at any
// time; it tells with each message how many buffers wait behind it (the backlog), and the receiver grants more as it
// gets memory. So a channel that nobody reads stands still by itself and holds back no other one on its connection.
//
// The invariant: for a channel, credit at the sender plus credit under way plus data under way never exceeds the free
// buffers that the receiver holds for it.
//
// Everything here that decides something is a plain state machine without sockets, goroutines, clocks or locks, owned
// by one goroutine. Frames: the Append functions, [ServerDecoder] and [ClientDecoder]. Sender: a [Partition] of
// [Subpartition]s, a [Reader] for each channel, a [Scheduler] and a [ServerCore] for each connection, a [Registry] of
// partitions. Receiver: a ledger for each channel and a [Gate] for each input. Only server.go, server_limits.go and client.go bind them to
// sockets.
//
// The protocol is that of Apache Flink's TaskManagers, byte for byte; a [Profile] selects the release line. In one thing a server
// uses it as Flink's own does for files only: small buffers that wait behind one another share a message (pack.go, ServerOptions.NoPacking). At the
// writer they share a segment (partition_share.go), which nobody else sees.
package credit
