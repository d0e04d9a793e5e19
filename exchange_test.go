package weir

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"
)

func TestRecordsArriveOnceAndInOrder(t *testing.T) { places(t, recordsArriveOnceAndInOrder) }

func recordsArriveOnceAndInOrder(t *testing.T, p place) {
	ctx := limited(t)
	a, b := p.nodes(t)
	out := newOutput(t, a, OutputConfig{Name: "x"})
	in := newInput(t, b, InputConfig{Sources: []Source{p.source(a, out)}})
	// Sizes around everything that has an edge: empty, the ends of a segment, several segments, beyond the spill threshold.
	sizes := []int{0, 1, 3, 100, 32<<10 - 9, 32<<10 - 10, 32<<10 - 8, 32 << 10, 100_000, 6 << 20}
	const rounds = 40
	content := func(i int) []byte {
		p := make([]byte, sizes[i%len(sizes)])
		r := rand.New(rand.NewPCG(1, uint64(i)))
		for j := 0; j+8 <= len(p); j += 8 {
			binary.LittleEndian.PutUint64(p[j:], r.Uint64())
		}
		return p
	}
	wait := inBackground(t, func() error {
		for i := range rounds * len(sizes) {
			if i%len(sizes) == len(sizes)-1 && i > 3*len(sizes) {
				continue // three giants are enough
			}
			if err := out.Write(ctx, nil, content(i)); err != nil {
				return err
			}
		}
		return out.Finish(ctx)
	})
	i := 0
	read(ctx, t, in, func(e *Element) {
		if e.Kind != Record {
			return
		}
		if i%len(sizes) == len(sizes)-1 && i > 3*len(sizes) {
			i++
		}
		if !bytes.Equal(e.Value, content(i)) {
			t.Fatalf("record %d has %d bytes, or others, want %d", i, len(e.Value), len(content(i)))
		}
		i++
	})
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if err := wait(); err != nil {
		t.Error(err)
	}
	if want := rounds * len(sizes); i < want-1 {
		t.Errorf("%d records of %d", i, want)
	}
}

func TestPartitioning(t *testing.T) {
	for _, c := range []struct {
		by    Partition
		check func(t *testing.T, perSub [][]string)
	}{
		{ByKeyGroup, func(t *testing.T, got [][]string) {
			where := map[string]int{}
			for sub, recs := range got {
				if len(recs) == 0 {
					t.Errorf("subpartition %d got nothing", sub)
				}
				for _, r := range recs {
					key := r[:2]
					if at, ok := where[key]; ok && at != sub {
						t.Errorf("key %s is in subpartitions %d and %d", key, at, sub)
					}
					where[key] = sub
				}
			}
		}},
		{RoundRobin, func(t *testing.T, got [][]string) {
			for sub, recs := range got {
				if len(recs) != 100 {
					t.Errorf("subpartition %d got %d of 300", sub, len(recs))
				}
			}
		}},
		{Broadcast, func(t *testing.T, got [][]string) {
			for sub, recs := range got {
				if len(recs) != 300 {
					t.Errorf("subpartition %d got %d of 300", sub, len(recs))
				}
			}
		}},
		{Global, func(t *testing.T, got [][]string) {
			if len(got[0]) != 300 || len(got[1])+len(got[2]) != 0 {
				t.Errorf("got %d, %d, %d", len(got[0]), len(got[1]), len(got[2]))
			}
		}},
	} {
		t.Run(fmt.Sprintf("by=%d", c.by), func(t *testing.T) {
			ctx := limited(t)
			a, b := server(t), open(t, Config{})
			out := newOutput(t, a, OutputConfig{Name: "x", Subpartitions: 3, Partition: c.by})
			in := newInput(t, b, InputConfig{Sources: []Source{source(a, out)}})
			wait := inBackground(t, func() error {
				for i := range 300 {
					rec := fmt.Sprintf("%02d record %d", i%50, i)
					if err := out.Write(ctx, []byte(rec[:2]), []byte(rec)); err != nil {
						return err
					}
				}
				return out.Finish(ctx)
			})
			got := make([][]string, 3)
			read(ctx, t, in, func(e *Element) {
				if e.Kind == Record {
					got[e.Channel] = append(got[e.Channel], string(e.Value))
				}
			})
			if err := in.Close(); err != nil {
				t.Error(err)
			}
			if err := wait(); err != nil {
				t.Error(err)
			}
			c.check(t, got)
		})
	}
}

// Two senders, random barriers: at each checkpoint, exactly the records before the barrier were handed out.
func TestCheckpointsAreConsistent(t *testing.T) {
	ctx := limited(t)
	const senders, records, every = 2, 20_000, 1000
	b := open(t, Config{})
	var sources []Source
	var waits []func() error
	for s := range senders {
		a := server(t)
		out := newOutput(t, a, OutputConfig{Name: "x", Subpartitions: 2, Partition: RoundRobin})
		sources = append(sources, source(a, out))
		waits = append(waits, inBackground(t, func() error {
			r := rand.New(rand.NewPCG(5, uint64(s)))
			for i := range records {
				rec := make([]byte, 8+r.IntN(300))
				binary.BigEndian.PutUint64(rec, uint64(i))
				if err := out.Write(ctx, nil, rec); err != nil {
					return err
				}
				if i%every == every-1 {
					if err := out.Barrier(AlignedBarrier(int64(i/every+1), time.Now())); err != nil {
						return err
					}
				}
			}
			return out.Finish(ctx)
		}))
	}
	in := newInput(t, b, InputConfig{Sources: sources})
	seen, checkpoints, ends := 0, 0, 0
	read(ctx, t, in, func(e *Element) {
		switch e.Kind {
		case Record:
			seen++
		case Checkpoint:
			checkpoints++
			if want := senders * every * int(e.Checkpoint.Barrier.ID); seen != want {
				t.Errorf("checkpoint %d came after %d records, want %d", e.Checkpoint.Barrier.ID, seen, want)
			}
			e.Checkpoint.Ack()
		case EndOfData:
			ends++
			if !e.Drain {
				t.Error("the senders drained")
			}
		}
	})
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	for _, wait := range waits {
		if err := wait(); err != nil {
			t.Error(err)
		}
	}
	if seen != senders*records || checkpoints != records/every || ends != 1 {
		t.Errorf("%d records, %d checkpoints, %d ends of data", seen, checkpoints, ends)
	}
}

func TestAtLeastOnceLosesNothingAndHoldsNothingBack(t *testing.T) {
	places(t, atLeastOnceLosesNothingAndHoldsNothingBack)
}

func atLeastOnceLosesNothingAndHoldsNothingBack(t *testing.T, p place) {
	ctx := limited(t)
	a, b := p.nodes(t)
	out := newOutput(t, a, OutputConfig{Name: "x", Subpartitions: 2, Partition: RoundRobin})
	in := newInput(t, b, InputConfig{Sources: []Source{p.source(a, out)}, Mode: AtLeastOnce})
	wait := inBackground(t, func() error {
		for i := range 1000 {
			if err := out.Write(ctx, nil, []byte("x")); err != nil {
				return err
			}
			if i%100 == 99 {
				if err := out.Barrier(AtLeastOnceBarrier(int64(i/100+1), time.Now())); err != nil {
					return err
				}
			}
		}
		return out.Finish(ctx)
	})
	seen, checkpoints := 0, 0
	read(ctx, t, in, func(e *Element) {
		switch e.Kind {
		case Record:
			seen++
		case Checkpoint:
			checkpoints++
			if least := int(e.Checkpoint.Barrier.ID) * 100; seen < least {
				t.Errorf("checkpoint %d after %d records, want at least %d", e.Checkpoint.Barrier.ID, seen, least)
			}
		}
	})
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if err := wait(); err != nil {
		t.Error(err)
	}
	if seen != 1000 || checkpoints != 10 {
		t.Errorf("%d records, %d checkpoints", seen, checkpoints)
	}
}

func TestWatermarksAreTheLeastOfAllChannels(t *testing.T) {
	ctx := limited(t)
	b := open(t, Config{})
	var sources []Source
	var waits []func() error
	step := make([]chan int64, 2)
	for s := range 2 {
		a := server(t)
		out := newOutput(t, a, OutputConfig{Name: "x"})
		sources = append(sources, source(a, out))
		step[s] = make(chan int64)
		waits = append(waits, inBackground(t, func() error {
			for w := range step[s] {
				if err := out.Watermark(ctx, w); err != nil {
					return err
				}
				if err := out.Flush(); err != nil {
					return err
				}
			}
			return out.Finish(ctx)
		}))
	}
	in := newInput(t, b, InputConfig{Sources: sources})
	next := func() int64 {
		e, err := in.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind != Watermark {
			t.Fatalf("an element of kind %d", e.Kind)
		}
		return e.Timestamp
	}
	step[0] <- 10
	step[1] <- 5
	if w := next(); w != 5 {
		t.Errorf("watermark %d, want 5", w)
	}
	step[1] <- 20
	if w := next(); w != 10 {
		t.Errorf("watermark %d, want 10", w)
	}
	for _, s := range step {
		close(s)
	}
	read(ctx, t, in, func(*Element) {})
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	for _, wait := range waits {
		if err := wait(); err != nil {
			t.Error(err)
		}
	}
}

// Buffers that the user frames go through without a copy on the writer's side.
func TestBuffersOfTheUsersOwn(t *testing.T) { places(t, buffersOfTheUsersOwn) }

func buffersOfTheUsersOwn(t *testing.T, p place) {
	ctx := limited(t)
	a, b := p.nodes(t)
	out := newOutput(t, a, OutputConfig{Name: "x", Subpartitions: 2})
	in := newInput(t, b, InputConfig{Sources: []Source{p.source(a, out)}})
	const n = 1000
	wait := inBackground(t, func() error {
		for i := range n {
			p, err := out.ClaimBuffer(ctx, i%2)
			if err != nil {
				return err
			}
			binary.BigEndian.PutUint64(p, uint64(i))
			if err := out.CommitBuffer(8 + i%1000); err != nil {
				return err
			}
		}
		return out.Finish(ctx)
	})
	next := [2]uint64{0, 1}
	for {
		p, e, err := in.NextBuffer(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind != Record {
			continue
		}
		i := binary.BigEndian.Uint64(p)
		if i != next[e.Channel] || len(p) != 8+int(i)%1000 {
			t.Fatalf("channel %d: buffer %d of %d bytes, want number %d", e.Channel, i, len(p), next[e.Channel])
		}
		next[e.Channel] += 2
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if err := wait(); err != nil {
		t.Error(err)
	}
	if next != [2]uint64{n, n + 1} {
		t.Errorf("read up to %v", next)
	}
}

// A record that is small and alone arrives soon: the flush timer needs nothing from the writer.
func TestFlushTimer(t *testing.T) {
	ctx := limited(t)
	a, b := server(t), open(t, Config{})
	out := newOutput(t, a, OutputConfig{Name: "x"})
	in := newInput(t, b, InputConfig{Sources: []Source{source(a, out)}})
	if err := out.Write(ctx, nil, []byte("alone")); err != nil {
		t.Fatal(err)
	}
	e, err := in.Next(ctx) // the writer does nothing more
	if err != nil || string(e.Value) != "alone" {
		t.Fatal(err, e)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if err := out.Close(); err != nil {
		t.Error(err)
	}
}

func TestBothProfiles(t *testing.T) {
	for _, f := range []Flink{Flink23, Flink120} {
		ctx := limited(t)
		a, b := open(t, Config{Listen: "127.0.0.1:0", Flink: f}), open(t, Config{Flink: f})
		out := newOutput(t, a, OutputConfig{Name: "x"})
		in := newInput(t, b, InputConfig{Sources: []Source{source(a, out)}})
		if n, err := passOne(ctx, t, out, in); err != nil || n != 1 {
			t.Errorf("profile %v: %d records, %v", f, n, err)
		}
	}
}
