package align

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
	"pgregory.net/rapid"
)

var (
	_ credit.InputSink  = GateSink{}
	_ credit.OutputSink = PartitionSink{}
)

func dataBuf(p ...byte) segment.Buffer { return segment.Wrap(p, segment.DataBuffer) }

var unalignedOptions = event.Options{Alignment: event.Unaligned, Timeout: event.NoTimeout}

// runExecutor starts an executor; the returned function waits for its end.
func runExecutor(t testing.TB, cfg StateExecutorConfig) (*StateExecutor, func() error) {
	e := NewStateExecutor(cfg)
	end := make(chan error, 1)
	go func() { end <- e.Run() }()
	return e, func() error { return <-end }
}

func mustWriter(t testing.TB, e *StateExecutor, subtask int32) *StateWriter {
	t.Helper()
	w, err := e.Writer(subtask)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func check(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestStateLayout: the file of two subtasks, byte by byte, as Flink's classes wrote it, and its in-memory form.
func TestStateLayout(t *testing.T) {
	for _, threshold := range []int{0, DefaultMemoryThreshold} {
		e, end := runExecutor(t, StateExecutorConfig{Store: &DirStore{Dir: t.TempDir(), MemoryThreshold: threshold}})
		s0, s1 := mustWriter(t, e, 0), mustWriter(t, e, 1)
		in00, in01, out := StateChannel{0, 0}, StateChannel{0, 1}, StateChannel{0, 0}
		check(t, s0.Start(1, unalignedOptions), s1.Start(1, unalignedOptions),
			s0.AddInput(1, in00, dataBuf(1, 2, 3)), s0.AddInput(1, in01, dataBuf(4, 5)), s1.AddInput(1, in00, dataBuf(9)),
			s0.AddInput(1, in00, dataBuf(6)), s0.AddOutput(1, out, dataBuf(7, 7)),
			s0.FinishInput(1), s0.FinishOutput(1), s1.FinishInput(1))
		r0, err := s0.Result(1)
		check(t, err)
		select {
		case <-r0.Done():
			t.Error("complete before the other subtask")
		default:
		}
		check(t, s1.FinishOutput(1))
		r1, err := s1.Result(1)
		check(t, err)
		in, outs, err := r0.Get()
		check(t, err)
		in1, outs1, err := r1.Get()
		check(t, err)
		if len(in) != 2 || len(outs) != 1 || len(in1) != 1 || len(outs1) != 0 {
			t.Fatalf("handles %v %v %v %v", in, outs, in1, outs1)
		}
		if threshold == 0 {
			file, err := os.ReadFile(in[0].Stream.Path)
			check(t, err)
			want := "00000000" + "00000003010203" + "000000020405" + "0000000109" + "0000000106" + "000000020707"
			if got := hex.EncodeToString(file); got != want {
				t.Errorf("\nwant %s\ngot  %s", want, got)
			}
			for i, tc := range []struct {
				h    StateHandle
				at   []int64
				size int64
			}{{in[0], []int64{4, 22}, 12}, {in[1], []int64{11}, 6}, {in1[0], []int64{17}, 5}, {outs[0], []int64{27}, 6}} {
				if !slices.Equal(tc.h.Offsets, tc.at) || tc.h.Size != tc.size {
					t.Errorf("handle %d: %v %d, want %v %d", i, tc.h.Offsets, tc.h.Size, tc.at, tc.size)
				}
			}
			// It is read in the order of writing, whoever wrote what.
			c := &collect{size: 8, got: map[string][]byte{}}
			check(t, ReadChannelState(&DirStore{}, []StateHandle{in1[0], in[1], in[0]}, c))
			if want := []string{"0/0.0", "0/0.1", "1/0.0", "0/0.0"}; !slices.Equal(c.order, want) {
				t.Errorf("read in the order %v, want %v", c.order, want)
			}
			if r0.Bytes() != 24 || r1.Bytes() != 5 {
				t.Errorf("bytes persisted: %d, %d", r0.Bytes(), r1.Bytes())
			}
		} else {
			h := in[0]
			if got := hex.EncodeToString(h.Stream.Data); got != "000000000000000401020306" || !slices.Equal(h.Offsets, []int64{4}) || h.Size != 12 {
				t.Errorf("in memory: %s %v %d", got, h.Offsets, h.Size)
			}
		}
		s0.Close()
		s1.Close()
		if err := end(); err != nil {
			t.Error(err)
		}
	}
}

// TestNothingInFlight: no file, no handle.
func TestNothingInFlight(t *testing.T) {
	dir := t.TempDir()
	e, end := runExecutor(t, StateExecutorConfig{Store: &DirStore{Dir: dir}})
	w := mustWriter(t, e, 0)
	check(t, w.Start(1, unalignedOptions), w.FinishOutput(1), w.FinishInput(1))
	r, err := w.Result(1)
	check(t, err)
	in, out, err := r.Get()
	if len(in)+len(out) != 0 || err != nil || r.Bytes() != 0 {
		t.Errorf("%v %v %v", in, out, err)
	}
	w.Close()
	check(t, end())
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("%d files", len(left))
	}
}

// brokenStore fails where a test wants it.
type brokenStore struct {
	DirStore
	create, write, finish error
}

func (s *brokenStore) Create(id int64) (StateStream, error) {
	if s.create != nil {
		return nil, s.create
	}
	inner, err := s.DirStore.Create(id)
	return &brokenStream{inner, s, 0}, err
}

type brokenStream struct {
	StateStream
	s *brokenStore
	n int
}

func (b *brokenStream) Write(p []byte) (int, error) {
	if b.n++; b.n > 1 && b.s.write != nil { // the header is written
		return 0, b.s.write
	}
	return b.StateStream.Write(p)
}

func (b *brokenStream) Finish() (StreamHandle, error) {
	if b.s.finish != nil {
		return StreamHandle{}, errorsJoin(b.s.finish, b.StateStream.Discard())
	}
	return b.StateStream.Finish()
}

// TestStateWriteFails: an I/O error fails the checkpoint for all that share the file; the writer and later checkpoints
// go on.
func TestStateWriteFails(t *testing.T) {
	disk := errors.New("disk full")
	for _, what := range []string{"create", "write", "finish"} {
		store := &brokenStore{DirStore: DirStore{Dir: t.TempDir(), MemoryThreshold: 0}}
		switch what {
		case "create":
			store.create = disk
		case "write":
			store.write = disk
		case "finish":
			store.finish = disk
		}
		e, end := runExecutor(t, StateExecutorConfig{Store: store})
		s0, s1 := mustWriter(t, e, 0), mustWriter(t, e, 1)
		take := func(w *StateWriter, id int64) error {
			r, err := w.Result(id)
			check(t, err)
			_, _, err = r.Get()
			return err
		}
		all := func(id int64) {
			for _, w := range []*StateWriter{s0, s1} {
				check(t, w.Start(id, unalignedOptions), w.AddInput(id, StateChannel{}, dataBuf(1)), w.FinishInput(id), w.FinishOutput(id))
			}
		}
		all(1)
		if err := take(s0, 1); !errors.Is(err, disk) {
			t.Errorf("%s: %v", what, err)
		}
		if err := take(s1, 1); !errors.Is(err, disk) {
			t.Errorf("%s, other subtask: %v", what, err)
		} else if shared := (&CheckpointError{Reason: ReasonSharedStream}); what != "finish" && !errors.Is(err, shared) {
			t.Errorf("%s, other subtask: %v", what, err)
		}
		store.create, store.write, store.finish = nil, nil, nil
		all(2)
		if err := take(s0, 2); err != nil {
			t.Errorf("%s: the next checkpoint: %v", what, err)
		}
		if err := take(s1, 2); err != nil {
			t.Errorf("%s: the next checkpoint: %v", what, err)
		}
		s0.Close()
		s1.Close()
		check(t, end())
	}
}

// TestStateAbort: an abort fails the result with its cause, for the other subtask with a hint at it, and whatever comes
// later for the id is dropped; an older checkpoint is subsumed by a newer start.
func TestStateAbort(t *testing.T) {
	why := &CheckpointError{Reason: ReasonCancelled}
	e, end := runExecutor(t, StateExecutorConfig{Store: &DirStore{Dir: t.TempDir()}})
	s0, s1 := mustWriter(t, e, 0), mustWriter(t, e, 1)
	check(t, s0.Start(1, unalignedOptions), s1.Start(1, unalignedOptions))
	r0, err := s0.Result(1)
	check(t, err)
	r1, err := s1.Result(1)
	check(t, err)
	check(t, s0.Start(2, unalignedOptions))
	for _, r := range []*StateResult{r0, r1} {
		if _, _, err := r.Get(); !errors.Is(err, &CheckpointError{Reason: ReasonSubsumed, Newer: 2}) {
			t.Errorf("subsumed: %v", err)
		}
	}
	check(t, s1.Start(2, unalignedOptions))
	q0, err := s0.Result(2)
	check(t, err)
	q1, err := s1.Result(2)
	check(t, err)
	check(t, s0.Abort(2, why, false))
	if _, _, err := q0.Get(); err != error(why) && !errors.Is(err, why) {
		t.Errorf("aborted: %v", err)
	}
	if _, _, err := q1.Get(); !errors.Is(err, &CheckpointError{Reason: ReasonSharedStream}) && !errors.Is(err, why) {
		t.Errorf("aborted by the other: %v", err)
	}
	late := dataBuf(1)
	check(t, s1.AddInput(2, StateChannel{}, late.Retain()), s1.AddInput(1, StateChannel{}, late), s1.FinishInput(2))
	check(t, s0.Start(3, unalignedOptions), s1.Start(3, unalignedOptions))
	check(t, s0.FinishInput(3), s0.FinishOutput(3), s1.FinishInput(3), s1.FinishOutput(3))
	for _, w := range []*StateWriter{s0, s1} {
		r, err := w.Result(3)
		check(t, err)
		if _, _, err := r.Get(); err != nil {
			t.Errorf("after the abort: %v", err)
		}
	}
	// Aborted before it was started.
	check(t, s0.Start(4, unalignedOptions), s0.Abort(5, why, true), s0.Start(5, unalignedOptions))
	r, err := s0.Result(5)
	check(t, err)
	if _, _, err := r.Get(); !errors.Is(err, why) {
		t.Errorf("started after its abort: %v", err)
	}
	s0.Close()
	s1.Close()
	check(t, end())
}

// TestStateMisuse: what breaks a rule is said, and stops the writer where nothing else helps.
func TestStateMisuse(t *testing.T) {
	e, end := runExecutor(t, StateExecutorConfig{Store: &DirStore{Dir: t.TempDir()}, Subtasks: 2})
	w := mustWriter(t, e, 0)
	if _, err := e.Writer(0); !errors.Is(err, ErrState) {
		t.Errorf("registered twice: %v", err)
	}
	check(t, w.Start(1, unalignedOptions))
	if err := w.Start(1, unalignedOptions); !errors.Is(err, ErrState) {
		t.Errorf("started twice: %v", err)
	}
	if _, err := e.Writer(1); !errors.Is(err, ErrState) {
		t.Errorf("registered after the start: %v", err)
	}
	if _, err := w.Result(9); !errors.Is(err, ErrState) {
		t.Errorf("unknown result: %v", err)
	}
	if err := w.KeepOutput(1, StateChannel{}, dataBuf(1)); !errors.Is(err, ErrState) {
		t.Errorf("kept without a promise: %v", err)
	}
	check(t, w.PromiseOutput(1, StateChannel{}))
	if err := w.PromiseOutput(1, StateChannel{}); !errors.Is(err, ErrState) {
		t.Errorf("promised twice: %v", err)
	}
	check(t, w.KeepOutput(1, StateChannel{}), w.FinishInput(1), w.FinishInput(1))
	if err := end(); !errors.Is(err, ErrState) {
		t.Errorf("finished twice: %v", err)
	}
	r, err := w.Result(1)
	check(t, err)
	if _, _, err := r.Get(); err == nil {
		t.Error("a result from a writer that broke")
	}
	b := dataBuf(1)
	if err := w.AddInput(1, StateChannel{}, b); !errors.Is(err, ErrNotRunning) || !errors.Is(err, ErrState) {
		t.Errorf("after the stop: %v", err)
	}
	if err := w.Abort(1, errors.New("x"), true); !errors.Is(err, ErrNotRunning) {
		t.Errorf("abort after the stop: %v", err)
	}
	if _, err := e.Writer(7); !errors.Is(err, ErrNotRunning) {
		t.Errorf("register after the stop: %v", err)
	}
	w.Close()
	w.Close()

	for name, breaks := range map[string]func(w *StateWriter) error{
		"no start": func(w *StateWriter) error { return w.AddInput(1, StateChannel{}, dataBuf(1)) },
		"an event": func(w *StateWriter) error {
			return errorsJoin(w.Start(1, unalignedOptions), w.AddInput(1, StateChannel{}, segment.Wrap([]byte{0, 0, 0, 0}, segment.EventBuffer)))
		},
		"compressed": func(w *StateWriter) error {
			return errorsJoin(w.Start(1, unalignedOptions), w.AddInput(1, StateChannel{}, dataBuf(1).WithCompressed(true)))
		},
	} {
		e, end := runExecutor(t, StateExecutorConfig{Store: &DirStore{Dir: t.TempDir()}})
		w := mustWriter(t, e, 0)
		check(t, breaks(w))
		if err := end(); !errors.Is(err, ErrState) {
			t.Errorf("%s: %v", name, err)
		}
		w.Close()
	}
}

// TestResultsAreBounded: results that nobody fetches do not pile up.
func TestResultsAreBounded(t *testing.T) {
	e, end := runExecutor(t, StateExecutorConfig{Store: &DirStore{Dir: t.TempDir()}})
	w := mustWriter(t, e, 0)
	for id := range int64(maxStateResults) {
		check(t, w.Start(id, unalignedOptions))
	}
	if err := w.Start(maxStateResults, unalignedOptions); !errors.Is(err, ErrState) {
		t.Errorf("got %v", err)
	}
	w.Close()
	check(t, end())
}

// TestPromises: what comes behind an open promise waits, other subtasks do not; a broken promise fails the checkpoint.
func TestPromises(t *testing.T) {
	e, end := runExecutor(t, StateExecutorConfig{Store: &DirStore{Dir: t.TempDir(), MemoryThreshold: 1 << 20}})
	s0, s1 := mustWriter(t, e, 0), mustWriter(t, e, 1)
	ch, other := StateChannel{0, 0}, StateChannel{0, 1}
	for _, w := range []*StateWriter{s0, s1} {
		check(t, w.Start(1, unalignedOptions))
	}
	p0 := s0.PartitionSink(0)
	p0.OutputPromise(1, 0)
	p0.OutputData(1, 1, []segment.Buffer{dataBuf(5), {}})
	check(t, s0.FinishInput(1), s0.FinishOutput(1), s1.FinishInput(1), s1.FinishOutput(1))
	p0.OutputKept(1, 0, []segment.Buffer{dataBuf(1), dataBuf(2)})
	check(t, s0.Err())
	r, err := s0.Result(1)
	check(t, err)
	_, out, err := r.Get()
	check(t, err)
	if len(out) != 2 || out[0].Channel != ch || out[1].Channel != other || !bytes.Equal(out[0].Stream.Data[8:], []byte{1, 2}) {
		t.Errorf("got %+v", out)
	}
	if r, err := s1.Result(1); err != nil {
		t.Error(err)
	} else if _, _, err := r.Get(); err != nil {
		t.Error(err)
	}

	why := errors.New("partition released")
	for _, w := range []*StateWriter{s0, s1} {
		check(t, w.Start(2, unalignedOptions))
	}
	p0.OutputPromise(2, 0)
	p0.OutputBroken(2, 0, why)
	for i, w := range []*StateWriter{s0, s1} {
		r, err := w.Result(2)
		check(t, err)
		if _, _, err := r.Get(); !errors.Is(err, why) || i == 1 && !errors.Is(err, &CheckpointError{Reason: ReasonSharedStream}) {
			t.Errorf("subtask %d: %v", i, err)
		}
	}
	// A promise that is still open when the subtask goes is dropped, and may be kept late.
	check(t, s0.Start(3, unalignedOptions), s0.PromiseOutput(3, ch), s0.AddOutput(3, other, dataBuf(1)))
	s0.Close()
	pool, err := segment.NewPool(segment.Config{SegmentSize: 4096, Segments: 1})
	check(t, err)
	local, err := pool.NewLocal(segment.LocalConfig{Required: 1, Max: 1})
	check(t, err)
	late, ok := local.Take()
	if !ok {
		t.Fatal("no segment")
	}
	check(t, s0.KeepOutput(3, ch, late))
	local.Close()
	check(t, pool.Close()) // it went back
	s1.Close()
	check(t, end())
}

// collect is a RecoveryTarget that gathers bytes by owner.
type collect struct {
	size  int
	got   map[string][]byte
	order []string
	fail  error
	out   int // buffers handed out and not back
}

func (c *collect) Buffer(StateChannel) (segment.Buffer, error) {
	c.out++
	return segment.Wrap(make([]byte, c.size), segment.DataBuffer), nil
}

func (c *collect) Recovered(ch StateChannel, subtask int32, b segment.Buffer) error {
	key := fmt.Sprintf("%d/%d.%d", subtask, ch.Owner, ch.Index)
	c.got[key] = append(c.got[key], b.Bytes()...)
	c.order = append(c.order, key)
	b.Release()
	c.out--
	return c.fail
}

// TestStateRoundTrip: what is written comes back, whatever the chunks, the channels, the buffers and the store.
func TestStateRoundTrip(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		store := &DirStore{Dir: dir, MemoryThreshold: rapid.SampledFrom([]int{0, 1 << 20}).Draw(t, "threshold")}
		d := newStateDispatcher(store, nil)
		subtasks := rapid.IntRange(1, 3).Draw(t, "subtasks")
		var results []*StateResult
		send := func(r *stateRequest) {
			if err := d.dispatch(r); err != nil {
				t.Fatal(err)
			}
		}
		for s := range int32(subtasks) {
			send(&stateRequest{kind: askRegister, subtask: s})
		}
		for s := range int32(subtasks) {
			results = append(results, newStateResult())
			send(&stateRequest{kind: askStart, id: 1, subtask: s, result: results[s]})
		}
		want := map[bool]map[string][]byte{false: {}, true: {}}
		for range rapid.IntRange(0, 20).Draw(t, "chunks") {
			s := int32(rapid.IntRange(0, subtasks-1).Draw(t, "subtask"))
			ch := StateChannel{int32(rapid.IntRange(0, 1).Draw(t, "owner")), int32(rapid.IntRange(0, 2).Draw(t, "index"))}
			output := rapid.Bool().Draw(t, "output")
			p := rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, "bytes")
			send(&stateRequest{kind: askWrite, id: 1, subtask: s, channel: ch, output: output, bufs: []segment.Buffer{dataBuf(p...)}})
			key := fmt.Sprintf("%d/%d.%d", s, ch.Owner, ch.Index)
			want[output][key] = append(want[output][key], p...)
		}
		for s := range int32(subtasks) {
			send(&stateRequest{kind: askComplete, id: 1, subtask: s})
			send(&stateRequest{kind: askComplete, id: 1, subtask: s, output: true})
		}
		var in, out []StateHandle
		for _, r := range results {
			i, o, err := r.Get()
			if err != nil {
				t.Fatal(err)
			}
			in, out = append(in, i...), append(out, o...)
		}
		for output, handles := range map[bool][]StateHandle{false: in, true: out} {
			c := &collect{size: rapid.IntRange(1, 50).Draw(t, "buffer"), got: map[string][]byte{}}
			if err := ReadChannelState(store, handles, c); err != nil {
				t.Fatal(err)
			}
			if len(c.got) != len(want[output]) || c.out != 0 {
				t.Fatalf("%d channels, want %d; %d buffers out", len(c.got), len(want[output]), c.out)
			}
			for key, p := range want[output] {
				if !bytes.Equal(c.got[key], p) {
					t.Fatalf("%s: %x, want %x", key, c.got[key], p)
				}
			}
		}
		for _, h := range append(in, out...) {
			if h.Stream.Path != "" {
				os.Remove(h.Stream.Path) // all share one
			}
		}
	})
}

// TestQuirk11BrokenState: every way in which a file or a handle can be broken is an error, with all buffers back. Flink
// takes a chunk that is cut short as whole, after spinning for a while.
func TestQuirk11BrokenState(t *testing.T) {
	blob := func(version, length uint32, p ...byte) []byte {
		b := binary.BigEndian.AppendUint32(nil, version)
		return append(binary.BigEndian.AppendUint32(b, length), p...)
	}
	for name, tc := range map[string]struct {
		data []byte
		at   int64
	}{
		"version":         {blob(1, 1, 7), 4},
		"no version":      {[]byte{0, 0}, 4},
		"negative length": {blob(0, 1<<31, 7), 4},
		"cut short":       {blob(0, 5, 1, 2), 4},
		"cut short, full": {blob(0, 5, 1, 2, 3, 4), 4},
		"empty":           {blob(0, 5), 4},
		"no length":       {blob(0, 5)[:6], 4},
		"offset":          {blob(0, 1, 7), 400},
		"negative offset": {blob(0, 1, 7), -3},
	} {
		c := &collect{size: 2, got: map[string][]byte{}}
		h := StateHandle{Offsets: []int64{tc.at}, Stream: StreamHandle{Data: tc.data}}
		err := ReadChannelState(&DirStore{}, []StateHandle{h}, c)
		if !errors.Is(err, ErrStateFile) {
			t.Errorf("%s: %v", name, err)
		}
		if strings.HasPrefix(name, "cut short") && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %v", name, err)
		}
	}
	h := StateHandle{Offsets: []int64{4}, Stream: StreamHandle{Data: blob(0, 1, 7)}}
	if err := ReadChannelState(&DirStore{}, []StateHandle{h, h}, &collect{size: 2, got: map[string][]byte{}}); !errors.Is(err, ErrState) {
		t.Errorf("duplicate: %v", err)
	}
	boom := errors.New("boom")
	if err := ReadChannelState(&DirStore{}, []StateHandle{h}, &collect{size: 2, got: map[string][]byte{}, fail: boom}); !errors.Is(err, boom) {
		t.Errorf("target: %v", err)
	}
	h.Stream = StreamHandle{Path: "/does/not/exist"}
	if err := ReadChannelState(&DirStore{}, []StateHandle{h}, &collect{size: 2}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// TestRecoveryMapping: an input channel must go to exactly one channel; a subpartition may go to several.
func TestRecoveryMapping(t *testing.T) {
	for _, output := range []bool{false, true} {
		for n := range 3 {
			var got []string
			r := &ChannelRecovery{Output: output,
				Map: func(StateChannel, int32) []StateChannel { return make([]StateChannel, n) },
				Deliver: func(ch StateChannel, b segment.Buffer) error {
					got = append(got, hex.EncodeToString(b.Bytes()))
					b.Release()
					return nil
				}}
			err := r.Recovered(StateChannel{0, 3}, 2, dataBuf(9))
			if !output && n != 1 {
				if !errors.Is(err, ErrState) || len(got) != 0 {
					t.Errorf("%d channels: %v, %v", n, err, got)
				}
				continue
			}
			check(t, err)
			want := "00000007" + "00000002" + "00000003"
			if output {
				want = "00000007" + "00000003" + "00000002"
			}
			if len(got) != 2*n || n > 0 && (got[0] != want || got[1] != "09") {
				t.Errorf("output %v, %d channels: %v", output, n, got)
			}
		}
	}
}
