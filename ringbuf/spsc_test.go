package ringbuf

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// naive is the twin of an SPSC ring that is obviously right.
type naive struct {
	capacity          int
	published, staged []int
	closed            bool
}

func (n *naive) room() int { return n.capacity - len(n.published) - len(n.staged) }

func (n *naive) publish() bool {
	if n.closed && len(n.staged) > 0 {
		return false
	}
	n.published = append(n.published, n.staged...)
	n.staged = nil
	return true
}

func (n *naive) push(v ...int) int {
	k := min(len(v), n.room())
	n.staged = append(n.staged, v[:k]...)
	if !n.publish() {
		n.staged = n.staged[:len(n.staged)-k]
		return 0
	}
	return k
}

func (n *naive) pop(k int) []int {
	k = min(k, len(n.published))
	v := slices.Clone(n.published[:k])
	n.published = n.published[k:]
	return v
}

func same(t *rapid.T, what string, got, want any) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Fatalf("%s: got %s, want %s", what, g, w)
	}
}

func TestSPSCModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := 1 << rapid.IntRange(0, 5).Draw(t, "log2 capacity")
		q := NewSPSC[int](capacity)
		twin := &naive{capacity: capacity}
		last := 0
		fresh := func(k int) []int {
			v := make([]int, k)
			for i := range v {
				last++
				v[i] = last
			}
			return v
		}
		size := rapid.IntRange(0, capacity+2)
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				v := fresh(1)
				same(t, "Push", q.Push(v[0]), twin.push(v...) == 1)
			},
			"pushBatch": func(t *rapid.T) {
				v := fresh(size.Draw(t, "n"))
				same(t, "PushBatch", q.PushBatch(v), twin.push(v...))
			},
			"stage": func(t *rapid.T) {
				v := fresh(1)[0]
				ok := twin.room() > 0
				if ok {
					twin.staged = append(twin.staged, v)
				}
				same(t, "Stage", q.Stage(v), ok)
			},
			"stageSlot": func(t *rapid.T) {
				v := fresh(1)[0]
				ok := twin.room() > 0
				if ok {
					twin.staged = append(twin.staged, v)
				}
				slot := q.StageSlot()
				same(t, "StageSlot", slot != nil, ok)
				if slot != nil {
					*slot = v
				}
			},
			"publish": func(t *rapid.T) { same(t, "Publish", q.Publish(), twin.publish()) },
			"claim": func(t *rapid.T) {
				n := size.Draw(t, "n")
				a, b := q.Claim(n)
				want := min(n, twin.room())
				same(t, "Claim", len(a)+len(b), want)
				k := rapid.IntRange(0, want).Draw(t, "commit")
				v := fresh(k)
				c := copy(a, v)
				copy(b, v[c:])
				same(t, "Commit", q.Commit(k), twin.push(v...) == k && (k == 0 || !twin.closed) && len(twin.staged) == 0)
			},
			"unstage": func(t *rapid.T) {
				var back []int
				n := q.Unstage(func(v int) { back = append(back, v) })
				same(t, "Unstage", back, twin.staged)
				same(t, "Unstage's count", n, len(twin.staged))
				twin.staged = nil
			},
			"pop": func(t *rapid.T) {
				want := twin.pop(1)
				v, ok := q.Pop()
				same(t, "Pop", ok, len(want) == 1)
				if ok {
					same(t, "Pop", v, want[0])
				}
			},
			"popBatch": func(t *rapid.T) {
				dst := make([]int, size.Draw(t, "n"))
				want := twin.pop(len(dst))
				same(t, "PopBatch", dst[:q.PopBatch(dst)], want)
			},
			"view": func(t *rapid.T) {
				a, b := q.View()
				same(t, "View", append(slices.Clone(a), b...), twin.published)
				k := rapid.IntRange(0, len(twin.published)).Draw(t, "consume")
				twin.pop(k)
				q.Consume(k)
			},
			"peek": func(t *rapid.T) {
				p := q.Peek()
				same(t, "Peek", p != nil, len(twin.published) > 0)
				if p != nil {
					same(t, "Peek", *p, twin.published[0])
				}
			},
			"close": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "really") == 0 {
					q.Close()
					twin.closed = true
				}
			},
			"": func(t *rapid.T) {
				same(t, "Len", q.Len(), len(twin.published))
				same(t, "Staged", q.Staged(), len(twin.staged))
				same(t, "Empty", q.Empty(), len(twin.published) == 0)
				same(t, "Closed", q.Closed(), twin.closed)
				same(t, "Drained", q.Drained(), twin.closed && len(twin.published) == 0)
				same(t, "Cap", q.Cap(), capacity)
			},
		})
	})
}

func TestSPSCRoundsCapacityUp(t *testing.T) {
	for _, c := range []struct{ ask, want int }{{-1, 1}, {0, 1}, {1, 1}, {2, 2}, {3, 4}, {100, 128}} {
		if got := NewSPSC[int](c.ask).Cap(); got != c.want {
			t.Errorf("NewSPSC(%d).Cap() = %d, want %d", c.ask, got, c.want)
		}
	}
}

// TestRNG02ByteRingKeepsEachByte: no byte is lost when a write wraps round the end.
func TestRNG02ByteRingKeepsEachByte(t *testing.T) {
	q := NewSPSC[byte](64)
	if n := q.PushBatch([]byte("abcdabcd")); n != 8 {
		t.Fatalf("pushed %d of 8", n)
	}
	five := make([]byte, 5)
	if n := q.PopBatch(five); n != 5 || string(five) != "abcda" {
		t.Fatalf("popped %d: %q", n, five)
	}
	if free := q.Cap() - q.Len(); free != 61 {
		t.Fatalf("%d free, want 61", free)
	}
	sixty := bytes.Repeat([]byte("abcd"), 15)
	if n := q.PushBatch(sixty); n != 60 || q.Len() != 63 {
		t.Fatalf("pushed %d of 60, length %d, want 63", n, q.Len())
	}
	all := make([]byte, 100)
	n := q.PopBatch(all)
	if want := "bcd" + string(sixty); string(all[:n]) != want {
		t.Fatalf("got %q, want %q", all[:n], want)
	}

	// The same from every start and for every length.
	for start := range 64 {
		for length := range 65 {
			q := NewSPSC[byte](64)
			q.PushBatch(make([]byte, start))
			q.PopBatch(make([]byte, start))
			in := make([]byte, length)
			for i := range in {
				in[i] = byte(i + 1)
			}
			if n := q.PushBatch(in); n != length {
				t.Fatalf("start %d: pushed %d of %d", start, n, length)
			}
			got := make([]byte, 65)
			if n := q.PopBatch(got); !bytes.Equal(got[:n], in) {
				t.Fatalf("start %d, length %d: got %v", start, length, got[:n])
			}
		}
	}
}

// TestRNG16TwoPartViews: the read view and the write view of a wrapped ring are exact for each pair of cursors.
func TestRNG16TwoPartViews(t *testing.T) {
	q := NewSPSC[byte](8)
	q.PushBatch([]byte("ABCDEFGH"))
	q.PopBatch(make([]byte, 4))
	q.PushBatch([]byte("IJ"))
	a, b := q.View()
	if got := string(a) + string(b); got != "EFGHIJ" {
		t.Fatalf("the read view holds %q, want EFGHIJ", got)
	}
	if a, b := q.Claim(8); len(a)+len(b) != 2 {
		t.Fatalf("the write view has %d bytes, want 2", len(a)+len(b))
	}

	for head := range 16 {
		for length := range 9 {
			q := NewSPSC[byte](8)
			for range head {
				q.Push('x')
				q.Pop()
			}
			var want []byte
			for i := range length {
				want = append(want, byte('A'+i))
			}
			q.PushBatch(want)
			a, b := q.View()
			if got := append(bytes.Clone(a), b...); !bytes.Equal(got, want) {
				t.Fatalf("head %d, length %d: read view %q", head, length, got)
			}
			wa, wb := q.Claim(100)
			if n := len(wa) + len(wb) + len(a) + len(b); n != 8 {
				t.Fatalf("head %d, length %d: the views have %d bytes together, want 8", head, length, n)
			}
			// The write view is the rest and nothing else: filling it leaves the read view alone.
			for i := range wa {
				wa[i] = 'w'
			}
			for i := range wb {
				wb[i] = 'w'
			}
			if got := append(bytes.Clone(a), b...); !bytes.Equal(got, want) {
				t.Fatalf("head %d, length %d: writing changed the read view to %q", head, length, got)
			}
		}
	}
}

// TestSPSCCloseRefusesLatePublication: what is published after Close never reaches the consumer, and the producer gets it
// back.
func TestSPSCCloseRefusesLatePublication(t *testing.T) {
	q := NewSPSC[*int](8)
	q.Push(new(int))
	q.Stage(new(int))
	q.Stage(new(int))
	q.Close()
	if q.Publish() || q.Push(new(int)) || q.PushBatch([]*int{nil, nil}) != 0 {
		t.Fatal("a closed ring took something")
	}
	if q.Drained() {
		t.Fatal("drained, and yet an item waits")
	}
	if _, ok := q.Pop(); !ok {
		t.Fatal("the item published before Close is gone")
	}
	if _, ok := q.Pop(); ok || !q.Drained() {
		t.Fatal("more than one item came out, or the ring is not drained")
	}
	if n := q.Unstage(nil); n != 2 || q.Staged() != 0 {
		t.Fatalf("took back %d staged items, want 2", n)
	}
}

// TestSPSCPushPublishesWhatWasStaged, also when there is no room for more: else a producer that retries would wait for a
// consumer that sees nothing.
func TestSPSCPushPublishesWhatWasStaged(t *testing.T) {
	q := NewSPSC[int](2)
	q.Stage(1)
	q.Stage(2)
	if q.Push(3) {
		t.Fatal("a full ring took an item")
	}
	if v, ok := q.Pop(); !ok || v != 1 {
		t.Fatalf("got %d, %t; want the item staged first", v, ok)
	}
}

// TestSPSCStageSlot: items written in their slots are staged like others, in order with them, and seen once published.
func TestSPSCStageSlot(t *testing.T) {
	q := NewSPSC[int](4)
	for lap := range 3 { // positions go round the end of the ring
		write := func(v int) {
			t.Helper()
			slot := q.StageSlot()
			if slot == nil {
				t.Fatalf("lap %d: no room for %d", lap, v)
			}
			*slot = v
		}
		write(1)
		if _, ok := q.Pop(); ok || !q.Empty() || q.Peek() != nil || q.Staged() != 1 {
			t.Fatalf("lap %d: seen before it is published; %d staged", lap, q.Staged())
		}
		if !q.Stage(2) {
			t.Fatalf("lap %d: no room for a second item", lap)
		}
		write(3)
		if !q.Push(4) || q.Staged() != 0 || q.Len() != 4 {
			t.Fatalf("lap %d: %d published, %d staged after Push", lap, q.Len(), q.Staged())
		}
		if slot := q.StageSlot(); slot != nil || q.Staged() != 0 {
			t.Fatalf("lap %d: a slot in a full ring, %d staged", lap, q.Staged())
		}
		for want := 1; want <= 3; want++ {
			if v, ok := q.Pop(); !ok || v != want {
				t.Fatalf("lap %d: got %d, %t; want %d", lap, v, ok, want)
			}
		}
		write(5)
		if !q.Stage(6) {
			t.Fatalf("lap %d: no room for another item", lap)
		}
		write(7)
		if slot := q.StageSlot(); slot != nil {
			t.Fatalf("lap %d: a slot in a ring that is full of staged items", lap)
		}
		var back []int
		if n := q.Unstage(func(v int) { back = append(back, v) }); n != 3 || !slices.Equal(back, []int{5, 6, 7}) {
			t.Fatalf("lap %d: took back %d: %v", lap, n, back)
		}
		if v, ok := q.Pop(); !ok || v != 4 || !q.Empty() {
			t.Fatalf("lap %d: got %d, %t; want 4 and no more", lap, v, ok)
		}
		write(8) // so that the next lap begins elsewhere
		if !q.Publish() {
			t.Fatalf("lap %d: not published", lap)
		}
		if v, ok := q.Pop(); !ok || v != 8 {
			t.Fatalf("lap %d: got %d, %t; want 8", lap, v, ok)
		}
	}
}

// TestSPSCStageSlotIsZero: a slot of items with pointers has nothing of those that lay in it, however they left it.
func TestSPSCStageSlotIsZero(t *testing.T) {
	type item struct {
		p *int
		n int
	}
	q := NewSPSC[item](4)
	fresh := item{new(int), 1}
	stage := func(way string) {
		t.Helper()
		for i := range q.Cap() {
			slot := q.StageSlot()
			if slot == nil {
				t.Fatalf("%s: no room for item %d of %d", way, i, q.Cap())
			}
			if *slot != (item{}) {
				t.Fatalf("%s: slot %d holds %v", way, i, *slot)
			}
			*slot = fresh
		}
	}
	stage("new")
	q.Publish()
	for range 5 {
		for _, v := range []struct {
			way  string
			back func()
		}{
			{"Pop", func() {
				for range q.Cap() {
					q.Pop()
				}
			}},
			{"PopBatch", func() { q.PopBatch(make([]item, q.Cap())) }},
			{"Peek and Consume", func() {
				for range q.Cap() {
					q.Peek().n++
					q.Consume(1)
				}
			}},
			{"View and Consume", func() {
				a, b := q.View()
				q.Consume(len(a) + len(b))
			}},
			{"Unstage", func() {
				q.Pop()
				q.Stage(fresh)
				q.Unstage(nil)
				q.PopBatch(make([]item, q.Cap()))
			}},
			{"one further", func() {
				q.PopBatch(make([]item, q.Cap()))
				q.Push(fresh)
				q.Pop()
			}},
		} {
			v.back()
			stage(v.way)
			q.Publish()
		}
	}
	q.PopBatch(make([]item, q.Cap()))
	q.Close()
	if q.Push(fresh) || q.PushBatch([]item{fresh, fresh}) != 0 {
		t.Fatal("a closed ring took something")
	}
	stage("refused")
}

// TestSPSCStageSlotAfterClose: what is staged in place stays the producer's, who gets it back.
func TestSPSCStageSlotAfterClose(t *testing.T) {
	q := NewSPSC[*int](4)
	one, two, three := new(int), new(int), new(int)
	*q.StageSlot() = one
	q.Close()
	*q.StageSlot() = two
	if !q.Stage(three) || q.Staged() != 3 {
		t.Fatalf("%d are staged, want 3", q.Staged())
	}
	if q.Publish() || q.Len() != 0 || !q.Drained() {
		t.Fatal("a closed ring took something")
	}
	var back []*int
	if n := q.Unstage(func(p *int) { back = append(back, p) }); n != 3 || !slices.Equal(back, []*int{one, two, three}) {
		t.Fatalf("took back %d: %v", n, back)
	}
	for i, p := range q.buf {
		if p != nil {
			t.Errorf("slot %d still holds a pointer", i)
		}
	}
}

// TestSlotsForgetPointers: a ring keeps nothing alive that it has handed on.
func TestSlotsForgetPointers(t *testing.T) {
	s := NewSPSC[*int](4)
	m := NewMPMC[*int](4)
	forgotten := func() { // looked at each time: what is kept is overwritten a lap later
		t.Helper()
		for i := range 4 {
			if s.buf[i] != nil || m.slots[i].val != nil {
				t.Fatalf("slot %d still holds a pointer", i)
			}
		}
	}
	for range 6 {
		s.Push(new(int))
		s.Pop()
		s.PushBatch([]*int{new(int), new(int)})
		s.PopBatch(make([]*int, 2))
		s.Stage(new(int))
		s.Unstage(nil)
		m.Push(new(int))
		m.Pop()
		m.PushBatch([]*int{new(int), new(int)})
		m.PopBatch(make([]*int, 2))
		forgotten()
	}
	s.Close()
	s.Push(new(int))
	forgotten()
}

func TestHoldsPointers(t *testing.T) {
	type flat struct {
		A int
		B [3]struct{ C uint8 }
	}
	type deep struct {
		A int
		B [1]struct{ C string }
	}
	if holdsPointers[flat]() || holdsPointers[[0]*int]() || holdsPointers[float64]() {
		t.Error("a type without pointers was taken for one with")
	}
	if !holdsPointers[deep]() || !holdsPointers[error]() || !holdsPointers[[]int]() || !holdsPointers[*int]() || !holdsPointers[func()]() {
		t.Error("a type with pointers was taken for one without")
	}
}

func TestSPSCCommitAndConsumeCheckTheirCount(t *testing.T) {
	mustPanic(t, "Commit", func() { NewSPSC[int](4).Commit(5) })
	mustPanic(t, "Consume", func() { NewSPSC[int](4).Consume(1) })
	mustPanic(t, "capacity", func() { NewSPSC[struct{}](maxCapacity + 1) })
}

func mustPanic(t *testing.T, what string, f func()) {
	t.Helper()
	if !panics(f) {
		t.Errorf("%s: no panic", what)
	}
}

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}
