package checkpoint

import (
	"bufio"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
)

// FileSourceConfig configures a FileSource.
type FileSourceConfig struct {
	// MaxLine bounds a line, in bytes; 0 means 1 MiB.
	MaxLine int
}

const (
	defaultMaxLine = 1 << 20
	// lookBack is how many bytes before an offset tell whether a file is the one that it was taken in.
	lookBack = 4 << 10
)

// ErrLongLine is in the error for a line that is longer than allowed.
var ErrLongLine = errors.New("line too long")

// ErrOtherFile is in the error when a file is not the one that a snapshot was taken of.
var ErrOtherFile = errors.New("not the file of the snapshot")

// FileSource reads the lines of a file, and can go back to where a snapshot was taken. One goroutine.
type FileSource struct {
	f       *os.File
	r       *bufio.Reader
	offset  int64
	maxLine int
	long    []byte // a line that is longer than the reader's buffer
	line    []byte // that Next returned, with its line feed, until it is done
	recent  []byte // ring of the last lookBack bytes before offset: recent[offset % lookBack] is the next to be written
}

// sourceState is a snapshot.
type sourceState struct {
	// Offset is where the next line begins, in bytes. Back and Sum are the number of the bytes before it that were summed, and the sum.
	Offset int64  `json:"offset"`
	Back   int64  `json:"back"`
	Sum    uint32 `json:"sum"`
}

const sourceKind = "weir-file-source"

// OpenFileSource opens a file at its beginning.
func OpenFileSource(path string, cfg FileSourceConfig) (*FileSource, error) {
	if cfg.MaxLine == 0 {
		cfg.MaxLine = defaultMaxLine
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: source: %w", err)
	}
	return &FileSource{f: f, r: bufio.NewReaderSize(f, 64<<10), maxLine: cfg.MaxLine, recent: make([]byte, lookBack)}, nil
}

func (s *FileSource) error(err error) error {
	return fmt.Errorf("checkpoint: source %s: at %d: %w", s.f.Name(), s.offset, err)
}

// Next returns the next line without its line feed, valid until the following call. io.EOF: there is none. A last line without
// a line feed is a line. The line before it is done.
func (s *FileSource) Next() ([]byte, error) {
	s.Done()
	line, err := s.r.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		line, err = s.nextLong(line)
	}
	if err != nil && err != io.EOF {
		return nil, s.error(err)
	}
	if len(line) > s.maxLine+1 || len(line) > s.maxLine && line[len(line)-1] != '\n' {
		return nil, s.error(fmt.Errorf("%w: more than %d bytes", ErrLongLine, s.maxLine))
	}
	if len(line) == 0 {
		return nil, io.EOF
	}
	s.line = line
	if line[len(line)-1] == '\n' {
		line = line[:len(line)-1]
	}
	return line, nil
}

// nextLong gathers a line that the reader's buffer does not hold, up to a little over the limit.
func (s *FileSource) nextLong(line []byte) ([]byte, error) {
	s.long = append(s.long[:0], line...)
	for len(s.long) <= s.maxLine+1 {
		more, err := s.r.ReadSlice('\n')
		s.long = append(s.long, more...)
		if err != bufio.ErrBufferFull {
			return s.long, err
		}
	}
	return s.long, nil
}

// passed notes bytes that are behind now.
func (s *FileSource) passed(b []byte) {
	s.offset += int64(len(b))
	if len(b) > lookBack {
		b = b[len(b)-lookBack:]
	}
	at := int((s.offset - int64(len(b))) % lookBack)
	n := copy(s.recent[at:], b)
	copy(s.recent, b[n:])
}

// Done says that the line that Next returned was written: a snapshot is behind it from now on. Call it when Output.Write has returned, since
// a barrier that goes out within Write is before the record that is being written.
func (s *FileSource) Done() {
	s.passed(s.line)
	s.line = nil
}

// Offset is where the first line begins that is not done, in bytes.
func (s *FileSource) Offset() int64 { return s.offset }

// Snapshot returns what Restore takes to go on with the first line that is not done.
func (s *FileSource) Snapshot() ([]byte, error) {
	back := min(s.offset, lookBack)
	at := int(s.offset % lookBack)
	var sum uint32
	if back == lookBack {
		sum = crc32.Update(sum, castagnoli, s.recent[at:])
	}
	sum = crc32.Update(sum, castagnoli, s.recent[:at])
	return seal(sourceKind, sourceState{s.offset, back, sum})
}

// Restore goes to where a snapshot was taken; nil means to the beginning. It looks at the bytes before that place: an error with
// ErrOtherFile says that the file is shorter now, or has other bytes there.
func (s *FileSource) Restore(state []byte) error {
	var st sourceState
	if state != nil {
		if err := unseal(sourceKind, state, &st); err != nil {
			return s.error(err)
		}
	}
	if st.Offset < 0 || st.Back != min(st.Offset, lookBack) {
		return s.error(damaged("offset %d, of which %d bytes are summed", st.Offset, st.Back))
	}
	before := make([]byte, st.Back)
	if _, err := s.f.ReadAt(before, st.Offset-st.Back); err != nil && len(before) > 0 {
		return s.error(fmt.Errorf("%w: going to %d: %w", ErrOtherFile, st.Offset, err))
	}
	if crc32.Checksum(before, castagnoli) != st.Sum {
		return s.error(fmt.Errorf("%w: other bytes before %d", ErrOtherFile, st.Offset))
	}
	if _, err := s.f.Seek(st.Offset, io.SeekStart); err != nil {
		return s.error(err)
	}
	s.r.Reset(s.f)
	s.line = nil
	s.offset = st.Offset - st.Back
	s.passed(before)
	return nil
}

// Close closes the file.
func (s *FileSource) Close() error { return s.f.Close() }
