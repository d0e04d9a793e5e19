package credit

import (
	"errors"
	"fmt"
	"math"

	"github.com/weirflow/weir/segment"
)

// Reader serves one channel of one connection (CreditBasedSequenceNumberingViewReader): a view and how much of it the
// receiver has room for. It belongs to the owner of its connection's Scheduler.
type Reader struct {
	id      ChannelID
	view    View
	sched   *Scheduler
	credit  int32 // data messages that may be sent
	initial int32 // credit of the request
	// failureSent: the receiver was told that the producer failed; once is enough.
	failureSent bool

	// The scheduler's line of readers that may have something.
	queued     bool
	prev, next *Reader
}

// ID returns the channel's id.
func (r *Reader) ID() ChannelID { return r.id }

// Credit returns how many data messages may be sent.
func (r *Reader) Credit() int32 { return r.credit }

// Queued reports whether the reader stands in the line of readers that may have something.
func (r *Reader) Queued() bool { return r.queued }

// View returns what the reader reads.
func (r *Reader) View() View { return r.view }

// DataAvailable is the view's notification.
func (r *Reader) DataAvailable() { r.sched.notify(r) }

// PriorityEvent is the view's notification; to the server a priority event is like any other.
func (r *Reader) PriorityEvent(int32) { r.sched.notify(r) }

// SendsFiles reports whether the connection takes buffers that are parts of a file.
func (r *Reader) SendsFiles() bool {
	f, ok := r.sched.out.(fileSender)
	return ok && f.SendsFiles()
}

// leaves notes that the consumer goes of its own accord, and is not lost.
func (r *Reader) leaves() {
	if v, ok := r.view.(*blockingView); ok {
		v.left = true
	}
}

// available reports whether the reader may send something, and the view's backlog.
func (r *Reader) available() (bool, int32) { return r.view.Available(r.credit > 0) }

// needsAnnouncement reports whether the receiver can only learn from an announcement that there is a backlog: it had no
// credit from the beginning and has none now.
func (r *Reader) needsAnnouncement(available bool, backlog int32) bool {
	return !available && backlog > 0 && r.initial == 0 && r.credit == 0
}

// addCredit adds n > 0. More than an int32 holds is as good as that.
func (r *Reader) addCredit(n int32) { r.credit += min(n, math.MaxInt32-r.credit) }

// resume ends a block. A receiver without exclusive buffers has returned all its floating ones.
func (r *Reader) resume() error {
	if r.initial == 0 {
		r.credit = 0
	}
	return r.view.Resume()
}

// errNoCredit is our own broken invariant: a view gave data without credit.
var errNoCredit = errors.New("no credit available")

// take takes the next message off the view, into p. more: the view has something that may be sent now.
func (r *Reader) take(p *Polled) (more, ok bool, err error) {
	if !r.view.Poll(p) {
		return false, false, nil
	}
	if p.Type.IsBuffer() {
		if r.credit--; r.credit < 0 {
			p.Buf.Release()
			for _, b := range p.More {
				b.Release()
			}
			return false, false, fmt.Errorf("credit: channel %s: %w", r.id, errNoCredit)
		}
	}
	more = p.Next != segment.None && (r.credit > 0 || p.Next.IsEvent())
	return more, true, nil
}
