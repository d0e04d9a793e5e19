package ringbuf

import (
	"runtime"
	"slices"
	"testing"
	"time"
)

// pace is the time between two items: long enough for a consumer that parks to fall asleep.
const pace = 20 * time.Microsecond

// BenchmarkPaced is the latency of single items that come now and then, median and 99th percentile: what a consumer that polls gains
// over one that a channel has to wake.
func BenchmarkPaced(b *testing.B) {
	b.Run("wait=poll/impl=weir", func(b *testing.B) {
		q := NewSPSC[int64](128)
		paced(b, func(v int64) {
			for !q.Push(v) { // the consumer was away: an item that is lost would be waited for
				runtime.Gosched()
			}
		}, func() int64 {
			for {
				if v, ok := q.Pop(); ok {
					return v
				}
			}
		})
	})
	b.Run("wait=park/impl=chan", func(b *testing.B) {
		c := make(chan int64, 128)
		paced(b, func(v int64) { c <- v }, func() int64 { return <-c })
	})
}

// paced sends b.N times the moment of sending.
func paced(b *testing.B, send func(int64), receive func() int64) {
	began := time.Now()
	late := make([]int64, 0, b.N)
	b.ReportAllocs()
	b.ResetTimer()
	go func() {
		next := time.Since(began)
		for range b.N {
			for next += pace; time.Since(began) < next; { // a sleep would be far longer than the pace
			}
			send(int64(time.Since(began)))
		}
	}()
	for range b.N {
		sent := receive()
		late = append(late, int64(time.Since(began))-sent)
	}
	b.StopTimer()
	slices.Sort(late)
	b.ReportMetric(float64(late[len(late)/2]), "p50-ns")
	b.ReportMetric(float64(late[len(late)*99/100]), "p99-ns")
}
