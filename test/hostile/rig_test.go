package hostile

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirflow/weir"
)

// hang is how long anything may take before it counts as hanging.
const hang = 60 * time.Second

// subs is the number of subpartitions of the honest transfer.
const subs = 2

func limited(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	t.Cleanup(cancel)
	return ctx
}

// eventually waits until something holds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(hang); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not: %s", what)
		}
	}
}

// lines is a log that is kept.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(p))
	return len(p), nil
}

// has reports whether one line has all parts.
func (l *lines) has(parts ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.all, func(s string) bool {
		for _, p := range parts {
			if !strings.Contains(s, p) {
				return false
			}
		}
		return true
	})
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.all, "")
}

// open makes a node with default options, which must close without a buffer missing.
func open(t testing.TB, cfg weir.Config) *weir.Node {
	t.Helper()
	n, err := weir.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Errorf("closing the node: %v", err)
		}
	})
	return n
}

// usage is what something costs.
type usage struct {
	heap                    int64
	goroutines, descriptors int
	segments                int
}

// cost is what the process uses at the moment.
func cost(n *weir.Node) usage {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	fds, _ := os.ReadDir("/proc/self/fd") // elsewhere it counts as 0
	u := n.Usage()
	return usage{int64(m.HeapAlloc), runtime.NumGoroutine(), len(fds), u.Segments - u.Free}
}

func (u *usage) most(o usage) {
	u.heap = max(u.heap, o.heap)
	u.goroutines = max(u.goroutines, o.goroutines)
	u.descriptors = max(u.descriptors, o.descriptors)
	u.segments = max(u.segments, o.segments)
}

// victim is the node that is attacked, with an honest transfer through it.
type victim struct {
	t      *testing.T
	node   *weir.Node
	log    *lines
	tls    *tls.Config // of peers
	honest *transfer
	before usage
	peak   usage
	seen   string // exposure, in words
}

// newVictim makes the node. It serves the honest transfer, or, if reads, takes it.
func newVictim(t *testing.T, reads bool, conf *tls.Config) *victim {
	v := &victim{t: t, log: &lines{}, tls: conf}
	cfg := weir.Config{TLS: conf, Logger: slog.New(slog.NewTextHandler(v.log, nil)), RequestTimeout: hang}
	switch {
	case os.Getenv("HOSTILE") != "":
	case strings.HasSuffix(t.Name(), "connections"): // thousands take longer to come
		cfg.HandshakeTimeout = 20 * time.Second
	case strings.Contains(t.Name(), "stall"):
		cfg.HandshakeTimeout = 5 * time.Second // the default of 10 s is for make hostile, which has the time
	}
	other := weir.Config{TLS: conf}
	if reads {
		other.Listen = "127.0.0.1:0"
	} else {
		cfg.Listen = "127.0.0.1:0"
	}
	v.node = open(t, cfg)
	from, to := v.node, open(t, other)
	if reads {
		from, to = to, from
	}
	v.honest = newTransfer(t, from, to)
	v.honest.moves(t)
	v.before = cost(v.node)
	v.peak = v.before
	return v
}

// measure notes what is used now.
func (v *victim) measure() { v.peak.most(cost(v.node)) }

// exposure notes what was done.
func (v *victim) exposure(format string, args ...any) { v.seen = fmt.Sprintf(format, args...) }

// grown is what was used at most, beyond what was used before.
func (v *victim) grown() usage {
	p, b := v.peak, v.before
	return usage{max(0, p.heap-b.heap), max(0, p.goroutines-b.goroutines), max(0, p.descriptors-b.descriptors), max(0, p.segments-b.segments)}
}

// named waits until the log has an error that names the peer.
func (v *victim) named(peer string, parts ...string) {
	v.t.Helper()
	eventually(v.t, fmt.Sprintf("an error that names %s and %q, in\n%s", peer, parts, v.log), func() bool {
		return v.log.has(append([]string{peer}, parts...)...)
	})
}

// transfer is an honest one: records in order on each channel, each with its number in all of its bytes.
type transfer struct {
	out    *weir.Output
	in     *weir.Input
	enough atomic.Bool
	read   atomic.Int64
	done   chan error // two
}

// value is record n of a channel.
func value(dst []byte, ch, n int) []byte {
	dst = binary.BigEndian.AppendUint32(dst[:0], uint32(ch))
	for i := range 4 + n%61 {
		dst = binary.BigEndian.AppendUint64(dst, uint64(n)*0x9E3779B97F4A7C15+uint64(i))
	}
	return dst
}

func newTransfer(t testing.TB, from, to *weir.Node) *transfer {
	t.Helper()
	x := &transfer{done: make(chan error, 2)}
	var err error
	x.out, err = from.NewOutput(weir.OutputConfig{Name: "honest", Subpartitions: subs, BufferTimeout: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	x.in, err = to.NewInput(weir.InputConfig{Sources: []weir.Source{{Addr: from.Addr().String(), Name: "honest", Last: subs - 1}}})
	if err != nil {
		t.Fatal(err)
	}
	var sent [subs]int
	var counted sync.WaitGroup
	counted.Add(1)
	ctx := limited(t)
	go func() {
		defer counted.Done()
		var buf []byte
		for n := 0; !x.enough.Load(); n++ {
			sub := n % subs
			buf = value(buf, sub, sent[sub])
			if err := x.out.WriteTo(ctx, sub, buf); err != nil {
				x.done <- err
				return
			}
			if sent[sub]++; n%200 == 199 {
				time.Sleep(time.Millisecond) // the machine is the attacker's, too
			}
		}
		x.done <- nil
	}()
	go func() {
		var got [subs]int
		var want []byte
		for {
			e, err := x.in.Next(ctx)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				x.done <- err
				return
			}
			if e.Kind != weir.Record {
				continue
			}
			want = value(want, e.Channel, got[e.Channel])
			if string(want) != string(e.Value) {
				x.done <- fmt.Errorf("honest channel %d: record %d is not what was sent", e.Channel, got[e.Channel])
				return
			}
			got[e.Channel]++
			x.read.Add(1)
		}
		counted.Wait()
		if got != sent {
			x.done <- fmt.Errorf("honest channels brought %v records, %v were sent", got, sent)
			return
		}
		x.done <- nil
	}()
	return x
}

// moves waits until records come through that were not there before.
func (x *transfer) moves(t testing.TB) {
	t.Helper()
	before := x.read.Load()
	eventually(t, "honest records go on", func() bool { return x.read.Load() > before+1000 || len(x.done) > 0 })
}

// finish ends the transfer, and checks that it brought everything.
func (x *transfer) finish(t testing.TB) int64 {
	t.Helper()
	x.enough.Store(true)
	if err := <-x.done; err != nil {
		t.Fatalf("honest transfer: %v", err)
	}
	if err := x.out.Finish(limited(t)); err != nil {
		t.Errorf("honest transfer: %v", err)
	}
	if err := <-x.done; err != nil {
		t.Errorf("honest transfer: %v", err)
	}
	if err := errors.Join(x.in.Close(), x.out.Close()); err != nil {
		t.Error(err)
	}
	return x.read.Load()
}
