package bench

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/weirflow/weir"
)

// Small frames, so that what a frame costs is not its bytes, and so that ten thousand channels with their guaranteed buffers fit.
const smallFrame = 4 << 10

// warmFrames go through each channel before the window opens: by then every buffer was used once, and its page is there.
const warmFrames = 12

func channelsOutput(channels int) weir.OutputConfig {
	return weir.OutputConfig{Name: "channels", Subpartitions: channels}
}

func channelsInput(addr string, channels int) weir.InputConfig {
	return weir.InputConfig{Sources: []weir.Source{{Addr: addr, Name: "channels", Last: channels - 1}}}
}

func channelsConfig(side string, opt *Options, cfg *weir.Config) {
	cfg.SegmentSize = smallFrame
	if side == "send" {
		cfg.Memory = weir.MemoryNeeded(*cfg, []weir.OutputConfig{channelsOutput(opt.Channels)}, nil)
	} else {
		cfg.Memory = weir.MemoryNeeded(*cfg, nil, []weir.InputConfig{channelsInput("", opt.Channels)})
	}
}

// sendChannels sends a frame to each channel in turn: the order in which no two frames of a channel go out together.
func sendChannels(ctx context.Context, r *role) error {
	out, err := r.node.NewOutput(channelsOutput(r.opt.Channels))
	if err != nil {
		return err
	}
	if err := out.AwaitConsumers(ctx); err != nil {
		return err
	}
	le := binary.LittleEndian
	for n := uint64(0); ; n++ {
		for sub := range r.opt.Channels {
			p, err := out.ClaimBuffer(ctx, sub)
			if err != nil {
				return err
			}
			le.PutUint64(p, n)
			le.PutUint64(p[8:], uint64(sub))
			if err := out.CommitBuffer(len(p)); err != nil {
				return err
			}
			if n >= warmFrames {
				r.meter.Add(smallFrame, 1)
			}
		}
	}
}

// receiveChannels checks that every channel has its frames in order, and that all are there.
func receiveChannels(ctx context.Context, r *role) error {
	in, err := r.node.NewInput(channelsInput(r.addr, r.opt.Channels))
	if err != nil {
		return err
	}
	next := make([]uint64, r.opt.Channels)
	le := binary.LittleEndian
	warm := 0 // channels
	for {
		p, e, err := in.NextBuffer(ctx)
		if err != nil {
			return err
		}
		c := e.Channel
		if len(p) != smallFrame || le.Uint64(p) != next[c] || le.Uint64(p[8:]) != uint64(c) {
			return fmt.Errorf("channel %d: frame %d of channel %d with %d bytes, want frame %d", c, le.Uint64(p), le.Uint64(p[8:]), len(p), next[c])
		}
		if next[c]++; next[c] == warmFrames {
			warm++
		}
		r.sum.Store(r.sum.Load() + le.Uint64(p) + uint64(c))
		r.payload.Store(r.payload.Load() + smallFrame)
		if warm == r.opt.Channels {
			r.meter.Add(smallFrame, 1)
		}
	}
}
