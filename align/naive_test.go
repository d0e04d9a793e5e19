package align

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/weirflow/weir/internal/modelrun"
	"github.com/weirflow/weir/serde/event"
	"pgregory.net/rapid"
)

// naive is a second, deliberately dull implementation of the exactly-once handlers for one gate: maps and plain ifs
// that follow the prose of the rules. There is no table and no state but what the prose mentions.
type naive struct {
	mode      Unaligned
	stopAtEnd bool
	out       []string

	id, done  int64
	first     event.Barrier // what began the checkpoint
	seen      map[int]bool
	target    int
	open      int
	blocked   map[int]bool
	announced map[int]int32
	some      bool // a barrier was collected
	turned    bool // the checkpoint turned unaligned
	triggered bool
	gone      map[int]bool
	timer     int64 // 0: none
	live      bool  // somebody waits for the barriers
}

func newNaive(mode Unaligned, stopAtEnd bool, channels int) *naive {
	return &naive{mode: mode, stopAtEnd: stopAtEnd, id: -1, done: -1, open: channels, seen: map[int]bool{},
		blocked: map[int]bool{}, announced: map[int]int32{}, gone: map[int]bool{}}
}

func (n *naive) say(format string, args ...any) { n.out = append(n.out, fmt.Sprintf(format, args...)) }

func (n *naive) pending() bool { return n.id >= 0 && n.id != n.done }

func (n *naive) unaligned() bool { return n.turned || n.mode == UnalignedAlways }

func (n *naive) letGo() {
	for _, ch := range slices.Sorted(maps.Keys(n.blocked)) {
		n.say("resume(0.%d)", ch)
	}
	n.blocked = map[int]bool{}
}

func (n *naive) giveUp(id int64, why Reason) {
	n.id, n.done = max(n.id, id), max(n.done, id)
	if n.timer != 0 {
		n.say("timer-cancel")
		n.timer = 0
	}
	if n.triggered { // unaligned ones only: aligned ones are over with the trigger
		n.say("stopped(g0,%d)", id)
	}
	n.letGo()
	n.say("ABORT(%d,%v)", id, why)
	if n.live {
		n.say("incomplete")
	}
	n.fresh()
}

// fresh forgets what belongs to one checkpoint.
func (n *naive) fresh() {
	n.seen, n.announced = map[int]bool{}, map[int]int32{}
	n.some, n.turned, n.triggered, n.live = false, false, false, false
}

func (n *naive) begin(b *event.Barrier, now int64) {
	if n.id >= b.ID {
		return
	}
	if n.pending() {
		n.giveUp(n.id, ReasonSubsumed)
	}
	n.fresh()
	n.id, n.first, n.target = b.ID, *b, n.open
	if n.mode == UnalignedOn && b.Options.IsTimeoutable() {
		left := max(b.Options.Timeout-(now-b.Timestamp), 0)
		n.say("timer+(%dms)", left)
		n.timer = b.ID
	}
}

func (n *naive) stale(id int64) bool { return n.id > id || n.id == id && !n.pending() }

func late(b *event.Barrier, now int64) bool {
	return b.Options.IsTimeoutable() && now-b.Timestamp > b.Options.Timeout
}

// turn makes the checkpoint an unaligned one. Once a barrier was collected, that is the trigger, too.
func (n *naive) turn(b *event.Barrier) bool {
	for _, ch := range slices.Sorted(maps.Keys(n.announced)) {
		n.say("prioritize(0.%d,seq=%d)", ch, n.announced[ch])
	}
	n.announced = map[int]int32{}
	if n.some && !n.trigger(b) {
		return false
	}
	n.turned = true
	return true
}

// trigger triggers unaligned; false if the barrier cannot be that.
func (n *naive) trigger(b *event.Barrier) bool {
	if o := b.Options; !o.IsUnaligned() && (o.Alignment != event.Aligned || o.Snapshot.IsSavepoint()) {
		return false
	}
	n.say("initInputs(%d,UNALIGNED)", b.ID)
	n.say("started(g0,%d)", b.ID)
	n.say("TRIGGER(%d,UNALIGNED)", b.ID)
	n.triggered, n.live = true, true
	return true
}

func (n *naive) finish() {
	n.done = n.id
	if n.timer != 0 {
		n.say("timer-cancel")
		n.timer = 0
	}
	if n.live {
		n.say("complete")
	}
	n.fresh()
}

// barrier returns false where the task fails.
func (n *naive) barrier(ch int, b *event.Barrier, injected bool, now int64) bool {
	if n.stale(b.ID) {
		if !b.Options.IsUnaligned() && !injected {
			n.say("resume(0.%d)", ch)
		}
		return true
	}
	n.begin(b, now)
	n.seen[ch] = true
	last := len(n.seen) == n.target
	isUnaligned := b.Options.IsUnaligned()
	block := func() {
		if !isUnaligned && !injected {
			n.say("block(0.%d)", ch)
			n.blocked[ch] = true
		}
	}
	switch {
	case n.mode == UnalignedOff && isUnaligned:
		return false
	case !n.unaligned() && !isUnaligned:
		delete(n.announced, ch)
		block()
		if last {
			if n.mode != UnalignedOff {
				n.say("initInputs(%d,%s)", b.ID, name(b.Options))
			}
			n.say("TRIGGER(%d,%v)", b.ID, b.Options.Alignment)
			n.live = true
			n.letGo()
			n.finish()
			return true
		}
		if n.mode != UnalignedOff && late(b, now) {
			if !n.turn(b) || !n.triggered && !n.trigger(b) {
				return false
			}
		}
		n.some = true
		return true
	case !n.unaligned():
		if !n.turn(b) {
			return false
		}
	default:
		block()
	}
	if !n.triggered && !n.trigger(b) {
		return false
	}
	n.some = true
	if last {
		n.say("stopped(g0,%d)", n.id)
		n.letGo()
		n.finish()
	}
	return true
}

func (n *naive) announcement(ch int, b *event.Barrier, seq int32, now int64) {
	n.begin(b, now)
	if n.stale(b.ID) || n.mode == UnalignedOff {
		return
	}
	if n.unaligned() {
		n.say("prioritize(0.%d,seq=%d)", ch, seq)
	} else {
		n.announced[ch] = seq
	}
}

func (n *naive) cancel(id int64) {
	if id > n.id || id == n.id && len(n.seen) > 0 {
		n.giveUp(id, ReasonCancelled)
	}
}

func (n *naive) end(ch int, now int64) bool {
	n.open--
	if n.stopAtEnd {
		delete(n.blocked, ch)
		if n.pending() {
			n.giveUp(n.id, ReasonEndOfStream)
		}
		return true
	}
	if !n.pending() {
		return true
	}
	n.seen[ch] = true
	last := len(n.seen) == n.target
	delete(n.blocked, ch)
	delete(n.announced, ch)
	switch {
	case n.triggered && last:
		n.say("stopped(g0,%d)", n.id)
		n.letGo()
	case n.triggered || !n.some || n.unaligned():
	case last:
		if n.mode != UnalignedOff {
			n.say("initInputs(%d,%s)", n.id, name(n.first.Options))
		}
		n.say("TRIGGER(%d,%v)", n.id, n.first.Options.Alignment)
		n.live = true
		n.letGo()
	case n.mode == UnalignedOn && late(&n.first, now):
		if !n.turn(&n.first) {
			return false
		}
	}
	if last {
		n.finish()
	}
	return true
}

func (n *naive) timeout(id int64) bool {
	if n.timer != id {
		return true
	}
	n.timer = 0
	if n.id == id && n.pending() && n.open > 0 && !n.unaligned() {
		return n.turn(&n.first)
	}
	return true
}

// plain takes away what the naive twin does not measure.
func plain(lines []string) []string {
	var out []string
	for _, l := range lines {
		if i := strings.IndexByte(l, '['); i >= 0 {
			l = l[:i]
		}
		switch {
		case strings.HasPrefix(l, "measured"):
			continue
		case strings.HasPrefix(l, "complete"):
			l = "complete"
		case strings.HasPrefix(l, "incomplete"):
			l = "incomplete"
		}
		out = append(out, l)
	}
	return out
}

// walk is one random walk of a handler, its naive twin beside it, and a watch over the invariants.
type walk struct {
	t        *rapid.T
	cfg      Config
	channels int
	h        Handler
	r        *recorder
	n        *naive
	w        *watch
	ended    map[int]bool
	blocked  map[int]bool // a sender that blocked itself
	nextID   int64
	seq      int32
	failed   bool
	log      []string
	met      modelrun.Exposure
}

func (w *walk) do(op string, naive func() bool) {
	w.log = append(w.log, op)
	if word, _, _ := strings.Cut(op, " "); word == "RPC" {
		w.met[word]++
	}
	err := w.r.do(w.h, op)
	out := w.r.take()
	ok := naive()
	want := w.n.out
	w.n.out = nil
	if (err == nil) != ok {
		w.t.Fatalf("%v: error %v, the twin is content: %v", w.log, err, ok)
	}
	if got := plain(out); !slices.Equal(got, want) {
		w.t.Fatalf("%v:\nthe twin %v\ngot      %v", w.log, want, got)
	}
	w.failed = !ok
	if ok {
		w.w.check(w.t, w.h.(*Aligner), out, w.log)
	}
	for _, l := range out {
		word, _, _ := strings.Cut(l, "(")
		w.met[word]++
		var ch int
		if _, err := fmt.Sscanf(l, "resume(0.%d)", &ch); err == nil {
			if !w.blocked[ch] {
				w.t.Fatalf("%v: channel %d is resumed and was not blocked", w.log, ch)
			}
			delete(w.blocked, ch)
		}
	}
	if a := w.h.(*Aligner); ok && !a.Pending() && len(w.blocked) > 0 {
		w.t.Fatalf("%v: nothing is pending and %v wait for ever", w.log, w.blocked)
	}
}

// watch keeps what the invariants need.
type watch struct {
	triggers, aborts []int64
	both             bool // a trigger may be followed by an abort
}

func (v *watch) check(t *rapid.T, a *Aligner, out, log []string) {
	for _, l := range out {
		var id int64
		if _, err := fmt.Sscanf(l, "TRIGGER(%d,", &id); err == nil {
			if n := len(v.triggers); n > 0 && v.triggers[n-1] >= id {
				t.Fatalf("%v: trigger %d after %d", log, id, v.triggers[n-1])
			}
			if n := len(v.aborts); n > 0 && v.aborts[n-1] >= id {
				t.Fatalf("%v: trigger %d after abort %d", log, id, v.aborts[n-1])
			}
			v.triggers = append(v.triggers, id)
		}
		if _, err := fmt.Sscanf(l, "ABORT(%d,", &id); err == nil {
			if n := len(v.aborts); n > 0 && v.aborts[n-1] >= id {
				t.Fatalf("%v: abort %d after %d", log, id, v.aborts[n-1])
			}
			if n := len(v.triggers); n > 0 && (v.triggers[n-1] > id || v.triggers[n-1] == id && !v.both) {
				t.Fatalf("%v: abort %d after trigger %d", log, id, v.triggers[n-1])
			}
			v.aborts = append(v.aborts, id)
		}
		if strings.Contains(l, "SECOND TIMER") {
			t.Fatalf("%v: two timers", log)
		}
	}
	if !a.Pending() && (a.blocked.n > 0 || a.announced.n > 0 || a.timerSet || a.seen.n > 0) {
		t.Fatalf("%v: not pending, and %d blocked, %d announced, timer %v", log, a.blocked.n, a.announced.n, a.timerSet)
	}
	if a.timerSet && (a.opts.mode != UnalignedOn || !a.barrier.Options.IsTimeoutable()) {
		t.Fatalf("%v: a timer for nothing", log)
	}
}

// TestAgainstTwin walks the exactly-once handlers at random, with a naive twin beside them: with injected barriers,
// savepoints and barriers that come again or too late, which the senders of TestModelOfModes do not send.
func TestAgainstTwin(t *testing.T) {
	for mode, name := range []string{"aligned", "alternating", "unaligned"} {
		t.Run(name, func(t *testing.T) {
			met := modelrun.Exposure{}
			steps := 0
			for want := modelrun.Steps(t, 6000); steps < want && !t.Failed(); {
				rapid.Check(t, func(t *rapid.T) { steps += walkTwins(t, Unaligned(mode), met) })
			}
			needed := []string{"TRIGGER", "ABORT", "RPC", "resume", "complete", "late ends"}
			if Unaligned(mode) != UnalignedOff {
				needed = append(needed, "prioritize", "started", "stopped", "incomplete")
			}
			if Unaligned(mode) == UnalignedOn {
				needed = append(needed, "timer-fire", "savepoints")
			}
			met.Report(t, name, steps, needed...)
		})
	}
}

// walkTwins is one walk.
func walkTwins(t *rapid.T, mode Unaligned, met modelrun.Exposure) (steps int) {
	w := &walk{t: t, channels: rapid.IntRange(1, 4).Draw(t, "channels"), nextID: 1, ended: map[int]bool{}, blocked: map[int]bool{}, met: met}
	w.cfg.Unaligned = mode
	w.cfg.StopAtFirstEnd = rapid.IntRange(0, 3).Draw(t, "stop") == 0
	w.h, w.r = newRecorded(noFatal{}, w.cfg, w.channels)
	w.n = newNaive(w.cfg.Unaligned, w.cfg.StopAtFirstEnd, w.channels)
	w.w = &watch{both: w.cfg.Unaligned != UnalignedOff}
	kinds := []string{"al", "fa", "sp"}
	switch mode {
	case UnalignedOn:
		kinds = []string{"al", "fa", "sp", "un", "un", "to100", "to100", "to7", "to100"}
	case UnalignedAlways:
		kinds = []string{"un", "un", "un", "to100", "al"}
	}
	left := rapid.IntRange(1, 40).Draw(t, "steps")
	for ; left > 0 && !w.failed; left-- {
		steps++
		w.step(t, kinds)
	}
	if w.failed {
		met["failed tasks"]++
	}
	return steps
}

// step does one thing.
func (w *walk) step(t *rapid.T, kinds []string) {
	ch := rapid.IntRange(0, w.channels-1).Draw(t, "channel")
	now := w.r.now.Millis
	draw := func(back int64) int64 {
		id := rapid.Int64Range(max(1, w.nextID-back), w.nextID+1).Draw(t, "id")
		w.nextID = max(w.nextID, id)
		return id
	}
	switch what := rapid.IntRange(0, 11).Draw(t, "what"); {
	case w.ended[ch] || what == 11:
		ms := rapid.Int64Range(0, 60).Draw(t, "ms")
		before := w.r.set && w.r.due <= now+ms
		w.do(fmt.Sprintf("T %d", ms), func() bool {
			if !before {
				return true
			}
			w.n.say("timer-fire")
			return w.n.timeout(w.n.timer)
		})
	case what < 7:
		k := rapid.SampledFrom(kinds).Draw(t, "kind")
		if w.blocked[ch] && k != "un" && what < 6 {
			return // its sender waits
		}
		id := draw(2)
		ts := rapid.Int64Range(0, 50).Draw(t, "ts")
		b := event.Barrier{ID: id, Timestamp: ts, Options: kind(k)}
		op := fmt.Sprintf("B %d %d %s %d", ch, id, k, ts)
		injected := what == 6
		switch {
		case injected:
			op = "RPC" + op[1:]
		case k != "un":
			w.blocked[ch] = true
		}
		if k == "sp" {
			w.met["savepoints"]++
		}
		w.do(op, func() bool { return w.n.barrier(ch, &b, injected, now) })
	case what < 8 && w.cfg.Unaligned != UnalignedOff && !w.blocked[ch]:
		id := draw(1)
		w.seq++
		b := event.Barrier{ID: id, Options: kind("to100")}
		seq := w.seq
		w.do(fmt.Sprintf("A %d %d %d to100", ch, id, seq), func() bool { w.n.announcement(ch, &b, seq, now); return true })
	case what < 10:
		id := draw(1)
		w.do(fmt.Sprintf("C %d %d", ch, id), func() bool { w.n.cancel(id); return true })
	default:
		w.ended[ch] = true
		delete(w.blocked, ch)
		if w.n.pending() {
			w.met["late ends"]++
		}
		w.do(fmt.Sprintf("E %d", ch), func() bool { return w.n.end(ch, now) })
	}
}

// noFatal stands for a test where the caller reports itself.
type noFatal struct{ testing.TB }

func (noFatal) Helper() {}
