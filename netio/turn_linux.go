//go:build linux && !weirportable

package netio

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weirflow/weir/internal/buildtag"
	"golang.org/x/sys/unix"
)

// loopSys is the epoll half of a loop.
//
// Everything is level-triggered: what is not read or written in one turn is reported again in the next, so that turns stay
// short and nothing needs to be remembered. Write interest is on only while a socket is full, and a connection that neither
// wants to read nor to write is not in the set at all, since a hang-up is reported whatever the mask says.
//
// An event carries a slot's index and generation rather than a descriptor: an event of a closed connection doesn't match the
// generation, even if its descriptor number has been given to another one within the same batch.
type loopSys struct {
	epfd, evfd int

	signalled atomic.Uint32 // evfd has been written to since a turn took it
	naps      bool          // sysEpollNap works
	users     atomic.Int32  // goroutines about to write to evfd; -1<<30 added: closed

	events   [eventsPerTurn]unix.EpollEvent
	sleepEv  [32]unix.EpollEvent // of the one that sleeps
	shareEv  [1]unix.EpollEvent  // of others that do, which don't look at it
	watchEv  [1]unix.EpollEvent  // the standby's, likewise
	slots    []slot
	freeSlot []int32
	region   []byte
	space    Space
	last     *Conn // what data has come through last; nil: none, or it is closed
	polling  bool  // sysReadLast reads, from a socket that nobody has said to have something
	vec      vectors
	seals    sealPool
	owing    []*Conn // of which something was seen that is still in their sockets
	busy     int     // turns that did something since anything was seen
	joined   []byte  // what is shorter than a record of TLS, for the time of a call
}

// slot is what an event refers to.
type slot struct {
	gen int32
	h   eventHandler // nil: free, or the wake-up descriptor
}

// eventHandler is a connection or a listener.
type eventHandler interface {
	event(mask uint32)
}

const sysClosed = -1 << 30

func (l *Loop) sysOpen() (err error) {
	s := &l.sys
	s.epfd, s.evfd = -1, -1
	defer func() {
		if err != nil {
			l.sysFree()
		}
	}()
	if s.region, err = mapRegion(l.cfg.ReadSize); err != nil {
		return fmt.Errorf("netio: region of %d bytes: %w", l.cfg.ReadSize, err)
	}
	if s.epfd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("netio: epoll_create1: %w", err)
	}
	if s.evfd, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("netio: eventfd: %w", err)
	}
	_, errno := sysEpollNap(s.epfd, s.sleepEv[:], 0)
	s.naps = errno == 0
	s.slots = append(s.slots, slot{}) // slot 0 is the wake-up descriptor
	if err = unix.EpollCtl(s.epfd, unix.EPOLL_CTL_ADD, s.evfd, &unix.EpollEvent{Events: unix.EPOLLIN}); err != nil {
		return fmt.Errorf("netio: epoll_ctl: %w", err)
	}
	return nil
}

// sysFree gives back what sysOpen took. Nobody may be about to wake the loop: see sysShut.
func (l *Loop) sysFree() {
	s := &l.sys
	for _, fd := range []*int{&s.epfd, &s.evfd} {
		if *fd >= 0 {
			_ = unix.Close(*fd)
		}
		*fd = -1
	}
	unmapRegion(s.region)
	s.region = nil
}

// sysShut makes every later sysInterrupt do nothing, and returns when none is under way: the number of the wake-up descriptor
// may be given to a file afterwards, and must not be written to.
func (l *Loop) sysShut() {
	s := &l.sys
	s.users.Add(sysClosed)
	for s.users.Load() != sysClosed {
		time.Sleep(10 * time.Microsecond)
	}
}

// sysInterrupt ends a sleep in the kernel. Calls until the next turn cost one atomic.
func (l *Loop) sysInterrupt() {
	s := &l.sys
	if s.signalled.Load() != 0 || s.signalled.Swap(1) != 0 {
		return
	}
	if s.users.Add(1) > 0 {
		var one [8]byte
		binary.NativeEndian.PutUint64(one[:], 1)
		_, _ = sysWriteFD(s.evfd, one[:]) // cannot fail: the counter is far from full
	}
	s.users.Add(-1)
}

// sysTakeWakeup empties the wake-up descriptor at the start of a turn, so that work made visible before a suppressed wake-up is
// visible to the turn. While somebody sleeps it is left alone: a sleeper that has been woken but does not run yet would go
// back to sleep.
func (l *Loop) sysTakeWakeup() {
	s := &l.sys
	if s.signalled.Load() == 0 || l.state.Load()&(asleep|watch) != 0 {
		return
	}
	var b [8]byte
	_, _ = sysRead(s.evfd, b[:])
	s.signalled.Store(0)
	l.stats.Wakeups++
}

// sysPoll handles what the kernel reports now.
func (l *Loop) sysPoll() (worked bool) {
	s := &l.sys
	l.sysSettlePeeks(false)
	n, errno := sysEpollPoll(s.epfd, s.events[:])
	if errno != 0 || n <= 0 {
		return false
	}
	return l.dispatch(s.events[:n])
}

// fewConns is among how many sockets the next data is looked for where the last came.
const fewConns = 3

// sysFew tells whether polling may read from one socket between two questions to the kernel: there are few, the kernel reports all that
// comes for them, and none waits for room.
func (l *Loop) sysFew() bool {
	if c := l.sys.last; c == nil || c.sys.mask&unix.EPOLLIN == 0 || len(l.conns) > fewConns || len(l.raised) > 0 {
		return false
	}
	for _, c := range l.conns {
		if c.blocked || c.p != nil {
			return false
		}
	}
	return true
}

// sysReadLast reads once from the socket that brought data last. Whatever else there is is left to sysPoll.
func (l *Loop) sysReadLast() (worked bool) {
	c := l.sys.last
	if c == nil || c.sys.mask&unix.EPOLLIN == 0 {
		return false
	}
	reads, gone := l.stats.Reads, len(l.gone)
	l.sys.polling = true
	c.event(unix.EPOLLIN)
	l.sys.polling = false
	return l.stats.Reads != reads || len(l.gone) != gone
}

// sysHandle handles the n events that sysSleep has brought.
func (l *Loop) sysHandle(n int) { l.dispatch(l.sys.sleepEv[:n]) }

func (l *Loop) dispatch(events []unix.EpollEvent) (worked bool) {
	s := &l.sys
	for i := range events {
		ev := &events[i]
		if ev.Fd == 0 {
			s.signalled.Store(1) // it may have been written just after it was emptied
			continue
		}
		worked = true
		if sl := &s.slots[ev.Fd]; sl.gen == ev.Pad && sl.h != nil {
			sl.h.event(ev.Events)
		}
	}
	return worked
}

// sysSleep waits until the kernel has something to report, at most d (negative: no limit). For the sole sleeper it returns how
// many events there are for sysHandle; for others, who use the same memory without looking at it, the events stay to be polled.
func (l *Loop) sysSleep(d time.Duration, sole, nap bool) (events int) {
	s := &l.sys
	switch {
	case !sole:
		_, _ = unix.EpollWait(s.epfd, s.shareEv[:], millis(d))
		return 0
	case nap:
		n, _ := sysEpollNap(s.epfd, s.sleepEv[:], d)
		return max(n, 0)
	}
	n, _ := unix.EpollWait(s.epfd, s.sleepEv[:], millis(d))
	return max(n, 0)
}

// sysCanNap tells whether the kernel (5.11) and the build have a wait that is shorter than a millisecond.
func (l *Loop) sysCanNap() bool { return l.sys.naps }

// sysWatch is the standby's sysSleep.
func (l *Loop) sysWatch(d time.Duration) {
	_, _ = unix.EpollWait(l.sys.epfd, l.sys.watchEv[:], millis(d))
}

// millis rounds up, so that a sleeper doesn't wake before it is due.
func millis(d time.Duration) int {
	if d < 0 {
		return -1
	}
	return int(min((d+time.Millisecond-1)/time.Millisecond, 1<<30))
}

// takeSlot finds a slot for h.
func (s *loopSys) takeSlot(h eventHandler) (index int32) {
	if last := len(s.freeSlot) - 1; last >= 0 {
		index = s.freeSlot[last]
		s.freeSlot = s.freeSlot[:last]
	} else {
		index = int32(len(s.slots))
		s.slots = append(s.slots, slot{})
	}
	s.slots[index].h = h
	return index
}

// dropSlot frees a slot; events that refer to it mean nothing from now on.
func (s *loopSys) dropSlot(index int32) {
	s.slots[index].gen++
	s.slots[index].h = nil
	s.freeSlot = append(s.freeSlot, index)
}

// setMask brings the descriptor's entry in the epoll set from mask old to mask want; 0 means that there is none.
func (l *Loop) setMask(fd int, index int32, old, want uint32) error {
	op := unix.EPOLL_CTL_MOD
	switch {
	case old == want:
		return nil
	case old == 0:
		op = unix.EPOLL_CTL_ADD
	case want == 0:
		op = unix.EPOLL_CTL_DEL
	}
	if h := l.hooks; h != nil && h.ctl != nil {
		if err := h.ctl(op, fd); err != nil {
			return err
		}
	}
	ev := unix.EpollEvent{Events: want, Fd: index, Pad: l.sys.slots[index].gen}
	return unix.EpollCtl(l.sys.epfd, op, fd, &ev)
}

// mapRegion makes the region that all connections of a loop read into. It is outside the Go heap, so that the collector never
// looks at it; race builds have it on the heap, where the detector sees it.
func mapRegion(n int) ([]byte, error) {
	if buildtag.Race {
		return make([]byte, n), nil
	}
	return unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
}

func unmapRegion(p []byte) {
	if p != nil && !buildtag.Race {
		_ = unix.Munmap(p)
	}
}

// hooks let tests stand in for the kernel.
type hooks struct {
	read    func(c *Conn, p []byte) (int, unix.Errno)
	readv   func(c *Conn, v *vectors) (int, unix.Errno)
	write   func(c *Conn, v *vectors) (int, unix.Errno)
	send    func(c *Conn, part filePart) (int, unix.Errno)
	ctl     func(op, fd int) error
	accept  func() error
	closeFD func(fd int)
	copyMax int // instead of CopyLimit, if not 0
}

func (l *Loop) copyLimit() int {
	if h := l.hooks; h != nil && h.copyMax != 0 {
		return h.copyMax
	}
	return CopyLimit
}
