package task

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/weirflow/weir/align"
	"github.com/weirflow/weir/serde"
	"github.com/weirflow/weir/serde/event"
)

// ErrUnmapped says that recovered data comes from a subtask that the mapping does not know.
var ErrUnmapped = errors.New("task: recovered data of an unknown origin")

// VirtualChannel is where part of the data comes from that a channel brings during recovery after rescaling: what was in flight
// between two subtasks of before. Descriptors in the stream (event.SubtaskConnection) say whose the following buffers are.
// (Flink: VirtualChannel)
type VirtualChannel struct {
	// InputSubtask and OutputSubtask are the subtasks, as the descriptors name them.
	InputSubtask, OutputSubtask int32
	// Keep reports whether a record belongs to this task now; nil: all do. It is for what was in flight to a subtask whose records
	// are shared out among several now: each of them reads all, and keeps its own.
	Keep func(record *serde.Element) (bool, error)
}

// demultiplexer takes apart what one channel brings during recovery (Flink: DemultiplexingRecordDeserializer). Each origin has a
// deserializer of its own, since its buffers continue its own records only.
type demultiplexer struct {
	virtual []virtualChannel
	current *virtualChannel
}

type virtualChannel struct {
	VirtualChannel
	d         *serde.Deserializer
	watermark int64
	idle      bool
}

func newDemultiplexer(cfg serde.DeserializerConfig, origins []VirtualChannel) *demultiplexer {
	x := &demultiplexer{virtual: make([]virtualChannel, len(origins))}
	cfg = cfg.PerVirtualChannel(len(origins))
	for i, o := range origins {
		x.virtual[i] = virtualChannel{VirtualChannel: o, d: serde.NewDeserializer(cfg), watermark: math.MinInt64}
	}
	return x
}

// choose goes over to the origin that a descriptor names.
func (x *demultiplexer) choose(e *event.Event) error {
	for i := range x.virtual {
		if v := &x.virtual[i]; v.InputSubtask == e.InputSubtask && v.OutputSubtask == e.OutputSubtask {
			x.current = v
			return nil
		}
	}
	return fmt.Errorf("%w: subtasks %d and %d", ErrUnmapped, e.InputSubtask, e.OutputSubtask)
}

// admit decides about an element of the current origin, and makes it what the channel as a whole says: the least watermark of all
// origins, once each has one; active while one of them is. What is neither record, watermark nor status is dropped.
func (x *demultiplexer) admit(e *serde.Element) (bool, error) {
	v := x.current
	switch e.Kind {
	case serde.Record:
		if v.Keep != nil {
			return v.Keep(e)
		}
		return true, nil
	case serde.Watermark:
		v.watermark = max(v.watermark, e.Timestamp)
		for i := range x.virtual {
			e.Timestamp = min(e.Timestamp, x.virtual[i].watermark)
		}
		return e.Timestamp != math.MinInt64, nil
	case serde.WatermarkStatus:
		v.idle = e.Idle
		for i := range x.virtual {
			e.Idle = e.Idle && x.virtual[i].idle
		}
		return true, nil
	}
	return false, nil
}

// finish checks that nothing is left over.
func (x *demultiplexer) finish() error {
	for i := range x.virtual {
		v := &x.virtual[i]
		rest, err := v.d.Unconsumed()
		if err != nil {
			return err
		}
		n := rest.Len()
		rest.Close()
		if n > 0 {
			return fmt.Errorf("%w: %d bytes of a record are left over from subtasks %d and %d at the end of recovery",
				align.ErrState, n, v.InputSubtask, v.OutputSubtask)
		}
	}
	return nil
}

func (x *demultiplexer) close() {
	for i := range x.virtual {
		x.virtual[i].d.Close()
	}
}

// startRescaling puts a demultiplexer in front of each channel. Until a descriptor comes the channel has no deserializer.
func (in *Input) startRescaling(origins [][]VirtualChannel) error {
	if len(origins) != len(in.channels) {
		return fmt.Errorf("%w: origins of %d channels for %d", align.ErrConfig, len(origins), len(in.channels))
	}
	in.rescaling = make([]*demultiplexer, len(origins))
	for ch, o := range origins {
		in.channels[ch].Close()
		in.channels[ch] = nil
		in.rescaling[ch] = newDemultiplexer(in.deserializer(ch), o)
	}
	return nil
}

// choose goes over to another origin of a channel.
func (in *Input) choose(ch int, e *event.Event) error {
	x := in.rescaling[ch]
	if err := x.choose(e); err != nil {
		return err
	}
	in.channels[ch] = x.current.d
	return nil
}

// finishRescaling gives the channels deserializers of their own.
func (in *Input) finishRescaling() error {
	for ch, x := range in.rescaling {
		if err := x.finish(); err != nil {
			return in.gate.ChannelError(ch, err)
		}
	}
	for ch, x := range in.rescaling {
		x.close()
		if in.channels[ch] = nil; !in.gate.Ended(ch) {
			in.channels[ch] = serde.NewDeserializer(in.deserializer(ch))
		}
	}
	in.rescaling = nil
	return nil
}

// deserializer is the configuration of a channel's.
func (in *Input) deserializer(ch int) serde.DeserializerConfig {
	c := in.deserializers
	c.Channel = strconv.Itoa(ch)
	return c
}
