package credit

import (
	"fmt"
	"sync/atomic"

	"github.com/weirflow/weir/ringbuf"
	"github.com/weirflow/weir/segment"
)

// commandKind is what a task asks of the loop half of a gate.
type commandKind uint8

const (
	cmdResume commandKind = iota
	cmdAck
	cmdRelease
	cmdBufferSize
	cmdRoom // a local channel has room again
)

// command is one thing that a task asks of the loop half of a gate.
type command struct {
	kind    commandKind
	channel int32
	n       int32
}

// GateLink joins the two halves of a gate for one loop: a ring of arrivals from the loop to the task, a ring of commands
// back. (Buffers go back through the receive pool.) Its methods are those of an Upstream and belong to the task; the loop
// uses it through a GatePort.
type GateLink struct {
	arrivals *ringbuf.SPSC[Arrival]
	commands *ringbuf.SPSC[command]
	sig      *gateSignal
	wake     func()
	late     ringbuf.Deque[command] // task: commands that found no room, oldest first
	releaser *segment.Releaser      // task: the way back for buffers; nil without a port

	// shares has an entry for each channel of the gate, for those that are local.
	shares []localShare
	// wanted is what the loop half's channels would need beyond their exclusive buffers, for debloating: it is
	// written by the loop once a turn and read by the task.
	wanted atomic.Int64
	// eventBytes is the cost of the events between the loop and the task: added by the loop, taken off by the task.
	eventBytes atomic.Int64
	// full: the loop has arrivals that found no room; the task wakes it after it made some.
	full atomic.Bool
	// closed: the gate was closed, and the task will not touch the link again.
	closed atomic.Bool
}

var _ Upstream = (*GateLink)(nil)

// NewLink adds a link to a loop. segments is the number of buffers that can be on their way or in use at once on that
// loop for this gate; wake wakes the loop (nil: it needs no waking) and must be cheap when it is awake. To be called before
// the gate is used. It panics if segments is not positive.
func (g *Gate) NewLink(segments int, wake func()) *GateLink {
	if segments <= 0 {
		panic(fmt.Sprintf("credit: link for %d segments", segments))
	}
	// Buffers fill the ring at most up to segments; a channel seldom has more than a few events at once, and those that
	// find no room wait in the port.
	l := &GateLink{
		arrivals: ringbuf.NewSPSC[Arrival](segments + 2*len(g.chans) + 64),
		commands: ringbuf.NewSPSC[command](4*len(g.chans) + 64),
		sig:      g.sig,
		wake:     wake,
		shares:   make([]localShare, len(g.chans)),
	}
	g.links = append(g.links, l)
	return l
}

func (l *GateLink) post(c command) {
	l.flushCommands()
	if l.late.Len() > 0 || !l.commands.Push(c) {
		l.late.PushBack(c)
	}
	if l.wake != nil {
		l.wake()
	}
}

// flushCommands pushes commands that found no room.
func (l *GateLink) flushCommands() {
	for l.late.Len() > 0 && l.commands.Push(*l.late.Front()) {
		l.late.PopFront()
	}
}

// Resume posts ResumeConsumption.
func (l *GateLink) Resume(ch int) error {
	l.post(command{kind: cmdResume, channel: int32(ch)})
	return nil
}

// AckAll posts AckAllUserRecordsProcessed.
func (l *GateLink) AckAll(ch int) { l.post(command{kind: cmdAck, channel: int32(ch)}) }

// ReleaseChannel posts the channel's release.
func (l *GateLink) ReleaseChannel(ch int) { l.post(command{kind: cmdRelease, channel: int32(ch)}) }

// AnnounceBufferSize posts NewBufferSize.
func (l *GateLink) AnnounceBufferSize(ch int, n int32) {
	l.post(command{kind: cmdBufferSize, channel: int32(ch), n: n})
}
