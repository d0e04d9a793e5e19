package netio

import (
	"context"
	"time"

	"github.com/weirflow/weir/ringbuf"
)

// A loop without connections has nothing to wait for in the kernel: what its callers wait for comes from goroutines of this process, which run
// the turns themselves when they publish something (Kick). A caller that drove such a loop would poll, or sleep where only a system call wakes
// it, while a goroutine that sleeps on its notifier is woken by the runtime for a tenth of that, and mostly runs on the processor that has the
// data. So it runs one turn, and rests. Listeners, timers and what is announced by Wake are the standby's, which those that rest have go into the
// kernel for that (watch), if it is not there.

// alone tells whether callers of RunUntil rest.
func (l *Loop) alone() bool {
	return l.open.Load() == 0 && l.cfg.Standby > 0 && !l.cfg.Dedicated
}

// rest sleeps on n, at most patience if that is not 0, and runs a turn before, which sees what was published without a Kick. Not done
// means that the caller looks again, and may drive.
func (l *Loop) rest(ctx context.Context, ready func() bool, n *ringbuf.Notifier, patience time.Duration) (done bool, err error) {
	n.Prepare()
	l.resters.add(n)
	defer l.resters.remove(n)
	// The last look, now that whoever brings work knows of the rester.
	worked := l.restTurn()
	switch {
	case ready():
		n.Cancel()
		return true, nil
	case worked || l.closing.Load() || !l.alone():
		n.Cancel()
		return false, nil
	}
	l.standIn()
	if patience > 0 {
		n.WaitTimeout(patience)
	} else if err := n.Wait(ctx); err != nil {
		return true, err
	}
	return ready(), nil
}

// restRounds bounds how long one that comes to rest serves others.
const restRounds = 64

// restTurn runs turns until there is nothing to do, and reports whether there may be more. If somebody else runs turns, that one does it.
func (l *Loop) restTurn() (more bool) {
	follows := l.follows.Load()
	if !l.acquireOrAsk() {
		return false
	}
	for range restRounds {
		if more = l.round(l.nowAndThen()); !more {
			break
		}
	}
	l.release(true, follows)
	return more
}

// standIn has the standby watch the kernel while callers rest.
func (l *Loop) standIn() {
	if l.state.Load()&(asleep|watch) == 0 {
		l.pokeStandby()
	}
}
