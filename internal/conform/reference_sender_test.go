package conform

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// refSender is the credit-sender family written down dully once more, as refReceiver is its counterpart: queues of
// buffers, readers, the line of readers and the connection.
type refSender struct {
	out       []string // what the task's side sees
	wire      []string
	exclusive int
	subs      []*refSub
	line      []int // readers that may have something
	full      bool
	failed    bool
	broken    bool   // the connection
	late      []bool // requests that wait for the partition for ever
	acked     bool
}

// refSub is a subpartition with its reader.
type refSub struct {
	queue    []*refBuffer
	urgent   int // priority events at the head of it
	seq      int
	flush    bool
	end      bool
	blocked  bool
	viewed   bool // it had a view
	reader   bool
	credit   int
	open     *refBuffer
	promised int64 // 0: nothing
	ack      bool
	last     string
}

// refBuffer is a queued buffer or event.
type refBuffer struct {
	ev     string // of an event
	size   int    // written
	sent   int
	closed bool // the writer is done with it
	known  bool // and the reader knows
}

func (b *refBuffer) data() bool   { return b.ev == "" }
func (b *refBuffer) kind() string { k, _, _ := strings.Cut(b.ev, ":"); return k }
func (b *refBuffer) blocking() bool {
	return slices.Contains([]string{"aligned", "forced", "timeout"}, b.kind())
}

func (b *refBuffer) dataType() string {
	switch b.kind() {
	case "aligned", "forced":
		return "ALIGNED_CHECKPOINT_BARRIER"
	case "timeout":
		return "TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER"
	case "unaligned":
		return "PRIORITIZED_EVENT_BUFFER"
	case "eod":
		return "END_OF_DATA"
	case "eop":
		return "END_OF_PARTITION"
	}
	return "EVENT_BUFFER"
}

func newRefSender(s *Scenario) *refSender {
	w := &refSender{exclusive: s.Int("exclusive")}
	for range s.Int("subpartitions") {
		w.subs = append(w.subs, &refSub{})
	}
	w.late = make([]bool, len(w.subs))
	w.show()
	return w
}

func (w *refSender) setup() []string { return w.out }

func (w *refSender) step(st *Step) (out []string, over bool, err error) {
	w.out, w.wire = nil, nil
	acked := w.acked
	if err := w.do(st); err != nil {
		return nil, true, err
	}
	w.write()
	w.out = append(w.out, w.wire...)
	if w.acked && !acked {
		w.say("acknowledged")
	}
	w.show()
	return w.out, w.broken, nil
}

func (w *refSender) say(format string, args ...any) {
	w.out = append(w.out, fmt.Sprintf(format, args...))
}

func (w *refSender) send(format string, args ...any) {
	w.wire = append(w.wire, fmt.Sprintf(format, args...))
}

func (w *refSender) do(st *Step) error {
	switch st.Op {
	case "fail":
		w.fail()
		return nil
	case "notwritable":
		w.full = true
		return nil
	case "writable":
		w.full = false
		return nil
	}
	sub := st.Int(0)
	s := w.subs[sub]
	switch st.Op {
	case "request":
		switch {
		case w.failed && w.late[sub], !w.failed && s.viewed:
			w.send("failed - IllegalStateException")
		case w.failed:
			w.late[sub] = true
		default:
			s.viewed, s.reader, s.credit = true, true, w.exclusive
			w.notify(sub)
		}
	case "add", "start":
		if s.open != nil && !s.open.closed {
			return errSenseless
		}
		b := &refBuffer{size: st.Int(1), closed: st.Op == "add", known: st.Op == "add"}
		s.open = b
		w.add(sub, b)
	case "write":
		if s.open == nil || s.open.closed {
			return errSenseless
		}
		s.open.size += st.Int(1)
	case "close":
		if s.open == nil || s.open.closed {
			return errSenseless
		}
		s.open.closed = true
	case "event":
		b := &refBuffer{ev: st.Arg(1), size: 1, closed: true, known: true}
		if b.kind() != "unaligned" && s.open != nil && !s.open.closed {
			return errSenseless
		}
		w.add(sub, b)
	case "finish":
		if s.open != nil && !s.open.closed {
			return errSenseless
		}
		if !s.end && !w.failed {
			w.add(sub, &refBuffer{ev: "eop", size: 1, closed: true, known: true})
		}
	case "flush":
		if len(s.queue) == 0 || s.flush {
			break
		}
		alone := len(s.queue) == 1 && s.queue[0].size > s.queue[0].sent
		s.flush = len(s.queue) > 1 || alone
		if alone && !s.blocked {
			w.notify(sub)
		}
	case "timeout":
		w.timeout(sub, st.Int64(1))
	case "abort":
		if s.promised == st.Int64(1) {
			w.say("broken %d %d CheckpointException", sub, s.promised)
			s.promised = 0
		}
	case "cancel":
		if s.reader {
			s.reader = false
			w.line = slices.DeleteFunc(w.line, func(i int) bool { return i == sub })
		}
		w.late[sub] = false
	case "credit", "resume", "ack":
		if !s.reader {
			w.send("failed - IllegalStateException")
			break
		}
		switch st.Op {
		case "credit":
			s.credit += st.Int(1)
			w.notify(sub)
		case "resume":
			if w.exclusive == 0 {
				s.credit = 0
			}
			if !s.blocked {
				w.send("failed - IllegalStateException")
				break
			}
			s.blocked = false
			w.notify(sub)
		case "ack":
			s.ack = true
			w.acked = !slices.ContainsFunc(w.subs, func(s *refSub) bool { return !s.ack })
		}
	default:
		return errSenseless
	}
	return nil
}

// The task's side.

func (w *refSender) add(sub int, b *refBuffer) {
	s := w.subs[sub]
	if s.end || w.failed {
		w.say("rejected")
		return
	}
	first := false
	switch b.kind() {
	case "unaligned":
		s.queue = slices.Insert(s.queue, s.urgent, b)
		s.urgent++
		first = s.urgent == 1
		if stored := inFlight(s.queue[s.urgent:]); stored != "" {
			w.say("persist %d %s%s", sub, strings.TrimPrefix(b.ev, "unaligned:"), stored)
		}
	case "timeout":
		if s.promised != 0 {
			w.say("broken %d %d IllegalStateException", sub, s.promised)
		}
		fmt.Sscanf(b.ev, "timeout:%d", &s.promised)
		w.say("promise %d %d", sub, s.promised)
		s.queue = append(s.queue, b)
	default:
		s.queue = append(s.queue, b)
	}
	s.end = b.ev == "eop"
	data := s.end || s.viewed && !s.flush && !s.blocked && s.complete() == 1
	if first {
		w.notify(sub)
		w.write()
	}
	if data {
		w.notify(sub)
	}
}

// inFlight is what is left to be sent of each data buffer.
func inFlight(queue []*refBuffer) (list string) {
	for _, b := range queue {
		if b.data() {
			list += fmt.Sprintf(" %d", b.size-b.sent)
		}
	}
	return list
}

func (w *refSender) timeout(sub int, id int64) {
	s := w.subs[sub]
	if s.promised != id {
		return
	}
	name := fmt.Sprintf("timeout:%d", id)
	at := s.urgent + slices.IndexFunc(s.queue[s.urgent:], func(b *refBuffer) bool { return b.ev == name })
	list := inFlight(s.queue[s.urgent:at])
	b := &refBuffer{ev: fmt.Sprintf("unaligned:%d", id), size: 1, closed: true, known: true}
	s.queue = slices.Insert(slices.Delete(s.queue, at, at+1), s.urgent, b)
	s.urgent++
	w.say("kept %d %d%s", sub, id, list)
	s.promised = 0
	if s.urgent == 1 {
		w.notify(sub)
	}
}

func (w *refSender) fail() {
	if w.failed {
		return
	}
	w.failed = true
	for i, s := range w.subs {
		s.queue, s.urgent = nil, 0
		if s.promised != 0 {
			w.say("broken %d %d IllegalStateException", i, s.promised)
			s.promised = 0
		}
	}
}

// The queue.

func (s *refSub) complete() int {
	if len(s.queue) == 1 && s.queue[0].known {
		return 1
	}
	return max(0, len(s.queue)-1)
}

func (s *refSub) mayPoll() bool { return !s.blocked && (s.flush || s.complete() > 0) }

func (s *refSub) available() bool {
	if s.credit > 0 {
		return s.mayPoll()
	}
	return len(s.queue) > 0 && !s.queue[0].data()
}

func (s *refSub) backlog() (n int) {
	if s.blocked || len(s.queue) == 0 {
		return 0
	}
	for _, b := range s.queue {
		if b.data() {
			n++
		}
	}
	if last := s.queue[len(s.queue)-1]; !s.flush && !s.end && last.data() {
		n--
	}
	return n
}

// The readers.

// notify: a reader may have something. One that was cancelled is not heard: Flink's goes on, until its credit is used up.
func (w *refSender) notify(sub int) {
	s := w.subs[sub]
	if !s.reader || slices.Contains(w.line, sub) {
		return
	}
	if s.available() {
		w.line = append(w.line, sub)
	} else if n := s.backlog(); n > 0 && w.exclusive == 0 && s.credit == 0 {
		w.send("backlog %d %d", sub, n)
	}
}

// write lets the readers take turns.
func (w *refSender) write() {
	for len(w.line) > 0 && !w.full {
		sub := w.line[0]
		w.line = w.line[1:]
		s := w.subs[sub]
		b, n, ok := w.take(sub)
		if !ok {
			if w.failed {
				w.send("failed %d ProducerFailedException", sub)
			}
			continue
		}
		if b.data() {
			if s.credit--; s.credit < 0 { // a resume that nobody waited for took it
				w.send("failed - IllegalStateException")
				w.broken, w.line = true, nil
				for _, s := range w.subs {
					s.reader = false
				}
				return
			}
			w.send("data %d %d %d %d", sub, s.seq, s.backlog(), n)
		} else {
			w.send("event %d %d %d %s %s", sub, s.seq, s.backlog(), b.dataType(), b.ev)
		}
		s.seq++
		if s.mayPoll() && (s.credit > 0 || !s.queue[0].data()) {
			w.line = append(w.line, sub)
		}
	}
}

// take takes what the next message is made of: n new bytes of b.
func (w *refSender) take(sub int) (b *refBuffer, n int, ok bool) {
	s := w.subs[sub]
	if s.blocked && s.urgent == 0 {
		return nil, 0, false
	}
	if len(s.queue) == 0 {
		s.flush = false
	}
	for len(s.queue) > 0 {
		b = s.queue[0]
		if id := ""; b.kind() == "timeout" {
			if id = strings.TrimPrefix(b.ev, "timeout:"); id == fmt.Sprint(s.promised) {
				w.say("kept %d %s", sub, id)
				s.promised = 0
			}
		}
		n = b.size - b.sent
		b.sent, b.known = b.size, b.closed
		if !b.known && len(s.queue) > 1 {
			panic(errors.New("an unfinished buffer is not the last one"))
		}
		if len(s.queue) == 1 {
			s.flush = false
		}
		if b.known {
			s.queue = s.queue[1:]
			s.urgent = max(0, s.urgent-1)
		}
		if b.known && w.exclusive == 0 || n > 0 {
			s.blocked = s.blocked || b.blocking()
			return b, n, true
		}
		if !b.known {
			break
		}
	}
	return nil, 0, false
}

func (w *refSender) show() {
	for i, s := range w.subs {
		credit, waits, blocked := -1, 0, 0
		if s.reader {
			credit = s.credit
		}
		if slices.Contains(w.line, i) {
			waits = 1
		}
		if s.blocked {
			blocked = 1
		}
		line := fmt.Sprintf("st %d c=%d a=%d q=%d b=%d x=%d", i, credit, waits, len(s.queue), s.backlog(), blocked)
		if w.failed {
			line += " gone"
		}
		if line != s.last {
			s.last = line
			w.out = append(w.out, line)
		}
	}
}
