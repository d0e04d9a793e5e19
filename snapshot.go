package weir

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/weirflow/weir/align"
)

// Snapshot is what a task is restored from: the user's state, and what was in flight in the task's input and outputs at the checkpoint.
//
// It is written as (integers are big-endian)
//
//	snapshot := "weirsnap", uint32 version = 1, int64 checkpoint, uint32 length of the name, name,
//	            counts of the inputs, counts of the outputs,
//	            uint32 length of the handles, handle*, uint64 length of the state, state, uint32 CRC-32C of all before it
//	counts   := uint32 number, uint32 channels *number
//	handle   := as in Flink's checkpoint metadata, version 6; see align.AppendStateHandle
//
// The data in flight is in the handles, each with a stream of its own in the layout of Flink's channel state, unless the task keeps
// it in a store.
type Snapshot struct {
	// Task is the task's name.
	Task string
	// Checkpoint is the checkpoint's id.
	Checkpoint int64
	// State is the user's.
	State []byte
	// Inputs is the number of channels of each input, Outputs that of subpartitions of each output.
	Inputs, Outputs []int32
	// In and Out say where the data is that was in flight: of channels of inputs, and of subpartitions of outputs.
	In, Out []align.StateHandle
}

// ErrSnapshot is in the error for bytes that are no snapshot that can be restored, and for a snapshot that does not fit.
var ErrSnapshot = errors.New("not a snapshot to restore from")

const (
	snapshotMagic   = "weirsnap"
	snapshotVersion = 1
	// handleVersion is that of the metadata whose handles say whether they are of an input or an output.
	handleVersion = 6
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// InFlight is the size in bytes of what was in flight at the two ends.
func (s *Snapshot) InFlight() (in, out int64) {
	for i := range s.In {
		in += s.In[i].Size
	}
	for i := range s.Out {
		out += s.Out[i].Size
	}
	return in, out
}

// head is everything before the state.
func (s *Snapshot) head() ([]byte, error) {
	p := append([]byte(nil), snapshotMagic...)
	p = binary.BigEndian.AppendUint32(p, snapshotVersion)
	p = binary.BigEndian.AppendUint64(p, uint64(s.Checkpoint))
	p = binary.BigEndian.AppendUint32(p, uint32(len(s.Task)))
	p = append(p, s.Task...)
	for _, counts := range [][]int32{s.Inputs, s.Outputs} {
		p = binary.BigEndian.AppendUint32(p, uint32(len(counts)))
		for _, n := range counts {
			p = binary.BigEndian.AppendUint32(p, uint32(n))
		}
	}
	at := len(p)
	p = binary.BigEndian.AppendUint32(p, 0)
	var err error
	for side, handles := range [][]align.StateHandle{s.In, s.Out} {
		for i := range handles {
			if p, err = align.AppendStateHandle(p, handleVersion, side == 1, &handles[i]); err != nil {
				return nil, err
			}
		}
	}
	n := len(p) - at - 4
	if int64(n) > 1<<32-1 {
		return nil, fmt.Errorf("weir: snapshot: %d bytes in flight do not fit", n)
	}
	binary.BigEndian.PutUint32(p[at:], uint32(n))
	return binary.BigEndian.AppendUint64(p, uint64(len(s.State))), nil
}

// AppendTo appends the snapshot as bytes.
func (s *Snapshot) AppendTo(p []byte) ([]byte, error) {
	head, err := s.head()
	if err != nil {
		return p, err
	}
	at := len(p)
	p = append(append(p, head...), s.State...)
	return binary.BigEndian.AppendUint32(p, crc32.Checksum(p[at:], castagnoli)), nil
}

// WriteTo writes the snapshot, without another copy of the state. (io.WriterTo)
func (s *Snapshot) WriteTo(w io.Writer) (n int64, err error) {
	head, err := s.head()
	if err != nil {
		return 0, err
	}
	sum := crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, s.State)
	for _, p := range [][]byte{head, s.State, binary.BigEndian.AppendUint32(nil, sum)} {
		k, err := w.Write(p)
		if n += int64(k); err != nil {
			return n, err
		}
	}
	return n, nil
}

// ReadSnapshot reads what AppendTo and WriteTo write. All of it is a view of p. Whatever is missing, left over, changed or of another
// version is an error that wraps ErrSnapshot.
func ReadSnapshot(p []byte) (*Snapshot, error) {
	if len(p) < len(snapshotMagic)+4+4 || string(p[:len(snapshotMagic)]) != snapshotMagic {
		return nil, fmt.Errorf("weir: %w: %d bytes that do not begin like one", ErrSnapshot, len(p))
	}
	if v := binary.BigEndian.Uint32(p[len(snapshotMagic):]); v != snapshotVersion {
		return nil, fmt.Errorf("weir: %w: version %d, and this is %d", ErrSnapshot, v, snapshotVersion)
	}
	body, sum := p[:len(p)-4], binary.BigEndian.Uint32(p[len(p)-4:])
	if got := crc32.Checksum(body, castagnoli); got != sum {
		return nil, fmt.Errorf("weir: %w: checksum %08x of %d bytes where %08x is written: cut short, or changed", ErrSnapshot, got, len(p), sum)
	}
	d := snapshotDecoder{p: body[len(snapshotMagic)+4:]}
	s := &Snapshot{}
	s.Checkpoint = int64(d.u64())
	s.Task = string(d.take(uint64(d.u32())))
	s.Inputs, s.Outputs = d.counts(), d.counts()
	handles := d.take(uint64(d.u32()))
	s.State = d.take(d.u64())
	if d.bad || len(d.p) > 0 {
		return nil, fmt.Errorf("weir: %w: lengths that do not add up", ErrSnapshot)
	}
	for len(handles) > 0 {
		hs, output, rest, err := align.DecodeStateHandle(handles, handleVersion)
		if err != nil {
			return nil, fmt.Errorf("weir: %w: %w", ErrSnapshot, err)
		}
		if handles = rest; output {
			s.Out = append(s.Out, hs...)
		} else {
			s.In = append(s.In, hs...)
		}
	}
	return s, nil
}

// snapshotDecoder takes values off p. Once something is missing, all it gives is zero.
type snapshotDecoder struct {
	p   []byte
	bad bool
}

func (d *snapshotDecoder) take(n uint64) []byte {
	if d.bad || n > uint64(len(d.p)) {
		d.bad = true
		return nil
	}
	v := d.p[:n:n]
	d.p = d.p[n:]
	return v
}

func (d *snapshotDecoder) u32() uint32 {
	if v := d.take(4); v != nil {
		return binary.BigEndian.Uint32(v)
	}
	return 0
}

func (d *snapshotDecoder) u64() uint64 {
	if v := d.take(8); v != nil {
		return binary.BigEndian.Uint64(v)
	}
	return 0
}

func (d *snapshotDecoder) counts() []int32 {
	n := uint64(d.u32())
	p := d.take(4 * n)
	var counts []int32
	for ; len(p) > 0; p = p[4:] {
		counts = append(counts, int32(binary.BigEndian.Uint32(p)))
	}
	return counts
}

// memoryState keeps data in flight in memory, up to a limit for each checkpoint. (align.StateStore)
type memoryState struct {
	align.DirStore // which makes no file below its threshold
	limit          int64
}

// Create is part of align.StateStore.
func (m *memoryState) Create(checkpoint int64) (align.StateStream, error) {
	s, err := m.DirStore.Create(checkpoint)
	return &limitedStream{StateStream: s, left: m.limit, limit: m.limit}, err
}

type limitedStream struct {
	align.StateStream
	left, limit int64
}

// ErrTooMuchInFlight is in the error of a checkpoint with more data in flight than TaskConfig.MaxInFlight.
var ErrTooMuchInFlight = errors.New("too much data in flight")

// Write is part of align.StateStream.
func (s *limitedStream) Write(p []byte) (int, error) {
	if s.left -= int64(len(p)); s.left < 0 {
		return 0, fmt.Errorf("%w: more than %d bytes", ErrTooMuchInFlight, s.limit)
	}
	return s.StateStream.Write(p)
}
