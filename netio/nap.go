package netio

import (
	"context"
	"time"

	"github.com/weirflow/weir/ringbuf"
)

// maxNap bounds a nap, as its thread keeps its P.
const maxNap = 100 * time.Microsecond

// nap is what an idle loop does in place of polling while bulk flows, which is when SO_RCVLOWAT is raised: it sleeps, for at most as long as
// it would have polled. What polling saves is a wake-up, which is little beside a portion of bulk; and it takes each portion as soon as it is
// complete, in more and smaller reads, at the price of a whole processor. After a nap that brought nothing the peer has stopped: the kernel
// reports everything from then on, and the loop polls before it sleeps for longer.
//
// There is no nap where the thread would keep a goroutine from running that a turn has just woken, beside another sleeper, without polling, or
// in a dedicated loop, whose consumers would wait for two wake-ups. The caller holds the token before and after; ctx, ready and n are
// sleep's. It reports whether there was something to do.
func (l *Loop) nap(ctx context.Context, ready func() bool, n *ringbuf.Notifier) (worked bool) {
	d := l.pollFor()
	if len(l.raised) == 0 || d == 0 || l.cfg.Dedicated || !l.sysCanNap() || l.state.Load()&asleep != 0 || l.wokenWait() {
		return false
	}
	l.stats.Naps++
	if l.sleep(ctx, ready, n, min(d, maxNap), true) {
		return true
	}
	l.lowerAll()
	return false
}
