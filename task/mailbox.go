package task

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/weirflow/weir/ringbuf"
)

// Errors of a mailbox.
var (
	// ErrMailboxFull says that as many mails wait as the mailbox has room for: the task is stuck, or posted to itself.
	ErrMailboxFull = errors.New("mailbox is full")
	// ErrMailboxClosed says that the mailbox takes no such mail any more.
	ErrMailboxClosed = errors.New("mailbox is closed")
)

// Mail is something for a task to do, in its own goroutine, between two records.
type Mail struct {
	Name string       // for errors and logs
	Do   func() error // an error ends the task
}

// Mailbox brings work for a task from other goroutines (Flink: TaskMailboxImpl). The task asks HasMail between records,
// which is one atomic load, and processes what came when it likes; nothing in it takes a lock.
//
// Urgent mails are taken before all others, and among themselves in the order in which they came, as are the others.
//
// Post, PostUrgent and HasMail are for any goroutine; everything else belongs to the task's.
//
// Invariant: a mail whose post returned nil is taken exactly once, or handed back by Close.
type Mailbox struct {
	waiting atomic.Int64 // mails posted, or being posted, and not taken
	urgent  *ringbuf.MPSC[Mail]
	normal  *ringbuf.MPSC[Mail]
	sleeper *ringbuf.Notifier
}

// NewMailbox returns a mailbox with room for capacity mails, at least, of each of the two kinds. Every post wakes sleeper,
// which is what the task sleeps on, also for its input; nil: the mailbox makes one of its own.
func NewMailbox(capacity int, sleeper *ringbuf.Notifier) *Mailbox {
	if sleeper == nil {
		sleeper = ringbuf.NewNotifier()
	}
	return &Mailbox{urgent: ringbuf.NewMPSC[Mail](capacity), normal: ringbuf.NewMPSC[Mail](capacity), sleeper: sleeper}
}

// Post posts a mail. Errors: ErrMailboxFull; ErrMailboxClosed after Quiesce or Close.
func (m *Mailbox) Post(mail Mail) error { return m.post(m.normal, mail) }

// PostUrgent posts an urgent mail: control of the task, which even a mailbox that was quiesced still takes. Errors:
// ErrMailboxFull; ErrMailboxClosed after Close.
func (m *Mailbox) PostUrgent(mail Mail) error { return m.post(m.urgent, mail) }

func (m *Mailbox) post(to *ringbuf.MPSC[Mail], mail Mail) error {
	// Counted first: once the post has returned, HasMail says so until the mail is taken.
	m.waiting.Add(1)
	if !to.Push(mail) {
		m.waiting.Add(-1)
		if to.Closed() {
			return fmt.Errorf("%w: %s", ErrMailboxClosed, mail.Name)
		}
		return fmt.Errorf("%w: %s", ErrMailboxFull, mail.Name)
	}
	m.sleeper.Wake()
	return nil
}

// HasMail tells whether a mail waits. It costs one atomic load. It may be true a moment too early, while a mail is being
// posted.
func (m *Mailbox) HasMail() bool { return m.waiting.Load() > 0 }

// Take takes the next mail, an urgent one first.
func (m *Mailbox) Take() (Mail, bool) {
	mail, ok := m.urgent.Pop()
	if !ok {
		mail, ok = m.normal.Pop()
	}
	if ok {
		m.waiting.Add(-1)
	}
	return mail, ok
}

// Process runs the mails that wait now, and urgent ones also if they come meanwhile; other mails that come meanwhile are
// left for the next call, so that mails which post mails don't keep the task from its input. It returns how many it ran.
// The first error ends it; the mails after it still wait.
func (m *Mailbox) Process() (n int, err error) {
	if !m.HasMail() {
		return 0, nil
	}
	for batch := m.normal.Len(); ; n++ {
		mail, ok := m.urgent.Pop()
		if !ok {
			if batch == 0 {
				return n, nil
			}
			if mail, ok = m.normal.Pop(); !ok {
				return n, nil
			}
			batch--
		}
		m.waiting.Add(-1)
		if err := mail.Do(); err != nil {
			return n + 1, fmt.Errorf("mail %s: %w", mail.Name, err)
		}
	}
}

// Wait sleeps until a mail waits, or ctx is done, and returns its error then.
func (m *Mailbox) Wait(ctx context.Context) error {
	return ringbuf.Park().Until(ctx, m.sleeper, func() bool { return m.urgent.Len()+m.normal.Len() > 0 })
}

// Quiesce refuses all mails but urgent ones from now on. Those that wait can still be taken.
func (m *Mailbox) Quiesce() { m.normal.Close() }

// Close refuses all mails from now on and hands each one that waits to undone, which may be nil; it is not run. It waits for
// posts that have begun, which takes moments.
func (m *Mailbox) Close(undone func(Mail)) {
	m.urgent.Close()
	m.normal.Close()
	for !m.urgent.Drained() || !m.normal.Drained() {
		if mail, ok := m.Take(); ok && undone != nil {
			undone(mail)
		}
	}
}
