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
			"append": func(t *rapid.T) {
				last++
				e := d.Append()
				same(t, "Append", *e, 0)
				*e = last
				plain = append(plain, last)
			},
			"dropFront": func(t *rapid.T) {
				none := len(prio)+len(plain) == 0
				same(t, "DropFront panics", panics(d.DropFront), none)
				if !none {
					remove(0)
				}
			},
			"dropBack": func(t *rapid.T) {
				none := len(plain) == 0
				same(t, "DropBack panics", panics(d.DropBack), none)
				if !none {
					plain = plain[:len(plain)-1]
				}
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
				kept := 0 // elements are not zero: what else is not was not forgotten
				for _, v := range d.buf {
					if v != 0 {
						kept++
					}
				}
				same(t, "slots in use", kept, len(want))
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
		*d.Append() = new(int)
		*d.Append() = new(int)
		d.DropFront()
		d.DropBack() // last: its slot is the next to be used
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

// TestDequeInPlace: elements are written and read where they lie, behind priority elements too, and while the ring grows.
func TestDequeInPlace(t *testing.T) {
	type element struct {
		p *int
		n [40]int
	}
	d := NewDeque[element](4)
	grown := len(d.buf)
	for lap := range 3 { // slots that were used before are zero again
		d.PushPriority(element{p: new(int), n: [40]int{-1}})
		d.PushPriority(element{p: new(int), n: [40]int{-2}})
		const n = 20
		for i := range n {
			e := d.Append()
			if *e != (element{}) {
				t.Fatalf("lap %d, element %d: a new element is %v", lap, i, *e)
			}
			e.p, e.n[0], e.n[39] = new(int), i, i
			if d.Back() != e || d.At(2+i) != e || d.Len() != 3+i || d.PriorityLen() != 2 {
				t.Fatalf("lap %d, element %d is not the last; %d elements, %d of priority", lap, i, d.Len(), d.PriorityLen())
			}
		}
		if len(d.buf) == grown && lap == 0 {
			t.Fatal("the case did not happen: the ring did not grow")
		}
		d.DropBack()
		d.DropFront()
		d.DropFront()
		if d.PriorityLen() != 0 || d.Len() != n-1 {
			t.Fatalf("lap %d: %d elements are left, %d of priority", lap, d.Len(), d.PriorityLen())
		}
		for i := range n - 1 {
			if e := d.Front(); e.n[0] != i || e.n[39] != i {
				t.Fatalf("lap %d: element %d holds %d and %d", lap, i, e.n[0], e.n[39])
			}
			d.DropFront()
		}
		for i := range d.buf {
			if d.buf[i] != (element{}) {
				t.Fatalf("lap %d: slot %d is not forgotten", lap, i)
			}
		}
	}
	var zero Deque[element]
	if e := zero.Append(); *e != (element{}) || zero.Len() != 1 {
		t.Fatal("the zero Deque takes no element in place")
	}
}

// TestDequeDropsWhatIsThere, and panics, without a change, if there is nothing to drop.
func TestDequeDropsWhatIsThere(t *testing.T) {
	var d Deque[int]
	mustPanic(t, "DropFront of nothing", d.DropFront)
	mustPanic(t, "DropBack of nothing", d.DropBack)
	d.PushPriority(1)
	d.PushPriority(2)
	mustPanic(t, "DropBack of priority", d.DropBack)
	if d.Len() != 2 || d.PriorityLen() != 2 || *d.At(0) != 1 || *d.At(1) != 2 {
		t.Fatalf("%d elements, %d of priority; want 2 of 2", d.Len(), d.PriorityLen())
	}
	*d.Append() = 3
	d.DropFront()
	if d.Len() != 2 || d.PriorityLen() != 1 || *d.Front() != 2 {
		t.Fatalf("%d elements, %d of priority; want the second of priority in front of another", d.Len(), d.PriorityLen())
	}
	d.DropBack()
	if d.Len() != 1 || d.PriorityLen() != 1 || *d.Back() != 2 {
		t.Fatalf("%d elements, %d of priority; want the one of priority", d.Len(), d.PriorityLen())
	}
	d.DropFront()
	mustPanic(t, "DropFront when empty again", d.DropFront)
	if d.Len() != 0 || d.PriorityLen() != 0 {
		t.Fatalf("%d elements, %d of priority; want none", d.Len(), d.PriorityLen())
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
