package credit

import (
	"github.com/weirflow/weir/segment"
)

// View is one consumer's cursor over a subpartition or a range of them (ResultSubpartitionView). It belongs to whoever
// owns the partition's loop half; its listener is called by the same owner, from within the calls that cause it.
type View interface {
	// Poll takes the next buffer or event, which it writes to p. It returns false when there is none now; what p holds means
	// nothing then. (By a pointer: a copy of what was just written field by field waits for the cache.)
	Poll(p *Polled) bool
	// Available reports whether Poll would give something to a consumer that has credit or not, and the backlog. A spurious
	// true is normal.
	Available(credit bool) (ok bool, backlog int32)
	// Subpartition returns the subpartition that the next Poll takes from, -1 if unknown.
	Subpartition() int32
	// Resume ends the block that a blocking event began. It is an error if there is none.
	Resume() error
	// AckAll tells that the consumer has processed all records.
	AckAll()
	// NewBufferSize tells the writer how large the consumer wants buffers to be, in bytes (> 0).
	NewBufferSize(n int32)
	// Release gives the view up: the subpartitions count as consumed. It may be called again.
	Release()
	// Released reports whether the view or what it reads was released.
	Released() bool
	// FailureCause is why the producer failed; nil if it did not.
	FailureCause() error
}

// ViewListener hears that a view has something. A call is a hint: Poll may still give nothing.
type ViewListener interface {
	// DataAvailable: there is data or an event.
	DataAvailable()
	// PriorityEvent: there is a priority event, and it is the only one; seq is the sequence number that it will get.
	PriorityEvent(seq int32)
}

// Polled is what a view gives.
type Polled struct {
	// Buf is the data or the event; the caller owns it. It may be the zero Buffer: an empty data message.
	Buf segment.Buffer
	// Type is Buf's type (also of an empty message).
	Type segment.DataType
	// Next is the type of what the next Poll would give if there were credit; segment.None: nothing.
	Next segment.DataType
	// Backlog is the number of data buffers behind this one.
	Backlog int32
	// Seq is the sequence number; of the first one if there are several buffers.
	Seq int32
	// Subpartition is where Buf comes from, -1 if unknown.
	Subpartition int32
	// More are further buffers of the same message, behind Buf; the caller owns them, but not the slice, which is valid until the next Poll.
	// Only who takes several buffers in one message gets any (see Reader.Packs).
	More []segment.Buffer
	// Sizes are those of the buffers in the message, if it is several: the ones that Buf is made of, or Buf's and those of More. They are
	// valid until the next Poll. Nil: it is a single one.
	Sizes []int32
}

// subView is a view of one subpartition.
type subView struct {
	s        *Subpartition
	listener ViewListener
	packs    bool // several buffers into one message
	released bool
}

func (v *subView) Poll(p *Polled) bool {
	if !v.s.poll(p) {
		return false
	}
	if v.packs {
		v.s.pack(p)
		p.Backlog = v.s.packedBacklog()
	}
	return true
}

// Available is also true when the producer has failed, so that whoever sends finds nothing and reports the cause.
func (v *subView) Available(credit bool) (bool, int32) {
	if v.s.released && v.s.part.cause != nil && !v.s.part.cfg.SilentFailure {
		return true, 0
	}
	if v.packs {
		return v.s.available(credit), v.s.packedBacklog()
	}
	return v.s.available(credit), v.s.Backlog()
}

func (v *subView) Subpartition() int32 { return v.s.index }

func (v *subView) Resume() error { return v.s.resume() }

func (v *subView) AckAll() { v.s.ack() }

func (v *subView) NewBufferSize(n int32) { v.s.setBufferSize(n) }

func (v *subView) Released() bool { return v.released || v.s.released }

func (v *subView) FailureCause() error { return v.s.part.failureCause() }

func (v *subView) Release() {
	if v.released {
		return
	}
	v.released = true
	v.listener = nil
	v.s.consumed()
}
