package weir

import (
	"encoding/binary"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/internal/modelrun"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// inFlight collects what inputs and outputs hand over for one checkpoint.
type inFlight struct {
	mu      sync.Mutex
	in, out map[int][]byte // by channel, by subpartition
	broken  error
}

func newInFlight() *inFlight { return &inFlight{in: map[int][]byte{}, out: map[int][]byte{}} }

func (f *inFlight) InputData(_ int64, ch int, _ int32, b segment.Buffer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.in[ch] = append(f.in[ch], b.Bytes()...)
}

func (f *inFlight) OutputData(_ int64, sub int, bufs []segment.Buffer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range bufs {
		if !b.IsZero() {
			f.out[sub] = append(f.out[sub], b.Bytes()...)
		}
	}
}

func (f *inFlight) OutputPromise(int64, int) {}

func (f *inFlight) OutputKept(id int64, sub int, bufs []segment.Buffer) { f.OutputData(id, sub, bufs) }

func (f *inFlight) OutputBroken(_ int64, _ int, cause error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken = cause
}

// sizes are the bytes that were in flight at both ends.
func (f *inFlight) sizes() (in, out int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.in {
		in += len(p)
	}
	for _, p := range f.out {
		out += len(p)
	}
	return in, out
}

// records takes apart what was in flight of a channel, which the subpartition of the same number feeds.
func (f *inFlight) records(t *testing.T, ch int) (numbers []uint32) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	p := append(append([]byte(nil), f.in[ch]...), f.out[ch]...)
	for len(p) > 0 {
		if len(p) < 4 || len(p) < 4+int(binary.BigEndian.Uint32(p)) {
			t.Fatalf("channel %d: %d bytes are left over", ch, len(p))
		}
		n := 4 + int(binary.BigEndian.Uint32(p))
		numbers = append(numbers, binary.BigEndian.Uint32(p[9:])) // behind two lengths and a tag
		p = p[n:]
	}
	return numbers
}

// starved tells whether no channel of an input has any credit left: everything up to the reader is full.
func starved(in *Input) bool {
	for _, ch := range in.Stats(InputStats{}).Channels {
		if ch.Credit > 0 || ch.Unread == 0 {
			return false
		}
	}
	return true
}

func await(t *testing.T, cond func() bool) {
	for end := time.Now().Add(limit); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Error("waited in vain")
			return
		}
	}
}

// numbered is a record that begins with its number.
func numbered(i, size int) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(i)), make([]byte, size-4)...)
}

// A barrier overtakes what lies in the output and the input. What was handed out and what was in flight are together what was
// written before it, each record once.
func TestUnalignedCheckpoints(t *testing.T) {
	now := time.Now()
	for name, barrier := range map[string]Barrier{
		"unaligned": UnalignedBarrier(7, now),
		"timed":     TimedBarrier(7, now, time.Millisecond),
	} {
		for _, p := range []place{apart, together} {
			t.Run(name+" "+string(p), func(t *testing.T) { modelrun.Rounds(t, func(int) bool { return unalignedCheckpoint(t, p, barrier) }) })
		}
	}
}

// unalignedCheckpoint passes records with one barrier among them, and tells whether the barrier found anything in flight at both ends.
func unalignedCheckpoint(t *testing.T, p place, barrier Barrier) bool {
	const channels, records, size = 3, 300, 10_000
	ctx := limited(t)
	a, b := p.nodes(t)
	flight := newInFlight()
	quota := 0
	if p == together {
		quota = credit.DefaultLocalWindow + 16 // so that something stays in the output
	}
	out := newOutput(t, a, OutputConfig{Name: "x", Subpartitions: channels, Partition: RoundRobin, Buffers: 256, BuffersPerSubpartition: quota, State: flight})
	in := newInput(t, b, InputConfig{Sources: []Source{p.source(a, out)}, Unaligned: UnalignedOn, State: flight})
	written := make(chan int, 1)
	wait := inBackground(t, func() error {
		sent := false
		for i := range records * channels {
			if !sent && !out.Available() {
				await(t, func() bool { return out.Available() || starved(in) })
			}
			if ok, err := out.TryWrite(nil, numbered(i, size)); err != nil {
				return err
			} else if !ok { // everything is full: now the barrier has something to overtake
				if !sent {
					sent = true
					if err := out.Barrier(barrier); err != nil {
						return err
					}
					if err := out.Flush(); err != nil {
						return err
					}
					await(t, func() bool { // the timed one turns, while nobody reads
						_, out := flight.sizes()
						return out > 0
					})
					written <- i
				}
				if err := out.Write(ctx, nil, numbered(i, size)); err != nil {
					return err
				}
			}
		}
		return out.Finish(ctx)
	})
	var before int
	select {
	case before = <-written:
	case <-ctx.Done():
		t.Fatal("the output never became full")
	}
	var got [channels]int
	var cut [channels]int
	triggered, complete := false, false
	read(ctx, t, in, func(e *Element) {
		switch e.Kind {
		case Record:
			if n := int(binary.BigEndian.Uint32(e.Value)); n != got[e.Channel]*channels+e.Channel {
				t.Fatalf("channel %d: record %d is number %d", e.Channel, got[e.Channel], n)
			}
			got[e.Channel]++
		case Checkpoint:
			if id := e.Checkpoint.Barrier.ID; id != 7 || !e.Checkpoint.Barrier.Options.IsUnaligned() || triggered {
				t.Fatalf("barrier %+v", e.Checkpoint.Barrier)
			}
			cut, triggered = got, true
			e.Checkpoint.Ack()
		case CheckpointComplete:
			if e.Checkpoint.Barrier.ID != 7 || !triggered {
				t.Fatal("complete before it began")
			}
			complete = true
		case CheckpointAborted:
			t.Fatal(e.Checkpoint.Cause)
		}
	})
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if err := wait(); err != nil {
		t.Error(err)
	}
	if !triggered || !complete || flight.broken != nil {
		t.Fatalf("triggered %v, complete %v, broken: %v", triggered, complete, flight.broken)
	}
	for ch := range channels {
		next := cut[ch]*channels + ch
		for _, n := range flight.records(t, ch) {
			if int(n) != next {
				t.Fatalf("channel %d: in flight was record %d, want %d", ch, n, next)
			}
			next += channels
		}
		if next < before || next >= before+channels {
			t.Errorf("channel %d: the checkpoint ends with record %d, the barrier came before record %d", ch, next-channels, before)
		}
	}
	if got != [channels]int{records, records, records} {
		t.Errorf("got %v records", got)
	}
	atIn, atOut := flight.sizes()
	return atIn > 0 && atOut > 0
}

// An input waits for the barriers of all its senders only as long as the barrier says. The timer interrupts a task that sleeps.
func TestAlignmentTurnsUnalignedInTime(t *testing.T) {
	ctx := limited(t)
	a, b := server(t), open(t, Config{})
	flight := newInFlight()
	quick := newOutput(t, a, OutputConfig{Name: "quick"})
	slow := newOutput(t, a, OutputConfig{Name: "slow", State: flight})
	in := newInput(t, b, InputConfig{Sources: []Source{source(a, quick), source(a, slow)}, Unaligned: UnalignedOn, State: flight})
	send := func(o *Output, b Barrier) {
		t.Helper()
		if err := o.Barrier(b); err != nil {
			t.Fatal(err)
		}
		if err := o.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	next := func() *Element {
		t.Helper()
		e, err := in.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	// In time: aligned it stays.
	long := TimedBarrier(1, time.Now(), time.Hour)
	send(quick, long)
	send(slow, long)
	if e := next(); e.Kind != Checkpoint || e.Checkpoint.Barrier.Options.IsUnaligned() {
		t.Fatalf("got %+v", e)
	}
	if e := next(); e.Kind != CheckpointComplete || e.Checkpoint.Barrier.ID != 1 {
		t.Fatalf("got %+v", e)
	}
	// The slow one's barrier does not come.
	short := TimedBarrier(2, time.Now(), 30*time.Millisecond)
	send(quick, short)
	e := next()
	if e.Kind != Checkpoint || e.Checkpoint.Barrier.ID != 2 || !e.Checkpoint.Barrier.Options.IsUnaligned() {
		t.Fatalf("got %+v", e)
	}
	if age := time.Since(time.UnixMilli(short.Timestamp)); age < 29*time.Millisecond {
		t.Errorf("it turned after %v", age)
	}
	e.Checkpoint.Ack()
	// What the slow one sent before its barrier is in flight.
	if err := slow.WriteTo(ctx, 0, numbered(1, 100)); err != nil {
		t.Fatal(err)
	}
	send(slow, short)
	seen := map[Kind]int{next().Kind: 1} // the barrier may overtake the record
	seen[next().Kind]++
	if seen[Record] != 1 || seen[CheckpointComplete] != 1 {
		t.Fatalf("got %v", seen)
	}
	// In flight it was at the input, or at the output, whose only subpartition is number 0.
	if got := append(flight.records(t, 0), flight.records(t, 1)...); len(got) != 1 || got[0] != 1 {
		t.Errorf("in flight was %v", got)
	}
	finish := func(o *Output) func() error { return inBackground(t, func() error { return o.Finish(ctx) }) }
	waitQuick, waitSlow := finish(quick), finish(slow)
	for {
		if _, err := in.Next(ctx); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	for _, wait := range []func() error{waitQuick, waitSlow} {
		if err := wait(); err != nil {
			t.Error(err)
		}
	}
}

// The state is whole even if the barrier comes in the middle of a record, also of one that lies in a file.
func TestUnalignedInTheMiddleOfARecord(t *testing.T) {
	const size = 8 << 20 // above 5 MiB: in a file
	modelrun.Rounds(t, func(int) bool {
		in, out, records := overtakeOne(t, size)
		if in == 0 {
			return false // the reader was so quick that the record was complete before the barrier came
		}
		if in+out != size+9 {
			t.Errorf("in flight were %d and %d bytes of %d", in, out, size+9)
		}
		if len(records) != 1 || records[0] != 1 {
			t.Errorf("in flight was %v", records)
		}
		return true
	})
}

// overtakeOne sends a record, and behind it an unaligned barrier, and returns what was in flight at both ends.
func overtakeOne(t *testing.T, size int) (in, out int, records []uint32) {
	ctx := limited(t)
	a, b := server(t), open(t, Config{})
	flight := newInFlight()
	o := newOutput(t, a, OutputConfig{Name: "x", Buffers: 64, State: flight})
	i := newInput(t, b, InputConfig{Sources: []Source{source(a, o)}, Unaligned: UnalignedOn, State: flight})
	wait := inBackground(t, func() error {
		if err := o.WriteTo(ctx, 0, numbered(1, size)); err != nil {
			return err
		}
		if err := o.Barrier(UnalignedBarrier(1, time.Now())); err != nil {
			return err
		}
		return o.Finish(ctx)
	})
	read(ctx, t, i, func(*Element) {})
	if err := i.Close(); err != nil {
		t.Error(err)
	}
	if err := wait(); err != nil {
		t.Error(err)
	}
	in, out = flight.sizes()
	return in, out, flight.records(t, 0)
}

func TestBarrierOptions(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_123)
	if b := UnalignedBarrier(3, at); !b.Options.IsUnaligned() || b.ID != 3 || b.Timestamp != at.UnixMilli() {
		t.Errorf("%+v", b)
	}
	if b := TimedBarrier(3, at, 1500*time.Millisecond); !b.Options.IsTimeoutable() || b.Options.Timeout != 1500 || b.Options.Alignment != event.Aligned {
		t.Errorf("%+v", b)
	}
	n := open(t, Config{})
	_, err := n.NewInput(InputConfig{Sources: []Source{{Addr: "127.0.0.1:1", Name: "x"}}, Mode: AtLeastOnce, Unaligned: UnalignedOn})
	if err == nil {
		t.Error("at least once and unaligned go together")
	}
}
