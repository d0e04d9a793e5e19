// Package netio runs sockets on an event loop that whoever needs it drives.
//
// A [Loop] owns a group of connections. It has a token; who holds it runs the loop's turns and owns everything in it for that
// time. A consumer with nothing to do takes the token and runs turns itself ([Loop.RunUntil]), which spares the hand-over to
// another thread. A writer that has published something runs one turn ([Loop.Kick]). When nobody does, a standby goroutine
// does, so that the wire never waits for a consumer. Or the loop has a goroutine of its own ([LoopConfig.Dedicated]).
package netio
