package segment

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weirflow/weir/internal/buildtag"
)

// hang is how long a test waits before it calls something hung: twenty times what a case allows on a loaded machine.
const hang = time.Minute

func mustPool(t testing.TB, cfg Config) *Pool {
	t.Helper()
	p, err := NewPool(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func mustLocal(t testing.TB, p *Pool, cfg LocalConfig) *LocalPool {
	t.Helper()
	l, err := p.NewLocal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func mustTake(t testing.TB, l *LocalPool) Buffer {
	t.Helper()
	return mustTakeFor(t, l, noSub)
}

func mustTakeFor(t testing.TB, l *LocalPool, sub int) Buffer {
	t.Helper()
	b, ok := l.TakeFor(sub)
	if !ok {
		t.Fatalf("nothing to take: %+v", l.Stats())
	}
	return b
}

func mustNotTake(t testing.TB, l *LocalPool) {
	t.Helper()
	if b, ok := l.Take(); ok {
		b.Release()
		t.Fatalf("took a segment where there should be none: %+v", l.Stats())
	}
}

// closeAll closes pools and fails the test if anything did not come home.
func closeAll(t testing.TB, p *Pool, ls ...*LocalPool) {
	t.Helper()
	for _, l := range ls {
		l.Close()
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if err := p.check(); err != nil {
		t.Error(err)
	}
}

// within fails the test if f takes longer than hang.
func within(t testing.TB, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(hang):
		buf := make([]byte, 1<<16)
		t.Fatalf("hangs\n%s", buf[:runtime.Stack(buf, true)])
	}
}

func hangContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	t.Cleanup(cancel)
	return ctx
}

// misuseOfWrapped runs f, which breaks a rule of a wrapped buffer, and returns what it was reported as: debug builds
// panic, others count.
func misuseOfWrapped(f func()) (err error) {
	before := WrappedMisuse().Total()
	defer func() {
		if r := recover(); r != nil {
			err, _ = r.(*MisuseError)
			return
		}
		if WrappedMisuse().Total() > before {
			err = errors.New("counted")
		}
	}()
	f()
	return nil
}

// mappings counts the process's memory mappings.
func mappings(t testing.TB) int {
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skip("no /proc/self/maps here: ", err)
	}
	return strings.Count(string(b), "\n")
}

// mappedBuild tells whether this build maps memory unless told otherwise.
const mappedBuild = runtime.GOOS == "linux" && !buildtag.Race && !buildtag.NoUnsafe

// check verifies the invariants of the accounting at a quiescent point: G1, G2, G4 and L10 of the rules.
func (p *Pool) check() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	free, out, stuck := 0, 0, 0
	for i := range p.headers {
		switch h := &p.headers[i]; {
		case h.mem == nil:
			stuck++
		case h.free:
			free++
		default:
			out++
		}
	}
	held, guaranteed, size := p.unpooled, p.unpooled, p.unpooled
	seen := map[*header]string{}
	for _, l := range append(append([]*LocalPool(nil), p.locals...), p.closing...) {
		held += l.requested
		idle := l.idle
		if l.hot != nil {
			idle = append([]*header{l.hot}, idle...)
		}
		for _, h := range idle {
			if seen[h] != "" || h.free || h.home != l {
				return errors.New("a segment is in two places (L10)")
			}
			seen[h] = l.cfg.Name
		}
		if l.isClosed {
			continue
		}
		guaranteed += l.cfg.Required
		if l.size < l.cfg.Required || l.size > l.cfg.Max {
			return errors.New("size is not between required and max (G3)")
		}
		size += l.size
		if l.requested-len(idle) < 0 {
			return errors.New("more segments idle than requested")
		}
		if len(idle) > 0 && l.requested > l.size {
			return errors.New("idle segments beside overdraft (L2)")
		}
		if len(l.listeners) > 0 && len(idle) > 0 {
			return errors.New("a listener waits beside an idle segment (L7)")
		}
	}
	switch {
	case p.mem.free != free || p.mem.out != out:
		return errors.New("the arena's counts are not those of the headers")
	case free+stuck+held != p.cfg.Segments && len(p.requests) == 0:
		return errors.New("free + requested + unpooled is not the total (G1)")
	case guaranteed != p.required || p.required > p.cfg.Segments:
		return errors.New("guarantees do not add up (G2)")
	case size > p.cfg.Segments:
		return errors.New("sizes are more than the total (G4)")
	}
	return nil
}
