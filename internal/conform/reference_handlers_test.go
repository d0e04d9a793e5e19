package conform

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// refMeasure keeps the numbers of an alignment.
type refMeasure struct {
	w     *refWorld
	id    int64 // what they are about
	on    bool
	since int64 // ms
	bytes int64
	delay int64 // ms

	known       bool
	nanos, sum  int64
	owed        int64 // the trigger that went out without numbers
	owedTrigger bool
}

func (m *refMeasure) addBytes(n int) {
	if m.on {
		m.bytes += int64(n)
	}
}

func (m *refMeasure) start(b *refItem) {
	m.delay = max(0, m.w.now-b.ts)
	m.reset()
	m.on, m.since, m.id = true, m.w.now, b.id
}

func (m *refMeasure) finish(ms int64) {
	if !m.known {
		m.known, m.nanos, m.sum = true, ms*1_000_000, m.bytes
		if m.owedTrigger {
			m.owedTrigger = false
			m.w.say("measured %d bytes=%d align=%d", m.owed, m.sum, m.nanos)
		}
	}
	m.on, m.bytes = false, 0
}

func (m *refMeasure) reset() {
	m.finish(0)
	m.known = false
}

func (m *refMeasure) trigger(b *refItem) {
	numbers, delay := "bytes=0 align=0", int64(0)
	if b.id == m.id {
		delay = m.delay * 1_000_000
		if m.known {
			numbers = fmt.Sprintf("bytes=%d align=%d", m.sum, m.nanos)
		} else {
			numbers = "bytes=? align=?"
			m.owedTrigger, m.owed = true, b.id
		}
	}
	m.w.say("trigger %d %s %s delay=%d", b.id, b.kind, numbers, delay)
}

// refAligner is the handler of the three exactly-once modes.
type refAligner struct {
	refMeasure
	mode  string
	after bool // checkpoints go on after an end
	open  int

	cur, done int64
	first     *refItem // what began the checkpoint
	seen      map[int]bool
	target    int
	blocked   map[int]bool
	announced map[int]*refItem
	some      bool // a barrier was taken
	turned    bool // it is unaligned
	asked     bool // the task waits for the end of a triggered checkpoint
	over      bool // it ended, one way or the other
	timer     bool
	timerID   int64
	due       int64
}

func (a *refAligner) pending() bool { return a.cur >= 0 && a.cur != a.done }

func (a *refAligner) obsolete(id int64) bool { return id < a.cur || id == a.cur && !a.pending() }

func (a *refAligner) alternating() bool { return a.mode == "alternating" }

// late reports whether more than the barrier's time has passed.
func (a *refAligner) late(b *refItem) bool {
	ms, ok := b.timeout()
	return ok && b.id <= a.cur && a.w.now-b.ts > ms
}

func (a *refAligner) barrier(ch int, b *refItem) error {
	if a.obsolete(b.id) {
		if b.kind == "unaligned" {
			return nil
		}
		return a.w.resume(ch)
	}
	if err := a.begin(b); err != nil {
		return err
	}
	return a.mark(ch, b, func() error { return a.received(ch, b) })
}

func (a *refAligner) announcement(ch int, b *refItem) error {
	if err := a.begin(b); err != nil {
		return err
	}
	switch {
	case a.obsolete(b.id) || a.mode == "exactly-once":
		return nil
	case a.turned:
		return a.w.prioritize(ch, b.seq)
	}
	a.announced[ch] = b
	return nil
}

func (a *refAligner) begin(b *refItem) error {
	if b.id <= a.cur {
		return nil
	}
	if a.pending() {
		if err := a.abort(a.cur, "CHECKPOINT_DECLINED_SUBSUMED"); err != nil {
			return err
		}
	}
	a.cur, a.first, a.seen, a.target, a.over, a.asked = b.id, b, map[int]bool{}, a.open, false, false
	if ms, ok := b.timeout(); ok && a.alternating() {
		a.timer, a.timerID, a.due = true, b.id, a.w.now+max(0, ms-(a.w.now-b.ts))
	}
	return nil
}

// mark counts a channel and does f; what f changed of the state does not count if it fails.
func (a *refAligner) mark(ch int, b *refItem, f func() error) error {
	a.seen[ch] = true
	if len(a.seen) == 1 {
		a.start(b)
		if a.target == 1 {
			a.finish(0)
		}
	}
	if len(a.seen) == a.target && a.target > 1 {
		a.finish(a.w.now - a.since)
	}
	if err := a.try(f); err != nil {
		return err
	}
	if a.first != nil && len(a.seen) == a.target {
		a.seen, a.done, a.timer = map[int]bool{}, a.cur, false
		a.over = true
		if a.asked {
			a.asked = false
			a.w.say("complete %d", a.cur)
		}
	}
	return nil
}

// try does f, and gives the checkpoint up if a channel refuses.
func (a *refAligner) try(f func() error) error {
	some, turned := a.some, a.turned
	err := f()
	if errors.Is(err, errRefused) {
		a.some, a.turned = some, turned
		return a.abort(a.cur, "CHECKPOINT_SUBSUMED")
	}
	return err
}

func (a *refAligner) received(ch int, b *refItem) error {
	last := len(a.seen) == a.target
	if !a.turned {
		if b.kind == "unaligned" && a.mode == "exactly-once" {
			return errWrong
		}
		late := b.kind == "unaligned"
		if b.kind != "unaligned" {
			delete(a.announced, ch)
			a.block(ch)
			if last {
				return a.takeAligned(b)
			}
			late = a.alternating() && a.late(b)
		}
		if !late {
			a.some = true
			return nil
		}
		if err := a.turn(b); err != nil {
			return err
		}
		u, err := b.unaligned()
		if err != nil {
			return err
		}
		b = u
	}
	if b.kind != "unaligned" {
		a.block(ch)
	}
	if !a.some {
		if err := a.takeUnaligned(b); err != nil {
			return err
		}
	}
	a.some = true
	if last {
		return a.finishUnaligned(a.cur)
	}
	return nil
}

// turn makes the checkpoint unaligned from here on.
func (a *refAligner) turn(b *refItem) error {
	for _, ch := range slices.Sorted(maps.Keys(a.announced)) {
		if err := a.w.prioritize(ch, a.announced[ch].seq); err != nil {
			return err
		}
	}
	clear(a.announced)
	if a.some {
		if err := a.takeUnaligned(b); err != nil {
			return err
		}
	}
	a.turned = true
	return nil
}

func (a *refAligner) takeAligned(b *refItem) error {
	if a.mode != "exactly-once" {
		a.w.say("init %d %s", b.id, b.kind)
	}
	a.asked = true
	a.trigger(b)
	return a.rest()
}

func (a *refAligner) takeUnaligned(b *refItem) error {
	u, err := b.unaligned()
	if err != nil {
		return err
	}
	a.w.say("init %d %s", u.id, u.kind)
	if err := a.w.start(u.id); err != nil {
		return err
	}
	a.asked = true
	a.trigger(u)
	return nil
}

func (a *refAligner) finishUnaligned(id int64) error {
	a.w.stop(id)
	return a.rest()
}

// rest lets all senders go and waits for the next checkpoint.
func (a *refAligner) rest() error {
	for _, ch := range slices.Sorted(maps.Keys(a.blocked)) {
		if err := a.w.resume(ch); err != nil {
			return err
		}
	}
	clear(a.blocked)
	clear(a.announced)
	a.some, a.turned = false, a.mode == "unaligned"
	return nil
}

func (a *refAligner) block(ch int) {
	a.w.say("block %d", ch)
	a.blocked[ch] = true
}

func (a *refAligner) cancel(_ int, id int64) error {
	if id > a.cur || id == a.cur && len(a.seen) > 0 {
		return a.abort(id, "CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER")
	}
	return nil
}

func (a *refAligner) abort(id int64, why string) error {
	ran := a.cur
	a.cur, a.done = id, id
	a.first, a.seen, a.target, a.timer = nil, map[int]bool{}, 0, false
	var err error
	if a.turned && a.some {
		err = a.finishUnaligned(id)
	} else {
		err = a.rest()
	}
	if err != nil {
		return err
	}
	a.reset()
	a.w.say("abort %d %s", id, why)
	if a.asked && !a.over {
		a.w.say("incomplete %d", ran)
	}
	a.asked, a.over = false, true
	return nil
}

func (a *refAligner) end(ch int) error {
	a.open--
	switch {
	case !a.after:
		delete(a.blocked, ch)
		delete(a.announced, ch)
		if a.pending() {
			return a.abort(a.cur, "CHECKPOINT_DECLINED_INPUT_END_OF_STREAM")
		}
	case a.pending():
		return a.mark(ch, a.first, func() error { return a.ended(ch) })
	}
	return nil
}

func (a *refAligner) ended(ch int) error {
	delete(a.blocked, ch)
	delete(a.announced, ch)
	last := len(a.seen) == a.target
	switch {
	case !a.some:
	case a.turned && last:
		return a.finishUnaligned(a.cur)
	case a.turned:
	case a.alternating() && a.first.kind == "unaligned":
		return errWrong
	case last:
		return a.takeAligned(a.first)
	case a.alternating() && a.late(a.first):
		return a.turn(a.first)
	}
	return nil
}

func (a *refAligner) clock() error {
	if !a.timer || a.due > a.w.now {
		return nil
	}
	a.w.say("timer")
	a.timer = false
	if a.cur != a.timerID || a.over || a.open == 0 || a.turned {
		return nil
	}
	return a.try(func() error { return a.turn(a.first) })
}

// refTracker is the handler of at-least-once mode.
type refTracker struct {
	refMeasure
	after   bool
	drops   bool // what the last open channel skips is dropped, where Flink leaves it behind
	skipped int  // how much that was
	open    int
	latest  int64
	pending []*refCount // oldest first
}

type refCount struct {
	first   *refItem
	id      int64
	target  int
	seen    map[int]bool
	aborted bool
}

func (t *refTracker) announcement(int, *refItem) error { return nil }
func (t *refTracker) clock() error                     { return nil }

func (t *refTracker) take(b *refItem) {
	t.trigger(b)
	t.w.say("complete %d", b.id)
}

func (t *refTracker) giveUp(id int64, why string) { t.w.say("abort %d %s", id, why) }

func (t *refTracker) barrier(ch int, b *refItem) error {
	if b.id > t.latest && t.open == 1 {
		t.skip()
		t.start(b)
		t.finish(0)
		t.take(b)
		return nil
	}
	for _, c := range t.pending {
		if c.id == b.id {
			c.seen[ch] = true
			_, err := t.complete(c)
			return err
		}
	}
	if b.id > t.latest {
		t.start(b)
		t.latest = b.id
		t.pending = append(t.pending, &refCount{first: b, id: b.id, target: t.open, seen: map[int]bool{ch: true}})
		if len(t.pending) > 50 {
			t.pending = t.pending[1:]
		}
	}
	return nil
}

// complete takes a checkpoint whose channels are all here, and forgets it and the older ones.
func (t *refTracker) complete(c *refCount) (bool, error) {
	if len(c.seen) < c.target {
		return false, nil
	}
	for t.pending[0] != c {
		t.pending = t.pending[1:]
	}
	t.pending = t.pending[1:]
	if !c.aborted {
		if c.id == t.latest {
			if !t.on { // a newer one that was taken at once has ended the measuring
				return true, errWrong
			}
			t.finish(t.w.now - t.since)
		}
		t.take(c.first)
	}
	return true, nil
}

func (t *refTracker) skip() {
	t.skipped += len(t.pending)
	if t.drops {
		t.pending = nil
	}
}

func (t *refTracker) cancel(ch int, id int64) error {
	const why = "CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER"
	if id > t.latest && t.open == 1 {
		t.reset()
		t.skip()
		t.giveUp(id, why)
		return nil
	}
	for len(t.pending) > 0 && t.pending[0].id < id {
		c := t.pending[0]
		t.pending = t.pending[1:]
		if !c.aborted {
			t.giveUp(c.id, why)
		}
	}
	switch {
	case len(t.pending) > 0 && t.pending[0].id == id:
		c := t.pending[0]
		if !c.aborted {
			c.aborted = true
			t.giveUp(id, why)
		}
		c.seen[ch] = true
		if _, err := t.complete(c); err != nil {
			return err
		}
	case id > t.latest:
		t.giveUp(id, why)
		t.latest = id
		t.pending = []*refCount{{id: id, target: t.open, seen: map[int]bool{ch: true}, aborted: true}}
	}
	return nil
}

func (t *refTracker) end(ch int) error {
	t.open--
	if !t.after {
		for _, c := range t.pending {
			if !c.aborted {
				t.giveUp(c.id, "CHECKPOINT_DECLINED_INPUT_END_OF_STREAM")
			}
		}
		t.pending = nil
		t.reset()
		return nil
	}
	for i := len(t.pending) - 1; i >= 0; i-- {
		c := t.pending[i]
		c.seen[ch] = true
		if done, err := t.complete(c); done || err != nil {
			return err
		}
	}
	return nil
}
