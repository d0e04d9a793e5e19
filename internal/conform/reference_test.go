package conform

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// The files reference_test.go and reference_handlers_test.go are a second, deliberately dull implementation of all that the align families drive:
// senders, channels, gate, handlers, clock and task, as lists, maps and plain ifs that follow the prose of the format
// and of the behaviour. It shares nothing with the library. TestReferenceIsFlink holds it against what was recorded
// from Flink, and then it says what is right where nothing was recorded: see TestModelOfTraces.

// errRefused says that a channel knows a newer checkpoint; the one at hand is given up.
var errRefused = errors.New("refused")

// errWrong ends a scenario: such input no job produces.
var errWrong = errors.New("wrong")

// refItem is something in a sender's line or in a channel's queue.
type refItem struct {
	what     string // buf, barrier, cancel, eod, eop, announce
	seq      int
	payload  int
	size     int
	id, ts   int64
	kind     string // of a barrier, as the format has it
	mode     string // of an eod
	priority bool
}

func (it *refItem) timeout() (int64, bool) {
	ms, ok := strings.CutPrefix(it.kind, "timeout:")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(ms, 10, 64)
	return n, err == nil
}

func (it *refItem) timeoutable() bool { _, ok := it.timeout(); return ok }

// blocks reports whether the sender stops behind the item.
func (it *refItem) blocks() bool {
	return it.what == "barrier" && (it.kind == "aligned" || it.kind == "forced" || it.timeoutable())
}

// unaligned is the barrier as an unaligned one.
func (it *refItem) unaligned() (*refItem, error) {
	if it.kind == "forced" || it.kind == "atleastonce" {
		return nil, errWrong
	}
	u := *it
	u.kind = "unaligned"
	return &u, nil
}

func (it *refItem) String() string {
	switch it.what {
	case "barrier":
		return fmt.Sprintf("%d %s", it.id, it.kind)
	case "announce":
		return fmt.Sprintf("%d %s %d", it.id, it.kind, it.seq)
	case "cancel":
		return fmt.Sprint(it.id)
	case "eod":
		return it.mode
	case "buf":
		return fmt.Sprint(it.payload)
	}
	return ""
}

// refChannel is one channel with its sender.
type refChannel struct {
	line    []*refItem // not sent yet
	blocked bool
	next    int // sequence number

	first, rest  []*refItem // the queue: priority events, and all else
	barrierID    int64      // newest barrier that arrived and did not count for a start yet, -1: none
	barrierSeq   int
	lastPriority int // sequence number of the last priority event that was taken

	pending, received bool  // between a start and the barrier; the barrier is here
	newest            int64 // checkpoint that these are about

	eod   string
	ended bool
}

// refWorld is everything around the handler.
type refWorld struct {
	out      []string
	channels []*refChannel
	urgent   []int // the gate's line: channels with priority events, then the others
	normal   []int
	now      int64
	status   string
	h        refHandler
}

// refHandler decides about checkpoints.
type refHandler interface {
	barrier(ch int, b *refItem) error
	announcement(ch int, b *refItem) error
	cancel(ch int, id int64) error
	end(ch int) error
	addBytes(n int)
	clock() error
}

func newRefWorld(s *Scenario) *refWorld {
	w := &refWorld{}
	n := s.Int("channels")
	for range n {
		w.channels = append(w.channels, &refChannel{barrierID: -1, barrierSeq: -1, lastPriority: -1, newest: -1})
	}
	m := refMeasure{w: w, id: -1}
	after := s.Config["finished"] != "false"
	if s.Config["mode"] == "at-least-once" {
		w.h = &refTracker{refMeasure: m, after: after, open: n, latest: -1}
	} else {
		w.h = &refAligner{refMeasure: m, after: after, open: n, mode: s.Config["mode"], cur: -1, done: -1,
			turned: s.Config["mode"] == "unaligned", seen: map[int]bool{}, blocked: map[int]bool{}, announced: map[int]*refItem{}}
	}
	return w
}

func (w *refWorld) say(format string, args ...any) {
	w.out = append(w.out, fmt.Sprintf(format, args...))
}

// step does one step and returns what is seen, and whether the scenario ends with it.
func (w *refWorld) step(st *Step) (out []string, over bool) {
	w.out = nil
	if err := w.do(st); err != nil {
		w.say("error Any")
		return w.out, true
	}
	return w.out, false
}

func (w *refWorld) do(st *Step) error {
	switch st.Op {
	case "buf":
		w.send(st.Int(0), &refItem{what: "buf", payload: st.Int(1), size: st.Int(2)})
	case "barrier":
		it := &refItem{what: "barrier", id: st.Int64(1), kind: st.Arg(2), ts: st.Int64(3)}
		if it.kind == "unaligned" {
			it.priority = true
			w.arrive(st.Int(0), it)
		} else {
			w.send(st.Int(0), it)
		}
	case "cancel":
		w.send(st.Int(0), &refItem{what: "cancel", id: st.Int64(1)})
	case "eod":
		w.send(st.Int(0), &refItem{what: "eod", mode: st.Arg(1)})
	case "eop":
		w.send(st.Int(0), &refItem{what: "eop"})
	case "poll":
		if _, err := w.poll(); err != nil {
			return err
		}
	case "drain":
		for {
			more, err := w.poll()
			if err != nil {
				return err
			}
			if !more {
				break
			}
		}
	case "mail":
		if err := w.mail(); err != nil {
			return err
		}
	case "clock":
		w.now += st.Int64(0)
		if err := w.h.clock(); err != nil {
			return err
		}
	default:
		panic(st.Op)
	}
	w.deliver()
	return nil
}

func (w *refWorld) send(ch int, it *refItem) {
	w.channels[ch].line = append(w.channels[ch].line, it)
}

func (w *refWorld) deliver() {
	for ch, c := range w.channels {
		for len(c.line) > 0 && !c.blocked {
			it := c.line[0]
			c.line = c.line[1:]
			c.blocked = it.blocks()
			w.arrive(ch, it)
		}
	}
}

// arrive puts an item into its channel's queue.
func (w *refWorld) arrive(ch int, it *refItem) {
	c := w.channels[ch]
	it.seq = c.next
	c.next++
	wasEmpty := len(c.first)+len(c.rest) == 0
	urgent := false
	switch {
	case it.priority:
		c.first = append(c.first, it)
		urgent = len(c.first) == 1
	case it.what == "barrier" && it.timeoutable():
		c.rest = append(c.rest, it)
		a := *it
		a.what, a.priority = "announce", true
		c.first = append(c.first, &a)
		urgent = len(c.first) == 1
	default:
		c.rest = append(c.rest, it)
	}
	if it.what == "barrier" {
		least := c.newest
		if !c.pending && !c.received {
			least++
		}
		if it.id >= least {
			c.pending, c.received, c.newest = false, true, it.id
			if it.id > c.barrierID {
				c.barrierID, c.barrierSeq = it.id, it.seq
			}
		}
	}
	if it.what == "buf" && c.pending {
		w.say("persist %d %d %d", c.newest, ch, it.payload)
	}
	if urgent && it.seq > c.lastPriority {
		w.join(ch, true)
	}
	if wasEmpty {
		w.join(ch, false)
	}
}

// join puts a channel into the gate's line, unless it is there already.
func (w *refWorld) join(ch int, urgent bool) {
	if w.channels[ch].ended || index(w.urgent, ch) >= 0 {
		return
	}
	at := index(w.normal, ch)
	switch {
	case at >= 0 && !urgent:
		return
	case at >= 0:
		w.normal = append(w.normal[:at:at], w.normal[at+1:]...)
	}
	if urgent {
		w.urgent = append(w.urgent, ch)
	} else {
		w.normal = append(w.normal, ch)
	}
}

func index(list []int, x int) int {
	for i, y := range list {
		if x == y {
			return i
		}
	}
	return -1
}

// take is the gate's next item; nil: there is none.
func (w *refWorld) take() (ch int, it *refItem) {
	for {
		switch {
		case len(w.urgent) > 0:
			ch, w.urgent = w.urgent[0], w.urgent[1:]
		case len(w.normal) > 0:
			ch, w.normal = w.normal[0], w.normal[1:]
		default:
			return 0, nil
		}
		c := w.channels[ch]
		switch {
		case len(c.first) > 0:
			it, c.first = c.first[0], c.first[1:]
			c.lastPriority = it.seq
		case len(c.rest) > 0:
			it, c.rest = c.rest[0], c.rest[1:]
		default:
			continue
		}
		if len(c.first)+len(c.rest) > 0 {
			w.join(ch, len(c.first) > 0)
		}
		return ch, it
	}
}

// handle lets the handler see an item.
func (w *refWorld) handle(ch int, it *refItem) error {
	c := w.channels[ch]
	switch it.what {
	case "buf":
		w.h.addBytes(it.size)
	case "barrier":
		return w.h.barrier(ch, it)
	case "announce":
		return w.h.announcement(ch, it)
	case "cancel":
		return w.h.cancel(ch, it.id)
	case "eod":
		c.eod = it.mode
		w.say("ack %d", ch)
	case "eop":
		c.ended = true
		w.say("release %d", ch)
		return w.h.end(ch)
	}
	return nil
}

func (w *refWorld) mail() error {
	for len(w.urgent) > 0 {
		ch, it := w.take()
		if err := w.handle(ch, it); err != nil {
			return err
		}
	}
	return nil
}

func (w *refWorld) poll() (more bool, err error) {
	if err := w.mail(); err != nil {
		return false, err
	}
	w.deliver()
	ch, it := w.take()
	if it == nil {
		ended := true
		for _, c := range w.channels {
			ended = ended && c.ended
		}
		if ended {
			w.say("end")
		} else {
			w.say("none")
		}
	} else {
		if err := w.handle(ch, it); err != nil {
			return false, err
		}
		w.say("%s", strings.TrimSpace(fmt.Sprintf("%s %d %v", it.what, ch, it)))
	}
	status := "DRAINED"
	for _, c := range w.channels {
		if c.eod == "" {
			status = ""
			break
		}
		if c.eod == "nodrain" {
			status = "STOPPED"
		}
	}
	if status != w.status {
		w.status = status
		w.say("status %s", status)
	}
	w.deliver()
	return it != nil, nil
}

// resume lets a sender go on.
func (w *refWorld) resume(ch int) error {
	c := w.channels[ch]
	if !c.blocked {
		return errWrong
	}
	c.blocked = false
	w.say("resume %d", ch)
	return nil
}

// start tells the channels that a checkpoint starts, until one refuses.
func (w *refWorld) start(id int64) error {
	w.say("started %d", id)
	for ch, c := range w.channels {
		if id < c.barrierID || c.received && c.newest > id {
			return errRefused
		}
		if id > c.barrierID {
			c.barrierID, c.barrierSeq = -1, -1
		}
		if c.newest < id {
			c.pending, c.received, c.newest = true, false, id
		}
		upTo := c.barrierSeq
		if upTo < 0 {
			upTo = math.MaxInt
		}
		for _, it := range c.rest {
			if it.what == "buf" && it.seq < upTo {
				w.say("persist %d %d %d", id, ch, it.payload)
			}
		}
	}
	return nil
}

func (w *refWorld) stop(id int64) {
	w.say("stopped %d", id)
	for _, c := range w.channels {
		if id >= c.newest {
			c.pending, c.received, c.newest = false, false, id
		}
		if c.barrierID == id {
			c.barrierID, c.barrierSeq = -1, -1
		}
	}
}

// prioritize makes a barrier in the queue a priority event.
func (w *refWorld) prioritize(ch, seq int) error {
	w.say("prioritize %d %d", ch, seq)
	c := w.channels[ch]
	if !c.received || c.barrierSeq != seq {
		return errWrong
	}
	for i, it := range c.rest {
		if it.seq == seq && it.what == "barrier" {
			c.rest = append(c.rest[:i:i], c.rest[i+1:]...)
			it.priority = true
			c.first = append(c.first, it)
			if len(c.first) == 1 {
				w.join(ch, true)
			}
			return nil
		}
	}
	return errWrong
}
