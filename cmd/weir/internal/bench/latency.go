package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirflow/weir"
	"github.com/weirflow/weir/internal/measure"
)

// pingSize is the size of a record that goes to and fro.
const pingSize = 64

// newPing makes what one side of a ping-pong needs: an output that sends each record at once, and an input from the other side.
func newPing(r *role, out, in string) (*weir.Output, *weir.Input, error) {
	o, err := r.node.NewOutput(weir.OutputConfig{Name: out, Partition: weir.Global, FlushEach: true})
	if err != nil {
		return nil, nil, err
	}
	i, err := r.node.NewInput(r.opt.input(weir.Source{Addr: r.addr, Name: in}))
	return o, i, err
}

// sendLatency measures round trips.
func sendLatency(ctx context.Context, r *role) error {
	r.latencies = new(measure.Histogram)
	out, in, err := newPing(r, "ping", "pong")
	if err != nil {
		return err
	}
	if r.opt.Task {
		consumer, loop, err := wakeUps(ctx, r.node.Loop())
		if err != nil {
			return err
		}
		figures := map[string]float64{"wake_consumer_us": consumer.Micros(0.5), "wake_loop_us": loop.Micros(0.5)}
		r.opening = func() (func() map[string]float64, error) { return func() map[string]float64 { return figures }, nil }
	}
	record := newRecord(pingSize)
	for last := time.Now(); ; {
		if err := out.Write(ctx, nil, record); err != nil {
			return err
		}
		e, err := in.Next(ctx)
		if err != nil {
			return err
		}
		if e.Kind != weir.Record || !bytes.Equal(e.Value, record) {
			return fmt.Errorf("an element of kind %d with %d bytes came back", e.Kind, len(e.Value))
		}
		now := time.Now()
		r.latencies.Add(now.Sub(last))
		last = now
		r.ping()
	}
}

// receiveLatency sends back what it gets.
func receiveLatency(ctx context.Context, r *role) error {
	out, in, err := newPing(r, "pong", "ping")
	if err != nil {
		return err
	}
	for {
		e, err := in.Next(ctx)
		if err != nil {
			return err
		}
		if e.Kind != weir.Record || len(e.Value) != pingSize {
			return fmt.Errorf("an element of kind %d with %d bytes", e.Kind, len(e.Value))
		}
		if err := out.Write(ctx, nil, e.Value); err != nil {
			return err
		}
		r.ping()
	}
}

// ping counts a record that was received.
func (r *role) ping() {
	r.sum.Store(r.sum.Load() + recordField)
	r.payload.Store(r.payload.Load() + pingSize + recordHead)
	r.meter.Add(pingSize, 1)
}

func moreLatency(res *Result, _, send *measure.Result) error {
	res.P50, res.P99, res.P999 = send.Extra["p50_us"], send.Extra["p99_us"], send.Extra["p999_us"]
	res.WakeConsumer, res.WakeLoop = send.Extra["wake_consumer_us"], send.Extra["wake_loop_us"]
	if send.Extra["samples"] == 0 || res.P50 <= 0 {
		return errors.New("latency: no round trip in the window")
	}
	return nil
}
