package credit

import (
	"fmt"
	"sync/atomic"

	"github.com/weirflow/weir/segment"
)

// LocalConfig describes a channel to a partition of the same process.
type LocalConfig struct {
	// Index is the channel's index in its gate.
	Index int
	// Partition and Range are what it consumes.
	Partition PartitionID
	Range     SubpartitionRange
	// Window is how many data buffers may wait in the gate; the rest stays with the sender. 0: DefaultLocalWindow.
	Window int
	// Again has the loop run another turn after the one that it is in, for what the sender brought in this one. Nil: the link's wake.
	Again func()
}

// DefaultLocalWindow is the default of LocalConfig.Window.
const DefaultLocalWindow = 64

// LocalChannel is the loop half of a channel whose sender lives in the same process (LocalInputChannel). Nothing is
// copied, and there is no credit: buffers go from the sender's view to the gate by reference, a window of them at a
// time, and return to the sender's pool when the task releases them.
//
// Flink's task polls the view itself, under the subpartition's lock. Here view and queue have different owners, so the
// loop moves items over, and the task treats them like those of a remote channel; timeoutable barriers are announced, too.
type LocalChannel struct {
	port  *GatePort
	cfg   LocalConfig
	view  View
	err   error
	moved uint32 // data buffers moved to the gate
	share *localShare

	polled Polled // pump's

	registry *Registry // where waits is
	waits    *waiter   // for the partition; nil: it does not

	listed   bool // in the port's list of channels to pump
	released bool
}

var _ ViewListener = (*LocalChannel)(nil)

// localShare is what both halves of a local channel see.
type localShare struct {
	taken   atomic.Uint32 // data buffers that the task took out of its queue
	starved atomic.Bool   // the loop waits for the task to take some
	_       [56]byte
}

// NewLocalChannel makes a local channel. Registry.OpenLocal then gives it its view, or Connect.
func (p *GatePort) NewLocalChannel(cfg LocalConfig) (*LocalChannel, error) {
	if cfg.Window == 0 {
		cfg.Window = DefaultLocalWindow
	}
	if cfg.Index < 0 || cfg.Index >= len(p.link.shares) || cfg.Window < 0 || !cfg.Range.Valid() {
		return nil, fmt.Errorf("credit: local channel %d over subpartitions %s, window %d", cfg.Index, cfg.Range, cfg.Window)
	}
	for len(p.locals) <= cfg.Index {
		p.locals = append(p.locals, nil)
	}
	if p.closed || p.locals[cfg.Index] != nil || p.Channel(cfg.Index) != nil {
		return nil, fmt.Errorf("credit: channel %d exists", cfg.Index)
	}
	l := &LocalChannel{port: p, cfg: cfg, share: &p.link.shares[cfg.Index]}
	p.locals[cfg.Index] = l
	return l, nil
}

// Connect gives the channel the view that was made for it, with the channel as its listener.
func (l *LocalChannel) Connect(v View) {
	if l.released {
		v.Release()
		return
	}
	l.view = v
	l.DataAvailable()
}

// Fail records why the channel has no view, or lost it, and brings it to the task. The first error counts.
func (l *LocalChannel) Fail(err error) {
	if l.err != nil || l.released {
		return
	}
	l.err = l.error(err)
	a := l.port.stage(segment.None)
	a.Channel, a.Err = int32(l.cfg.Index), l.err
	l.schedule()
}

// Err is the channel's error, nil as long as it has none.
func (l *LocalChannel) Err() error { return l.err }

// Unread is the number of data buffers that were moved to the gate and that the task has not taken yet.
func (l *LocalChannel) Unread() int { return int(l.moved - l.share.taken.Load()) }

// Waits reports whether the channel waits for its partition (see Registry.OpenLocal).
func (l *LocalChannel) Waits() bool { return l.waits != nil }

// Released reports whether the channel was released.
func (l *LocalChannel) Released() bool { return l.released }

func (l *LocalChannel) error(err error) error {
	return &ChannelError{Partition: l.cfg.Partition, Index: l.cfg.Index, Err: err}
}

// DataAvailable is part of ViewListener: the channel is looked at in this or the next turn.
func (l *LocalChannel) DataAvailable() { l.schedule() }

// PriorityEvent is part of ViewListener.
func (l *LocalChannel) PriorityEvent(int32) { l.schedule() }

// schedule makes sure that the port looks at the channel. Not at once: the caller may be in the middle of the view's work.
func (l *LocalChannel) schedule() {
	if l.listed || l.released {
		return
	}
	l.listed = true
	l.port.pumps = append(l.port.pumps, l)
	if len(l.port.pumps) > 1 {
		return // it was asked for
	}
	switch {
	case l.cfg.Again != nil:
		l.cfg.Again()
	case l.port.link.wake != nil:
		l.port.link.wake()
	}
}

// pump moves what the view has to the gate, as far as the window allows. Events take no room in it.
func (l *LocalChannel) pump() {
	if l.view == nil || l.err != nil || l.released {
		return
	}
	for l.roomFor() {
		p := &l.polled
		if !l.view.Poll(p) {
			if l.view.Released() {
				err := l.view.FailureCause()
				if err == nil {
					err = ErrReleased
				}
				l.Fail(err)
			}
			return
		}
		if p.Type.IsBuffer() && p.Buf.Len() == 0 {
			p.Buf.Release() // it only exists to give credit back
			continue
		}
		a := l.port.stage(p.Type)
		a.Channel, a.Seq, a.Subpartition, a.Buf = int32(l.cfg.Index), p.Seq, p.Subpartition, p.Buf.WithType(p.Type)
		if p.Type.IsBuffer() {
			l.moved++
			a.local = true
		}
	}
}

// roomFor reports whether another data buffer may go to the gate; if not, the task will say when.
func (l *LocalChannel) roomFor() bool {
	window := uint32(l.cfg.Window)
	if l.moved-l.share.taken.Load() < window {
		return true
	}
	l.share.starved.Store(true)
	return l.moved-l.share.taken.Load() < window // the task may have taken some before it could see that
}

// do carries out a command of the task.
func (l *LocalChannel) do(c command) {
	if l.released {
		return
	}
	if c.kind == cmdRelease {
		l.release()
		return
	}
	if l.view == nil || l.err != nil {
		return
	}
	switch c.kind {
	case cmdResume:
		if err := l.view.Resume(); err != nil {
			l.Fail(err)
			return
		}
		l.schedule()
	case cmdAck:
		l.view.AckAll()
	case cmdBufferSize:
		l.view.NewBufferSize(c.n)
	case cmdRoom:
		l.schedule()
	}
}

func (l *LocalChannel) release() {
	l.released = true
	l.port.locals[l.cfg.Index] = nil
	l.stopWaiting()
	if l.view != nil {
		l.view.Release()
		l.view = nil
	}
}

// took is called by the task when it takes data out of the queue of a local channel.
func (l *GateLink) took(ch int) {
	s := &l.shares[ch]
	s.taken.Add(1)
	if s.starved.Load() {
		s.starved.Store(false)
		l.post(command{kind: cmdRoom, channel: int32(ch)})
	}
}

// LocalBackoff says how long to wait before a local partition that was not found is asked for again
// (InputChannel#increaseBackoff): first Initial, then twice as long each time up to Max; when Max was waited, no more.
// Initial 0: never. Both in the same unit, milliseconds in Flink (request-backoff.initial and .max).
type LocalBackoff struct {
	Initial, Max int64

	current int64
	last    bool
}

// Next returns the next wait; ok is false when the partition has to be given up, with ErrPartitionNotFound.
func (b *LocalBackoff) Next() (wait int64, ok bool) {
	switch {
	case b.Initial <= 0 || b.last:
		return 0, false
	case b.current == 0:
		b.current = min(b.Initial, b.Max)
	default:
		b.current = min(2*b.current, b.Max)
	}
	b.last = b.current >= b.Max
	return b.current, true
}
