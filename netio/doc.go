// Package netio runs sockets on an event loop that whoever needs it drives.
//
// # The idea
//
// A [Loop] owns a group of connections. Handing data from a loop's thread to a sleeping consumer's thread costs half of the
// rate and twice the CPU, so there is no thread of the loop's: it has a token instead, and who holds the token runs the turns.
//
//   - A consumer with nothing to do takes the token and runs turns itself until it has ([Loop.RunUntil]).
//   - A writer that has published something runs one turn that does not block ([Loop.Kick]).
//   - When nobody has run a turn for 10 ms the loop's standby goroutine does, since the wire must not wait for a consumer
//     that is busy. With handlers that do all the work (nobody calls RunUntil), it is the standby that runs everything.
//   - While there is no connection, who waits can only wait for goroutines of its process. It runs one turn and then rests: the next one is
//     run by whoever publishes something, and the runtime wakes it for less than a kernel would.
//   - Or the loop has a goroutine of its own ([LoopConfig.Dedicated]), which polls while data flows.
//
// # Invariant
//
// At any moment at most one goroutine holds the token, and only it touches connections, timers and handlers of the loop. The
// compare-and-swap that takes the token and the one that gives it up are the happens-before edges between holders. So handlers
// need no locks, and never run concurrently within a loop.
//
// # A turn
//
//	┌─ posted functions      Post, at most 256
//	│  inbox                 new connections and listeners, Abort, portable connections
//	│  timers                that are due
//	│  sources               Source.Poll: the rings of writers and gates
//	│  epoll, not waiting    readable: one read of ≤ 512 KiB into the loop's region, then OnRead;
//	│                        of a SpaceHandler into its memory first, then OnFilled
//	│                        writable: marked for the flush;  listener: accept, at most 64
//	│  flush                 for connections that asked: OnFlush, then one gathered write of about 800 KiB
//	└─ OnClose               of what was closed
//	   nothing to do?        poll for 50 µs (epoll_wait(0) and sched_yield), then sleep in epoll_wait;
//	                         while bulk flows nap first: sleep for 50 µs at most
//
// Everything is level-triggered: a turn reads and writes once per connection and leaves the rest to the next turn, so that
// connections share the loop fairly and turns stay short. A short read ends reading: the loop polls through epoll, which
// respects SO_RCVLOWAT, rather than by reading, which would pick up crumbs. While sleeping nobody holds the token.
//
// # Small messages
//
// A read that empties a socket makes the kernel acknowledge what it took, before it returns. Where the answer goes over another connection
// that is a packet for each message. So a connection that gets small messages, and writes little itself, is looked at (MSG_PEEK, SO_PEEK_OFF) instead of
// read, and what was seen is taken out of the socket several messages at a time, while the loop waits (Linux 6.9; [LoopConfig.NoPeek]).
// Handlers see no difference.
//
// # Ownership
//
//   - Methods of Conn and Timer, and those of Loop that say so, are for the holder of the token: handlers, posted functions,
//     timers, sources. `-tags weirdebug` checks that. Post, Wake, Kick, Abort, Dial, Listen, Adopt and AddSource are for anybody.
//   - The bytes that OnRead gets lie in the loop's region, valid during the call. All of them count as consumed.
//   - What OnSpace adds belongs to the handler, and is written to by the read between OnSpace and OnFilled only.
//   - The bytes that Stage returns are to be filled before the next call for the connection. They lie in pieces of 64 KiB
//     which go back to the loop when written; an idle connection holds none.
//   - AppendBuffer takes the buffer's reference over. It is released by whoever holds the token then: when written, when copied
//     (payloads of at most 4 KiB), or when the connection is closed.
//   - A connection queues what its handler queues: Full says when to stop, about 800 KiB. That, the region and the pieces are
//     all the memory a loop uses. PauseRead holds a peer back.
//
// # Ends
//
// Everything that came before an end of stream, a hang-up or a failed write is passed to OnRead before the connection is closed.
// OnClose is called once. A peer's end of stream closes the connection once what is queued is written, unless the handler is an
// [EndHandler]. At the limit of descriptors listeners pause and say so in an [AcceptError].
//
// # GOMAXPROCS
//
// A sleep in the kernel keeps the goroutine's P until the runtime takes it away, and needs a free P after. Keep loops that sleep
// at once (driven or dedicated) at or below GOMAXPROCS − 1. With GOMAXPROCS 1 nothing polls.
//
// # Systems
//
// On Linux sockets are driven by epoll and raw system calls, also those with TLS. Elsewhere, with `-tags weirportable`, and for
// connections that are adopted and no plain sockets, a reader and a writer goroutine per connection use package net and post to the
// loop; handlers see no difference. That costs two goroutine switches each way and a ring of 128 KiB a connection.
//
// # TLS
//
// [Loop.ListenTLS] and [Loop.DialTLS] do handshakes in goroutines, never in a turn, within a deadline and, for accepted connections,
// a bound on how many are at it. Then the connection is like any other one. An end of stream is close_notify. One without it
// between two records reads like an orderly end, as crypto/tls has it, so a protocol needs an end of its own; within a record it
// is an error.
//
// On Linux the loop calls crypto/tls in its turns: what that reads from never waits, and what it writes to is staged and written by
// the loop. A turn decrypts about LoopConfig.ReadSize and encrypts about 800 KiB, as much at a time as the socket has room for, and
// writes it with one system call. Only while its socket is full a connection holds some of that, 64 KiB as a rule, besides
// crypto/tls's own buffer of as much. So a loop encrypts on one processor; applications that need more have more loops. crypto/tls
// makes a small object when it reads what is not a whole record; the driver itself allocates nothing. Records carry up to 16 KiB of
// what is queued, headers and payloads together; crypto/tls begins with smaller ones unless tls.Config.DynamicRecordSizingDisabled
// is set.
package netio
