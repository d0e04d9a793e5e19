package weir

import (
	"errors"

	"github.com/weirflow/weir/align"
)

// mail is what somebody else has to tell a task.
type mail struct {
	kind    mailKind
	barrier Barrier
	id      int64
	cause   error
}

type mailKind uint8

const (
	mailTrigger mailKind = iota
	mailCompleted
	mailAborted
)

// errTaskAborted is the cause of an abort that names none.
var errTaskAborted = errors.New("the coordinator aborted it")

// Trigger makes the task take a checkpoint: of a task without an input the barrier goes out between two records, at the latest before
// the next one that is written, or with the next Flush or Poll. To a task with an input the barriers come from its senders, and
// Trigger counts only once all of them have ended, be it before or after the call. So a coordinator may trigger all tasks alike.
// ErrFinished: the task has come to its end. Any goroutine.
func (t *Task) Trigger(b Barrier) error {
	if in, outs := t.parts(); in == nil && len(outs) == 0 {
		return t.error(errors.New("neither an input nor outputs, so no goroutine that would take a checkpoint"))
	}
	return t.post(mail{kind: mailTrigger, barrier: b})
}

// Completed says that all tasks have taken a checkpoint, and that it is safe. Any goroutine.
func (t *Task) Completed(checkpoint int64) { _ = t.post(mail{kind: mailCompleted, id: checkpoint}) }

// Aborted says that a checkpoint was given up: what the task holds for it is dropped, and if its barrier is yet to come, none is sent
// on, but a marker that says so. Any goroutine.
func (t *Task) Aborted(checkpoint int64, cause error) {
	if cause == nil {
		cause = errTaskAborted
	}
	_ = t.post(mail{kind: mailAborted, id: checkpoint, cause: cause})
}

// Posted can be received from when something was posted since Poll: for a task that waits for something of its own. A value may be
// left over from before.
func (t *Task) Posted() <-chan struct{} { return t.posted }

func (t *Task) post(m mail) error {
	if t.closed.Load() {
		return t.error(ErrClosed)
	}
	t.mu.Lock()
	if t.finished && m.kind == mailTrigger {
		t.mu.Unlock()
		return t.error(ErrFinished)
	}
	t.queue = append(t.queue, m)
	t.mu.Unlock()
	t.attention.Store(true)
	select {
	case t.posted <- struct{}{}:
	default:
	}
	if in := t.sleeper.Load(); in != nil {
		in.gate.Alert()
	} else {
		_, outs := t.parts()
		for _, o := range outs {
			o.attention.Store(1)
			o.pool.Notifier().Wake()
		}
	}
	t.node.loop.Wake()
	return nil
}

// Poll does what was posted. Next, Write, Flush and Finish do so, too.
func (t *Task) Poll() error {
	if err := t.serve(); err != nil {
		return err
	}
	if t.input == nil {
		for _, o := range t.outputs { // the barrier is to leave now
			o.flushNow()
		}
	}
	return nil
}

// wants tells whether something was posted. Any goroutine.
func (t *Task) wants() bool { return t != nil && t.attention.Load() }

// serve does what was posted. What it comes to for an input, the next Next hands out.
func (t *Task) serve() error {
	if t.inTurn || !t.attention.Load() {
		return nil
	}
	if t.closed.Load() {
		return t.error(ErrClosed)
	}
	t.inTurn = true
	defer func() { t.inTurn = false }()
	t.attention.Store(false) // before the look: what comes later sets it again
	for {
		t.mu.Lock()
		if len(t.queue) == 0 {
			t.mu.Unlock()
			return nil
		}
		m := t.queue[0]
		t.queue = t.queue[1:]
		t.mu.Unlock()
		if err := t.do(&m); err != nil {
			return err
		}
	}
}

func (t *Task) do(m *mail) error {
	switch m.kind {
	case mailCompleted:
		t.ending.Completed(m.id)
		t.subsume(m.id)
		if f := t.cfg.OnCompleted; f != nil {
			f(m.id)
		}
	case mailAborted:
		if err := t.ending.Aborted(m.id); err != nil {
			return t.error(err)
		}
		if !t.guard.Aborted(m.id) {
			t.drop(m.id, m.cause)
		}
		if f := t.cfg.OnAborted; f != nil {
			f(m.id, m.cause)
		}
	case mailTrigger:
		if t.input != nil {
			t.injected = m.barrier
			return nil
		}
		info, err := t.take(m.barrier, align.Metrics{Known: true})
		if info != nil {
			t.handOut(info)
		}
		return err
	}
	return nil
}

// handOut has the user take the snapshot of a checkpoint that no element tells of.
func (t *Task) handOut(info *CheckpointInfo) {
	if f := t.cfg.OnCheckpoint; f != nil {
		t.busy.call(func() { f(info) })
		return
	}
	info.Ack()
}
