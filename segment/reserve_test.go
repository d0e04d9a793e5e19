package segment

import (
	"context"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// By default, as in Flink, overdraft may be what another pool is guaranteed and has not fetched; what was reserved is not
// lent.
func TestReservedIsNotLent(t *testing.T) {
	for _, reserve := range []bool{false, true} {
		p := mustPool(t, Config{Segments: 5, SegmentSize: 32})
		borrower := mustLocal(t, p, LocalConfig{Name: "borrower", Required: 2, Overdraft: 3})
		owner := mustLocal(t, p, LocalConfig{Name: "owner", Required: 3})
		if reserve {
			if err := owner.Reserve(hangContext(t), 3); err != nil {
				t.Fatal(err)
			}
		}
		var bs []Buffer
		for b, ok := borrower.Take(); ok; b, ok = borrower.Take() {
			bs = append(bs, b)
		}
		own := 0
		for b, ok := owner.Take(); ok; b, ok = owner.Take() {
			bs = append(bs, b)
			own++
		}
		if wantOwn := map[bool]int{false: 1, true: 3}[reserve]; own != wantOwn || len(bs) != 5 {
			t.Errorf("reserved %t: the owner got %d of its 3 segments, want %d; %d in all", reserve, own, wantOwn, len(bs))
		}
		for _, b := range bs {
			b.Release()
		}
		closeAll(t, p, borrower, owner)
	}
}

// reservedPool is a pool of the model, with what it has handed out.
type reservedPool struct {
	*LocalPool
	required int
	out      []Buffer
}

// Whatever is taken, lent beyond guarantees, returned from elsewhere, made, resized or closed: a pool that has reserved its
// guarantee gets all of it at any time, without waiting for anybody.
func TestReservedGuaranteesHoldAtAllTimes(t *testing.T) {
	var overdrafts, refused, grown int
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.IntRange(4, 24).Draw(t, "segments")
		p, err := NewPool(Config{Segments: total, SegmentSize: 32})
		if err != nil {
			t.Fatal(err)
		}
		var pools []*reservedPool
		draw := func(t *rapid.T) *reservedPool {
			if len(pools) == 0 {
				t.Skip("no pool yet")
			}
			return pools[rapid.IntRange(0, len(pools)-1).Draw(t, "pool")]
		}
		t.Repeat(map[string]func(*rapid.T){
			"make": func(t *rapid.T) {
				required := rapid.IntRange(1, 4).Draw(t, "required")
				l, err := p.NewLocal(LocalConfig{Required: required, Max: required + rapid.IntRange(0, 6).Draw(t, "more"),
					Overdraft: rapid.IntRange(0, 5).Draw(t, "overdraft")})
				var few *TooFewError
				if errors.As(err, &few) {
					t.Skip("no guarantee left")
				}
				if err != nil {
					t.Fatal(err)
				}
				// Others may hold it for now: only what was reserved counts.
				ctx, cancel := context.WithTimeout(context.Background(), time.Nanosecond)
				defer cancel()
				for _, o := range pools {
					o.Drain()
				}
				if l.Reserve(ctx, required) != nil {
					l.Close()
					return
				}
				pools = append(pools, &reservedPool{LocalPool: l, required: required})
			},
			"take": func(t *rapid.T) {
				l := draw(t)
				for range rapid.IntRange(1, 8).Draw(t, "n") {
					b, ok := l.Take()
					s := l.Stats()
					if !ok {
						if s.Requested-s.Size < l.cfg.Overdraft {
							refused++ // the segments that are left are others' by right
						}
						break
					}
					l.out = append(l.out, b)
					if s.Requested > s.Size {
						overdrafts++
					} else if s.Requested > l.required {
						grown++
					}
				}
			},
			"return": func(t *rapid.T) {
				l := draw(t)
				if len(l.out) == 0 {
					t.Skip("nothing is out")
				}
				i := rapid.IntRange(0, len(l.out)-1).Draw(t, "which")
				b := l.out[i]
				l.out = append(l.out[:i], l.out[i+1:]...)
				if rapid.Bool().Draw(t, "elsewhere") {
					b.Release()
				} else {
					l.Put(b)
				}
			},
			"overdraft": func(t *rapid.T) { draw(t).SetOverdraft(rapid.IntRange(0, 6).Draw(t, "overdraft")) },
			"shrink": func(t *rapid.T) {
				l := draw(t)
				required := rapid.IntRange(1, l.required).Draw(t, "required")
				if err := l.Resize(required, required+rapid.IntRange(0, 6).Draw(t, "more")); err != nil {
					t.Fatal(err)
				}
				l.required = required
			},
			"close": func(t *rapid.T) {
				l := draw(t)
				for _, b := range l.out {
					b.Release()
				}
				l.Close()
				for i := range pools {
					if pools[i] == l {
						pools = append(pools[:i], pools[i+1:]...)
						break
					}
				}
			},
			"": func(t *rapid.T) {
				for i, l := range pools {
					var bs []Buffer
					for len(l.out)+len(bs) < l.required {
						b, ok := l.Take()
						if !ok {
							t.Fatalf("pool %d has %d segments out and gets no more of the %d that it reserved: %+v, %+v", i, len(l.out)+len(bs),
								l.required, l.Stats(), p.Usage())
						}
						bs = append(bs, b)
					}
					for _, b := range bs {
						l.Put(b)
					}
				}
			},
		})
		for _, l := range pools {
			for _, b := range l.out {
				b.Release()
			}
			l.Close()
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	})
	if overdrafts == 0 || refused == 0 || grown == 0 {
		t.Errorf("no exposure: %d segments of overdraft, %d refused, %d beyond a guarantee", overdrafts, refused, grown)
	}
	t.Logf("%d segments of overdraft, %d refused, %d beyond a guarantee", overdrafts, refused, grown)
}
