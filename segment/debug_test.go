//go:build weirdebug

package segment

import (
	"errors"
	"strings"
	"testing"

	"github.com/weirflow/weir/internal/buildtag"
)

// panicOf runs f and returns the misuse that it panics with.
func panicOf(t *testing.T, f func()) (e *MisuseError) {
	t.Helper()
	defer func() {
		r := recover()
		var ok bool
		if e, ok = r.(*MisuseError); !ok {
			t.Fatalf("panics with %v", r)
		}
	}()
	f()
	t.Fatal("did not panic")
	return nil
}

func takenHere(l *LocalPool) Buffer {
	b, _ := l.Take()
	return b
}

func releasedHere(b Buffer) { b.Release() }

func releasedAgainHere(b Buffer) { b.Release() }

func keptHere(b Buffer) Buffer { return b.Retain() }

// A second release, and a use after release, are named with the stacks of both.
func TestDebugNamesBothStacks(t *testing.T) {
	p := mustPool(t, Config{Segments: 2, SegmentSize: 64})
	l := mustLocal(t, p, LocalConfig{Name: "clicks", Required: 2})
	b := takenHere(l)
	releasedHere(b)
	for what, f := range map[string]func(){
		"released twice":     func() { releasedAgainHere(b) },
		"used after release": func() { b.Bytes() },
	} {
		e := panicOf(t, f)
		text := e.Error()
		for _, want := range []string{what, `"clicks"`, "takenHere", "releasedHere", "TestDebugNamesBothStacks"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: lacks %q:\n%s", what, want, text)
			}
		}
		if what == "released twice" && !strings.Contains(text, "releasedAgainHere") {
			t.Errorf("lacks the second release:\n%s", text)
		}
	}
	// With another reference alive it is found just as well, and takes nothing from it.
	b = takenHere(l)
	c := keptHere(b)
	releasedHere(b)
	if e := panicOf(t, func() { releasedAgainHere(b) }); !errors.Is(e, ErrReleased) {
		t.Fatal(e)
	}
	if c.Refs() != 1 {
		t.Fatal(c.Refs())
	}
	c.Release()
	closeAll(t, p, l)
}

// ReleaseAll names the second release as Release does, and has forgotten the handle that it was of.
func TestDebugReleaseAllNamesBothStacks(t *testing.T) {
	p := mustPool(t, Config{Segments: 2, SegmentSize: 64})
	l := mustLocal(t, p, LocalConfig{Name: "clicks", Required: 2})
	bufs := []Buffer{takenHere(l), takenHere(l)}
	releasedHere(bufs[0])
	e := panicOf(t, func() { ReleaseAll(bufs) })
	text := e.Error()
	for _, want := range []string{"released twice", `"clicks"`, "takenHere", "releasedHere", "segment.ReleaseAll"} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
	if n := p.Usage().Misuse.OverRelease; n != 1 || !bufs[0].IsZero() {
		t.Errorf("%d second releases were counted; forgotten: %t", n, bufs[0].IsZero())
	}
	ReleaseAll(bufs) // what is left
	wrapped := Wrap([]byte("event"), EventBuffer)
	if e := panicOf(t, func() { ReleaseAll([]Buffer{wrapped, wrapped}) }); !errors.Is(e, ErrReleased) || e.Segment != -1 {
		t.Error(e)
	}
	closeAll(t, p, l)
}

// Every reference has an identity in debug builds, also beyond those that other builds tell apart.
func TestDebugEveryReferenceIsTold(t *testing.T) {
	p := mustPool(t, Config{Segments: 1, SegmentSize: 64})
	l := mustLocal(t, p, LocalConfig{Required: 1})
	b := takenHere(l)
	var bs []Buffer
	for range 100 {
		bs = append(bs, b.Retain())
	}
	for _, x := range bs {
		x.Release()
	}
	for _, x := range bs {
		if err := x.TryRelease(); !errors.Is(err, ErrReleased) {
			t.Fatal(err)
		}
	}
	b.Release()
	closeAll(t, p, l)
}

// The leak report of Pool.Close shows where what is missing was made.
func TestDebugLeakReport(t *testing.T) {
	p := mustPool(t, Config{Segments: 2, SegmentSize: 64})
	l := mustLocal(t, p, LocalConfig{Name: "leaky", Required: 2})
	b := takenHere(l)
	c := keptHere(b)
	b.Release()
	l.Close()
	err := p.Close()
	for _, want := range []string{`"leaky"`, "1 references", "takenHere", "keptHere"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("lacks %q:\n%v", want, err)
		}
	}
	c.Release()
	closeAll(t, p)
}

// Who writes through a slice that he kept beyond the release is found at the next take, or by the page protection.
func TestDebugPoison(t *testing.T) {
	p := mustPool(t, Config{Segments: 1, SegmentSize: 64}) // less than a page: no protection
	l := mustLocal(t, p, LocalConfig{Required: 1})
	b := takenHere(l)
	mem := b.Memory()
	mem[3] = 7
	b.Release()
	if mem[3] != poisonByte {
		t.Fatalf("reads %#x after release", mem[3])
	}
	mem[3] = 7
	l.Drain()
	if e := panicOf(t, func() { takenHere(l) }); !strings.Contains(e.Error(), "written to after release") || !strings.Contains(e.Error(), "TestDebugPoison") {
		t.Fatal(e)
	}
}

func TestDebugPageProtection(t *testing.T) {
	if !mappedBuild {
		t.Skip("this build takes memory from the heap, whose pages can't be protected")
	}
	p := mustPool(t, Config{Segments: 4, SegmentSize: 8192})
	l := mustLocal(t, p, LocalConfig{Required: 1})
	b := takenHere(l)
	mem := b.Memory()
	if err := p.Guard(func() { mem[5000] = 1 }); err != nil {
		t.Fatal(err)
	}
	b.Release()
	var fault *FaultError
	err := p.Guard(func() { mem[5000] = 2 })
	if !errors.As(err, &fault) || fault.Offset != 5000 || !errors.Is(err, ErrReleased) || !strings.Contains(err.Error(), "takenHere") {
		t.Fatal(err)
	}
	if fault.Segment != int(b.h.index) || !strings.Contains((&FaultError{Segment: -1}).Error(), "no segment") {
		t.Fatal(fault)
	}
	l.Drain()
	b = takenHere(l)
	if b.Memory()[0] = 1; b.Memory()[0] != 1 {
		t.Fatal("not usable again")
	}
	l.Put(b)
	closeAll(t, p, l)
}

// Free segments go out in the order in which they came, so that a stale handle has the longest time to be found.
func TestDebugFirstInFirstOut(t *testing.T) {
	p := mustPool(t, Config{Segments: 3, SegmentSize: 64})
	l := mustLocal(t, p, LocalConfig{Required: 3})
	bs := []Buffer{takenHere(l), takenHere(l), takenHere(l)}
	for _, b := range bs {
		l.Put(b)
	}
	for i, b := range bs {
		if x := takenHere(l); x.h != b.h {
			t.Fatalf("segment %d instead of %d", x.h.index, b.h.index)
		} else {
			bs[i] = x
		}
	}
	for _, b := range bs {
		l.Put(b)
	}
	closeAll(t, p, l)
}

// Two goroutines inside a local pool at once are told.
func TestDebugOverlap(t *testing.T) {
	p := mustPool(t, Config{Segments: 1, SegmentSize: 64})
	l := mustLocal(t, p, LocalConfig{Required: 1})
	l.guard.enter() // as if another goroutine were inside
	func() {
		defer func() {
			if r := recover(); r == nil || !strings.Contains(r.(string), "two goroutines") {
				t.Error(r)
			}
		}()
		l.Drain()
	}()
	l.guard.leave()
	closeAll(t, p, l)
	if !buildtag.Debug {
		t.Error("not a debug build")
	}
}
