//go:build !linux || weirportable

package netio

import (
	"net"
	"runtime"
	"syscall"
	"time"
)

// loopSys is the half of a loop without epoll: sleeping is waiting for a channel, as everything that happens comes through the
// inbox.
type loopSys struct {
	sleep, watch chan struct{} // capacity 1: a wake-up is remembered
	sleepTimer   *time.Timer
	watchTimer   *time.Timer
}

func (l *Loop) sysOpen() error {
	s := &l.sys
	s.sleep, s.watch = make(chan struct{}, 1), make(chan struct{}, 1)
	s.sleepTimer, s.watchTimer = time.NewTimer(time.Hour), time.NewTimer(time.Hour)
	s.sleepTimer.Stop()
	s.watchTimer.Stop()
	return nil
}

func (l *Loop) sysShut() {}

func (l *Loop) sysFree() {}

// sysInterrupt ends a sleep.
func (l *Loop) sysInterrupt() {
	s := &l.sys
	for _, c := range []chan struct{}{s.sleep, s.watch} {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

func (l *Loop) sysTakeWakeup() {}

func (l *Loop) sysSettlePeeks(bool) {}
func (l *Loop) sysTakePeeks()       {}
func (l *Loop) sysBusy()            {}

func (l *Loop) sysPoll() bool { return false }

func (l *Loop) sysFew() bool { return false }

func (l *Loop) sysReadLast() bool { return false }

func (l *Loop) sysCanNap() bool { return false }

// sysSleep waits for a wake-up. There are no events.
func (l *Loop) sysSleep(d time.Duration, sole, _ bool) int {
	if !sole {
		time.Sleep(time.Millisecond) // the channel wakes one sleeper only, and its timer cannot be shared
		return 0
	}
	waitFor(l.sys.sleep, l.sys.sleepTimer, d)
	return 0
}

func (l *Loop) sysHandle(int) {}

func (l *Loop) sysWatch(d time.Duration) { waitFor(l.sys.watch, l.sys.watchTimer, d) }

func waitFor(c chan struct{}, t *time.Timer, d time.Duration) {
	if d < 0 {
		<-c
		return
	}
	t.Reset(d)
	select {
	case <-c:
		t.Stop()
	case <-t.C:
	}
}

func sysYield() { runtime.Gosched() }

// control leaves the options to setOptions.
func (l *Loop) control(network, address string, rc syscall.RawConn) error { return nil }

// hooks let tests stand in for the kernel.
type hooks struct {
	copyMax int // instead of CopyLimit, if not 0
}

func (l *Loop) copyLimit() int {
	if h := l.hooks; h != nil && h.copyMax != 0 {
		return h.copyMax
	}
	return CopyLimit
}

// sysConn: there are no native connections here.
type sysConn struct{}

func (c *Conn) sysAdopt(net.Conn) (bool, error) { return false, nil }
func (c *Conn) sysAttach() error                { return nil }
func (c *Conn) sysInterest()                    {}
func (c *Conn) sysClose()                       {}
func (c *Conn) sysWrite()                       {}
func (c *Conn) sysDrain()                       {}
func (c *Conn) sysAgain()                       {}
func (c *Conn) sysFarewell() bool               { return false }
func (c *Conn) sealed() int                     { return 0 }
func (c *Conn) sysShutdown() error              { return nil }
func (c *Conn) sysLowat(int) bool               { return false }
func (c *Conn) delivered() bool                 { return true }
