package conform

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// refReceiver is the credit-receiver family written down dully once more: channels, the buffers of their gate, its line
// and the connection, as numbers, lists and plain ifs that follow the prose of the format. It shares nothing with the
// library. See TestCreditReferenceIsFlink.
type refReceiver struct {
	out       []string
	exclusive int
	channels  []*refInput
	pool      int   // floating buffers in it
	out0      int   // floating buffers that are not, as last printed
	floating  int   // all of them
	waiting   []int // the pool's line
	urgent    []int // the gate's line: channels with priority events, then the others
	normal    []int
	held      []refHeld
	posted    []refPost
	wire      []string
	full      bool
}

// refInput is a channel of the receiver.
type refInput struct {
	x, f, r, u, w int
	first, rest   []refGot
	expected      int
	err           string
	said          bool // that it failed
	released      bool
	ended         bool
	last          string
}

// refGot is a queued item; unit tells which kind of buffer it is in: 'x', 'f', or 0 for an event.
type refGot struct {
	line string // as poll prints it
	unit byte
	end  bool
}

type refHeld struct {
	ch   int
	unit byte
}

type refPost struct {
	ch   int
	what string
}

// errSenseless: a step that the format does not allow, such as giving back a buffer that the task does not have.
var errSenseless = errors.New("senseless")

func newRefReceiver(s *Scenario) *refReceiver {
	w := &refReceiver{exclusive: s.Int("exclusive"), floating: s.Int("floating"), out0: -1}
	w.pool = w.floating
	for ch := range s.Int("channels") {
		w.channels = append(w.channels, &refInput{x: w.exclusive})
		w.wire = append(w.wire, fmt.Sprintf("request %d %d", ch, w.exclusive))
	}
	w.show()
	return w
}

func (w *refReceiver) setup() []string { return w.out }

// step does one step and returns what is seen, and whether the scenario ends with it.
func (w *refReceiver) step(st *Step) (out []string, over bool, err error) {
	w.out = nil
	err = w.do(st)
	switch {
	case errors.Is(err, errSenseless):
		return nil, true, err
	case err != nil:
		return append(w.out, "error "+err.Error()), true, nil
	}
	w.show()
	return w.out, false, nil
}

func (w *refReceiver) do(st *Step) error {
	switch st.Op {
	case "poll":
		return w.poll()
	case "recycle":
		k := st.Int(0)
		if k >= len(w.held) {
			return errSenseless
		}
		h := w.held[k]
		w.held = append(w.held[:k], w.held[k+1:]...)
		w.recycle(h.ch, h.unit)
		return nil
	case "notwritable":
		w.full = true
		return nil
	case "writable":
		w.full = false
		return nil
	}
	ch := st.Int(0)
	c := w.channels[ch]
	switch st.Op {
	case "backlog":
		if st.Int(1) <= 0 {
			return errors.New("IllegalArgumentException")
		}
		if c.released {
			w.cancel(ch)
		} else {
			w.backlog(ch, st.Int(1))
		}
	case "data":
		w.data(ch, st.Int(1), st.Int(2), st.Int(3))
	case "event":
		w.event(ch, st.Int(1), st.Int(2), st.Arg(3))
	case "resume":
		switch {
		case c.released:
			return errors.New("IllegalStateException")
		case c.err != "":
			return errors.New(c.err)
		}
		if w.exclusive == 0 {
			c.u = 0
		}
		w.post(ch, "resume")
	case "release":
		w.release(ch)
	default:
		return errSenseless
	}
	return nil
}

// Buffers.

// backlog: the sender has b buffers for the channel.
func (w *refReceiver) backlog(ch, b int) {
	w.channels[ch].r = b + w.exclusive
	w.gain(ch, w.borrow(ch))
}

// borrow takes floating buffers until the channel has what it needs, or waits.
func (w *refReceiver) borrow(ch int) (n int) {
	c := w.channels[ch]
	for c.x+c.f < c.r && c.w == 0 {
		if w.pool == 0 {
			c.w = 1
			w.waiting = append(w.waiting, ch)
			break
		}
		w.pool--
		c.f++
		n++
	}
	return n
}

// gain notes n units of credit that the sender does not know of.
func (w *refReceiver) gain(ch, n int) {
	c := w.channels[ch]
	if n == 0 {
		return
	}
	if c.u == 0 && c.err == "" {
		w.post(ch, "credit")
	}
	c.u += n
}

// recycle: a buffer of the channel came back.
func (w *refReceiver) recycle(ch int, unit byte) {
	c := w.channels[ch]
	switch {
	case unit == 'f':
		w.toPool()
	case c.released:
	default:
		c.x++
		if c.x+c.f > c.r && c.f > 0 {
			c.f--
			w.toPool()
		} else {
			w.gain(ch, 1)
		}
	}
}

// toPool offers a floating buffer to those who wait, in turn.
func (w *refReceiver) toPool() {
	for len(w.waiting) > 0 {
		ch := w.waiting[0]
		w.waiting = w.waiting[1:]
		c := w.channels[ch]
		if c.released {
			continue
		}
		c.w = 0
		if c.x+c.f >= c.r {
			continue
		}
		c.f++
		w.gain(ch, 1+w.borrow(ch))
		return
	}
	w.pool++
}

// Messages.

func (w *refReceiver) data(ch, seq, backlog, size int) {
	c := w.channels[ch]
	if c.released {
		w.cancel(ch)
		return
	}
	c.r--
	unit := byte(0)
	switch {
	case c.f > 0:
		c.f--
		unit = 'f'
	case c.x > 0:
		c.x--
		unit = 'x'
	}
	if size == 0 {
		if unit != 0 {
			w.recycle(ch, unit)
		}
		if seq != c.expected {
			w.fail(ch, "BufferReorderingException")
			return
		}
		c.expected++
		w.backlog(ch, backlog)
		return
	}
	if unit == 0 {
		w.fail(ch, "IllegalStateException")
		return
	}
	if seq != c.expected {
		w.fail(ch, "BufferReorderingException")
		w.recycle(ch, unit)
		return
	}
	w.queue(ch, refGot{line: fmt.Sprintf("data %d %d", ch, size), unit: unit}, false)
	w.backlog(ch, backlog)
}

func (w *refReceiver) event(ch, seq, backlog int, ev string) {
	c := w.channels[ch]
	if c.released {
		w.cancel(ch)
		return
	}
	if seq != c.expected {
		w.fail(ch, "BufferReorderingException")
		return
	}
	word, arg, _ := strings.Cut(ev, ":")
	it := refGot{}
	switch word {
	case "aligned":
		it.line = fmt.Sprintf("barrier %d %s aligned", ch, arg)
		if w.exclusive == 0 {
			c.r = 0
			n := c.f
			c.f = 0
			for range n {
				w.toPool()
			}
		}
		if backlog != 0 {
			w.fail(ch, "IllegalArgumentException")
			return
		}
	case "unaligned":
		it.line = fmt.Sprintf("barrier %d %s unaligned", ch, arg)
	case "eop":
		it.line, it.end = fmt.Sprintf("eop %d", ch), true
	default:
		it.line = fmt.Sprintf("%s %d %s", word, ch, arg)
	}
	w.queue(ch, it, word == "unaligned")
	w.backlog(ch, backlog)
}

func (w *refReceiver) queue(ch int, it refGot, priority bool) {
	c := w.channels[ch]
	c.expected++
	wasEmpty := len(c.first)+len(c.rest) == 0
	if priority {
		c.first = append(c.first, it)
		if len(c.first) == 1 {
			w.join(ch, true)
		}
	} else {
		c.rest = append(c.rest, it)
	}
	if wasEmpty {
		w.join(ch, false)
	}
}

func (w *refReceiver) fail(ch int, name string) {
	if c := w.channels[ch]; c.err == "" {
		c.err = name
		w.join(ch, false)
	}
}

func (w *refReceiver) release(ch int) {
	c := w.channels[ch]
	if c.released {
		return
	}
	c.released = true
	for _, it := range append(c.first, c.rest...) {
		if it.unit != 0 {
			w.recycle(ch, it.unit)
		}
	}
	n := c.f
	c.first, c.rest, c.x, c.f = nil, nil, 0, 0
	for range n {
		w.toPool()
	}
	w.cancel(ch)
}

// The gate's line.

func (w *refReceiver) join(ch int, urgent bool) {
	if w.channels[ch].ended || slices.Contains(w.urgent, ch) {
		return
	}
	switch at := slices.Index(w.normal, ch); {
	case at >= 0 && !urgent:
		return
	case at >= 0:
		w.normal = slices.Delete(w.normal, at, at+1)
	}
	if urgent {
		w.urgent = append(w.urgent, ch)
	} else {
		w.normal = append(w.normal, ch)
	}
}

func (w *refReceiver) poll() error {
	ended := true
	for _, c := range w.channels {
		ended = ended && c.ended
	}
	if ended {
		w.say("end")
		return nil
	}
	for {
		var ch int
		switch {
		case len(w.urgent) > 0:
			ch, w.urgent = w.urgent[0], w.urgent[1:]
		case len(w.normal) > 0:
			ch, w.normal = w.normal[0], w.normal[1:]
		default:
			w.say("none")
			return nil
		}
		c := w.channels[ch]
		var it refGot
		switch {
		case c.err != "":
			return errors.New(c.err)
		case len(c.first) > 0:
			it, c.first = c.first[0], c.first[1:]
		case len(c.rest) > 0:
			it, c.rest = c.rest[0], c.rest[1:]
		case c.released:
			return errors.New("CancelTaskException")
		default:
			continue
		}
		if len(c.first)+len(c.rest) > 0 {
			w.join(ch, len(c.first) > 0)
		}
		w.say("%s", it.line)
		if it.unit != 0 {
			w.held = append(w.held, refHeld{ch, it.unit})
		}
		if it.end {
			c.ended = true
			w.urgent = slices.DeleteFunc(w.urgent, func(i int) bool { return i == ch })
			w.normal = slices.DeleteFunc(w.normal, func(i int) bool { return i == ch })
			w.release(ch)
		}
		return nil
	}
}

// The connection.

func (w *refReceiver) post(ch int, what string) { w.posted = append(w.posted, refPost{ch, what}) }

func (w *refReceiver) cancel(ch int) { w.wire = append(w.wire, fmt.Sprintf("cancel %d", ch)) }

func (w *refReceiver) say(format string, args ...any) {
	w.out = append(w.out, fmt.Sprintf(format, args...))
}

// show writes what was posted, and prints what is to be seen at the end of a step.
func (w *refReceiver) show() {
	for len(w.posted) > 0 && !w.full {
		p := w.posted[0]
		w.posted = w.posted[1:]
		c := w.channels[p.ch]
		switch {
		case c.released:
		case p.what == "resume":
			w.wire = append(w.wire, fmt.Sprintf("resume %d", p.ch))
		case c.u > 0:
			w.wire = append(w.wire, fmt.Sprintf("credit %d %d", p.ch, c.u))
			c.u = 0
		}
	}
	w.out = append(w.out, w.wire...)
	w.wire = nil
	for ch, c := range w.channels {
		if c.err != "" && !c.said {
			c.said = true
			w.say("failed %d %s", ch, c.err)
		}
	}
	for ch, c := range w.channels {
		if line := fmt.Sprintf("st %d x=%d f=%d r=%d u=%d w=%d q=%d", ch, c.x, c.f, c.r, c.u, c.w, len(c.first)+len(c.rest)); line != c.last {
			c.last = line
			w.out = append(w.out, line)
		}
	}
	if n := w.floating - w.pool; n != w.out0 {
		w.out0 = n
		w.say("pool %d", n)
	}
}
