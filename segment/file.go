package segment

import (
	"io"
	"sync/atomic"
)

// File is a file that buffers refer to.
type File struct {
	r    io.ReaderAt
	refs atomic.Int32
}

func (f *File) release() { f.refs.Add(-1) }
