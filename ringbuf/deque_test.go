package ringbuf

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestDequeModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := NewDeque[int](rapid.IntRange(0, 8).Draw(t, "capacity"))
		var prio, plain []int // the twin
		last := 0
		contents := func() []int { return slices.Concat(prio, plain) }
		remove := func(i int) (v int) {
			if i < len(prio) {
				v = prio[i]
				prio = slices.Delete(prio, i, i+1)
				return v
			}
			i -= len(prio)
			v = plain[i]
			plain = slices.Delete(plain, i, i+1)
			return v
		}
		index := func(t *rapid.T) int {
			if d.Len() == 0 {
				t.Skip("nothing there")
			}
			return rapid.IntRange(0, d.Len()-1).Draw(t, "i")
		}
		t.Repeat(map[string]func(*rapid.T){
			"pushBack": func(t *rapid.T) {
				last++
				d.PushBack(last)
				plain = append(plain, last)
			},
			"pushPriority": func(t *rapid.T) {
				last++
				same(t, "first", d.PushPriority(last), len(prio) == 0)
				prio = append(prio, last)
			},
			"popFront": func(t *rapid.T) {
				v, ok := d.PopFront()
				same(t, "PopFront", ok, len(prio)+len(plain) > 0)
				if ok {
					same(t, "PopFront", v, remove(0))
				}
			},
			"remove": func(t *rapid.T) {
				i := index(t)
				same(t, "Remove", d.Remove(i), remove(i))
			},
			"prioritize": func(t *rapid.T) {
				i := index(t)
				d.Prioritize(i)
				if i >= len(prio) {
					prio = append(prio, remove(i))
				}
			},
			"reserve": func(t *rapid.T) { d.Reserve(d.Len() + rapid.IntRange(0, 9).Draw(t, "more")) },
			"clear": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "really") == 0 {
					var got []int
					d.Clear(func(v int) { got = append(got, v) })
					same(t, "Clear", got, contents())
					prio, plain = nil, nil
				}
			},
			"": func(t *rapid.T) {
				want := contents()
				same(t, "Len", d.Len(), len(want))
				same(t, "PriorityLen", d.PriorityLen(), len(prio))
				got := make([]int, d.Len())
				for i := range got {
					got[i] = *d.At(i)
				}
				same(t, "contents", got, want)
				same(t, "Front is nil", d.Front() == nil, len(want) == 0)
				same(t, "Back is nil", d.Back() == nil, len(want) == 0)
				if len(want) > 0 {
					same(t, "Front", *d.Front(), want[0])
					same(t, "Back", *d.Back(), want[len(want)-1])
				}
			},
		})
	})
}

// TestDequeForgetsWhatLeft: no slot outside the contents keeps a pointer alive.
func TestDequeForgetsWhatLeft(t *testing.T) {
	d := NewDeque[*int](8)
	for i := range 100 {
		d.PushBack(new(int))
		d.PushPriority(new(int))
		d.PushBack(new(int))
		d.Prioritize(d.Len() - 1)
		d.Remove(i % d.Len())
		d.PopFront()
		if i%7 == 0 {
			d.Clear(nil)
		}
		if i%11 == 0 {
			d.Clear(func(*int) {})
		}
		kept := 0
		for _, p := range d.buf {
			if p != nil {
				kept++
			}
		}
		if kept != d.Len() {
			t.Fatalf("step %d: %d pointers kept for %d elements", i, kept, d.Len())
		}
	}
}

// TestDequeClearMayRefill: the function that Clear calls may use the deque.
func TestDequeClearMayRefill(t *testing.T) {
	var d Deque[int]
	d.PushBack(1)
	d.PushPriority(0)
	d.Clear(func(v int) { d.PushBack(v + 10) })
	if d.Len() != 2 || d.PriorityLen() != 0 || *d.At(0) != 10 || *d.At(1) != 11 {
		t.Fatalf("got %d elements, %d of priority", d.Len(), d.PriorityLen())
	}
}

func TestDequeIndexOutOfRangePanics(t *testing.T) {
	var d Deque[int]
	d.PushBack(1)
	for _, i := range []int{-1, 1} {
		mustPanic(t, "At", func() { d.At(i) })
		mustPanic(t, "Remove", func() { d.Remove(i) })
		mustPanic(t, "Prioritize", func() { d.Prioritize(i) })
	}
}
