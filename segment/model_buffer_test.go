package segment

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// refMachine drives handles of a few segments against a list of what each should read.
type refMachine struct {
	p    *Pool
	l    *LocalPool
	live []ref
	dead []ref
	home int
}

type ref struct {
	b    Buffer
	want []byte // what it reads
	life int    // number of the life
	kth  int    // how many references the life had before
}

func (m *refMachine) pick(t *rapid.T) int {
	if len(m.live) == 0 {
		t.Skip("none")
	}
	return rapid.IntRange(0, len(m.live)-1).Draw(t, "handle")
}

func (m *refMachine) refs(life int) (n int) {
	for _, r := range m.live {
		if r.life == life {
			n++
		}
	}
	return n
}

func (m *refMachine) TestRefs(t *rapid.T) {
	lives, made := 0, map[int]int{}
	take := func(t *rapid.T) {
		text := rapid.SliceOfN(rapid.Byte(), 0, 16).Draw(t, "text")
		var b Buffer
		if rapid.Bool().Draw(t, "pooled") {
			x, ok := m.l.Take()
			if !ok {
				t.Skip("all out")
			}
			copy(x.Memory(), text)
			b = x.Resized(len(text))
		} else {
			b = Wrap(text, DataBuffer)
		}
		m.live = append(m.live, ref{b: b, want: bytes.Clone(text), life: lives})
		made[lives] = 1
		lives++
	}
	add := func(b Buffer, want []byte, life int) {
		m.live = append(m.live, ref{b: b, want: want, life: life, kth: made[life]})
		made[life]++
	}
	t.Repeat(map[string]func(*rapid.T){
		"take": take,
		"retain": func(t *rapid.T) {
			r := m.live[m.pick(t)]
			add(r.b.Retain(), r.want, r.life)
		},
		"slice": func(t *rapid.T) {
			r := m.live[m.pick(t)]
			off := rapid.IntRange(0, len(r.want)).Draw(t, "off")
			n := rapid.IntRange(0, len(r.want)-off).Draw(t, "n")
			add(r.b.Slice(off, n), r.want[off:off+n], r.life)
		},
		"narrow": func(t *rapid.T) {
			r := &m.live[m.pick(t)]
			off := rapid.IntRange(0, len(r.want)).Draw(t, "off")
			n := rapid.IntRange(0, len(r.want)-off).Draw(t, "n")
			r.b, r.want = r.b.Narrow(off, n), r.want[off:off+n]
		},
		"release": func(t *rapid.T) {
			i := m.pick(t)
			r := m.live[i]
			m.live = append(m.live[:i], m.live[i+1:]...)
			last := m.refs(r.life) == 0
			if err := r.b.TryRelease(); err != nil {
				t.Fatal(err)
			}
			if r.b.Released() != last { // B1, B2
				t.Fatalf("released %v, want %v", r.b.Released(), last)
			}
			m.dead = append(m.dead, r)
		},
		"release twice": func(t *rapid.T) {
			if len(m.dead) == 0 {
				t.Skip("none")
			}
			r := m.dead[rapid.IntRange(0, len(m.dead)-1).Draw(t, "handle")]
			if r.kth >= refIDs && m.refs(r.life) > 0 {
				t.Skip("a reference without identity, in its life")
			}
			if err := r.b.TryRelease(); !errors.Is(err, ErrReleased) {
				t.Fatal("a second release was taken")
			}
			if _, err := r.b.TryRetain(); !errors.Is(err, ErrReleased) {
				t.Fatal("a released handle was retained")
			}
		},
		"": func(t *rapid.T) {
			m.l.Drain()
			out := map[int]bool{}
			for _, r := range m.live {
				if !bytes.Equal(r.b.Bytes(), r.want) {
					t.Fatalf("reads %q, want %q", r.b.Bytes(), r.want)
				}
				if r.b.Refs() != m.refs(r.life) {
					t.Fatalf("%d references, want %d", r.b.Refs(), m.refs(r.life))
				}
				if r.b.h.kind == kindPooled {
					out[r.life] = true
				}
			}
			if s := m.l.Stats(); s.InUse != len(out) {
				t.Fatalf("%+v, but %d are out", s, len(out))
			}
		},
	})
	for _, r := range m.live {
		r.b.Release()
	}
}

func TestModelReferences(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &refMachine{}
		var err error
		if m.p, err = NewPool(Config{Segments: 4, SegmentSize: 16, Backing: BackingHeap}); err != nil {
			t.Fatal(err)
		}
		if m.l, err = m.p.NewLocal(LocalConfig{Required: 4}); err != nil {
			t.Fatal(err)
		}
		m.TestRefs(t)
		m.l.Close()
		if err := m.p.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestModelBuilder drives a builder and its readers against a plain slice of bytes (B3, B4).
func TestModelBuilder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, err := NewPool(Config{Segments: 1, SegmentSize: 24, Backing: BackingHeap})
		if err != nil {
			t.Fatal(err)
		}
		l, err := p.NewLocal(LocalConfig{Required: 1})
		if err != nil {
			t.Fatal(err)
		}
		b, _ := l.Take()
		w := MakeBuilder(b)
		var written []byte
		committed, limit, finished := 0, 24, false
		type follower struct {
			r    Reader
			pos  int
			seen bool // that it is finished
		}
		var readers []*follower
		type slice struct {
			b    Buffer
			want []byte
		}
		var slices []slice
		first := w.NewReader()
		readers = append(readers, &follower{r: first})
		pick := func(t *rapid.T) *follower {
			if len(readers) == 0 {
				t.Skip("no reader")
			}
			return readers[rapid.IntRange(0, len(readers)-1).Draw(t, "reader")]
		}
		drop := func(x *follower) {
			for i := range readers {
				if readers[i] == x {
					readers = append(readers[:i], readers[i+1:]...)
					return
				}
			}
		}
		got := func(t *rapid.T, x *follower, b Buffer, fin bool) {
			if fin != finished || !bytes.Equal(b.Bytes(), written[x.pos:committed]) {
				t.Fatalf("read %q finished %v, want %q %v", b.Bytes(), fin, written[x.pos:committed], finished)
			}
			if b.IsZero() != (x.pos == committed) {
				t.Fatal("an empty buffer")
			}
			if !b.IsZero() {
				slices = append(slices, slice{b, bytes.Clone(b.Bytes())})
			}
			x.pos, x.seen = committed, finished
		}
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				if finished {
					t.Skip("finished")
				}
				text := rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "text")
				n := len(text)
				if rapid.Bool().Draw(t, "in place") {
					n = copy(w.Spare(), text)
					w.Advance(n)
				} else {
					n = w.Append(text)
				}
				if n != min(len(text), limit-len(written)) {
					t.Fatalf("took %d of %d with room for %d", n, len(text), limit-len(written))
				}
				written = append(written, text[:n]...)
			},
			"commit": func(*rapid.T) {
				w.Commit()
				committed = len(written)
			},
			"setCap": func(t *rapid.T) {
				n := rapid.IntRange(0, 30).Draw(t, "cap")
				w.SetCap(n)
				limit = min(max(n, len(written)), 24)
			},
			"finish": func(t *rapid.T) {
				if w.Finish() != len(written) {
					t.Fatal("length")
				}
				finished, committed = true, len(written)
			},
			"next": func(t *rapid.T) {
				x := pick(t)
				b, fin := x.r.Next()
				got(t, x, b, fin)
			},
			"nextClose": func(t *rapid.T) {
				x := pick(t)
				b, fin := x.r.NextClose()
				got(t, x, b, fin)
				if fin {
					drop(x)
				}
			},
			"copy": func(t *rapid.T) {
				x := pick(t)
				if len(readers) > 6 {
					t.Skip("enough")
				}
				readers = append(readers, &follower{r: x.r.Copy(), pos: x.pos, seen: finished})
			},
			"copyAt": func(t *rapid.T) {
				x := pick(t)
				if len(readers) > 6 {
					t.Skip("enough")
				}
				at := rapid.IntRange(0, committed).Draw(t, "at")
				readers = append(readers, &follower{r: x.r.CopyAt(at), pos: at, seen: finished})
				x.seen = finished
			},
			"skip": func(t *rapid.T) {
				x := pick(t)
				n := rapid.IntRange(0, committed-x.pos).Draw(t, "n")
				x.r.Skip(n)
				x.pos, x.seen = x.pos+n, finished
			},
			"close": func(t *rapid.T) {
				x := pick(t)
				x.r.Close()
				drop(x)
			},
			"": func(t *rapid.T) {
				for _, x := range readers {
					if n, fin := x.r.Rest(); n != committed-x.pos || fin != finished {
						t.Fatalf("%d bytes are left, finished %v; want %d, %v", n, fin, committed-x.pos, finished)
					}
					if x.r.Pos() != x.pos || x.r.DataAvailable() != (x.pos < committed) || x.r.Finished() != x.seen {
						t.Fatalf("at %d, data %v, finished %v; want %d of %d, %v", x.r.Pos(), x.r.DataAvailable(), x.r.Finished(), x.pos,
							committed, x.seen)
					}
				}
				for _, s := range slices { // B4
					if !bytes.Equal(s.b.Bytes(), s.want) {
						t.Fatal("committed bytes changed")
					}
				}
				if w.Written() != len(written) || w.Cap() != limit || w.Full() != (len(written) >= limit) {
					t.Fatal("builder")
				}
			},
		})
		w.Close()
		for _, x := range readers {
			x.r.Close()
		}
		for _, s := range slices {
			s.b.Release()
		}
		if l.Drain(); l.Stats().Idle != 1 {
			t.Fatal("not home")
		}
		l.Close()
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
