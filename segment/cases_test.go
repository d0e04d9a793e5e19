package segment

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weirflow/weir/internal/buildtag"
	"github.com/weirflow/weir/ringbuf"
)

// The tests in this file and its neighbours named cases_* are scenarios from public bug reports of other systems;
// SEG-nn is the scenario's id.

// rounds is n, or a hundredth of it in short mode and in builds that are slow.
func rounds(n int) int {
	if testing.Short() || buildtag.Race || buildtag.Debug {
		return max(n/100, 100)
	}
	return n
}

// wantListener takes up to want segments.
type wantListener struct {
	want  int
	got   []Buffer
	calls int
	hook  func()
	ended int
}

func (w *wantListener) OnBuffer(b Buffer) Answer {
	w.calls++
	if w.hook != nil {
		w.hook()
	}
	if len(w.got) >= w.want {
		return Refused
	}
	w.got = append(w.got, b)
	if len(w.got) < w.want {
		return TakeMore
	}
	return Taken
}

func (w *wantListener) OnClose() { w.ended++ }

// A pool that is created while the global pool is empty wakes the listeners that queue on it.
func TestSEG01ListenerOfPoolCreatedOnEmptyPool(t *testing.T) {
	for range rounds(1000) {
		p := mustPool(t, Config{Segments: 1, SegmentSize: 32})
		a := mustLocal(t, p, LocalConfig{Name: "A", Required: 1})
		lent := mustTake(t, a)
		a.Close() // its guarantee is free again, its segment still lent
		b := mustLocal(t, p, LocalConfig{Name: "B", Required: 1, Max: 4})
		l := &wantListener{want: 1}
		if !b.AddListener(l) {
			t.Fatal("B has an idle segment, which should be lent out")
		}
		go lent.Release()
		n := b.Notifier()
		for l.calls == 0 { // B's owner: sleeps until something happens, nothing else does
			n.Prepare()
			if b.Drain(); l.calls > 0 {
				n.Cancel()
				break
			}
			if b.idleCount() > 0 {
				t.Fatal("B holds an idle segment while a listener waits")
			}
			if err := n.Wait(hangContext(t)); err != nil {
				t.Fatal(err, b.Stats())
			}
			b.Drain()
		}
		if l.calls != 1 || len(l.got) != 1 {
			t.Fatalf("listener called %d times, has %d", l.calls, len(l.got))
		}
		b.Put(l.got[0])
		if x := mustTake(t, b); !x.IsZero() {
			b.Put(x)
		}
		closeAll(t, p, b)
	}
}

// A listener that still wants more is not lost between being notified and being queued again.
func TestSEG02ListenerKeepsItsPlace(t *testing.T) {
	p := mustPool(t, Config{Segments: 3, SegmentSize: 32})
	l := mustLocal(t, p, LocalConfig{Required: 3})
	a, b, c := mustTake(t, l), mustTake(t, l), mustTake(t, l)
	paused, others := make(chan struct{}), make(chan struct{})
	var once sync.Once
	w := &wantListener{want: 2, hook: func() {
		once.Do(func() {
			close(paused)
			<-others
		})
	}}
	if !l.AddListener(w) {
		t.Fatal("idle segment")
	}
	go func() {
		<-paused
		b.Release()
		c.Release()
		close(others)
	}()
	a.Release()
	l.Drain() // calls w, which pauses until b and c are back
	l.Drain()
	if len(w.got) != 2 || l.idleCount() != 1 {
		t.Fatalf("the listener has %d segments, %d are idle", len(w.got), l.idleCount())
	}
	if err := p.check(); err != nil {
		t.Fatal(err)
	}
	for _, x := range w.got {
		l.Put(x)
	}
	closeAll(t, p, l)
}

// Overdraft is granted only when nothing ordinary is left, and counted once when the pool shrinks.
func TestSEG04OverdraftAndShrinking(t *testing.T) {
	p := mustPool(t, Config{Segments: 9, SegmentSize: 32})
	l := mustLocal(t, p, LocalConfig{Required: 5, Max: 7, Overdraft: 2})
	var lent []Buffer
	for range 7 {
		lent = append(lent, mustTake(t, l))
	}
	// Guarantees leave two segments to share: none after this, so that the size falls from 7 to 5.
	other := mustLocal(t, p, LocalConfig{Required: 4})
	if l.Drain(); l.Stats().Size != 5 {
		t.Fatalf("size is %d", l.Stats().Size)
	}
	mustNotTake(t, l) // 7 = 5 + 2
	l.Put(lent[0])
	if s := l.Stats(); s.Requested != 6 {
		t.Fatalf("after one came home: %+v", s)
	}
	lent[0] = mustTake(t, l) // 7 = 5 + 2 again
	mustNotTake(t, l)
	for i, b := range lent {
		if ordinary := l.Stats().Requested < 5; l.Available() != (ordinary || l.idleCount() > 0) {
			t.Fatalf("available is %v with %d home: %+v", l.Available(), i, l.Stats())
		}
		l.Put(b)
	}
	if s := l.Stats(); s.Requested != 5 || s.Idle != 5 || !l.Available() {
		t.Fatalf("with all home: %+v", s)
	}
	closeAll(t, p, l, other)
}

// A pool never obtains more than its share while another's guarantee is unclaimed.
func TestSEG05GuaranteeIsKept(t *testing.T) {
	p := mustPool(t, Config{Segments: 8, SegmentSize: 32})
	P := mustLocal(t, p, LocalConfig{Name: "P", Required: 4, Max: 8})
	Q := mustLocal(t, p, LocalConfig{Name: "Q", Required: 4})
	var ps, qs []Buffer
	for range 8 {
		if b, ok := P.Take(); ok {
			ps = append(ps, b)
		}
	}
	if len(ps) != 4 {
		t.Fatalf("P obtained %d", len(ps))
	}
	for range 4 {
		qs = append(qs, mustTake(t, Q))
	}
	for _, b := range append(ps, qs...) {
		b.Release()
	}
	closeAll(t, p, P, Q)

	p = mustPool(t, Config{Segments: 8, SegmentSize: 32})
	P = mustLocal(t, p, LocalConfig{Name: "P", Required: 5, Max: 8})
	var few *TooFewError
	if _, err := p.NewLocal(LocalConfig{Name: "Q", Required: 4}); !errors.As(err, &few) || few.Available != 3 {
		t.Fatalf("5 + 4 of 8: %v", err)
	}
	closeAll(t, p, P)
}

// lockedListener guards its queue with a lock, and takes the pool's lock inside it.
type lockedListener struct {
	mu     sync.Mutex
	pool   *Pool
	queue  []Buffer
	closed bool
	served *int
}

func (l *lockedListener) OnBuffer(b Buffer) Answer {
	l.pool.Usage() // no lock of the pool's is held: this would hang
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return Refused
	}
	l.queue = append(l.queue, b)
	*l.served++
	return Taken
}

func (l *lockedListener) OnClose() {}

// Two listeners that release at the same time, each under its own lock, don't lock each other out; a closed one refuses
// and the segment moves on.
func TestSEG06ListenersDoNotLockEachOther(t *testing.T) {
	p := mustPool(t, Config{Segments: 3, SegmentSize: 32})
	l := mustLocal(t, p, LocalConfig{Required: 3})
	within(t, func() {
		for range rounds(100_000) {
			served := 0
			l1 := &lockedListener{pool: p, served: &served}
			l2 := &lockedListener{pool: p, served: &served}
			l1.queue = append(l1.queue, mustTake(t, l), mustTake(t, l))
			l2.queue = append(l2.queue, mustTake(t, l))
			l.AddListener(l1)
			l.AddListener(l2)
			var both sync.WaitGroup
			both.Go(func() {
				l1.mu.Lock()
				defer l1.mu.Unlock()
				l1.closed = true
				for _, b := range l1.queue {
					b.Release()
				}
				l1.queue = nil
			})
			both.Go(func() {
				l2.mu.Lock()
				defer l2.mu.Unlock()
				b := l2.queue[0]
				l2.queue = l2.queue[1:]
				b.Release()
			})
			done := make(chan struct{})
			go func() {
				both.Wait()
				close(done)
			}()
			for waiting := true; waiting; {
				select {
				case <-done:
					waiting = false
				default:
					runtime.Gosched()
				}
				l.Drain()
			}
			if served == 0 {
				t.Fatal("nobody was served, though L2 is open")
			}
			l.RemoveListener(l1)
			l.RemoveListener(l2)
			for _, b := range append(l1.queue, l2.queue...) {
				l.Put(b)
			}
			if l.idleCount() != 3 {
				t.Fatalf("%d segments are idle", l.idleCount())
			}
		}
	})
	closeAll(t, p, l)
}

var errReleased = errors.New("released")

// A consumer and a canceller of one queue release each buffer once.
func TestSEG07ConsumerAndCanceller(t *testing.T) {
	const queued = 100
	p := mustPool(t, Config{Segments: queued, SegmentSize: 32})
	home := 0
	l := mustLocal(t, p, LocalConfig{Required: queued, OnReturn: func(uint32) { home++ }})
	within(t, func() {
		for round := range rounds(10_000) {
			q := ringbuf.NewMPMC[Buffer](queued)
			for range queued {
				q.Push(mustTake(t, l))
			}
			home = 0
			pop := func() (Buffer, error) {
				if b, ok := q.Pop(); ok {
					return b, nil
				}
				return Buffer{}, errReleased
			}
			start := make(chan struct{})
			var both sync.WaitGroup
			var late atomic.Int32
			for who := range 2 {
				r := l.NewReleaser()
				both.Go(func() {
					<-start
					for {
						b, err := pop()
						if err != nil {
							late.Add(1)
							break
						}
						if b.IsZero() {
							t.Error("no buffer and no error")
						}
						if who == 0 {
							r.Release(b)
						} else {
							b.Release()
						}
					}
					r.Close()
				})
			}
			close(start)
			both.Wait()
			l.Drain()
			if home != queued || late.Load() != 2 {
				t.Fatalf("round %d: %d of %d came home", round, home, queued)
			}
		}
	})
	if u := p.Usage(); u.Misuse.Total() != 0 {
		t.Fatalf("%+v", u.Misuse)
	}
	closeAll(t, p, l)
}

// A slice keeps its bytes when its parent and siblings are gone, and releasing one twice takes nobody's share: the same for
// pooled, unpooled and foreign memory.
func TestSEG10SlicesOwnTheirReference(t *testing.T) {
	misused := 0
	p := mustPool(t, Config{Segments: 2, SegmentSize: 32, OnMisuse: func(*MisuseError) { misused++ }})
	l := mustLocal(t, p, LocalConfig{Required: 1})
	text := []byte("0123456789abcdefghijklmnopqrstuv")
	for _, kind := range []string{"pooled", "unpooled", "foreign"} {
		for run := 1; run <= 2; run++ {
			t.Run(fmt.Sprintf("memory=%s/run=%d", kind, run), func(t *testing.T) {
				var parent Buffer
				switch kind {
				case "pooled":
					parent = mustTake(t, l).Resized(32)
					copy(parent.Memory(), text)
				case "unpooled":
					bs, err := p.Request(hangContext(t), 1)
					if err != nil {
						t.Fatal(err)
					}
					parent = bs[0].Resized(32)
					copy(parent.Memory(), text)
				case "foreign":
					parent = Wrap(bytes.Clone(text), DataBuffer)
				}
				watch := parent
				A := parent.Slice(0, 16)
				B := A.Slice(4, 4)
				parent.Release()
				A.Release()
				if run == 2 {
					misused = 0
					err := misuseOfWrapped(func() { A.Release() })
					if kind == "foreign" && err == nil || kind != "foreign" && misused != 1 {
						t.Fatal("the second release of A was not reported")
					}
					if err := A.TryRelease(); !errors.Is(err, ErrReleased) {
						t.Fatal(err)
					}
				}
				if got := string(B.Bytes()); got != "4567" {
					t.Fatalf("B reads %q", got)
				}
				if watch.Released() {
					t.Fatal("home before B's release")
				}
				B.Release()
				if !watch.Released() {
					t.Fatal("not home after B's release")
				}
				l.Drain()
			})
		}
	}
	closeAll(t, p, l)
}

// The count of references stops at its maximum, and never wraps.
func TestSEG11CountDoesNotOverflow(t *testing.T) {
	p := mustPool(t, Config{Segments: 1, SegmentSize: 32})
	l := mustLocal(t, p, LocalConfig{Required: 1})
	b := mustTake(t, l)
	const hidden = MaxRefs - 2 // references that the test pretends to hold
	atomic.AddUint64(&b.h.word, hidden)
	var ok, full atomic.Int32
	var got Buffer
	var all sync.WaitGroup
	var mu sync.Mutex
	for range 4 {
		all.Go(func() {
			r, err := b.TryRetain()
			switch {
			case err == nil:
				ok.Add(1)
				mu.Lock()
				got = r
				mu.Unlock()
			case errors.Is(err, ErrTooManyRefs):
				full.Add(1)
			}
		})
	}
	all.Wait()
	if ok.Load() != 1 || full.Load() != 3 || b.Refs() != MaxRefs {
		t.Fatalf("%d succeeded, %d were refused, the count is %d", ok.Load(), full.Load(), b.Refs())
	}
	released := 0
	for _, x := range []Buffer{got, b, got, b} {
		if err := x.TryRelease(); err != nil {
			break
		}
		released++
	}
	if released != 2 || b.h.refs() != hidden || b.Released() {
		t.Fatalf("%d releases succeeded, %d references are left", released, b.h.refs())
	}
	// The hidden references go; the last of them is given up as b's neighbour would.
	atomic.AddUint64(&b.h.word, ^uint64(hidden-2))
	last := Buffer{h: b.h, meta: b.meta}.withRef(lastRef(b.h))
	last.Release()
	closeAll(t, p, l)
}

// Bytes never appear in another connection's segment: a segment is free only after the read into it returned.
func TestSEG13NoSegmentWhileItIsRead(t *testing.T) {
	p := mustPool(t, Config{Segments: 2, SegmentSize: 64})
	l := mustLocal(t, p, LocalConfig{Required: 2})
	ctx := hangContext(t)
	rng := rand.New(rand.NewPCG(1, 2))
	within(t, func() {
		for range rounds(100_000) {
			keep := mustTake(t, l) // so that Y has to wait for X's
			s := mustTake(t, l)
			reading := s.Retain() // the read holds a reference of its own
			var x sync.WaitGroup
			delay := rng.IntN(20)
			x.Go(func() { // X's read
				mem := reading.Memory()
				for i := range mem {
					mem[i] = 0x11
				}
				for i := range mem {
					if mem[i] != 0x11 {
						t.Error("X sees foreign bytes")
					}
				}
				reading.Release()
			})
			x.Go(func() { // closes X
				for range delay {
					runtime.Gosched()
				}
				keep.Release()
				s.Release()
			})
			for range 2 {
				y, err := l.TakeWait(ctx, noSub)
				if err != nil {
					t.Fatal(err)
				}
				mem := y.Memory()
				for i := range mem {
					mem[i] = 0xAB
				}
				if !bytes.Equal(mem, bytes.Repeat([]byte{0xAB}, 64)) {
					t.Fatal("Y's segment holds foreign bytes")
				}
				l.Put(y)
			}
			x.Wait()
			l.Drain()
		}
	})
	closeAll(t, p, l)
}

// What a user does to his slice of a buffer doesn't change the buffer that others get.
func TestSEG23ResliceDoesNotShrink(t *testing.T) {
	p := mustPool(t, Config{Segments: 1, SegmentSize: 64})
	l := mustLocal(t, p, LocalConfig{Required: 1})
	first := address(p.headers[0].mem)
	for i := range 1000 {
		b := mustTake(t, l)
		mem := b.Memory()
		if len(mem) != 64 || cap(mem) != 64 || address(mem) != first {
			t.Fatalf("round %d: length %d, capacity %d", i, len(mem), cap(mem))
		}
		b = b.Resized(64).Narrow(10, 10)
		if got := b.Bytes(); len(got) != 10 || cap(got) != 10 {
			t.Fatalf("window of %d, capacity %d", len(got), cap(got))
		}
		if i%2 == 0 {
			b.Release()
		} else {
			l.Put(b)
		}
	}
	closeAll(t, p, l)
}
