// Package loopback finds addresses for processes that listen at the same one again after each crash.
//
// The one idea: the ports that systems give to outgoing connections are no good for that, since between two lives of a process one of them
// may be taken by a connection of anybody. Those below are only taken by who asks for them, and each that is handed out is marked for
// all processes until it is given up, or the process that asked has ended.
//
// Invariant: an address that FreeAddr returned is free at that moment, and is not returned again before it is given up.
package loopback
