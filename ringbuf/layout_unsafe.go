//go:build !nounsafe

package ringbuf

import "unsafe"

// The layout that pad.go promises, asserted at compile time: an array length below zero does not compile. Element types
// make no difference, since values lie behind a slice; so one instance of each type stands for all. Objects need not
// start at a cache line, hence the full distance between words and at both ends.

// SPSC: pad, producer's words, pad, consumer's words, pad, constants, pad.
var (
	_ [unsafe.Offsetof(SPSC[byte]{}.tail) - line]byte
	_ [unsafe.Offsetof(SPSC[byte]{}.head) - unsafe.Offsetof(SPSC[byte]{}.limit) - 8 - line]byte
	_ [unsafe.Offsetof(SPSC[byte]{}.buf) - unsafe.Offsetof(SPSC[byte]{}.seenTail) - 8 - line]byte
	_ [unsafe.Sizeof(SPSC[byte]{}) - unsafe.Offsetof(SPSC[byte]{}.out) - line]byte
)

// MPSC and MPMC: pad, producers' position, pad, consumers' position, pad, constants, pad.
var (
	_ [unsafe.Offsetof(multi[byte]{}.tail) - line]byte
	_ [unsafe.Offsetof(multi[byte]{}.head) - unsafe.Offsetof(multi[byte]{}.tail) - 8 - line]byte
	_ [unsafe.Offsetof(multi[byte]{}.slots) - unsafe.Offsetof(multi[byte]{}.head) - 8 - line]byte
	_ [unsafe.Sizeof(multi[byte]{}) - unsafe.Offsetof(multi[byte]{}.out) - line]byte
)

// Notifier, Sleepers, IndexStack: one shared word each.
var (
	_ [unsafe.Offsetof(Notifier{}.state) - line]byte
	_ [unsafe.Offsetof(Notifier{}.token) - unsafe.Offsetof(Notifier{}.state) - 4 - line]byte
	_ [unsafe.Sizeof(Notifier{}) - unsafe.Offsetof(Notifier{}.timer) - line]byte
	_ [unsafe.Offsetof(Sleepers{}.count) - line]byte
	_ [unsafe.Offsetof(Sleepers{}.tokens) - unsafe.Offsetof(Sleepers{}.count) - 4 - line]byte
	_ [unsafe.Offsetof(IndexStack{}.top) - line]byte
	_ [unsafe.Offsetof(IndexStack{}.next) - unsafe.Offsetof(IndexStack{}.top) - 8 - line]byte
)

// 64-bit atomics are 8-byte aligned on 32-bit platforms too: each position is a multiple of 8 from the start.
var (
	_ [-(unsafe.Offsetof(SPSC[byte]{}.tail) % 8)]byte
	_ [-(unsafe.Offsetof(SPSC[byte]{}.head) % 8)]byte
	_ [-(unsafe.Offsetof(multi[byte]{}.tail) % 8)]byte
	_ [-(unsafe.Offsetof(multi[byte]{}.head) % 8)]byte
	_ [-(unsafe.Offsetof(IndexStack{}.top) % 8)]byte
)
