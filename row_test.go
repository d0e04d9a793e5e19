package weir

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirflow/weir/segment"
)

// Tasks in a row on one node, with no more memory than what each is guaranteed: the overdraft of the first one, in the middle
// of long records, must leave the next ones what is theirs, or they would wait for each other.
func TestTasksInARowKeepWhatTheyAreGuaranteed(t *testing.T) {
	const (
		subs, stages, records = 3, 3, 40
		size                  = 1 << 10
	)
	row := make([]*Output, stages)
	memory := stages*(subs+1) + stages*subs*2
	n := open(t, Config{Listen: "127.0.0.1:0", SegmentSize: size, Memory: int64(memory) * size})
	in := make([]*Input, stages)
	for i := range row {
		row[i] = newOutput(t, n, OutputConfig{Name: "row " + strconv.Itoa(i), Subpartitions: subs, Partition: RoundRobin})
		if got := row[i].pool.Stats().Requested; got != subs+1 {
			t.Fatalf("output %d has %d segments of the %d that it is guaranteed", i, got, subs+1)
		}
	}
	for i := range in {
		in[i] = newInput(t, n, InputConfig{Sources: []Source{source(n, row[i])}, Exclusive: 2, Floating: -1})
	}
	long := bytes.Repeat([]byte("0123456789abcdef"), 20*size/16)
	var waits []func() error
	for i := range row {
		waits = append(waits, inBackground(t, func() error {
			ctx := limited(t)
			if i == 0 {
				for range records {
					if err := row[0].Write(ctx, nil, long); err != nil {
						return err
					}
				}
				return row[0].Finish(ctx)
			}
			for e, err := range in[i-1].All(ctx) {
				if err == nil && e.Kind == Record {
					err = row[i].Write(ctx, nil, e.Value)
				}
				if err != nil {
					return err
				}
			}
			return errors.Join(in[i-1].Close(), row[i].Finish(ctx))
		}))
	}
	got := 0
	read(limited(t), t, in[stages-1], func(e *Element) {
		if e.Kind == Record {
			if got++; !bytes.Equal(e.Value, long) {
				t.Fatalf("record %d of %d bytes is not what was written", got, len(e.Value))
			}
		}
	})
	if err := in[stages-1].Close(); err != nil {
		t.Error(err)
	}
	for _, wait := range waits {
		if err := wait(); err != nil {
			t.Error(err)
		}
	}
	if got != records {
		t.Errorf("%d records, want %d", got, records)
	}
}

// An output whose guarantee others hold beyond theirs waits for it, and says what it waited for if it does not come.
func TestOutputWaitsForItsGuarantee(t *testing.T) {
	const size = 1 << 10
	n := open(t, Config{SegmentSize: size, Memory: 8 * size})
	greedy, err := n.pool.NewLocal(segment.LocalConfig{Name: "greedy", Required: 1, Max: 8})
	if err != nil {
		t.Fatal(err)
	}
	defer greedy.Close()
	var held []segment.Buffer
	for b, ok := greedy.Take(); ok; b, ok = greedy.Take() {
		held = append(held, b)
	}
	o := &Output{node: n, cfg: OutputConfig{Name: "late", Subpartitions: 3}.withDefaults(), busy: new(occupancy)}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := o.open(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "4 segments that it is guaranteed") {
		t.Fatalf("with nothing to have: %v", err)
	}
	done := inBackground(t, func() error { return o.open(limited(t)) })
	for _, b := range held {
		b.Release()
	}
	for finished := false; !finished; { // the owner gives back what it looks at
		greedy.Drain()
		u := n.Usage()
		finished = u.ByPurpose[segment.Send].Requested == 4
	}
	if err := done(); err != nil {
		t.Fatal(err)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
}
