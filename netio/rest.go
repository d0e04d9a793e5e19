package netio

import (
	"context"
	"slices"
	"time"

	"github.com/weirflow/weir/ringbuf"
)

// A loop without connections has nothing to wait for in the kernel: what its callers wait for comes from goroutines of this process, which run
// the turns themselves when they publish something (Kick). A caller that drove such a loop would poll, or sleep where only a system call wakes
// it, while a goroutine that sleeps on its notifier is woken by the runtime for a tenth of that, and mostly runs on the processor that has the
// data. So it runs one turn, and rests. Listeners are the standby's, as ever when nobody drives, and so are timers; the first of those that
// rest keeps the time until the standby does.

// alone tells whether callers of RunUntil rest.
func (l *Loop) alone() bool {
	return l.open.Load() == 0 && l.cfg.Standby > 0 && !l.cfg.Dedicated
}

// rest runs a turn, which sees what was published without a Kick, and then sleeps on n: at most patience, if that is not 0. Not done
// means that the caller looks again, and may drive.
func (l *Loop) rest(ctx context.Context, ready func() bool, n *ringbuf.Notifier, patience time.Duration) (done bool, err error) {
	limit := l.restTurn()
	if ready() {
		return true, nil
	}
	n.Prepare()
	l.addResting(n)
	defer l.removeResting(n)
	switch {
	case ready():
		n.Cancel()
		return true, nil
	case l.closing.Load() || !l.alone():
		n.Cancel()
		return false, nil
	}
	keeps := l.keeper.CompareAndSwap(0, 1)
	if keeps && limit != never {
		l.keepUntil.Store(int64(time.Since(l.base) + limit))
	} else {
		limit = never
	}
	if patience > 0 {
		limit = min(limit, patience)
	}
	if limit == never {
		err = n.Wait(ctx)
	} else {
		err = n.WaitFor(ctx, limit)
	}
	if keeps {
		l.keepUntil.Store(int64(never))
		l.keeper.Store(0)
	}
	if err != nil {
		return true, err
	}
	return ready(), nil
}

// restTurn runs one turn, and returns how long it is until the next one is due.
func (l *Loop) restTurn() time.Duration {
	follows := l.follows.Load()
	if !l.TryAcquire() {
		l.kicked.Store(1)
		if !l.TryAcquire() {
			return followStep // the holder runs another turn before it gives up the token, but does not say what is due
		}
	}
	l.round(l.nowAndThen())
	limit := never
	if until := l.due(); until != never {
		limit = max(0, until-l.clock())
	}
	l.release(true, follows)
	return limit
}

// keptLate tells whether those that rest would rest past the next thing that is due: a turn of somebody else armed an earlier timer. Holder of the token.
func (l *Loop) keptLate() bool { return l.rests.Load() != 0 && int64(l.due()) < l.keepUntil.Load() }

func (l *Loop) addResting(n *ringbuf.Notifier) {
	l.waitersMu.Lock()
	l.resting = append(l.resting, n)
	l.waitersMu.Unlock()
	l.rests.Add(1)
}

func (l *Loop) removeResting(n *ringbuf.Notifier) {
	l.rests.Add(-1)
	l.waitersMu.Lock()
	defer l.waitersMu.Unlock()
	i := slices.Index(l.resting, n)
	l.resting = slices.Delete(l.resting, i, i+1)
}

// wakeResting lets those that rest look again, and drive if there is something to drive.
func (l *Loop) wakeResting() {
	if l.rests.Load() == 0 {
		return
	}
	l.waitersMu.Lock()
	defer l.waitersMu.Unlock()
	for _, n := range l.resting {
		n.Wake()
	}
}
