package netio

import (
	"context"
	"time"
)

// Close ends the loop. Listeners are closed at once; connections write what they have queued, for as long as ctx and
// LoopConfig.Grace allow, and are closed; posted functions are run; OnClose was called for every connection when Close
// returns, and the loop's goroutines have ended. Callers of RunUntil get ErrClosed. A nil ctx counts as one without a limit.
//
// The first Close of a loop returns nil, even if connections were cut off; every other one, also of a loop that was never
// made by NewLoop, returns ErrClosed at once. Any goroutine that does not hold the token, so it is not for handlers.
func (l *Loop) Close(ctx context.Context) error {
	if l == nil || l.posts == nil || !l.closing.CompareAndSwap(false, true) {
		return ErrClosed
	}
	l.cancel()
	close(l.quit)
	l.sysInterrupt()
	l.followers.wake()
	l.resters.wake()
	l.own.Wait()
	// Whoever runs turns sees `closing` and leaves; who sleeps needs the token for that. Nobody goes to sleep any more, and in the end the token is
	// not given back.
	for l.acquire(); l.state.Load()&asleep != 0; l.acquire() {
		l.Release()
		l.sysInterrupt()
		time.Sleep(wakeStep)
	}
	l.shutdown(ctx)
	l.workers.Wait()
	l.cancels.clear()
	l.sysShut()
	l.sysFree()
	return nil
}

// wakeStep is how long Close leaves the token to those that it has woken.
const wakeStep = 100 * time.Microsecond

// closeStep is how long a closing loop sleeps at a time: it has to look at the context.
const closeStep = 2 * time.Millisecond

func (l *Loop) shutdown(ctx context.Context) {
	var done <-chan struct{}
	if ctx != nil {
		done = ctx.Done()
	}
	expired := func() bool {
		select {
		case <-done:
			return true
		default:
			return false
		}
	}
	l.posts.Close()
	for len(l.listeners) > 0 {
		l.listeners[0].close()
	}
	l.work()
	l.nowOK = false
	end := l.clock() + l.cfg.Grace
	for i := len(l.conns) - 1; i >= 0; i-- {
		l.conns[i].CloseAfterFlush(l.cfg.Grace)
	}
	for {
		worked := l.work()
		if l.clock() >= end || expired() {
			break
		}
		if len(l.conns) == 0 && len(l.listeners) == 0 && l.dials.Load() == 0 && !l.unseen() {
			break
		}
		if !worked {
			l.sysTakePeeks()
			l.sysSleep(closeStep, false, false)
		}
	}
	// From here on nothing waits for a peer.
	for {
		for i := len(l.conns) - 1; i >= 0; i-- {
			l.conns[i].Close(ErrClosed)
		}
		worked := l.work()
		if len(l.conns) == 0 && len(l.listeners) == 0 && l.shutInbox() && l.posts.Drained() {
			break
		}
		if !worked {
			l.sysTakePeeks()
			l.sysSleep(closeStep, false, false)
		}
	}
	l.settle()
}

// shutInbox closes the inbox if nothing is in it and no dial will put anything there.
func (l *Loop) shutInbox() bool {
	b := &l.inbox
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shut = len(b.list) == 0 && l.dials.Load() == 0
	return b.shut
}
