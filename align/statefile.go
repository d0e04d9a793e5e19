package align

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// A file of channel state, as Flink's ChannelStateSerializerImpl writes it (big-endian):
//
//	file   := int32 version = 0, chunk*
//	chunk  := int32 length, length bytes
//
// A chunk holds the readable bytes of one buffer. The chunks of all channels, in and out, of all subtasks that share the
// file stand in the order of writing; a StateHandle lists the offsets of those of one channel.
const (
	stateVersion    = 0
	stateHeaderSize = 4
)

// Errors of channel state.
var (
	// ErrStateFile: a file that is not channel state of a version that can be read, or a handle that does not fit it.
	ErrStateFile = errors.New("align: broken channel state")
	// ErrNotRunning: the writer of channel state has stopped.
	ErrNotRunning = errors.New("align: channel state writer is not running")
)

// StateChannel names a channel in a checkpoint: gate and channel, or partition and subpartition.
type StateChannel struct {
	Owner int32 // gate or partition
	Index int32 // channel or subpartition
}

// StateHandle says where the state of one channel stands (Flink: InputChannelStateHandle, ResultSubpartitionStateHandle).
type StateHandle struct {
	Subtask int32
	Channel StateChannel
	// Offsets are the positions of the channel's chunks, each that of its length field, ascending.
	Offsets []int64
	// Size is the sum of the chunks with their length fields; of a private blob, its size with the header.
	Size   int64
	Stream StreamHandle
}

// StreamHandle is what a StateStore needs to find a stream again: bytes, or a path and size.
type StreamHandle struct {
	// Data holds the whole stream, if it was small; then there is no file.
	Data []byte
	// Name is how the bytes are called in a checkpoint's metadata.
	Name string
	// Path names a file; "" for bytes.
	Path string
	// Size of the stream in bytes.
	Size int64
}

// StateStore keeps streams of channel state. Its methods may do I/O and are called by the writing or the recovering
// goroutine.
type StateStore interface {
	// Create begins a stream for a checkpoint.
	Create(checkpoint int64) (StateStream, error)
	// Open reads a stream from the start.
	Open(h StreamHandle) (io.ReadSeekCloser, error)
}

// StateStream is a stream that is being written.
type StateStream interface {
	io.Writer
	// Finish closes the stream for good and says how to find it.
	Finish() (StreamHandle, error)
	// Discard closes it and removes what was written.
	Discard() error
}

// DirStore keeps streams as files of a directory, and small ones as bytes. (Flink: FsCheckpointStreamFactory)
type DirStore struct {
	Dir string
	// MemoryThreshold is the size up to which a stream becomes bytes instead of a file. Flink's default is 20 KiB.
	MemoryThreshold int
}

// DefaultMemoryThreshold is Flink's state.storage.fs.memory-threshold.
const DefaultMemoryThreshold = 20 << 10

// Create begins a stream; a file is made once the threshold is passed. Its name is random, since several subtasks, and
// the attempts before a failure, write to the same directory.
func (d *DirStore) Create(checkpoint int64) (StateStream, error) {
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		return nil, err
	}
	return &dirStream{dir: d, name: fmt.Sprintf("channel-state-%d-%x", checkpoint, id)}, nil
}

// Open reads a stream.
func (d *DirStore) Open(h StreamHandle) (io.ReadSeekCloser, error) {
	if h.Path == "" {
		return &bytesStream{data: h.Data}, nil
	}
	f, err := os.Open(h.Path)
	if err != nil {
		return nil, fmt.Errorf("align: channel state: %w", err)
	}
	return f, nil
}

type dirStream struct {
	dir  *DirStore
	name string
	buf  []byte
	file *os.File
	size int64
}

const stateWriteBuffer = 64 << 10

func (s *dirStream) Write(p []byte) (int, error) {
	s.size += int64(len(p))
	s.buf = append(s.buf, p...)
	if len(s.buf) > max(s.dir.MemoryThreshold, stateWriteBuffer) || s.file != nil && len(s.buf) > stateWriteBuffer {
		if err := s.flush(); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

func (s *dirStream) flush() error {
	if s.file == nil {
		f, err := os.OpenFile(filepath.Join(s.dir.Dir, s.name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return fmt.Errorf("align: channel state: %w", err)
		}
		s.file = f
	}
	if _, err := s.file.Write(s.buf); err != nil {
		return fmt.Errorf("align: channel state: %w", err)
	}
	s.buf = s.buf[:0]
	return nil
}

func (s *dirStream) Finish() (StreamHandle, error) {
	if s.file == nil && len(s.buf) <= s.dir.MemoryThreshold {
		return StreamHandle{Data: s.buf, Name: s.name, Size: s.size}, nil
	}
	err := s.flush()
	if err == nil {
		err = s.file.Sync()
	}
	if s.file != nil {
		err = errorsJoin(err, s.file.Close())
	}
	if err != nil {
		if s.file != nil {
			err = errorsJoin(err, os.Remove(s.file.Name()))
		}
		return StreamHandle{}, err
	}
	return StreamHandle{Path: s.file.Name(), Size: s.size}, nil
}

func (s *dirStream) Discard() error {
	s.buf = nil
	return discard(s.file)
}

// bytesStream reads bytes.
type bytesStream struct {
	data []byte
	at   int64
}

func (s *bytesStream) Read(p []byte) (int, error) {
	if s.at >= int64(len(s.data)) {
		return 0, io.EOF
	}
	n := copy(p, s.data[s.at:])
	s.at += int64(n)
	return n, nil
}

func (s *bytesStream) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += s.at
	case io.SeekEnd:
		offset += int64(len(s.data))
	}
	if offset < 0 {
		return 0, fmt.Errorf("%w: seek to %d", ErrStateFile, offset)
	}
	s.at = offset
	return offset, nil
}

func (s *bytesStream) Close() error { return nil }

// subtaskState is what one subtask writes for one checkpoint.
type subtaskState struct {
	result          *StateResult
	inDone, outDone bool
	in, out         stateIndex
}

// stateIndex lists the chunks of each channel, in the order of the channels' first ones.
type stateIndex struct {
	order   []StateChannel
	handles map[StateChannel]*StateHandle
}

func (x *stateIndex) add(subtask int32, ch StateChannel, at, size int64) {
	h := x.handles[ch]
	if h == nil {
		if x.handles == nil {
			x.handles = map[StateChannel]*StateHandle{}
		}
		h = &StateHandle{Subtask: subtask, Channel: ch}
		x.handles[ch] = h
		x.order = append(x.order, ch)
	}
	h.Offsets = append(h.Offsets, at)
	h.Size += size
}

// finish makes the handles. A stream that came back as bytes is split up, so that each channel's handle holds its own
// bytes only: the header, and all its chunks as one (Flink: extractAndMerge).
func (x *stateIndex) finish(stream StreamHandle) []StateHandle {
	handles := make([]StateHandle, 0, len(x.order))
	for _, ch := range x.order {
		h := *x.handles[ch]
		h.Stream = stream
		if stream.Data != nil {
			blob := make([]byte, stateHeaderSize+4, stateHeaderSize+4+h.Size)
			for _, at := range h.Offsets {
				n := int64(binary.BigEndian.Uint32(stream.Data[at:]))
				blob = append(blob, stream.Data[at+4:at+4+n]...)
			}
			binary.BigEndian.PutUint32(blob[stateHeaderSize:], uint32(len(blob)-stateHeaderSize-4))
			h.Offsets = []int64{stateHeaderSize}
			h.Size = int64(len(blob))
			h.Stream = StreamHandle{Data: blob, Name: stream.Name, Size: h.Size}
		}
		handles = append(handles, h)
	}
	return handles
}

// stateFile writes the channel state of one checkpoint of all subtasks of a group (Flink: ChannelStateCheckpointWriter).
// Its methods return only errors that are to stop the writer; what fails the checkpoint goes into the results.
type stateFile struct {
	id       int64
	stream   StateStream
	pos      int64
	subtasks map[int32]*subtaskState
	order    []int32
	expected map[int32]bool // registered with the group and not yet here
	done     bool
	cause    error // done, and failed
	scratch  [4]byte
}

func newStateFile(store StateStore, id int64, expected map[int32]bool) (*stateFile, error) {
	f := &stateFile{id: id, subtasks: map[int32]*subtaskState{}, expected: map[int32]bool{}}
	for s := range expected {
		f.expected[s] = true
	}
	stream, err := store.Create(id)
	if err != nil {
		return nil, err
	}
	f.stream = stream
	if err := f.write(f.word(stateVersion)); err != nil {
		return nil, errorsJoin(err, stream.Discard())
	}
	return f, nil
}

func (f *stateFile) word(n uint32) []byte {
	binary.BigEndian.PutUint32(f.scratch[:], n)
	return f.scratch[:]
}

func (f *stateFile) write(p []byte) error {
	n, err := f.stream.Write(p)
	f.pos += int64(n)
	return err
}

func (f *stateFile) start(subtask int32, result *StateResult) error {
	if f.subtasks[subtask] != nil {
		return fmt.Errorf("%w: subtask %d starts checkpoint %d twice", ErrState, subtask, f.id)
	}
	delete(f.expected, subtask)
	if f.done { // it failed before this subtask came to it
		result.fail(&CheckpointError{Reason: ReasonSharedStream, Err: f.cause})
		return nil
	}
	f.subtasks[subtask] = &subtaskState{result: result}
	f.order = append(f.order, subtask)
	return nil
}

// chunk writes one buffer. What cannot be written fails the checkpoint, not the writer.
func (f *stateFile) chunk(subtask int32, ch StateChannel, output bool, p []byte) error {
	if f.done {
		return nil
	}
	s := f.subtasks[subtask]
	if s == nil {
		return fmt.Errorf("%w: subtask %d writes to checkpoint %d and has not started it", ErrState, subtask, f.id)
	}
	at := f.pos
	err := f.write(f.word(uint32(len(p))))
	if err == nil {
		err = f.write(p)
	}
	if err != nil {
		f.fail(subtask, err)
		return nil
	}
	if output {
		s.out.add(subtask, ch, at, f.pos-at)
	} else {
		s.in.add(subtask, ch, at, f.pos-at)
	}
	return nil
}

func (f *stateFile) complete(subtask int32, output bool) error {
	if f.done {
		return nil
	}
	s := f.subtasks[subtask]
	if s == nil {
		return fmt.Errorf("%w: subtask %d finishes checkpoint %d and has not started it", ErrState, subtask, f.id)
	}
	side := &s.inDone
	if output {
		side = &s.outDone
	}
	if *side {
		return fmt.Errorf("%w: subtask %d finishes checkpoint %d twice (output: %v)", ErrState, subtask, f.id, output)
	}
	*side = true
	f.finish()
	return nil
}

// release: the subtask is gone, so nobody waits for it.
func (f *stateFile) release(subtask int32) {
	if f.expected[subtask] {
		delete(f.expected, subtask)
		f.finish()
	}
}

// finish completes all results together, once nothing is missing.
func (f *stateFile) finish() {
	if f.done || len(f.expected) > 0 {
		return
	}
	for _, s := range f.subtasks {
		if !s.inDone || !s.outDone {
			return
		}
	}
	if len(f.subtasks) == 0 {
		return
	}
	f.done = true
	var stream StreamHandle
	var err error
	if f.pos == stateHeaderSize { // nothing was in flight: no file
		err = f.stream.Discard()
	} else {
		stream, err = f.stream.Finish()
	}
	for _, n := range f.order {
		s := f.subtasks[n]
		if err != nil {
			s.result.fail(err)
		} else {
			s.result.finish(s.in.finish(stream), s.out.finish(stream))
		}
	}
}

// fail gives the checkpoint up for all: the subtask gets the cause, the others that they shared its file. The caller
// passes -1 if it concerns all alike.
func (f *stateFile) fail(subtask int32, cause error) {
	if f.done {
		return
	}
	f.done, f.cause = true, cause
	for n, s := range f.subtasks {
		if subtask >= 0 && n != subtask {
			s.result.fail(&CheckpointError{Reason: ReasonSharedStream, Err: cause})
		} else {
			s.result.fail(cause)
		}
	}
	// The file is of no use; that it cannot be removed changes nothing for the checkpoint.
	_ = f.stream.Discard()
}
