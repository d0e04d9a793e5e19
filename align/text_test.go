package align

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// TestTexts: what errors and constants say.
func TestTexts(t *testing.T) {
	for want, got := range map[string]fmt.Stringer{
		"CHECKPOINT_DECLINED_SUBSUMED":                ReasonSubsumed,
		"CHECKPOINT_SUBSUMED":                         ReasonNewerSeen,
		"CHECKPOINT_DECLINED_TASK_NOT_READY":          ReasonNotReady,
		"CHECKPOINT_DECLINED_INPUT_END_OF_STREAM":     ReasonEndOfStream,
		"CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER": ReasonCancelled,
		"CHANNEL_STATE_SHARED_STREAM_EXCEPTION":       ReasonSharedStream,
		"Reason(0)":                                   Reason(0),
		"Reason(99)":                                  Reason(99),
		"EXACTLY_ONCE":                                ExactlyOnce,
		"AT_LEAST_ONCE":                               AtLeastOnce,
		"Mode(3)":                                     Mode(3),
		"waiting":                                     Waiting,
		"done":                                        Done,
		"given up":                                    GivenUp,
		"Progress(7)":                                 Progress(7),
	} {
		if got.String() != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	disk := errors.New("disk full")
	for _, tc := range []struct {
		err  *CheckpointError
		want string
	}{
		{&CheckpointError{Reason: ReasonSubsumed, Newer: 7}, "align: CHECKPOINT_DECLINED_SUBSUMED by checkpoint 7"},
		{&CheckpointError{Reason: ReasonIO, Err: disk}, "align: IO_EXCEPTION: disk full"},
		{&CheckpointError{Reason: ReasonAlignmentLimit, Limit: 5}, "align: CHECKPOINT_DECLINED_ALIGNMENT_LIMIT_EXCEEDED: more than 5 bytes would have to be stored"},
	} {
		if tc.err.Error() != tc.want {
			t.Errorf("got %q, want %q", tc.err, tc.want)
		}
	}
	e := &CheckpointError{Reason: ReasonSubsumed, Newer: 7, Err: disk}
	for _, is := range []error{disk, &CheckpointError{Reason: ReasonSubsumed}, &CheckpointError{Reason: ReasonSubsumed, Newer: 7}} {
		if !errors.Is(e, is) {
			t.Errorf("%v is not %v", e, is)
		}
	}
	for _, not := range []error{io.EOF, &CheckpointError{Reason: ReasonSubsumed, Newer: 8}, &CheckpointError{Reason: ReasonIO}} {
		if errors.Is(e, not) {
			t.Errorf("%v is %v", e, not)
		}
	}
}

// TestErrorsNameTheirCheckpoint: what fails the task says which checkpoint and channel it was about.
func TestErrorsNameTheirCheckpoint(t *testing.T) {
	boom := errors.New("boom")
	for _, tc := range []struct {
		cfg  Config
		ops  []string
		fail bool
		says []string
	}{
		{Config{}, []string{"B 0 6 un"}, false, []string{"checkpoint 6", "unaligned barrier on channel 0"}},
		{Config{}, []string{"B 1 4 al", "B 0 4 al"}, true, []string{"checkpoint 4", "boom"}},
		{Config{Mode: AtLeastOnce}, []string{"B 1 4 alo", "B 0 4 alo"}, true, []string{"checkpoint 4", "boom"}},
		{Config{Mode: AtLeastOnce}, []string{"C 1 4"}, true, []string{"checkpoint 4", "boom"}},
		{Config{Mode: AtLeastOnce, StopAtFirstEnd: true}, []string{"B 0 4 alo", "E 1"}, true, []string{"checkpoint 4", "boom"}},
		{Config{Unaligned: UnalignedAlways}, []string{"B 0 3 sp"}, false, []string{"checkpoint 3", "savepoint"}},
		{Config{Unaligned: UnalignedAlways}, []string{"B 0 3 fa"}, false, []string{"checkpoint 3", "FORCED_ALIGNED"}},
	} {
		h, r := newRecorded(t, tc.cfg, 2)
		if tc.fail {
			r.failTask = boom
		}
		var err error
		for _, op := range tc.ops {
			if err != nil {
				t.Fatalf("%v: %v too early", tc.ops, err)
			}
			err = r.do(h, op)
		}
		for _, s := range tc.says {
			if err == nil || !strings.Contains(err.Error(), s) {
				t.Errorf("%v: %v, want it to name %q", tc.ops, err, s)
			}
		}
	}
}

// TestQueries: what a handler says about itself.
func TestQueries(t *testing.T) {
	for _, cfg := range []Config{{}, {Mode: AtLeastOnce}} {
		h, r := newRecorded(t, cfg, 2)
		if h.Latest() != -1 || h.Pending() {
			t.Error("something is pending")
		}
		check(t, r.do(h, "B 0 3 al"))
		if h.Latest() != 3 || !h.Pending() {
			t.Error("3 is not pending")
		}
		check(t, h.Timeout(3, Now{}))
		p, err := h.AllReceived(3)
		if want := map[Mode]Progress{ExactlyOnce: Waiting, AtLeastOnce: Done}[cfg.Mode]; p != want || err != nil {
			t.Errorf("%v, %v", p, err)
		}
		check(t, r.do(h, "C 1 3"))
		if h.Pending() {
			t.Error("3 is pending")
		}
		h.Close()
	}
}

// TestStoringMeasures: alignment time with blocking by storing.
func TestStoringMeasures(t *testing.T) {
	now := Now{}
	gate := &listGate{channels: 2, items: []credit.Item{barrierItem(0, 1, kind("al")), dataItem(1, 1, 5), barrierItem(1, 1, kind("al"))}}
	in, err := NewStoring(StoringConfig{Limit: -1, PageSize: 10, Bounded: true, Gate: gate, Clock: func() Now { return now }})
	check(t, err)
	s := in.(*Storing)
	if _, st, err := in.Poll(); st != credit.Ready || err != nil {
		t.Fatal(st, err)
	}
	now.Nanos = 30
	if s.AlignmentNanos() != 30 || s.Latest() != 1 {
		t.Errorf("%d ns, latest %d", s.AlignmentNanos(), s.Latest())
	}
	if _, st, err := in.Poll(); st != credit.End || err != nil {
		t.Fatal(st, err)
	}
	now.Nanos = 70
	if s.AlignmentNanos() != 30 {
		t.Errorf("%d ns", s.AlignmentNanos())
	}
}

// TestLargeStateFile: more than the write buffer, with a chunk larger than it, and read back in small buffers.
func TestLargeStateFile(t *testing.T) {
	store := &DirStore{Dir: t.TempDir(), MemoryThreshold: DefaultMemoryThreshold}
	e, end := runExecutor(t, StateExecutorConfig{Store: store})
	w := mustWriter(t, e, 0)
	check(t, w.Start(1, unalignedOptions))
	var want []byte
	for i := range 40 {
		p := bytes.Repeat([]byte{byte(i)}, 1000+i*5000)
		want = append(want, p...)
		check(t, w.AddInput(1, StateChannel{}, dataBuf(p...)))
	}
	check(t, w.FinishInput(1), w.FinishOutput(1))
	r, err := w.Result(1)
	check(t, err)
	in, _, err := r.Get()
	check(t, err)
	if info, err := os.Stat(in[0].Stream.Path); err != nil || info.Size() != in[0].Stream.Size {
		t.Errorf("size %d: %v, %v", in[0].Stream.Size, info, err)
	}
	c := &collect{size: 32 << 10, got: map[string][]byte{}}
	check(t, ReadChannelState(store, in, c))
	if !bytes.Equal(c.got["0/0.0"], want) {
		t.Errorf("%d bytes came back, want %d", len(c.got["0/0.0"]), len(want))
	}
	w.Close()
	check(t, end())
	// A file that is given up is removed, and a directory that is not there fails the checkpoint.
	stream, err := store.Create(2)
	check(t, err)
	_, err = stream.Write(make([]byte, 100<<10))
	check(t, err, stream.Discard())
	if files, _ := os.ReadDir(store.Dir); len(files) != 1 {
		t.Errorf("%d files", len(files))
	}
	none := &DirStore{Dir: store.Dir + "/none"}
	stream, err = none.Create(3)
	check(t, err)
	_, err = stream.Write([]byte{1})
	check(t, err)
	if _, err := stream.Finish(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

// TestCompressedState: compressed buffers are stored as what they hold.
func TestCompressedState(t *testing.T) {
	bad := errors.New("garbage")
	for _, fail := range []bool{false, true} {
		store := &DirStore{Dir: t.TempDir(), MemoryThreshold: 1 << 20}
		e, end := runExecutor(t, StateExecutorConfig{Store: store, Decompress: func(b segment.Buffer) (segment.Buffer, error) {
			defer b.Release()
			if fail {
				return segment.Buffer{}, bad
			}
			return dataBuf(bytes.Repeat(b.Bytes(), 3)...), nil
		}})
		w := mustWriter(t, e, 0)
		sink := w.GateSink(2)
		check(t, w.Start(1, unalignedOptions))
		sink.InputData(1, 4, 0, dataBuf(1, 2).WithCompressed(true))
		m := event.Event{Kind: event.RecoveryMetadata}
		sink.InputData(1, 4, 0, segment.Wrap(event.Append(nil, &m), segment.RecoveryMetadata))
		check(t, w.Err(), w.FinishInput(1), w.FinishOutput(1))
		r, err := w.Result(1)
		check(t, err)
		in, _, err := r.Get()
		if fail {
			if !errors.Is(err, bad) {
				t.Errorf("got %v", err)
			}
		} else if check(t, err); len(in) != 1 || in[0].Channel != (StateChannel{2, 4}) || !bytes.Equal(in[0].Stream.Data[8:], []byte{1, 2, 1, 2, 1, 2}) {
			t.Errorf("got %+v", in)
		}
		w.Close()
		check(t, end())
		sink.InputData(2, 0, 0, dataBuf(1))
		if !errors.Is(w.Err(), ErrNotRunning) {
			t.Errorf("after the end: %v", w.Err())
		}
	}
}

// TestExecutorStopsWithWork: what is queued when a request breaks a rule is cancelled, behind promises too.
func TestExecutorStopsWithWork(t *testing.T) {
	e := NewStateExecutor(StateExecutorConfig{Store: &DirStore{Dir: t.TempDir()}})
	a, b := mustWriter(t, e, 0), mustWriter(t, e, 1)
	check(t, a.Start(1, unalignedOptions), b.Start(1, unalignedOptions))
	check(t, b.PromiseOutput(1, StateChannel{}), b.AddInput(1, StateChannel{}, dataBuf(1)), b.Start(2, unalignedOptions))
	check(t, a.FinishInput(1), a.FinishInput(1), a.AddInput(1, StateChannel{}, dataBuf(1)))
	if err := e.Run(); !errors.Is(err, ErrState) {
		t.Errorf("got %v", err)
	}
	for id, w := range map[int64]*StateWriter{1: a, 2: b} {
		r, err := w.Result(id)
		check(t, err)
		if _, _, err := r.Get(); err == nil {
			t.Errorf("checkpoint %d has a result", id)
		}
	}
	check(t, b.BreakOutput(1, StateChannel{}, nil))
	a.Close()
	b.Close()
}
