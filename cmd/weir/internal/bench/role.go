package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/bits"
	"os"
	"path/filepath"
	"runtime/pprof"
	"sync/atomic"
	"time"

	"github.com/weirflow/weir"
	"github.com/weirflow/weir/internal/measure"
)

// role is one side of a scenario, in a process of its own.
type role struct {
	addr    string
	out     io.Writer
	meter   *measure.Meter
	node    *weir.Node
	sum     atomic.Uint64 // of all words or fields received
	payload atomic.Uint64 // bytes of the buffers that were read

	channels int
	// opening is called before the window opens, and what it returned when the window is over; its figures are among the
	// result's. nil: there are none.
	opening func() (closing func() map[string]float64, err error)
}

// Role runs one side until its window is over and its parent ends it.
func Role(ctx context.Context, out io.Writer, name, side, addr string, opt Options) (err error) {
	s, err := find(name)
	if err != nil {
		return err
	}
	r := &role{addr: addr, out: out, meter: measure.NewMeter(), channels: opt.Channels}
	cfg := weir.Config{}
	if s.config != nil {
		cfg = s.config(side, opt.Channels)
	}
	work := s.receive
	if side == "send" {
		cfg.Listen = "127.0.0.1:0"
		work = s.send
	}
	if r.node, err = weir.Open(cfg); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.node.Close()) }()
	failed := make(chan error, 2)
	go func() { failed <- work(ctx, r) }()
	result := make(chan measure.Result, 1)
	go func() {
		if res, err := r.window(side, opt); err != nil {
			failed <- err
		} else {
			result <- res
		}
	}()
	select {
	case err := <-failed:
		return fmt.Errorf("%s %s: %w", name, side, err)
	case res := <-result:
		if err := res.Print(out); err != nil {
			return err
		}
	}
	return <-failed // until the parent stops this process, so that the other side is fed to the end of its window
}

// window measures, with the loop's and the credit's figures of the same time.
func (r *role) window(side string, opt Options) (measure.Result, error) {
	<-r.meter.Begun()
	time.Sleep(measure.WarmUp)
	closing := func() map[string]float64 { return nil }
	if r.opening != nil {
		var err error
		if closing, err = r.opening(); err != nil {
			return measure.Result{}, err
		}
	}
	stop := profile(opt.Profile, side)
	defer stop()
	a := r.node.Stats()
	res := r.meter.WindowNow(side, opt.Window)
	extra := closing()
	before := r.payload.Load()
	b := r.node.Stats()
	after := r.payload.Load()
	sum := r.sum.Load()
	res.Extra = map[string]float64{
		"frames":          float64(b.Frames - a.Frames),
		"credits":         float64(b.Credits - a.Credits),
		"grants":          float64(b.Grants - a.Grants),
		"bytes_per_read":  float64(b.Loop.ReadBytes-a.Loop.ReadBytes) / float64(max(1, b.Loop.Reads-a.Loop.Reads)),
		"bytes_per_write": float64(b.Loop.WriteBytes-a.Loop.WriteBytes) / float64(max(1, b.Loop.Writes-a.Loop.Writes)),
		"pool_bytes":      float64(r.node.Memory()),
		"checksum_hi":     float64(sum >> 32),
		"checksum_lo":     float64(sum & 0xffffffff),
		// What was read before is not more than what arrived, and what arrived is not more than what was read after and
		// what the pool holds.
		"read_early":  float64(before) - float64(b.Bytes),
		"unread_late": float64(b.Bytes) - float64(after),
	}
	maps.Copy(res.Extra, extra)
	return res, nil
}

// profile takes a CPU profile until stop is called. What goes wrong with it is no reason to give up the figures.
func profile(dir, side string) (stop func()) {
	if dir == "" {
		return func() {}
	}
	f, err := os.Create(filepath.Join(dir, side+".pprof"))
	if err == nil {
		err = pprof.StartCPUProfile(f)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench: no profile:", err)
		return func() {}
	}
	return func() {
		pprof.StopCPUProfile()
		_ = f.Close()
	}
}

// ---- bulk ----

const (
	frameSize = 32 << 10
	stampAt   = 0 // a running number
	markAt    = 8 // says that the rest of the frame is filled
	filler    = 0x9e3779b97f4a7c15
)

// sendBulk fills each segment once and from then on only stamps it, as the segments come round again.
func sendBulk(ctx context.Context, r *role) error {
	out, err := r.node.NewOutput(weir.OutputConfig{Name: "bulk"})
	if err != nil {
		return err
	}
	fmt.Fprintf(r.out, "ADDR %s\n", r.node.Addr())
	le := binary.LittleEndian
	for n := uint64(0); ; n++ {
		p, err := out.ClaimBuffer(ctx, 0)
		if err != nil {
			return err
		}
		if len(p) != frameSize {
			return fmt.Errorf("a buffer of %d bytes", len(p))
		}
		if le.Uint64(p[markAt:]) != filler {
			for i := markAt; i < frameSize; i += 8 {
				le.PutUint64(p[i:], filler)
			}
		}
		le.PutUint64(p[stampAt:], n)
		if err := out.CommitBuffer(frameSize); err != nil {
			return err
		}
		r.meter.Add(frameSize, 1)
	}
}

func receiveBulk(ctx context.Context, r *role) error {
	in, err := r.node.NewInput(weir.InputConfig{Sources: []weir.Source{{Addr: r.addr, Name: "bulk"}}})
	if err != nil {
		return err
	}
	const words = frameSize/8 - 1 // all but the stamp
	_, lo := bits.Mul64(words, filler)
	for n := uint64(0); ; n++ {
		p, _, err := in.NextBuffer(ctx)
		if err != nil {
			return err
		}
		if len(p) != frameSize {
			return fmt.Errorf("frame %d has %d bytes", n, len(p))
		}
		sum := measure.SumWords(p)
		if sum != lo+n {
			return fmt.Errorf("the words of frame %d add up to %x, want %x", n, sum, lo+n)
		}
		r.sum.Store(r.sum.Load() + sum)
		r.payload.Store(r.payload.Load() + frameSize)
		r.meter.Add(frameSize, 1)
	}
}

// ---- records ----

const (
	recordSize     = 100
	recordHead     = 9 // length, tag, length of the value
	recordField    = 7
	recordChannels = 8
	countEvery     = 256 // records between two updates of the meter
)

func sendRecords(ctx context.Context, r *role) error {
	out, err := r.node.NewOutput(weir.OutputConfig{Name: "records", Subpartitions: recordChannels, Partition: weir.RoundRobin})
	if err != nil {
		return err
	}
	fmt.Fprintf(r.out, "ADDR %s\n", r.node.Addr())
	record := make([]byte, recordSize)
	for i := range record {
		record[i] = byte(i)
	}
	binary.LittleEndian.PutUint64(record, recordField)
	for {
		for range countEvery {
			if err := out.Write(ctx, nil, record); err != nil {
				return err
			}
		}
		r.meter.Add(countEvery*recordSize, countEvery)
	}
}

var errField = errors.New("the records' fields do not add up")

func receiveRecords(ctx context.Context, r *role) error {
	in, err := r.node.NewInput(weir.InputConfig{
		Sources: []weir.Source{{Addr: r.addr, Name: "records", Last: recordChannels - 1}},
	})
	if err != nil {
		return err
	}
	for {
		sum := uint64(0)
		for range countEvery {
			e, err := in.Next(ctx)
			if err != nil {
				return err
			}
			if e.Kind != weir.Record || len(e.Value) != recordSize {
				return fmt.Errorf("an element of kind %d with %d bytes", e.Kind, len(e.Value))
			}
			sum += binary.LittleEndian.Uint64(e.Value)
		}
		if sum != countEvery*recordField {
			return errField
		}
		r.sum.Store(r.sum.Load() + sum)
		r.payload.Store(r.payload.Load() + countEvery*(recordSize+recordHead))
		r.meter.Add(countEvery*recordSize, countEvery)
	}
}
