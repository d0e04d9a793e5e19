package inspect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirflow/weir"
	"github.com/weirflow/weir/credit"
)

const limit = time.Minute

// run runs a proxy and returns how to stop it, which gives Run's error.
func run(t *testing.T, target string, cfg Config, sink Sink) (addr string, stop func() error) {
	t.Helper()
	p, err := NewProxy("127.0.0.1:0", target, cfg, sink)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	return p.Addr().String(), func() error {
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(limit):
			t.Fatal("the proxy does not end")
			return nil
		}
	}
}

// exchange sends records through addrOf(the producer's address), with a checkpoint in the middle and a reader that begins late.
func exchange(t *testing.T, flink weir.Flink, addrOf func(string) string, records []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	fatal := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const size = 4096
	producer, err := weir.Open(weir.Config{Listen: "127.0.0.1:0", SegmentSize: size, Memory: 128 * size, Flink: flink})
	fatal(err)
	defer producer.Close()
	consumer, err := weir.Open(weir.Config{SegmentSize: size, Memory: 128 * size, Flink: flink})
	fatal(err)
	defer consumer.Close()
	out, err := producer.NewOutput(weir.OutputConfig{Name: "words", Subpartitions: 2, Partition: weir.RoundRobin})
	fatal(err)
	defer out.Close()
	in, err := consumer.NewInput(weir.InputConfig{Sources: []weir.Source{{Addr: addrOf(producer.Addr().String()), Name: "words", Last: 1}}})
	fatal(err)
	defer in.Close()
	written := make(chan error, 1)
	go func() {
		for i, r := range records {
			if err := out.Write(ctx, nil, []byte(r)); err != nil {
				written <- err
				return
			}
			if i == len(records)/2 {
				if err := out.Barrier(weir.AlignedBarrier(7, time.Now())); err != nil {
					written <- err
					return
				}
			}
		}
		written <- out.Finish(ctx)
	}()
	n, checkpoints := 0, 0
	for e, err := range in.All(ctx) {
		fatal(err)
		switch e.Kind {
		case weir.Record:
			n++
		case weir.Checkpoint:
			checkpoints++
			e.Checkpoint.Ack()
		}
	}
	fatal(<-written)
	if n != len(records) || checkpoints != 1 {
		t.Errorf("%d of %d records, %d checkpoints", n, len(records), checkpoints)
	}
}

// A producer and a consumer talk through the proxy and notice nothing; it sees all that they say.
func TestProxy(t *testing.T) {
	var records []string
	for i := range 300 {
		records = append(records, fmt.Sprintf("%d %s", i, strings.Repeat("x", i*7%900)))
	}
	for _, flink := range []weir.Flink{weir.Flink23, weir.Flink120} {
		t.Run(flink.String(), func(t *testing.T) {
			var r recording
			var stop func() error
			exchange(t, flink, func(target string) (addr string) {
				addr, stop = run(t, target, Config{Profile: flink, Elements: true}, &r)
				return addr
			}, records)
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if len(r.summaries) != 1 || len(r.notes) != 2 {
				t.Fatalf("%d summaries, notes %q", len(r.summaries), r.notes)
			}
			check(t, &r, r.summaries[0].Bytes)
			s := r.summaries[0]
			if !s.Timed() || len(s.Channels) != 2 {
				t.Fatalf("times %v, %d channels", s.Timed(), len(s.Channels))
			}
			for _, c := range s.Channels {
				if !c.Closed || c.Data == 0 || c.Waits[NoData].Times == 0 || c.Waits[Blocked].Times != 1 || c.Credit < 0 {
					t.Errorf("channel %s: %+v", c.ID, c)
				}
			}
			got := slices.DeleteFunc(slices.Clone(r.elements), func(e string) bool { return !strings.HasPrefix(e, "Record(") })
			if len(got) != len(records) {
				t.Errorf("%d records were seen, %d were sent", len(got), len(records))
			}
			barriers := 0
			for _, text := range r.texts {
				if strings.Contains(text, "CheckpointBarrier(7 @") {
					barriers++
				}
			}
			if barriers != 2 {
				t.Errorf("%d barriers in %q", barriers, r.texts)
			}
		})
	}
}

// echo accepts connections and sends back what comes, until the test ends.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				buf := make([]byte, 4096)
				for {
					n, err := c.Read(buf)
					if err != nil {
						return
					}
					if _, err := c.Write(buf[:n]); err != nil {
						return
					}
				}
			}()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}

// Bytes that are no frames pass all the same, half a connection may end, and the end of the context ends what is open.
func TestProxyPassesAnything(t *testing.T) {
	var r recording
	addr, stop := run(t, echo(t), Config{}, &r)
	c, err := net.DialTimeout("tcp", addr, limit)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(limit))
	for range 3 {
		const text = "this is not a frame of any kind"
		if _, err := c.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, len(text))
		for n := 0; n < len(buf); {
			k, err := c.Read(buf[n:])
			if err != nil {
				t.Fatal(err)
			}
			n += k
		}
		if string(buf) != text {
			t.Fatalf("%q came back", buf)
		}
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%d bytes, %v after the end", n, err)
	}
	open, err := net.DialTimeout("tcp", addr, limit)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	_ = open.SetDeadline(time.Now().Add(limit))
	if _, err := open.Write(credit.AppendCloseRequest(nil)); err != nil {
		t.Fatal(err)
	}
	if _, err := open.Read(make([]byte, 1)); err != nil { // now the proxy has it
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if n, err := open.Read(make([]byte, 100)); err == nil && n < 9 {
		_, err = open.Read(make([]byte, 100))
		if err == nil {
			t.Error("the connection is still open")
		}
	}
	notes := strings.Join(r.notes, "\n")
	if strings.Count(notes, "bad magic number") != 2 || len(r.frames) != 1 || len(r.summaries) != 2 {
		t.Errorf("%d frames, %d summaries, notes %s", len(r.frames), len(r.summaries), notes)
	}
}

func TestProxyErrors(t *testing.T) {
	var r recording
	for _, c := range [][2]string{{"127.0.0.1:0", "nowhere"}, {"300.0.0.1:x", "127.0.0.1:1"}} {
		if _, err := NewProxy(c[0], c[1], Config{}, &r); err == nil {
			t.Errorf("%q was accepted", c)
		}
	}
	// A target that refuses is a note, and the client is told by the end of its connection. Where a connection begins nobody listens, and
	// nobody else can meanwhile.
	taken, err := net.DialTimeout("tcp", echo(t), limit)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	addr, stop := run(t, taken.LocalAddr().String(), Config{}, &r)
	c, err := net.DialTimeout("tcp", addr, limit)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(limit))
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if err := stop(); err != nil || len(r.notes) != 1 || !strings.Contains(r.notes[0], "refused") {
		t.Errorf("%v, notes %q", err, r.notes)
	}
}

// A sink that fails ends the proxy with its error.
func TestProxySinkFails(t *testing.T) {
	addr, stop := run(t, echo(t), Config{}, &Text{W: &failing{}})
	c, err := net.DialTimeout("tcp", addr, limit)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(limit))
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if err := stop(); !errors.Is(err, errFull) {
		t.Error(err)
	}
}

// TestManyConnections: each has its number, and lines are whole.
func TestManyConnections(t *testing.T) {
	var out bytes.Buffer
	addr, stop := run(t, echo(t), Config{}, &Text{W: &out, Conns: true})
	const n = 5
	for range n {
		c, err := net.DialTimeout("tcp", addr, limit)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(limit))
		if _, err := c.Write(credit.AppendCloseRequest(nil)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if want := fmt.Sprintf(" %d c2s       0      9 -          CloseRequest\n", i+1); strings.Count(out.String(), want) != 1 {
			t.Errorf("%q is not there once in\n%s", want, &out)
		}
	}
	if got := strings.Count(out.String(), "\nsummary of connection"); got != n {
		t.Errorf("%d summaries", got)
	}
}
