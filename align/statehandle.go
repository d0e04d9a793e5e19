package align

import (
	"encoding/binary"
	"fmt"

	"github.com/weirflow/weir/internal/javatext"
)

// Handles in a checkpoint's metadata file, big-endian (Flink: ChannelStateHandleSerializerV1 up to metadata version 5,
// ...V2 from version 6, which puts a type in front and can hold several channels of one file at once):
//
//	handle     := int32 subtask, channel, stream
//	channel    := int32 owner, int32 index, int32 count, int64 offset *count, int64 size
//	typed      := byte 1 (input) or 2 (output), int32 subtask, channel, stream
//	            | byte 3 (input) or 4 (output), int32 subtask, int64 size, stream, int32 length, merged
//	merged     := int32 count, channel *count
//	stream     := byte 0                                         none
//	            | byte 1, UTF name, int32 length, bytes          bytes
//	            | byte 2, int64 size, UTF path                   file
//	            | byte 6, UTF path, int64 size                   file, relative to the checkpoint's directory
//
// In a handle of its own the size stands before the stream.
const (
	handleInput, handleOutput             = 1, 2
	handleMergedInput, handleMergedOutput = 3, 4

	streamNone, streamBytes, streamFile, streamRelative = 0, 1, 2, 6

	firstTypedMetadata = 6
	oldestMetadata     = 3
)

// AppendStateHandle appends a handle as metadata of the given version holds it. output matters from version 6 on. A
// version before 3 wraps ErrConfig.
func AppendStateHandle(dst []byte, version int, output bool, h *StateHandle) ([]byte, error) {
	if version < oldestMetadata {
		return dst, fmt.Errorf("%w: metadata of version %d has no channel state", ErrConfig, version)
	}
	if version >= firstTypedMetadata {
		kind := byte(handleInput)
		if output {
			kind = handleOutput
		}
		dst = append(dst, kind)
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(h.Subtask))
	dst = appendChannel(dst, h)
	return appendStream(dst, &h.Stream)
}

// AppendMergedStateHandles appends the handles that one subtask has in one stream as a single one, for metadata from
// version 6 on. They must be at least one, and agree in subtask and stream.
func AppendMergedStateHandles(dst []byte, output bool, hs []StateHandle) ([]byte, error) {
	if len(hs) == 0 {
		return dst, fmt.Errorf("%w: no handles to merge", ErrConfig)
	}
	size := int64(0)
	for i := range hs {
		if hs[i].Subtask != hs[0].Subtask || hs[i].Stream.Path != hs[0].Stream.Path || len(hs) > 1 && hs[i].Stream.Path == "" {
			return dst, fmt.Errorf("%w: handles of several subtasks or streams cannot be merged", ErrConfig)
		}
		size += hs[i].Size
	}
	kind := byte(handleMergedInput)
	if output {
		kind = handleMergedOutput
	}
	dst = append(dst, kind)
	dst = binary.BigEndian.AppendUint32(dst, uint32(hs[0].Subtask))
	dst = binary.BigEndian.AppendUint64(dst, uint64(size))
	dst, err := appendStream(dst, &hs[0].Stream)
	if err != nil {
		return dst, err
	}
	at := len(dst)
	dst = binary.BigEndian.AppendUint32(dst, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(hs)))
	for i := range hs {
		dst = appendChannel(dst, &hs[i])
	}
	binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	return dst, nil
}

func appendChannel(dst []byte, h *StateHandle) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(h.Channel.Owner))
	dst = binary.BigEndian.AppendUint32(dst, uint32(h.Channel.Index))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(h.Offsets)))
	for _, at := range h.Offsets {
		dst = binary.BigEndian.AppendUint64(dst, uint64(at))
	}
	return binary.BigEndian.AppendUint64(dst, uint64(h.Size))
}

func appendStream(dst []byte, s *StreamHandle) ([]byte, error) {
	utf := func(dst []byte, text string) ([]byte, error) {
		n := javatext.Len(text)
		if n > 1<<16-1 {
			return dst, fmt.Errorf("%w: name of %d bytes", ErrConfig, n)
		}
		return javatext.Append(binary.BigEndian.AppendUint16(dst, uint16(n)), text), nil
	}
	switch {
	case s.Path != "":
		dst = append(dst, streamFile)
		dst = binary.BigEndian.AppendUint64(dst, uint64(s.Size))
		return utf(dst, s.Path)
	case s.Data != nil:
		dst, err := utf(append(dst, streamBytes), s.Name)
		if err != nil {
			return dst, err
		}
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(s.Data)))
		return append(dst, s.Data...), nil
	}
	return append(dst, streamNone), nil
}

// DecodeStateHandle reads one handle, or one of several merged ones, from the front of p, as metadata of the given version
// holds it, and returns what follows. output is what the handle says; up to version 5, where it does not, it is false.
// Bytes of a small stream are a view of p. Errors wrap ErrStateFile.
func DecodeStateHandle(p []byte, version int) (hs []StateHandle, output bool, rest []byte, err error) {
	if version < oldestMetadata {
		return nil, false, p, fmt.Errorf("%w: metadata of version %d has no channel state", ErrStateFile, version)
	}
	d := handleDecoder{p: p}
	kind := byte(handleInput)
	if version >= firstTypedMetadata {
		kind = d.u8()
	}
	switch kind {
	case handleInput, handleOutput:
		h := StateHandle{Subtask: d.i32()}
		d.channel(&h)
		d.stream(&h.Stream)
		hs = append(hs, h)
	case handleMergedInput, handleMergedOutput:
		subtask := d.i32()
		d.i64() // the sum of the sizes
		var stream StreamHandle
		d.stream(&stream)
		in := handleDecoder{p: d.take(int(d.i32()))}
		n := in.i32()
		if n < 0 || int(n) > len(in.p)/minChannel {
			in.bad = true
			n = 0
		}
		for range n {
			h := StateHandle{Subtask: subtask, Stream: stream}
			in.channel(&h)
			hs = append(hs, h)
		}
		d.bad = d.bad || in.bad || len(in.p) > 0
	default:
		return nil, false, p, fmt.Errorf("%w: unknown type of handle %d", ErrStateFile, kind)
	}
	if d.err != nil {
		return nil, false, p, d.err
	}
	if d.bad {
		return nil, false, p, fmt.Errorf("%w: broken handle", ErrStateFile)
	}
	return hs, kind == handleOutput || kind == handleMergedOutput, d.p, nil
}

// minChannel is the size of a channel without offsets.
const minChannel = 4 + 4 + 4 + 8

// handleDecoder takes values off p. Once something is missing, all it gives is zero.
type handleDecoder struct {
	p   []byte
	bad bool
	err error
}

func (d *handleDecoder) take(n int) []byte {
	if d.bad || n < 0 || n > len(d.p) {
		d.bad = true
		return nil
	}
	v := d.p[:n:n]
	d.p = d.p[n:]
	return v
}

func (d *handleDecoder) u8() byte {
	if v := d.take(1); v != nil {
		return v[0]
	}
	return 0
}

func (d *handleDecoder) i32() int32 {
	if v := d.take(4); v != nil {
		return int32(binary.BigEndian.Uint32(v))
	}
	return 0
}

func (d *handleDecoder) i64() int64 {
	if v := d.take(8); v != nil {
		return int64(binary.BigEndian.Uint64(v))
	}
	return 0
}

func (d *handleDecoder) utf() string {
	n := d.take(2)
	if n == nil {
		return ""
	}
	s, err := javatext.Decode(d.take(int(binary.BigEndian.Uint16(n))))
	if err != nil {
		d.bad = true
	}
	return s
}

func (d *handleDecoder) channel(h *StateHandle) {
	h.Channel = StateChannel{Owner: d.i32(), Index: d.i32()}
	n := d.i32()
	if n < 0 || int(n) > len(d.p)/8 { // before anything is made for them
		d.bad = true
		return
	}
	h.Offsets = make([]int64, n)
	for i := range h.Offsets {
		h.Offsets[i] = d.i64()
	}
	h.Size = d.i64()
}

func (d *handleDecoder) stream(s *StreamHandle) {
	switch kind := d.u8(); kind {
	case streamNone:
	case streamBytes:
		s.Name = d.utf()
		s.Data = d.take(int(d.i32()))
		s.Size = int64(len(s.Data))
	case streamFile:
		s.Size = d.i64()
		s.Path = d.utf()
	case streamRelative:
		s.Path = d.utf()
		s.Size = d.i64()
	default:
		if d.err == nil {
			d.err = fmt.Errorf("%w: unsupported type of stream %d", ErrStateFile, kind)
		}
	}
}
