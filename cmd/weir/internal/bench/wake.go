package bench

import (
	"context"
	"time"

	"github.com/weirflow/weir/internal/measure"
	"github.com/weirflow/weir/netio"
	"github.com/weirflow/weir/ringbuf"
)

// So many wake-ups of each kind are measured at most, for so long.
const (
	wakeTrips = 5000
	wakeTime  = 500 * time.Millisecond
)

// wakeUps measures what a consumer apart from its loop costs: the time from a wake-up by the loop until the consumer runs, and from a
// post by the consumer until the loop runs it. Both by turns, as in a ping-pong.
func wakeUps(ctx context.Context, loop *netio.Loop) (consumer, loops *measure.Counts, err error) {
	var ofConsumer, ofLoop measure.Histogram
	none := ofConsumer.Counts()
	n := ringbuf.NewNotifier()
	var posted, ran, woke time.Time
	wake := func() {
		ran = time.Now()
		n.Wake()
	}
	began := time.Now()
	for i := 0; i < wakeTrips && time.Since(began) < wakeTime; i++ {
		n.Prepare()
		posted = time.Now()
		if !loop.Post(wake) {
			return nil, nil, netio.ErrClosed
		}
		if err := n.Wait(ctx); err != nil {
			return nil, nil, err
		}
		woke = time.Now()
		ofLoop.Add(ran.Sub(posted))
		ofConsumer.Add(woke.Sub(ran))
	}
	return ofConsumer.Since(none), ofLoop.Since(none), nil
}
