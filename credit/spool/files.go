package spool

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// FS is where files are. The zero choice is [OS]; tests have disks that fill up and fail.
type FS interface {
	// Create makes a new file in dir, whose name is made from pattern like os.CreateTemp's, and returns its path.
	Create(dir, pattern string) (w io.WriteCloser, path string, err error)
	// Open opens a file to be read, and returns its size. If r is an *os.File, it can be sent from its descriptor.
	Open(path string) (r ReadFile, size int64, err error)
	// Remove removes a file. One that is not there is no error.
	Remove(path string) error
}

// ReadFile is an open file. *os.File is one.
type ReadFile interface {
	io.ReaderAt
	io.Closer
}

// OS is the file system.
type OS struct{}

// Create is part of FS.
func (OS) Create(dir, pattern string) (io.WriteCloser, string, error) {
	f, err := os.CreateTemp(dir, pattern)
	if err != nil {
		return nil, "", err
	}
	return f, f.Name(), nil
}

// Open is part of FS.
func (OS) Open(path string) (ReadFile, int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// Remove is part of FS.
func (OS) Remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// OpenFile opens a file that is finished and reads how it is laid out. Errors name the path; they wrap ErrCorrupt if the
// file is not what a Writer wrote.
func OpenFile(fs FS, path string) (r ReadFile, l Layout, err error) {
	r, size, err := fs.Open(path)
	if err != nil {
		return nil, l, err // it names the path
	}
	if l, err = readLayout(r, size); err != nil {
		_ = r.Close()
		return nil, l, fmt.Errorf("%s: %w", path, err)
	}
	return r, l, nil
}

func readLayout(r io.ReaderAt, size int64) (l Layout, err error) {
	if size < HeaderLen+FooterLen {
		return l, fmt.Errorf("%w: %d bytes", ErrCorrupt, size)
	}
	var head [HeaderLen]byte
	var foot [FooterLen]byte
	if err := ReadFull(r, head[:], 0); err != nil {
		return l, err
	}
	if err := ReadFull(r, foot[:], size-FooterLen); err != nil {
		return l, err
	}
	return ParseLayout(head[:], foot[:], size)
}

// ReadFull reads len(p) bytes at an offset. A file that ends before wraps ErrCorrupt.
func ReadFull(r io.ReaderAt, p []byte, at int64) error {
	n, err := r.ReadAt(p, at)
	switch {
	case n == len(p):
		return nil
	case err == nil, errors.Is(err, io.EOF):
		return fmt.Errorf("%w: it ends after %d of %d bytes at %d", ErrCorrupt, n, len(p), at)
	}
	return fmt.Errorf("read of %d bytes at %d: %w", len(p), at, err)
}

// Check verifies the payloads of a group, which lie one behind the other in p. Errors wrap ErrCorrupt.
func Check(group []Entry, p []byte) error {
	for i := range group {
		e := &group[i]
		if Sum(p[:e.Len]) != e.Sum {
			return fmt.Errorf("%w: %d bytes at %d: wrong checksum", ErrCorrupt, e.Len, e.At)
		}
		p = p[e.Len:]
	}
	return nil
}
