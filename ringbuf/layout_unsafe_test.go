package ringbuf

import (
	"testing"
	"unsafe"
)

// TestRNG18WordsLieApart: what different goroutines write lies at least two cache lines apart, and from the neighbours of
// the whole struct too. layout_unsafe.go asserts the same at compile time; this is the readable form.
func TestRNG18WordsLieApart(t *testing.T) {
	var s SPSC[[3]uint64]
	var m multi[[3]uint64]
	var n Notifier
	var l Sleepers
	var x IndexStack
	type words struct {
		what        string
		from, until uintptr
	}
	for name, groups := range map[string][]words{
		"SPSC": {
			{"start", 0, 0},
			{"producer", unsafe.Offsetof(s.tail), unsafe.Offsetof(s.limit) + 8},
			{"consumer", unsafe.Offsetof(s.head), unsafe.Offsetof(s.seenTail) + 8},
			{"constants", unsafe.Offsetof(s.buf), unsafe.Offsetof(s.out)},
			{"end", unsafe.Sizeof(s), 0},
		},
		"MPSC and MPMC": {
			{"start", 0, 0},
			{"producers", unsafe.Offsetof(m.tail), unsafe.Offsetof(m.tail) + 8},
			{"consumers", unsafe.Offsetof(m.head), unsafe.Offsetof(m.head) + 8},
			{"constants", unsafe.Offsetof(m.slots), unsafe.Offsetof(m.out)},
			{"end", unsafe.Sizeof(m), 0},
		},
		"Notifier": {
			{"start", 0, 0},
			{"state", unsafe.Offsetof(n.state), unsafe.Offsetof(n.state) + 4},
			{"sleeper", unsafe.Offsetof(n.token), unsafe.Offsetof(n.hook) + unsafe.Sizeof(n.hook)},
			{"end", unsafe.Sizeof(n), 0},
		},
		"Sleepers": {
			{"start", 0, 0},
			{"count", unsafe.Offsetof(l.count), unsafe.Offsetof(l.count) + 4},
			{"constants", unsafe.Offsetof(l.tokens), unsafe.Offsetof(l.tokens) + unsafe.Sizeof(l.tokens)},
			{"end", unsafe.Sizeof(l), 0},
		},
		"IndexStack": {
			{"start", 0, 0},
			{"top", unsafe.Offsetof(x.top), unsafe.Offsetof(x.top) + 8},
			{"constants", unsafe.Offsetof(x.next), unsafe.Offsetof(x.next) + unsafe.Sizeof(x.next)},
			{"end", unsafe.Sizeof(x), 0},
		},
	} {
		for i, w := range groups[1:] {
			if before := groups[i]; w.from < before.until+line {
				t.Errorf("%s: %s (from %d) is only %d bytes behind %s", name, w.what, w.from, w.from-before.until, before.what)
			}
		}
	}
}

// TestRNG06PositionsAreAligned: 64-bit atomics are 8-byte aligned wherever a ring is embedded, on 32-bit platforms too.
// (Rings are never laid over raw memory, where an offset could be odd: their slots are Go slices.)
func TestRNG06PositionsAreAligned(t *testing.T) {
	type odd struct {
		_ [5]byte
		s SPSC[byte]
		_ byte
		m multi[byte]
		_ [3]byte
		x IndexStack
	}
	var o [2]odd
	for i := range o {
		for name, p := range map[string]uintptr{
			"SPSC.tail":      uintptr(unsafe.Pointer(&o[i].s.tail)),
			"SPSC.head":      uintptr(unsafe.Pointer(&o[i].s.head)),
			"multi.tail":     uintptr(unsafe.Pointer(&o[i].m.tail)),
			"multi.head":     uintptr(unsafe.Pointer(&o[i].m.head)),
			"IndexStack.top": uintptr(unsafe.Pointer(&o[i].x.top)),
		} {
			if p%8 != 0 {
				t.Errorf("%s lies at %d modulo 8", name, p%8)
			}
		}
	}
	// Slots hold a 64-bit word each, beside a value of any size.
	slots := NewMPMC[[3]byte](4).slots
	for i := range slots {
		if p := uintptr(unsafe.Pointer(&slots[i].seq)); p%8 != 0 {
			t.Errorf("slot %d's sequence number lies at %d modulo 8", i, p%8)
		}
	}
	// And they work there: the atomics would fault on 386 and arm.
	o[1].m.tail.Add(1)
	o[1].x.top.Add(1)
	o[1].s.tail.Or(closedBit)
}
