package align

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// RecoveryTarget takes the state of channels back. All calls come from the goroutine of ReadChannelState.
type RecoveryTarget interface {
	// Buffer gives a buffer to fill; it may wait until one is free. ReadChannelState is its only holder.
	Buffer(ch StateChannel) (segment.Buffer, error)
	// Recovered takes over a buffer that was filled from the state that a subtask had for a channel.
	Recovered(ch StateChannel, subtask int32, b segment.Buffer) error
}

// ReadChannelState reads the state of channels in the order in which it was written, file by file, and hands it to
// target (Flink: SequentialChannelStateReaderImpl). A subtask and channel may occur once; twice wraps ErrState. An unknown
// version, a negative length and a chunk that is cut short wrap ErrStateFile. Any error leaves no buffer behind here.
func ReadChannelState(store StateStore, handles []StateHandle, target RecoveryTarget) error {
	type owner struct {
		ch      StateChannel
		subtask int32
	}
	seen := make(map[owner]bool, len(handles))
	var groups []*stateGroup
	byPath := map[string]*stateGroup{}
	for i := range handles {
		h := &handles[i]
		if o := (owner{h.Channel, h.Subtask}); seen[o] {
			return fmt.Errorf("%w: duplicate channel info: channel %v of subtask %d", ErrState, h.Channel, h.Subtask)
		} else {
			seen[o] = true
		}
		g := byPath[h.Stream.Path]
		if g == nil || h.Stream.Path == "" { // bytes belong to one handle
			g = &stateGroup{stream: h.Stream}
			groups = append(groups, g)
			byPath[h.Stream.Path] = g
		}
		for _, at := range h.Offsets {
			g.chunks = append(g.chunks, stateChunk{at: at, ch: h.Channel, subtask: h.Subtask})
		}
	}
	for _, g := range groups {
		if err := g.read(store, target); err != nil {
			return err
		}
	}
	return nil
}

// stateGroup is what is read from one stream.
type stateGroup struct {
	stream StreamHandle
	chunks []stateChunk
}

type stateChunk struct {
	at      int64
	ch      StateChannel
	subtask int32
}

func (c stateChunk) compare(d stateChunk) int {
	for _, n := range [...]int64{c.at - d.at, int64(c.ch.Owner) - int64(d.ch.Owner), int64(c.ch.Index) - int64(d.ch.Index)} {
		if n != 0 {
			return int(max(-1, min(1, n)))
		}
	}
	return int(c.subtask) - int(d.subtask)
}

func (g *stateGroup) read(store StateStore, target RecoveryTarget) (err error) {
	if len(g.chunks) == 0 {
		return nil
	}
	r, err := store.Open(g.stream)
	if err != nil {
		return err
	}
	defer func() { err = errorsJoin(err, r.Close()) }()
	var word [4]byte
	if _, err := io.ReadFull(r, word[:]); err != nil {
		return fmt.Errorf("%w: no header: %w", ErrStateFile, err)
	}
	if v := int32(binary.BigEndian.Uint32(word[:])); v != stateVersion {
		return fmt.Errorf("%w: version %d, not %d", ErrStateFile, v, stateVersion)
	}
	slices.SortFunc(g.chunks, stateChunk.compare)
	pos := int64(stateHeaderSize)
	for _, c := range g.chunks {
		if c.at != pos {
			if _, err := r.Seek(c.at, io.SeekStart); err != nil {
				return fmt.Errorf("%w: offset %d: %w", ErrStateFile, c.at, err)
			}
		}
		n, err := c.read(r, target)
		if err != nil {
			return fmt.Errorf("channel %v of subtask %d, offset %d: %w", c.ch, c.subtask, c.at, err)
		}
		pos = c.at + 4 + n
	}
	return nil
}

// read hands one chunk over, in as many buffers as it takes.
func (c stateChunk) read(r io.Reader, target RecoveryTarget) (int64, error) {
	var word [4]byte
	if _, err := io.ReadFull(r, word[:]); err != nil {
		return 0, fmt.Errorf("%w: no length: %w", ErrStateFile, err)
	}
	length := int64(int32(binary.BigEndian.Uint32(word[:])))
	if length < 0 {
		return 0, fmt.Errorf("%w: length %d", ErrStateFile, length)
	}
	for left := length; left > 0; {
		b, err := target.Buffer(c.ch)
		if err != nil {
			return 0, err
		}
		mem := b.Memory()
		if len(mem) == 0 {
			b.Release()
			return 0, fmt.Errorf("%w: buffer without room", ErrState)
		}
		n := int(min(left, int64(len(mem))))
		if _, err := io.ReadFull(r, mem[:n]); err != nil {
			b.Release()
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return 0, fmt.Errorf("%w: cut short, %d of %d bytes are missing: %w", ErrStateFile, left, length, err)
		}
		left -= int64(n)
		if err := target.Recovered(c.ch, c.subtask, b.Resized(n)); err != nil {
			return 0, err
		}
	}
	return length, nil
}

// ChannelRecovery is the RecoveryTarget for either side: before each buffer it sends the descriptor that says whose
// state it is, so that the receiver can tell virtual channels apart. (Flink: InputChannelRecoveredStateHandler,
// ResultSubpartitionRecoveredStateHandler)
type ChannelRecovery struct {
	// Output: state of subpartitions, not of input channels. The descriptor's two numbers are then swapped.
	Output bool
	// Map says to which channels the state that a subtask had for a channel belongs now; nil: to the same one. An input
	// channel must map to exactly one.
	Map func(ch StateChannel, subtask int32) []StateChannel
	// Take gives an empty buffer for a channel; it may wait.
	Take func(ch StateChannel) (segment.Buffer, error)
	// Deliver takes a descriptor or a buffer over, for one of the new channels.
	Deliver func(ch StateChannel, b segment.Buffer) error
}

// Buffer gives a buffer for the first of the new channels.
func (r *ChannelRecovery) Buffer(ch StateChannel) (segment.Buffer, error) { return r.Take(ch) }

// Recovered delivers descriptor and buffer.
func (r *ChannelRecovery) Recovered(ch StateChannel, subtask int32, b segment.Buffer) error {
	defer b.Release()
	to := []StateChannel{ch}
	if r.Map != nil {
		to = r.Map(ch, subtask)
	}
	if !r.Output && len(to) != 1 {
		return fmt.Errorf("%w: input channel %v of subtask %d maps to %d channels", ErrState, ch, subtask, len(to))
	}
	e := event.Event{Kind: event.SubtaskConnection, InputSubtask: subtask, OutputSubtask: ch.Index}
	if r.Output {
		e.InputSubtask, e.OutputSubtask = ch.Index, subtask
	}
	for _, t := range to {
		if err := r.Deliver(t, segment.Wrap(event.Append(nil, &e), event.DataTypeOf(&e, false))); err != nil {
			return err
		}
		if err := r.Deliver(t, b.Retain()); err != nil {
			return err
		}
	}
	return nil
}
