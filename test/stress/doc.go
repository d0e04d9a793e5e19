// Package stress breaks exchanges between processes at random moments, again and again.
//
// The one idea: a survivor is judged by what is left in it. Whatever was killed, it says within five seconds which peer,
// partition and channel are gone, and then it has no buffer, descriptor or goroutine more than before, and serves others on.
// Invariant: a run prints its seed and how many of its kills hit data in flight, and fails if none did.
package stress
