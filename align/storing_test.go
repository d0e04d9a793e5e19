package align

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// listGate hands out a list of items in its order.
type listGate struct {
	channels int
	items    []credit.Item
	resumed  []int
	acked    []int
}

func (g *listGate) Channels() int { return g.channels }

func (g *listGate) Poll() (credit.Item, credit.Status, error) {
	if len(g.items) == 0 {
		return credit.Item{}, credit.End, nil
	}
	it := g.items[0]
	g.items = g.items[1:]
	return it, credit.Ready, nil
}

func (g *listGate) Resume(ch int) error { g.resumed = append(g.resumed, ch); return nil }
func (g *listGate) AckAll(ch int) error { g.acked = append(g.acked, ch); return nil }

func eventItem(ch int, e event.Event) credit.Item {
	return credit.Item{Channel: ch, Type: event.DataTypeOf(&e, false), Event: &e}
}

func barrierItem(ch int, id int64, o event.Options) credit.Item {
	return eventItem(ch, event.Event{Kind: event.CheckpointBarrier, Barrier: event.Barrier{ID: id, Options: o}})
}

func dataItem(ch, n, size int) credit.Item {
	p := make([]byte, size)
	p[0] = byte(n)
	return credit.Item{Channel: ch, Type: segment.DataBuffer, Buf: segment.Wrap(p, segment.DataBuffer)}
}

// parseItems reads "b 0 1, B 0 1, C 0 2, E 0".
func parseItems(t testing.TB, text string) []credit.Item {
	var items []credit.Item
	for _, f := range strings.Split(text, ", ") {
		w := strings.Fields(f)
		ch, err := strconv.Atoi(w[1])
		if err != nil {
			t.Fatal(text)
		}
		n := 0
		if len(w) > 2 {
			if n, err = strconv.Atoi(w[2]); err != nil {
				t.Fatal(text)
			}
		}
		switch w[0] {
		case "b":
			items = append(items, dataItem(ch, n, 10))
		case "B":
			items = append(items, barrierItem(ch, int64(n), kind("al")))
		case "C":
			items = append(items, eventItem(ch, event.Event{Kind: event.CancelCheckpoint, CheckpointID: int64(n)}))
		case "E":
			items = append(items, eventItem(ch, event.Event{Kind: event.EndOfPartition}))
		default:
			t.Fatal(text)
		}
	}
	return items
}

// oldTask prints as the recordings do.
type oldTask struct {
	noTask
	out *[]string
}

var oldCauses = map[Reason]string{
	ReasonSubsumed: "CheckpointDeclineSubsumedException", ReasonCancelled: "CheckpointDeclineOnCancellationBarrierException",
	ReasonEndOfStream: "InputEndOfStreamException", ReasonAlignmentLimit: "AlignmentLimitExceededException",
}

func (t oldTask) Trigger(b *event.Barrier, m Metrics) error {
	*t.out = append(*t.out, fmt.Sprintf("TRIGGER(%d)[buffered=%d]", b.ID, m.AlignmentBytes))
	return nil
}

func (t oldTask) Abort(id int64, cause *CheckpointError) error {
	*t.out = append(*t.out, fmt.Sprintf("ABORT(%d,%s)", id, oldCauses[cause.Reason]))
	return nil
}

// oldFixed lists the recordings that weir answers differently, on purpose.
var oldFixed = map[string]string{
	// Flink aborts the newer checkpoint twice and the older one never.
	"L5": "ABORT(1,CheckpointDeclineSubsumedException); ABORT(2,CheckpointDeclineOnCancellationBarrierException); emit(c0,b1); emit(c1,b2); emit(c0,b3); emit(c0,EndOfPartitionEvent); emit(c1,EndOfPartitionEvent); null(end)",
	// In Flink 1.8 a channel that ended makes all later checkpoints impossible.
	"LT4": "TRIGGER(1)[buffered=0]; emit(c1,EndOfPartitionEvent); TRIGGER(2)[buffered=0]; emit(c0,EndOfPartitionEvent); null(end)",
}

// TestStoringRecorded compares both stores and the counting input with what Flink 1.8.3 did.
func TestStoringRecorded(t *testing.T) {
	met := 0
	for _, s := range readRecorded(t, "storing.txt") {
		t.Run(strings.ReplaceAll(s.name, " ", "_"), func(t *testing.T) {
			id, _, _ := strings.Cut(s.name, " ")
			channels, _ := strconv.Atoi(s.cfg["channels"])
			limit, err := strconv.ParseInt(s.cfg["maxBufferedBytes"], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			cfg := StoringConfig{Limit: limit, PageSize: 100, Dirs: []string{dir}, Bounded: s.cfg["mode"] == "cached",
				Gate: &listGate{channels: channels, items: parseItems(t, s.inputs)}, Clock: func() Now { return Now{} }}
			if s.cfg["mode"] == "tracker" {
				cfg.Mode = AtLeastOnce
			}
			in, err := NewStoring(cfg)
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
					out = append(out, "null(end)")
					end = true
				case it.Event != nil:
					out = append(out, fmt.Sprintf("emit(c%d,%v)", it.Channel, it.Event.Kind))
				default:
					out = append(out, fmt.Sprintf("emit(c%d,b%d)", it.Channel, it.Buf.Bytes()[0]))
					it.Buf.Release()
				}
			}
			got, want := strings.Join(out, "; "), s.output
			if s.cfg["mode"] == "tracker" { // the old one did not measure
				got = regexp.MustCompile(`buffered=\d+`).ReplaceAllString(got, "buffered=0")
			}
			if f, ok := oldFixed[id]; ok {
				if f == want {
					t.Error("nothing to fix")
				}
				want = f
				met++
			}
			if got != want {
				t.Errorf("\nwant %s\ngot  %s", want, got)
			}
			if err := in.Close(); err != nil {
				t.Error(err)
			}
			if st, ok := in.(*Storing); ok && (st.queued != 0 || st.store.Bytes() != 0 || st.blocked.n != 0 || len(st.queue) != 0) {
				t.Errorf("not empty at the end: %+v", st)
			}
			if left, _ := os.ReadDir(dir); len(left) != 0 {
				t.Errorf("%d spill files are left", len(left))
			}
		})
	}
	if met != len(oldFixed) {
		t.Errorf("%d of %d deviations met", met, len(oldFixed))
	}
}

// TestStoringFactory compares the choice of the input with Flink 1.8.3, for all combinations, and an unknown mode.
func TestStoringFactory(t *testing.T) {
	f, err := os.Open("testdata/factory.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	for sc := bufio.NewScanner(f); sc.Scan(); {
		var limit int64
		var mode, bounded string
		if strings.HasPrefix(sc.Text(), "#") {
			continue
		}
		left, want, ok := strings.Cut(sc.Text(), " -> ")
		if _, err := fmt.Sscanf(left, "limit=%d mode=%s credit=%s", &limit, &mode, &bounded); err != nil || !ok {
			t.Fatalf("%q: %v", sc.Text(), err)
		}
		n++
		cfg := StoringConfig{Limit: limit, Bounded: bounded == "true", PageSize: 100, Gate: &listGate{channels: 2},
			Clock: func() Now { return Now{} }}
		if mode == "AT_LEAST_ONCE" {
			cfg.Mode = AtLeastOnce
		}
		in, err := NewStoring(cfg)
		got := ""
		switch in := in.(type) {
		case nil:
			if !errors.Is(err, ErrConfig) {
				t.Errorf("%s: %v", left, err)
			}
			_, text, _ := strings.Cut(err.Error(), "configuration: ")
			got = "IllegalConfigurationException: " + strings.TrimSuffix(text, fmt.Sprintf(", not %d", limit))
		case *Counting:
			got = "BarrierTracker "
		case *Storing:
			got = "BarrierBuffer CachedBufferBlocker"
			if _, ok := in.store.(*fileStore); ok {
				got = "BarrierBuffer BufferSpiller"
			}
		}
		if strings.TrimSpace(got) != strings.TrimSpace(want) {
			t.Errorf("%s: want %q, got %q", left, want, got)
		}
	}
	if n != 16 {
		t.Errorf("%d combinations, want 16", n)
	}
	_, err = NewStoring(StoringConfig{Mode: 7, Limit: -1, PageSize: 1, Gate: &listGate{}, Clock: func() Now { return Now{} }})
	if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "Mode(7)") {
		t.Errorf("unknown mode: %v", err)
	}
}
