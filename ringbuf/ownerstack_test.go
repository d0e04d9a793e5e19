package ringbuf

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestOwnerStackModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const capacity = 40
		s := NewOwnerStack[int](capacity)
		// The twin: what is here (top last), what each way back holds unpublished and published, what callers hold.
		var here, shared, held []int
		type way struct {
			r                 *Return[int]
			staged, published []int
			closed            bool
		}
		var ways []*way
		for i := range capacity {
			s.Put(i)
			here = append(here, i)
		}
		drain := func() (n int) {
			// The order in which ways are drained is not promised: take over what the stack says, if it is a permutation.
			var came []int
			for _, w := range ways {
				came = append(came, w.published...)
				w.published = nil
			}
			came = append(came, shared...)
			shared = nil
			got := slices.Clone(s.items[len(here):])
			a, b := slices.Clone(came), slices.Clone(got)
			slices.Sort(a)
			slices.Sort(b)
			same(t, "drained", b, a)
			here = append(here, got...)
			ways = slices.DeleteFunc(ways, func(w *way) bool { return w.closed })
			same(t, "ways left", len(s.returns), len(ways))
			return len(came)
		}
		take := func() (int, bool) {
			if len(held) == 0 {
				return 0, false
			}
			v := held[0]
			held = held[1:]
			return v, true
		}
		pick := func(t *rapid.T) *way {
			open := slices.DeleteFunc(slices.Clone(ways), func(w *way) bool { return w.closed })
			if len(open) == 0 {
				t.Skip("no way back")
			}
			return rapid.SampledFrom(open).Draw(t, "way")
		}
		flush := func(w *way) {
			w.published = append(w.published, w.staged...)
			w.staged = nil
		}
		t.Repeat(map[string]func(*rapid.T){
			"get": func(t *rapid.T) {
				drains := len(here) == 0
				v, ok := s.Get()
				if drains {
					if ok {
						s.items = append(s.items, v)
					}
					drain()
					if ok {
						s.items = s.items[:len(s.items)-1]
					}
				}
				same(t, "Get", ok, len(here) > 0)
				if ok {
					same(t, "Get", v, here[len(here)-1])
					here = here[:len(here)-1]
					held = append(held, v)
				}
			},
			"getMany": func(t *rapid.T) {
				for range min(20, len(here)) {
					v, _ := s.Get()
					same(t, "Get", v, here[len(here)-1])
					here = here[:len(here)-1]
					held = append(held, v)
				}
			},
			"put": func(t *rapid.T) {
				if v, ok := take(); ok {
					same(t, "Put", s.Put(v), true)
					here = append(here, v)
				} else if len(here) == capacity {
					same(t, "Put", s.Put(99), false)
				}
			},
			"release": func(t *rapid.T) {
				if v, ok := take(); ok {
					same(t, "Release", s.Release(v), true)
					shared = append(shared, v)
				}
			},
			"newReturn": func(t *rapid.T) {
				if len(ways) < 4 {
					ways = append(ways, &way{r: s.NewReturn()})
				}
			},
			"returnPut": func(t *rapid.T) {
				w := pick(t)
				for range rapid.IntRange(1, 20).Draw(t, "n") {
					if v, ok := take(); ok {
						same(t, "Return.Put", w.r.Put(v), true)
						if w.staged = append(w.staged, v); len(w.staged) == returnBatch {
							flush(w)
						}
					}
				}
			},
			"flush": func(t *rapid.T) {
				w := pick(t)
				w.r.Flush()
				flush(w)
			},
			"close": func(t *rapid.T) {
				w := pick(t)
				w.r.Close()
				flush(w)
				w.closed = true
			},
			"drain": func(t *rapid.T) {
				n := s.Drain()
				same(t, "Drain", n, drain())
			},
			"": func(t *rapid.T) { same(t, "Len", s.Len(), len(here)) },
		})
	})
}

// TestOwnerStackWakesItsOwner: an owner that sleeps hears of what comes back, by either way.
func TestOwnerStackWakesItsOwner(t *testing.T) {
	s := NewOwnerStack[int](4)
	r := s.NewReturn()
	for _, give := range []func(){
		func() { s.Release(1) },
		func() { r.Put(1); r.Flush() },
	} {
		if _, ok := s.Get(); ok {
			t.Fatal("something is here")
		}
		s.Notifier().Prepare()
		go give()
		if !s.Notifier().WaitTimeout(hang) {
			t.Fatal("not woken")
		}
		if v, ok := s.Get(); !ok || v != 1 {
			t.Fatalf("got %d, %t after the wake-up", v, ok)
		}
	}
}
