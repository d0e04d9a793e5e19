package align

import (
	"bufio"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/weirflow/weir/segment"
)

// A record of a spill file: int32 channel, int32 length (little-endian), a byte that says what it is, payload.
const (
	spillHeader = 9
	// spillReadBuffer is the size of a sequence's read buffer; an event must fit into it with its header.
	spillReadBuffer  = 1 << 20
	spillWriteBuffer = 64 << 10

	spillData     = 0
	spillEvent    = 1
	spillClearEnd = 2 // data whose last record ends with the buffer; Flink 1.8 has no such
)

// fileStore writes items to a file and gives their memory back at once, for senders that nobody limits. (Flink 1.8:
// BufferSpiller)
type fileStore struct {
	dirs   []string
	page   int
	prefix string
	files  int // made so far: they go round the directories
	file   *os.File
	w      *bufio.Writer
	bytes  int64
	header [spillHeader]byte
	shared *bufio.Reader
}

// NewFileStore makes a store in files, which are made in turn in the given directories (none: the system's one for
// temporary files). pageSize bounds the length of a buffer of data that is read back. An item counts for its length and
// 9 bytes. What is read back is on the Go heap.
func NewFileStore(pageSize int, dirs ...string) (Store, error) {
	if pageSize <= 0 {
		return nil, fmt.Errorf("%w: page size %d", ErrConfig, pageSize)
	}
	if len(dirs) == 0 {
		dirs = []string{os.TempDir()}
	}
	var id [32]byte
	if _, err := rand.Read(id[:]); err != nil {
		return nil, err
	}
	return &fileStore{dirs: dirs, page: pageSize, prefix: hex.EncodeToString(id[:])}, nil
}

func (s *fileStore) Add(channel int, b segment.Buffer) error {
	defer b.Release()
	if s.file == nil {
		if err := s.create(); err != nil {
			return err
		}
	}
	p := b.Bytes()
	binary.LittleEndian.PutUint32(s.header[0:], uint32(channel))
	binary.LittleEndian.PutUint32(s.header[4:], uint32(len(p)))
	switch t := b.Type(); {
	case !t.IsBuffer():
		s.header[8] = spillEvent
	case t == segment.DataBufferWithClearEnd:
		s.header[8] = spillClearEnd
	default:
		s.header[8] = spillData
	}
	if _, err := s.w.Write(s.header[:]); err != nil {
		return fmt.Errorf("align: spill: %w", err)
	}
	if _, err := s.w.Write(p); err != nil {
		return fmt.Errorf("align: spill: %w", err)
	}
	s.bytes += spillHeader + int64(len(p))
	return nil
}

func (s *fileStore) create() error {
	name := filepath.Join(s.dirs[s.files%len(s.dirs)], fmt.Sprintf("%s.%d.buffer", s.prefix, s.files))
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("align: spill: %w", err)
	}
	s.files++
	s.file = f
	if s.w == nil {
		s.w = bufio.NewWriterSize(f, spillWriteBuffer)
	} else {
		s.w.Reset(f)
	}
	return nil
}

func (s *fileStore) Bytes() int64 { return s.bytes }

func (s *fileStore) RollOver(shared bool) (Sequence, error) {
	if s.bytes == 0 {
		return nil, nil
	}
	if err := s.w.Flush(); err != nil {
		return nil, fmt.Errorf("align: spill: %w", err)
	}
	seq := &fileSequence{file: s.file, size: s.bytes, left: s.bytes, page: s.page}
	if shared {
		if s.shared == nil {
			s.shared = bufio.NewReaderSize(nil, spillReadBuffer)
		}
		seq.r = s.shared
	}
	s.file, s.bytes = nil, 0
	return seq, nil
}

func (s *fileStore) Close() error {
	f := s.file
	s.file, s.bytes = nil, 0
	return discard(f)
}

// discard closes and deletes a spill file.
func discard(f *os.File) error {
	if f == nil {
		return nil
	}
	err := f.Close()
	if err := errors.Join(err, os.Remove(f.Name())); err != nil {
		return fmt.Errorf("align: spill: %w", err)
	}
	return nil
}

type fileSequence struct {
	file   *os.File
	r      *bufio.Reader
	open   bool
	size   int64
	left   int64 // bytes that were not read
	page   int
	header [spillHeader]byte
}

func (s *fileSequence) Open() error {
	if s.open {
		return nil
	}
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("align: spill: %w", err)
	}
	if s.r == nil {
		s.r = bufio.NewReaderSize(s.file, spillReadBuffer)
	} else {
		s.r.Reset(s.file)
	}
	s.open = true
	return nil
}

func (s *fileSequence) Next() (int, segment.Buffer, bool, error) {
	if s.file == nil {
		return 0, segment.Buffer{}, false, nil
	}
	_, err := io.ReadFull(s.r, s.header[:])
	if err == io.EOF && s.left == 0 {
		return 0, segment.Buffer{}, false, nil
	}
	if err != nil {
		return s.broken(err)
	}
	channel := int(int32(binary.LittleEndian.Uint32(s.header[0:])))
	n := int64(int32(binary.LittleEndian.Uint32(s.header[4:])))
	t := segment.DataBuffer
	limit := int64(s.page)
	switch s.header[8] {
	case spillData:
	case spillClearEnd:
		t = segment.DataBufferWithClearEnd
	case spillEvent:
		t, limit = segment.EventBuffer, spillReadBuffer-spillHeader
	default:
		return 0, segment.Buffer{}, false, fmt.Errorf("align: spill file %s: unknown kind of record %d", s.file.Name(), s.header[8])
	}
	if n < 0 || n > limit {
		return 0, segment.Buffer{}, false, fmt.Errorf("align: spill file %s: record of %d bytes, more than %d", s.file.Name(), n, limit)
	}
	p := make([]byte, n)
	if _, err := io.ReadFull(s.r, p); err != nil {
		return s.broken(err)
	}
	s.left -= spillHeader + n
	return channel, segment.Wrap(p, t), true, nil
}

func (s *fileSequence) broken(err error) (int, segment.Buffer, bool, error) {
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return 0, segment.Buffer{}, false, fmt.Errorf("align: spill file %s: trailing incomplete buffer or event: %w", s.file.Name(), err)
}

func (s *fileSequence) Size() int64 { return s.size }

func (s *fileSequence) Close() error {
	f := s.file
	s.file = nil
	return discard(f)
}
