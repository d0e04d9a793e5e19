package segment

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// ErrFile is wrapped by *FileError.
var ErrFile = errors.New("segment: file-backed buffer cannot be read")

// FileError reports that the bytes of a file-backed buffer could not be read. The file is broken from then on.
type FileError struct {
	At  int64 // where the window starts in the file
	N   int   // bytes wanted
	Got int   // bytes read
	Err error // io.ErrUnexpectedEOF if the file is too short
}

func (e *FileError) Error() string {
	return fmt.Sprintf("segment: read %d of %d bytes at %d of a file-backed buffer: %v", e.Got, e.N, e.At, e.Err)
}

// Unwrap returns ErrFile and the cause.
func (e *FileError) Unwrap() []error { return []error{ErrFile, e.Err} }

// File is a file that buffers refer to (Flink: FileRegionBuffer). It is read, never mapped: a mapped file that somebody
// truncates ends the process with SIGBUS, a read one gives an error. Any goroutine may use it.
type File struct {
	r io.ReaderAt

	mu     sync.Mutex
	refs   int // open regions
	broken error
	closed bool
}

// NewFile returns a File that reads from r. If r is an io.Closer, Close closes it.
func NewFile(r io.ReaderAt) *File { return &File{r: r} }

// Wrap returns a read-only buffer for the n bytes at offset at of the file, without reading them. Its Bytes are nil: use
// ReadInto, or send File's descriptor. Retain, Slice and Release work as for any buffer. It returns the zero Buffer if
// the file was closed, or n or at is negative or n too large for a buffer.
func (f *File) Wrap(at int64, n int, t DataType) Buffer {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || at < 0 || n < 0 || int64(n) > lenMask {
		return Buffer{}
	}
	f.refs++
	h := wrapHeaders.Get().(*header)
	h.kind, h.file, h.fileAt = kindFile, f, at
	b := h.handle().WithType(t)
	b.win = uint64(n)
	b.meta |= flagReadOnly
	return b
}

// Regions returns how many buffers refer to the file.
func (f *File) Regions() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refs
}

// Broken returns the first *FileError of a read, or nil.
func (f *File) Broken() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.broken
}

// Close closes the file when the last buffer that refers to it is released, and at once if there is none. It returns the
// error of closing in the second case.
func (f *File) Close() error {
	f.mu.Lock()
	first := !f.closed
	f.closed = true
	now := first && f.refs == 0
	f.mu.Unlock()
	if now {
		return f.shut()
	}
	return nil
}

func (f *File) shut() error {
	if c, ok := f.r.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// release ends one region.
func (f *File) release() {
	f.mu.Lock()
	f.refs--
	now := f.closed && f.refs == 0
	f.mu.Unlock()
	if now {
		_ = f.shut() // nobody is there to be told; the file was only read
	}
}

// IsFile tells whether b is file-backed.
func (b Buffer) IsFile() bool { return b.h != nil && b.h.kind == kindFile }

// FileRegion returns where the bytes of a file-backed buffer are, for a sender that can send from a descriptor. f is
// nil if b is not file-backed, was released, or reads from something else than an *os.File. It stays open until b is
// released.
func (b Buffer) FileRegion() (f *os.File, at int64, n int) {
	if !b.IsFile() || !b.live() {
		return nil, 0, 0
	}
	f, _ = b.h.file.r.(*os.File)
	return f, b.h.fileAt + int64(b.off()), b.Len()
}

// ReadInto reads the window of a file-backed buffer into the segment of dst, of which the caller holds the only
// reference, and returns dst's handle with b's length, type and compressed flag. The references of both stay the
// caller's. On an error, *FileError or ErrRange or ErrReleased, dst is returned as it was (its bytes may be
// overwritten).
func (b Buffer) ReadInto(dst Buffer) (Buffer, error) {
	if !b.IsFile() || !b.live() {
		return dst, ErrReleased
	}
	mem := dst.Memory()
	if b.Len() > len(mem) {
		return dst, ErrRange
	}
	at := b.h.fileAt + int64(b.off())
	n, err := b.h.file.r.ReadAt(mem[:b.Len()], at)
	if n == b.Len() {
		return dst.Resized(n).WithType(b.Type()).WithCompressed(b.Compressed()), nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	e := &FileError{At: at, N: b.Len(), Got: n, Err: err}
	b.h.file.markBroken(e)
	return dst, e
}

func (f *File) markBroken(e error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken == nil {
		f.broken = e
	}
}
