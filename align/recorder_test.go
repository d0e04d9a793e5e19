package align

import (
	"bufio"
	"fmt"
	"os"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/serde/event"
)

// recorder is the inputs, the task and the timers of a handler under test; it writes down what it is told.
type recorder struct {
	out       []string
	channels  Channels
	failStart int // gate whose next CheckpointStarted refuses, -1: none
	timer     int64
	due       int64
	set       bool
	now       Now
	failTask  error
}

func (r *recorder) say(format string, args ...any) {
	r.out = append(r.out, fmt.Sprintf(format, args...))
}

func (r *recorder) take() []string {
	out := r.out
	r.out = nil
	return out
}

func (r *recorder) Set(id, delay int64) {
	r.say("timer+(%dms)", delay)
	if r.set {
		r.say("SECOND TIMER")
	}
	r.set, r.timer, r.due = true, id, r.now.Millis+delay
}

func (r *recorder) Cancel(id int64) { r.say("timer-cancel"); r.set = false }

func name(o event.Options) string {
	s := o.Alignment.String()
	if o.IsTimeoutable() {
		s += ",timeoutable"
	}
	return s
}

func (r *recorder) Init(b *event.Barrier) error {
	r.say("initInputs(%d,%s)", b.ID, name(b.Options))
	return nil
}

func (r *recorder) Trigger(b *event.Barrier, m Metrics) error {
	nums := fmt.Sprintf("align=%dms,bytes=%d", m.AlignmentNanos/1e6, m.AlignmentBytes)
	if !m.Known {
		nums = "align=open,bytes=open"
	}
	r.say("TRIGGER(%d,%v)[%s,delay=%dms]", b.ID, b.Options.Alignment, nums, m.StartDelayNanos/1e6)
	return r.failTask
}

func (r *recorder) Abort(id int64, cause *CheckpointError) error {
	r.say("ABORT(%d,%v)", id, cause.Reason)
	return r.failTask
}

func (r *recorder) Measured(id int64, m Metrics) {
	r.say("measured(%d,%d,%d)", id, m.AlignmentNanos, m.AlignmentBytes)
}
func (r *recorder) Complete(id int64)                           { r.say("complete(%d)", id) }
func (r *recorder) Incomplete(id int64, cause *CheckpointError) { r.say("incomplete(%d)", id) }

type recorderGate struct {
	r *recorder
	g int
}

func (in recorderGate) Block(ch int) error  { in.r.say("block(%d.%d)", in.g, ch); return nil }
func (in recorderGate) Resume(ch int) error { in.r.say("resume(%d.%d)", in.g, ch); return nil }
func (in recorderGate) Prioritize(ch int, seq int32) error {
	in.r.say("prioritize(%d.%d,seq=%d)", in.g, ch, seq)
	return nil
}
func (in recorderGate) CheckpointStarted(ch int, b *event.Barrier) error {
	if ch == 0 {
		in.r.say("started(g%d,%d)", in.g, b.ID)
		if in.r.failStart == in.g {
			in.r.failStart = -1
			return fmt.Errorf("channel 0: %w", credit.ErrSubsumed)
		}
	}
	return nil
}
func (in recorderGate) CheckpointStopped(ch int, id int64) error {
	if ch == 0 {
		in.r.say("stopped(g%d,%d)", in.g, id)
	}
	return nil
}

// newRecorded makes a handler over recorders; counts are the channels of each gate.
func newRecorded(t testing.TB, cfg Config, counts ...int) (Handler, *recorder) {
	t.Helper()
	r := &recorder{failStart: -1}
	r.channels, _ = NewChannels(counts...)
	for g := range counts {
		cfg.Inputs = append(cfg.Inputs, recorderGate{r, g})
	}
	cfg.Counts, cfg.Task, cfg.Timers = counts, r, r
	h, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return h, r
}

// clock moves the clock, and with fire lets the timer fire if it is due.
func (r *recorder) clock(h Handler, ms int64, fire bool) error {
	r.now.Millis += ms
	r.now.Nanos += ms * 1e6
	if fire && r.set && r.due <= r.now.Millis {
		r.set = false
		r.say("timer-fire")
		return h.Timeout(r.timer, r.now)
	}
	return nil
}

// kind parses al, un, alo, sp, fa, toN.
func kind(s string) event.Options {
	o := event.Options{Alignment: event.Aligned, Timeout: event.NoTimeout}
	switch {
	case s == "alo":
		o.Alignment = event.AtLeastOnce
	case s == "un":
		o.Alignment = event.Unaligned
	case s == "fa":
		o.Alignment = event.ForcedAligned
	case s == "sp":
		o.Snapshot = event.Savepoint
	case strings.HasPrefix(s, "to"):
		o.Timeout, _ = strconv.ParseInt(s[2:], 10, 64)
	}
	return o
}

// do runs one op of the recorded scenarios.
func (r *recorder) do(h Handler, op string) error {
	w := strings.Fields(op)
	num := func(i int) int64 {
		n, err := strconv.ParseInt(w[i], 10, 64)
		if err != nil {
			panic(op)
		}
		return n
	}
	ch := func(i int) int {
		gate, channel, ok := strings.Cut(w[i], ".")
		if !ok {
			gate, channel = "0", gate
		}
		g, _ := strconv.Atoi(gate)
		c, _ := strconv.Atoi(channel)
		flat, err := r.channels.Flat(g, c)
		if err != nil {
			panic(op)
		}
		return flat
	}
	switch w[0] {
	case "B", "RPC":
		b := event.Barrier{ID: num(2), Options: kind(w[3])}
		if len(w) > 4 {
			b.Timestamp = num(4)
		}
		return h.Barrier(ch(1), &b, w[0] == "RPC", r.now)
	case "A":
		b := event.Barrier{ID: num(2), Options: kind(w[4])}
		return h.Announcement(ch(1), &b, int32(num(3)), r.now)
	case "C":
		return h.Cancel(ch(1), num(2), r.now)
	case "E":
		return h.EndOfPartition(ch(1), r.now)
	case "D":
		h.AddBytes(int(num(1)))
	case "t":
		return r.clock(h, num(1), false)
	case "T":
		return r.clock(h, num(1), true)
	case "FAILSTART":
		r.failStart = int(num(1))
	case "FUT":
		p, err := h.AllReceived(num(1))
		if err == nil {
			r.say("future=%s", map[Progress]string{Done: "done", Waiting: "open", GivenUp: "failed"}[p])
		}
		return err
	case "DUR":
		r.say("alignNow=%dms", h.AlignmentNanos(r.now)/1e6)
	case "CLOSE":
		h.Close()
	default:
		panic(op)
	}
	return nil
}

// describe is the state in the words of the recordings.
func describe(h Handler) string {
	switch h := h.(type) {
	case *Tracker:
		ids := []string{}
		for _, c := range h.pending {
			ids = append(ids, strconv.FormatInt(c.id, 10))
		}
		if len(ids) > 10 {
			ids = []string{ids[0] + ".." + ids[len(ids)-1]}
		}
		return fmt.Sprintf("{pending=[%s] open=%d}", strings.Join(ids, ", "), h.open)
	case *Aligner:
		class := [...]string{"WaitingForFirstBarrier", "CollectingBarriers", "AlternatingWaitingForFirstBarrier",
			"AlternatingCollectingBarriers", "AlternatingWaitingForFirstBarrierUnaligned",
			"AlternatingCollectingBarriersUnaligned"}[h.state]
		return fmt.Sprintf("{%s cur=%d pend=%v}", class, h.current, h.Pending())
	}
	return "?"
}

type recorded struct {
	name   string
	cfg    map[string]string
	steps  []recordedStep
	inputs string // storing.txt
	output string
}

type recordedStep struct {
	line           int
	op, out, state string
}

// readRecorded parses a file of testdata.
func readRecorded(t testing.TB, file string) []*recorded {
	t.Helper()
	f, err := os.Open("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []*recorded
	sc := bufio.NewScanner(f)
	for line := 1; sc.Scan(); line++ {
		text := sc.Text()
		switch {
		case strings.HasPrefix(text, "#"):
		case strings.HasPrefix(text, "--- "):
			all = append(all, &recorded{name: text[4:], cfg: map[string]string{}})
		case strings.HasPrefix(text, "cfg "):
			for _, kv := range strings.Fields(text[4:]) {
				k, v, _ := strings.Cut(kv, "=")
				all[len(all)-1].cfg[k] = v
			}
		case strings.HasPrefix(text, "in "):
			all[len(all)-1].inputs = text[3:]
		case strings.HasPrefix(text, "out "):
			all[len(all)-1].output = text[4:]
		default:
			op, res, ok := strings.Cut(text, " -> ")
			if !ok {
				t.Fatalf("%s:%d: %q", file, line, text)
			}
			out, state, _ := strings.Cut(res, "   ")
			s := all[len(all)-1]
			s.steps = append(s.steps, recordedStep{line, op, out, state})
		}
	}
	if len(all) == 0 {
		t.Fatalf("%s has no scenario", file)
	}
	return all
}

var resumes = regexp.MustCompile(`(resume\([0-9.]+\)(; )?)+`)

// asSet sorts each run of resumes: Flink resumes in the order of a hash set.
func asSet(s string) string {
	return resumes.ReplaceAllStringFunc(s, func(run string) string {
		parts := strings.Split(strings.TrimSuffix(run, "; "), "; ")
		sort.Strings(parts)
		tail := ""
		if strings.HasSuffix(run, "; ") {
			tail = "; "
		}
		return strings.Join(parts, "; ") + tail
	})
}
