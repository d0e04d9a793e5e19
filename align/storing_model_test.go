package align

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/internal/modelrun"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
	"pgregory.net/rapid"
)

// TestStoringModel: whatever comes in whatever order, each channel's items are handed out in their order, each once; no
// record is handed out between its barrier and the end of the checkpoint; the file store does what the memory store does;
// nothing is left at the end (I17, I18).
func TestStoringModel(t *testing.T) {
	dir := t.TempDir()
	triggers, limits := 0, 0
	modelrun.Rounds(t, func(int) bool { // a hundred histories may miss something rare
		rapid.Check(t, func(t *rapid.T) { storingHistory(t, dir, &triggers, &limits) })
		return triggers >= 20 && limits > 0
	})
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("%d spill files are left", len(left))
	}
	t.Logf("%d triggers, %d limits", triggers, limits)
}

// storingHistory checks one random history, and adds what it met to triggers and limits.
func storingHistory(t *rapid.T, dir string, triggers, limits *int) {
	n := rapid.IntRange(2, 4).Draw(t, "channels")
	limit := rapid.SampledFrom([]int64{-1, -1, 57, 133}).Draw(t, "limit")
	var items []string
	next := make([]int, n)
	ended := make([]bool, n)
	for range rapid.IntRange(0, 60).Draw(t, "items") {
		ch := rapid.IntRange(0, n-1).Draw(t, "channel")
		if ended[ch] {
			continue
		}
		switch rapid.IntRange(0, 9).Draw(t, "what") {
		case 0, 1, 2:
			next[ch] += rapid.SampledFrom([]int{1, 1, 1, 2}).Draw(t, "step")
			items = append(items, fmt.Sprintf("B %d %d", ch, next[ch]))
		case 3:
			next[ch]++
			items = append(items, fmt.Sprintf("C %d %d", ch, next[ch]))
		case 4:
			if rapid.IntRange(0, 4).Draw(t, "end") == 0 {
				ended[ch] = true
				items = append(items, fmt.Sprintf("E %d", ch))
			}
		default:
			items = append(items, fmt.Sprintf("b %d %d", ch, len(items)))
		}
	}
	if len(items) == 0 {
		return
	}
	// In pages of 19 bytes, which are what 10 bytes with their header count for in a file, both stores count alike, unless
	// an event is stored. So limits are tried on each by itself.
	var outs [2][]string
	for i, bounded := range []bool{true, false} {
		gate := &listGate{channels: n, items: parseItems(nil, strings.Join(items, ", "))}
		in, err := NewStoring(StoringConfig{Limit: limit, PageSize: 19, Dirs: []string{dir}, Bounded: bounded, Gate: gate,
			Clock: func() Now { return Now{} }})
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		if err := in.Register(oldTask{out: &out}); err != nil {
			t.Fatal(err)
		}
		for end := false; !end; {
			it, st, err := in.Poll()
			switch {
			case err != nil:
				t.Fatal(err)
			case st == credit.End:
				end = true
			case it.Event != nil:
				out = append(out, fmt.Sprintf("E %d", it.Channel))
			default:
				out = append(out, fmt.Sprintf("b %d %d", it.Channel, it.Buf.Bytes()[0]))
				it.Buf.Release()
			}
		}
		s := in.(*Storing)
		if s.queued != 0 || s.replay != nil || len(s.queue) != 0 || s.store.Bytes() != 0 || s.blocked.n != 0 {
			t.Fatalf("not empty at the end: %+v", s)
		}
		if err := in.Close(); err != nil {
			t.Fatal(err)
		}
		for ch := range n {
			mine := func(l string) bool {
				return !strings.HasPrefix(l[1:], fmt.Sprintf(" %d", ch)) || l[0] != 'b' && l[0] != 'E'
			}
			sent, got := slices.DeleteFunc(slices.Clone(items), mine), slices.DeleteFunc(slices.Clone(out), mine)
			if !slices.Equal(sent, got) {
				t.Fatalf("%v\nchannel %d: sent %v, got %v", items, ch, sent, got)
			}
		}
		last := 0
		for _, l := range out {
			var id int
			if _, err := fmt.Sscanf(l, "TRIGGER(%d)", &id); err == nil {
				*triggers++
				if id <= last {
					t.Fatalf("%v: trigger %d after %d", items, id, last)
				}
				last = id
			}
			if strings.Contains(l, "Limit") {
				*limits++
			}
		}
		outs[i] = out
	}
	strip := func(out []string) []string { // the stores count differently
		for i := range out {
			out[i], _, _ = strings.Cut(out[i], "[")
		}
		return out
	}
	if limit < 0 && !slices.Equal(strip(outs[0]), strip(outs[1])) {
		t.Fatalf("%v\nmemory %v\nfile   %v", items, outs[0], outs[1])
	}
}

// TestQuirk7CancelOfNewer: the older checkpoint is aborted as subsumed, the newer one as cancelled; see L5 in
// TestStoringRecorded.
func TestQuirk7CancelOfNewer(t *testing.T) {
	var out []string
	in, err := NewStoring(StoringConfig{Limit: -1, PageSize: 100, Bounded: true, Clock: func() Now { return Now{} },
		Gate: &listGate{channels: 2, items: parseItems(t, "B 0 1, C 1 2")}})
	check(t, err, in.Register(oldTask{out: &out}))
	if _, st, err := in.Poll(); st != credit.End || err != nil {
		t.Errorf("%v, %v", st, err)
	}
	if got := strings.Join(out, " "); got != "ABORT(1,CheckpointDeclineSubsumedException) ABORT(2,CheckpointDeclineOnCancellationBarrierException)" {
		t.Errorf("got %s", got)
	}
}

// TestStoringAnswersSenders: a sender that stops at a barrier is let go at once, stored or not, and each end of data is
// acknowledged when it is taken.
func TestStoringAnswersSenders(t *testing.T) {
	eod := eventItem(0, event.Event{Kind: event.EndOfData})
	announcement := eventItem(1, event.Event{Kind: event.Announcement, Announced: barrierItem(1, 9, kind("to100")).Event})
	for _, mode := range []Mode{ExactlyOnce, AtLeastOnce} {
		gate := &listGate{channels: 2, items: []credit.Item{barrierItem(0, 1, kind("al")), barrierItem(0, 2, kind("al")), eod,
			announcement, barrierItem(1, 1, kind("al"))}}
		in, err := NewStoring(StoringConfig{Mode: mode, Limit: -1, PageSize: 100, Bounded: true, Gate: gate, Clock: func() Now { return Now{} }})
		check(t, err)
		kinds := ""
		for {
			it, st, err := in.Poll()
			check(t, err)
			if st == credit.End {
				break
			}
			if it.Event.Kind != event.Announcement {
				kinds += it.Event.Kind.String()
			}
		}
		if !slices.Equal(gate.resumed, []int{0, 0, 1}) || !slices.Equal(gate.acked, []int{0}) || kinds != "EndOfData" {
			t.Errorf("%v: resumed %v, acknowledged %v, handed out %s", mode, gate.resumed, gate.acked, kinds)
		}
		check(t, in.Register(noTask{}), in.Close())
	}
}

// TestStoringErrors: wrong input, a second task, and failures of the task and the store reach the caller.
func TestStoringErrors(t *testing.T) {
	boom := errors.New("boom")
	newStoring := func(items ...credit.Item) *Storing {
		in, err := NewStoring(StoringConfig{Limit: -1, PageSize: 100, Bounded: true, Gate: &listGate{channels: 2, items: items},
			Clock: func() Now { return Now{} }})
		check(t, err)
		return in.(*Storing)
	}
	for name, s := range map[string]*Storing{
		"unaligned":       newStoring(barrierItem(0, 1, kind("un"))),
		"unknown channel": newStoring(barrierItem(2, 1, kind("al"))),
	} {
		if _, _, err := s.Poll(); !errors.Is(err, ErrState) && !errors.Is(err, ErrUnknownChannel) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, p := range []Poller{newStoring(), newCounting(StoringConfig{Gate: &listGate{channels: 1}})} {
		check(t, p.Register(&failing{}))
		if err := p.Register(&failing{}); !errors.Is(err, ErrState) {
			t.Errorf("second task: %v", err)
		}
	}
	for method, items := range map[string][]credit.Item{
		"trigger": {barrierItem(0, 1, kind("al")), barrierItem(1, 1, kind("al"))},
		"abort":   {eventItem(0, event.Event{Kind: event.CancelCheckpoint, CheckpointID: 3})},
	} {
		s := newStoring(items...)
		check(t, s.Register(failing{method: method, err: boom}))
		if _, _, err := s.Poll(); !errors.Is(err, boom) {
			t.Errorf("%s: %v", method, err)
		}
	}
	// The repeated barrier that a blocked channel cannot bring.
	s := newStoring()
	b := barrierItem(0, 1, kind("al")).Event.Barrier
	check(t, s.barrier(0, &b))
	if err := s.barrier(0, &b); !errors.Is(err, ErrState) || !strings.Contains(err.Error(), "stream corrupt") {
		t.Errorf("repeated: %v", err)
	}
	for _, cfg := range []StoringConfig{{Limit: -1, PageSize: 1}, {Limit: -1, PageSize: 0, Bounded: true, Gate: &listGate{}, Clock: func() Now { return Now{} }},
		{Limit: -1, PageSize: -1, Gate: &listGate{}, Clock: func() Now { return Now{} }}} {
		if _, err := NewStoring(cfg); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

// TestStoringCloses: whatever is stored or half replayed goes back.
func TestStoringCloses(t *testing.T) {
	for _, bounded := range []bool{true, false} {
		for polls := range 5 {
			dir := t.TempDir()
			pool, err := segment.NewPool(segment.Config{SegmentSize: 4096, Segments: 8})
			check(t, err)
			local, err := pool.NewLocal(segment.LocalConfig{Required: 8, Max: 8})
			check(t, err)
			item := func(ch int) credit.Item {
				b, ok := local.Take()
				if !ok {
					t.Fatal("no segment")
				}
				return credit.Item{Channel: ch, Type: segment.DataBuffer, Buf: b.Resized(10)}
			}
			gate := &listGate{channels: 2, items: []credit.Item{barrierItem(0, 1, kind("al")), item(0), item(0),
				barrierItem(0, 2, kind("al")), item(0), item(1), barrierItem(1, 1, kind("al")), item(1)}}
			in, err := NewStoring(StoringConfig{Limit: -1, PageSize: 4096, Bounded: bounded, Dirs: []string{dir}, Gate: gate,
				Clock: func() Now { return Now{} }})
			check(t, err)
			for range polls {
				it, _, err := in.Poll()
				check(t, err)
				it.Buf.Release()
			}
			for _, it := range gate.items { // what the gate still has is the gate's
				it.Buf.Release()
			}
			check(t, in.Close())
			local.Close()
			if err := pool.Close(); err != nil {
				t.Errorf("bounded %v, %d polls: %v", bounded, polls, err)
			}
			if left, _ := os.ReadDir(dir); len(left) != 0 {
				t.Errorf("%d files are left", len(left))
			}
		}
	}
}

// TestSpillFile: a record as Flink 1.8 writes it, and every way in which a file can be broken.
func TestSpillFile(t *testing.T) {
	dir := t.TempDir()
	s, err := NewFileStore(100, dir)
	check(t, err)
	check(t, s.Add(3, dataBuf(1, 2)), s.Add(1, segment.Wrap([]byte{0, 0, 0, 0}, segment.EndOfPartition)),
		s.Add(2, segment.Wrap([]byte{9}, segment.DataBufferWithClearEnd)))
	if s.Bytes() != 3*9+2+4+1 {
		t.Errorf("%d bytes", s.Bytes())
	}
	seq, err := s.RollOver(true)
	check(t, err)
	files, err := filepath.Glob(filepath.Join(dir, "*.0.buffer"))
	if err != nil || len(files) != 1 || len(filepath.Base(files[0])) != 64+len(".0.buffer") {
		t.Fatalf("files %v, %v", files, err)
	}
	good, err := os.ReadFile(files[0])
	check(t, err)
	want := []byte{3, 0, 0, 0, 2, 0, 0, 0, 0, 1, 2, 1, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 9}
	if !bytes.Equal(good, want) {
		t.Errorf("\nwant %x\ngot  %x", want, good)
	}
	check(t, seq.Open())
	for _, w := range []segment.DataType{segment.DataBuffer, segment.EventBuffer, segment.DataBufferWithClearEnd} {
		if _, b, ok, err := seq.Next(); !ok || err != nil || b.Type() != w {
			t.Errorf("%v %v %v", ok, err, b.Type())
		}
	}
	if _, _, ok, err := seq.Next(); ok || err != nil {
		t.Errorf("at the end: %v %v", ok, err)
	}
	check(t, seq.Close(), s.Close())

	for name, p := range map[string][]byte{
		"cut header": good[:5], "cut payload": good[:10], "cut between": good[:11],
		"negative": binary.LittleEndian.AppendUint32(make([]byte, 4), 1<<31),
		"too long": binary.LittleEndian.AppendUint32(make([]byte, 4), 101),
		"kind":     {0, 0, 0, 0, 0, 0, 0, 0, 7},
	} {
		for len(p) < 9 && strings.HasPrefix(name, "n") || len(p) < 9 && name == "too long" {
			p = append(p, 0)
		}
		path := filepath.Join(dir, "broken")
		check(t, os.WriteFile(path, p, 0o600))
		f, err := os.Open(path)
		check(t, err)
		seq := &fileSequence{file: f, size: 35, left: 35, page: 100}
		check(t, seq.Open())
		for err == nil {
			var ok bool
			if _, _, ok, err = seq.Next(); !ok && err == nil {
				t.Errorf("%s: no error", name)
				break
			}
		}
		check(t, seq.Close())
	}
	if _, err := NewFileStore(100, filepath.Join(dir, "none")); err != nil {
		t.Error(err)
	}
	bad, _ := NewFileStore(100, filepath.Join(dir, "none"))
	if err := bad.Add(0, dataBuf(1)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

// TestNestedReplays: what is stored during a replay comes before the rest of it, twice over, and is counted meanwhile.
func TestNestedReplays(t *testing.T) {
	for _, bounded := range []bool{true, false} {
		var out []string
		in, err := NewStoring(StoringConfig{Limit: -1, PageSize: 100, Dirs: []string{t.TempDir()}, Bounded: bounded,
			Clock: func() Now { return Now{} }, Gate: &listGate{channels: 4, items: parseItems(t,
				"B 0 1, B 1 1, B 2 1, B 0 2, B 1 2, B 0 3, b 0 1, C 1 3, b 1 2, C 2 2, b 2 3, B 3 1, b 3 4")}})
		check(t, err, in.Register(oldTask{out: &out}))
		s := in.(*Storing)
		most := int64(0)
		for {
			it, st, err := in.Poll()
			if check(t, err); st == credit.End {
				break
			}
			out = append(out, fmt.Sprintf("b%d", it.Buf.Bytes()[0]))
			it.Buf.Release()
			most = max(most, s.queued)
			if s.queued < 0 {
				t.Fatalf("%d bytes queued", s.queued)
			}
		}
		for i := range out {
			out[i], _, _ = strings.Cut(out[i], "[")
		}
		want := "TRIGGER(1) ABORT(2,CheckpointDeclineOnCancellationBarrierException) ABORT(3,CheckpointDeclineOnCancellationBarrierException) b1 b2 b3 b4"
		if got := strings.Join(out, " "); got != want {
			t.Errorf("\nwant %s\ngot  %s", want, got)
		}
		if s.queued != 0 || bounded && most != 400+800 {
			t.Errorf("queued %d, at most %d", s.queued, most)
		}
		check(t, in.Close())
	}
}

// TestLimitCountsWhatWaits: what waits to be replayed counts against the limit. The items are those of TestNestedReplays, where 800
// bytes wait when the next 100 are stored.
func TestLimitCountsWhatWaits(t *testing.T) {
	var out []string
	in, err := NewStoring(StoringConfig{Limit: 850, PageSize: 100, Bounded: true,
		Clock: func() Now { return Now{} }, Gate: &listGate{channels: 4, items: parseItems(t,
			"B 0 1, B 1 1, B 2 1, B 0 2, B 1 2, B 0 3, b 0 1, C 1 3, b 1 2, C 2 2, b 2 3, B 3 1, b 3 4")}})
	check(t, err, in.Register(oldTask{out: &out}))
	for {
		it, st, err := in.Poll()
		if check(t, err); st == credit.End {
			break
		}
		it.Buf.Release()
	}
	limited := slices.ContainsFunc(out, func(s string) bool {
		return strings.HasPrefix(s, "ABORT(3,AlignmentLimitExceededException")
	})
	if !limited {
		t.Errorf("checkpoint 3 was not given up: %q", out)
	}
	check(t, in.Close())
}
