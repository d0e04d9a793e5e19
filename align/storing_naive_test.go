package align

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/internal/modelrun"
	"github.com/weirflow/weir/serde/event"
)

// oldItem is an item for the naive twin of Storing, as parseItems reads it.
type oldItem struct {
	what byte // b, B, C, E
	ch   int
	n    int
}

func (it oldItem) String() string {
	if it.what == 'E' {
		return fmt.Sprintf("E %d", it.ch)
	}
	return fmt.Sprintf("%c %d %d", it.what, it.ch, it.n)
}

// naiveStoring is a dull twin of Storing: what is stored and replayed are lists of lists, the newest first.
type naiveStoring struct {
	out      []string
	cost     func(oldItem) int64 // what an item counts for in the store
	limit    int64
	total    int
	blocked  map[int]bool
	cur      int
	count    int // barriers of the running alignment
	ended    int
	stored   []oldItem
	replays  [][]oldItem // what is left of each; the first is being read
	sizes    []int64     // of each, as a whole
	gate     []oldItem
	gateDone bool
	nested   int // the most replays at one time
}

func (s *naiveStoring) say(format string, args ...any) {
	s.out = append(s.out, fmt.Sprintf(format, args...))
}

func (s *naiveStoring) size() (n int64) {
	for _, it := range s.stored {
		n += s.cost(it)
	}
	return n
}

func (s *naiveStoring) release() {
	s.blocked, s.count = map[int]bool{}, 0
	if len(s.stored) > 0 {
		s.replays = slices.Insert(s.replays, 0, s.stored)
		s.sizes = slices.Insert(s.sizes, 0, s.size())
		s.nested = max(s.nested, len(s.replays))
		s.stored = nil
	}
}

func (s *naiveStoring) trigger(id int) {
	buffered := int64(0)
	if len(s.sizes) > 0 {
		buffered = s.sizes[0]
	}
	s.say("TRIGGER(%d)[buffered=%d]", id, buffered)
}

func (s *naiveStoring) abort(id int, why Reason) { s.say("ABORT(%d,%s)", id, oldCauses[why]) }

// run takes everything to the end.
func (s *naiveStoring) run() {
	s.blocked, s.cur = map[int]bool{}, -1
	for {
		var it oldItem
		switch {
		case len(s.replays) > 0 && len(s.replays[0]) == 0:
			s.replays, s.sizes = s.replays[1:], s.sizes[1:]
			continue
		case len(s.replays) > 0:
			it, s.replays[0] = s.replays[0][0], s.replays[0][1:]
		case len(s.gate) > 0:
			it, s.gate = s.gate[0], s.gate[1:]
		case !s.gateDone:
			s.gateDone = true
			s.release()
			continue
		default:
			return
		}
		if s.blocked[it.ch] {
			s.stored = append(s.stored, it)
			queued := int64(0)
			for _, n := range s.sizes[min(1, len(s.sizes)):] {
				queued += n
			}
			if s.limit > 0 && queued+s.size() > s.limit {
				id := s.cur
				s.release()
				s.abort(id, ReasonAlignmentLimit)
			}
			continue
		}
		s.take(it)
	}
}

func (s *naiveStoring) take(it oldItem) {
	switch it.what {
	case 'b':
		s.say("b %d %d", it.ch, it.n)
	case 'E':
		s.ended++
		if s.count > 0 {
			s.abort(s.cur, ReasonEndOfStream)
			s.release()
		}
		s.say("E %d", it.ch)
	case 'C':
		s.cancel(it.n)
	case 'B':
		if !s.gateDone {
			s.barrier(it.ch, it.n)
		}
	}
}

func (s *naiveStoring) barrier(ch, id int) {
	switch {
	case s.total == 1:
		if id > s.cur {
			s.cur = id
			s.trigger(id)
		}
		return
	case id < s.cur, id == s.cur && s.count == 0:
		return
	case id > s.cur:
		if s.count > 0 {
			s.abort(s.cur, ReasonSubsumed)
			s.release()
		}
		s.cur = id
	}
	s.blocked[ch] = true
	s.count++
	if s.count+s.ended == s.total {
		s.release()
		s.trigger(id)
	}
}

func (s *naiveStoring) cancel(id int) {
	switch {
	case id < s.cur, id == s.cur && s.count == 0:
		return
	case s.count > 0 && id > s.cur:
		old := s.cur
		s.release()
		s.abort(old, ReasonSubsumed)
	case s.count > 0:
		s.release()
	}
	s.cur = id
	s.abort(id, ReasonCancelled)
}

// TestModelOfStoring walks both stores at random, with and without limits, beside a naive twin which counts in their way:
// what is handed out, triggered and aborted, and the bytes that are reported, must agree, and nothing be left. Each
// channel's items come in their order, each once. make model STEPS=1000000 goes on for longer.
func TestModelOfStoring(t *testing.T) {
	for _, store := range []string{"memory", "file"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			want, steps := modelrun.Steps(t, 20000), 0
			met := modelrun.Exposure{}
			for seed := modelrun.Seed(t); steps < want; seed++ {
				rng := rand.New(rand.NewPCG(seed, 14))
				items := randomStored(rng)
				limit := []int64{-1, -1, 57, 133, 400}[rng.IntN(5)]
				steps += len(items)
				met["streams"]++
				storeOne(t, store == "memory", dir, limit, items, met)
				if t.Failed() {
					t.Fatalf("seed %d, limit %d: %v", seed, limit, items)
				}
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
				t.Errorf("%d spill files are left, %v", len(left), err)
			}
			met.Report(t, store, steps, "completed", "aborted SUBSUMED", "aborted ON_CANCELLATION_BARRIER", "aborted INPUT_END_OF_STREAM",
				"aborted ALIGNMENT_LIMIT_EXCEEDED", "stored bytes", "nested replays", "ends")
		})
	}
}

// randomStored makes the items of a gate.
func randomStored(rng *rand.Rand) []oldItem {
	n := 1 + rng.IntN(5)
	items := []oldItem{{'b', n - 1, 0}} // so that all channels are there
	next := make([]int, n)
	ended := make([]bool, n)
	for range rng.IntN(120) {
		ch := rng.IntN(n)
		if ended[ch] {
			continue
		}
		switch rng.IntN(12) {
		case 0, 1, 2:
			next[ch] += []int{1, 1, 1, 1, 2, 0}[rng.IntN(6)]
			items = append(items, oldItem{'B', ch, next[ch]})
		case 3:
			if rng.IntN(3) == 0 {
				next[ch]++
				items = append(items, oldItem{'C', ch, next[ch]})
			}
		case 4:
			if rng.IntN(6) == 0 {
				ended[ch] = true
				items = append(items, oldItem{'E', ch, 0})
			}
		default:
			items = append(items, oldItem{'b', ch, len(items)})
		}
	}
	return items
}

// storeOne compares one stream.
func storeOne(t *testing.T, bounded bool, dir string, limit int64, items []oldItem, met modelrun.Exposure) {
	t.Helper()
	channels := 0
	texts := make([]string, len(items))
	for i, it := range items {
		channels = max(channels, it.ch+1)
		texts[i] = it.String()
	}
	twin := &naiveStoring{limit: limit, total: channels, gate: slices.Clone(items), cost: func(oldItem) int64 { return 19 }}
	if !bounded {
		twin.cost = func(it oldItem) int64 {
			switch it.what {
			case 'b':
				return 9 + 10
			case 'B':
				return 9 + 34
			case 'C':
				return 9 + 12
			}
			return 9 + 4
		}
	}
	twin.run()
	var out []string
	in, err := NewStoring(StoringConfig{Limit: limit, PageSize: 100, Dirs: []string{dir}, Bounded: bounded,
		Gate: &listGate{channels: channels, items: parseItems(t, strings.Join(texts, ", "))}, Clock: func() Now { return Now{} }})
	check(t, err)
	s := in.(*Storing)
	if bounded {
		s.store, err = NewMemoryStore(19)
	}
	check(t, err, in.Register(oldTask{out: &out}))
	for {
		it, st, err := in.Poll()
		if err != nil {
			t.Fatal(err)
		}
		if st == credit.End {
			break
		}
		if it.Event == nil {
			out = append(out, fmt.Sprintf("b %d %d", it.Channel, it.Buf.Bytes()[0]))
			it.Buf.Release()
		} else if it.Event.Kind == event.EndOfPartition {
			out = append(out, fmt.Sprintf("E %d", it.Channel))
		}
		if s.queued < 0 || s.store.Bytes() < 0 {
			t.Errorf("%d bytes queued, %d stored", s.queued, s.store.Bytes())
		}
	}
	if s.queued != 0 || s.replay != nil || len(s.queue) != 0 || s.store.Bytes() != 0 || s.blocked.n != 0 {
		t.Errorf("not empty at the end: %+v", s)
	}
	check(t, in.Close())
	if !slices.Equal(out, twin.out) {
		t.Errorf("\nthe twin %v\ngot      %v", twin.out, out)
	}
	inOrder(t, texts, out)
	for _, l := range out {
		var id, bytes int
		var cause string
		switch _, err := fmt.Sscanf(l, "TRIGGER(%d)[buffered=%d]", &id, &bytes); {
		case err == nil:
			met["completed"]++
			met["stored bytes"] += bytes
		case strings.HasPrefix(l, "ABORT"):
			_, cause, _ = strings.Cut(strings.TrimSuffix(l, ")"), ",")
			for why, name := range oldCauses {
				if name == cause {
					met["aborted "+strings.TrimPrefix(why.String(), "CHECKPOINT_DECLINED_")]++
				}
			}
		case l[0] == 'E':
			met["ends"]++
		}
	}
	if twin.nested > 1 {
		met["nested replays"]++
	}
}

// inOrder checks that each channel's data and end were handed out as they came.
func inOrder(t *testing.T, sent, got []string) {
	t.Helper()
	of := func(lines []string, ch int) (mine []string) {
		for _, l := range lines {
			if (l[0] == 'b' || l[0] == 'E') && l[2] == byte('0'+ch) {
				mine = append(mine, l)
			}
		}
		return mine
	}
	for ch := range 5 {
		if a, b := of(sent, ch), of(got, ch); !slices.Equal(a, b) {
			t.Errorf("channel %d: sent %v, got %v", ch, a, b)
		}
	}
}
