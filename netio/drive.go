package netio

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/weirflow/weir/ringbuf"
)

// RunUntil runs the loop's turns in the caller's goroutine until ready returns true, and waits in between. It returns nil then,
// the context's error if ctx is done first, or ErrClosed. The caller must not hold the token, so it is not for handlers.
//
// ready is called by the caller's goroutine, within and between turns, with and without the token: it is cheap, does not block,
// and reads only what others may write at that moment. n is the caller's own notifier: whoever makes ready true calls n.Wake
// after, be it within a turn or not, as the turn may be somebody else's. n may be nil; then ready is also asked at intervals.
//
// If another goroutine already drives the loop, the caller sleeps on n, and takes the turns over when that one stays away. A
// caller that drives, and whose turns serve others only, becomes such a follower (vainTurns). With a dedicated loop it always sleeps on n, and
// while the loop has no connections nobody drives (rest). Nothing is allocated when ctx was seen in one of the last few calls.
func (l *Loop) RunUntil(ctx context.Context, ready func() bool, n *ringbuf.Notifier) error {
	if ready() {
		return nil
	}
	patience := time.Duration(0)
	if n == nil {
		n, patience = ringbuf.NewNotifier(), followStep
	}
	for {
		if err := l.stopped(ctx); err != nil {
			return err
		}
		if l.alone() {
			done, err := l.rest(ctx, ready, n, patience)
			if done {
				return err
			}
			continue
		}
		left := false
		if !l.cfg.Dedicated && l.acquireSpin() {
			done, leaves, err := l.drive(ctx, ready, n)
			if done {
				return err
			}
			left = leaves
		}
		done, err := l.follow(ctx, ready, n, patience, left)
		if done {
			return err
		}
	}
}

func (l *Loop) stopped(ctx context.Context) error {
	if l.closing.Load() {
		return ErrClosed
	}
	if ctx != nil {
		return ctx.Err()
	}
	return nil
}

// vainTurns is after how many turns that served those that follow, but not the driver itself, it leaves the drive to them: driving, they are
// spared a wake-up for each portion. When they stay away the standby calls it back (duty), so without one it stays.
const vainTurns = 16

// drive runs turns. The caller holds the token, and drive gives it up. Not done means that the caller follows: another consumer sleeps as the
// loop's driver, or (left) the caller leaves the drive to whom it served.
func (l *Loop) drive(ctx context.Context, ready func() bool, n *ringbuf.Notifier) (done, left bool, err error) {
	l.drives.Add(1)
	for vain := 0; ; {
		follows := l.follows.Load()
		// Without polling the kernel is asked by sleeping. While others keep the loop from that it is asked now and then.
		look := pollKernel
		if l.pollFor() == 0 {
			look = l.nowAndThen()
		}
		worked := l.round(look)
		served := worked && l.giveWay()
		if ready() {
			break
		}
		if err = l.stopped(ctx); err != nil {
			break
		}
		if !worked {
			if !l.nap(ctx, ready, n) && !l.spin(l.pollFor(), ready) {
				if l.state.Load()&asleep != 0 {
					l.Release()
					return false, false, nil
				}
				if !l.sleep(ctx, ready, n, never, false) {
					continue
				}
			}
			if ready() {
				break // without another look at the kernel
			}
			served = l.wokenWait()
		}
		// Of very many followers nobody knows whether they were served.
		if served && l.followers.n.Load() <= mostLooks && l.cfg.Standby > 0 {
			if vain++; vain == vainTurns {
				l.release(true, follows) // those that it has not served sleep on
				return false, true, nil
			}
		}
	}
	l.release(err == nil, l.follows.Load())
	return true, false, err
}

// What giveWay allows others: a turn that comes later than slowWay has met goroutines that compute, and then it does not
// give way for a while.
const (
	slowWay   = 4 * time.Millisecond
	slowTurns = 256
)

// giveWay lets the followers that a turn has woken run before the next one, and reports whether there are any. Without it the driver, who never
// waits while data flows, leaves them all to other threads, and whom these happen to take first gets most of the rate.
func (l *Loop) giveWay() (woken bool) {
	switch woken = l.wokenWait(); {
	case !woken:
	case l.noWay > 0:
		l.noWay--
	default:
		start := time.Since(l.base)
		runtime.Gosched()
		if time.Since(l.base)-start > slowWay {
			l.noWay = slowTurns
		}
	}
	return woken
}

// mostLooks bounds what a look at the followers costs a turn.
const mostLooks = 64

// wokenWait tells whether a follower has been woken and did not run since. Of very many, one is taken to be.
func (l *Loop) wokenWait() bool {
	if l.followers.n.Load() == 0 {
		return false
	}
	f := &l.followers
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.list) > mostLooks {
		return true
	}
	for _, n := range f.list {
		if !n.Sleeping() {
			return true
		}
	}
	return false
}

// followStep is how often a follower that nobody can wake looks by itself.
const followStep = time.Millisecond

// follow sleeps on n until ready, or until there is no driver any more or patience is over (done is false). Who has just left the drive
// does not take it up again because nobody else has yet.
func (l *Loop) follow(ctx context.Context, ready func() bool, n *ringbuf.Notifier, patience time.Duration, left bool) (done bool, err error) {
	n.Prepare()
	l.followers.add(n)
	l.follows.Add(1)
	defer l.followers.remove(n)
	switch s := l.state.Load(); {
	case ready():
		n.Cancel()
		return true, nil
	case l.closing.Load():
		n.Cancel()
		return true, ErrClosed
	case s&(held|asleep) == 0 && !left:
		n.Cancel()
		return false, nil // the driver left before we were on its list
	}
	if patience > 0 {
		n.WaitTimeout(patience)
	} else if err := n.Wait(ctx); err != nil {
		return true, err
	}
	return ready(), nil
}

// sleep waits in the kernel until something happens, at most limit, and does it. The caller holds the token before and after,
// but not meanwhile. It reports whether there was something to do. ctx, ready and n may be nil. nap: see there.
func (l *Loop) sleep(ctx context.Context, ready func() bool, n *ringbuf.Notifier, limit time.Duration, nap bool) (worked bool) {
	if l.oneP {
		runtime.Gosched() // what can run runs before this thread takes the only P into the kernel
	}
	l.cancels.watch(ctx, l.wakeFn)
	l.state.Add(oneSleep)
	if n != nil {
		n.PrepareHook(&l.wakeFn)
	}
	l.sysTakePeeks()
	events := pollKernel
	// The last look, now that whoever brings work knows of the sleeper. The kernel is looked at by sleeping.
	if !l.round(noKernel) && (ready == nil || !ready()) && l.stopped(ctx) == nil {
		until := l.due()
		if limit != never {
			until = min(until, l.clock()+limit)
		}
		d := l.sleepTime(until)
		sole := l.state.Load()&asleep == oneSleep
		if !sole {
			until = max(until, l.sleepUntil) // several sleep: the latest, so that an earlier timer is never missed
		}
		l.sleepUntil = until
		l.stats.Sleeps++
		if !l.cfg.Dedicated {
			l.check.released()
			l.state.And(^uint32(held))
		}
		turns := l.turns.Load()
		if l.kicked.Load() == 0 {
			events = l.sysSleep(d, sole, nap)
		}
		if !l.cfg.Dedicated {
			l.acquire()
		}
		if l.turns.Load() != turns {
			events = pollKernel // somebody else has handled them
		}
	} else {
		worked = true
	}
	l.state.Add(^uint32(oneSleep - 1)) // subtracts oneSleep
	if n != nil {
		n.CancelHook()
	}
	return l.round(events) || worked
}

// cancels remembers for which contexts the loop is woken when they are done. The key is the channel, as a context need not
// be comparable. It keeps the last few, so that a consumer that passes the same context every time registers once.
type cancels struct {
	mu   sync.Mutex
	list [4]struct {
		done <-chan struct{}
		stop func() bool
	}
	next int
}

func (k *cancels) watch(ctx context.Context, f func()) {
	if ctx == nil {
		return
	}
	done := ctx.Done()
	if done == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.list {
		if k.list[i].done == done {
			return
		}
	}
	e := &k.list[k.next]
	k.next = (k.next + 1) % len(k.list)
	if e.stop != nil {
		e.stop()
	}
	e.done, e.stop = done, context.AfterFunc(ctx, f)
}

func (k *cancels) clear() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.list {
		if k.list[i].stop != nil {
			k.list[i].stop()
		}
	}
	clear(k.list[:])
}
