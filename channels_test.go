package weir

import (
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/weirflow/weir/internal/buildtag"
)

// Ten thousand channels over one connection: each has all its records, in order.
func TestTenThousandChannels(t *testing.T) {
	const rounds, size = 4, 300
	channels := 10_000
	if buildtag.Debug { // where each retain and release keeps its stack
		channels = 2_000
	}
	ctx := limited(t)
	oc := OutputConfig{Name: "x", Subpartitions: channels, Buffers: 2*channels + 1}
	ic := InputConfig{Sources: []Source{{Name: "x", Last: channels - 1}}}
	cfg := Config{SegmentSize: 256} // smaller than a record
	send, recv := cfg, cfg
	send.Listen, send.Memory = "127.0.0.1:0", MemoryNeeded(cfg, []OutputConfig{oc}, nil)
	recv.Memory = MemoryNeeded(cfg, nil, []InputConfig{ic})
	a, b := open(t, send), open(t, recv)
	out := newOutput(t, a, oc)
	ic.Sources[0].Addr = a.Addr().String()
	in := newInput(t, b, ic)
	wait := inBackground(t, func() error {
		rec := make([]byte, size)
		for n := range rounds {
			for sub := range channels {
				binary.BigEndian.PutUint64(rec, uint64(sub*rounds+n))
				if err := out.WriteTo(ctx, sub, rec); err != nil {
					return err
				}
			}
		}
		return out.Finish(ctx)
	})
	next, left := make([]int, channels), channels*rounds
	read(ctx, t, in, func(e *Element) {
		if e.Kind != Record {
			return
		}
		if left--; left == 0 { // the channels have not ended yet; who ends the last one gives the connection up
			connections := 0
			if err := a.do(func() error { connections = a.server.Connections(); return nil }); err != nil || connections != 1 {
				t.Errorf("%d connections, %v", connections, err)
			}
		}
		if got, want := int(binary.BigEndian.Uint64(e.Value)), e.Channel*rounds+next[e.Channel]; got != want || len(e.Value) != size {
			t.Fatalf("channel %d: record %d of %d bytes, want %d", e.Channel, got, len(e.Value), want)
		}
		next[e.Channel]++
	})
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if err := wait(); err != nil {
		t.Error(err)
	}
	if left != 0 {
		t.Errorf("%d records are missing", left)
	}
	for c, n := range next {
		if n != rounds {
			t.Fatalf("channel %d has %d records of %d", c, n, rounds)
		}
	}
}

// A connection with many channels is lost: the error names them in short.
func TestManyChannelsAreLost(t *testing.T) {
	const channels = 1000
	ctx := limited(t)
	oc := OutputConfig{Name: "x", Subpartitions: channels, Buffers: channels + 1}
	a := open(t, Config{Listen: "127.0.0.1:0", SegmentSize: 256, Memory: MemoryNeeded(Config{SegmentSize: 256}, []OutputConfig{oc}, nil)})
	b, c := open(t, Config{SegmentSize: 256}), open(t, Config{SegmentSize: 256})
	out := newOutput(t, a, oc)
	stay := newInput(t, b, InputConfig{Sources: []Source{{Addr: a.Addr().String(), Name: "x", Subpartition: 500}}})
	for _, s := range []Source{{Subpartition: 0, Last: 499}, {Subpartition: 501, Last: channels - 1}} {
		s.Addr, s.Name = a.Addr().String(), "x"
		newInput(t, c, InputConfig{Sources: []Source{s}})
	}
	if err := out.AwaitConsumers(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	wait := inBackground(t, func() error { return out.Finish(ctx) })
	if e, err := stay.Next(ctx); err != nil || e.Kind != EndOfData {
		t.Fatal(err, e)
	}
	if _, err := stay.Next(ctx); err != io.EOF {
		t.Fatal(err)
	}
	if err := stay.Close(); err != nil {
		t.Error(err)
	}
	err := wait()
	names(t, err, "subpartitions 0-499: ", "subpartitions 501-999: ")
	if n := strings.Count(err.Error(), "\n"); n != 1 {
		t.Errorf("an error of %d lines: %v", n+1, err)
	}
}

func TestRanges(t *testing.T) {
	for _, c := range []struct {
		in   []int
		want string
	}{{nil, "[]"}, {[]int{3}, "[3]"}, {[]int{0, 2}, "[0 2]"}, {[]int{0, 1, 2, 5, 7, 8}, "[0-2 5 7-8]"}} {
		if got := ranges(c.in); got != c.want {
			t.Errorf("%v: %s, want %s", c.in, got, c.want)
		}
	}
}

// An error about many causes is cut off, and says so.
func TestManyCauses(t *testing.T) {
	a := server(t)
	out := newOutput(t, a, OutputConfig{Name: "x", Subpartitions: 100})
	var subs []int
	for i := range 100 {
		subs = append(subs, i)
		out.consumerLost(i, fmt.Errorf("cause %d", i))
	}
	names(t, out.lostErr(subs), "subpartition 0: ", "cause 15", "84 more subpartitions")
}
