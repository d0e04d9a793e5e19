package spool

import (
	"fmt"
	"io"
	"math"

	"github.com/weirflow/weir/segment"
)

// Writer writes a file front to back: buffers, the ends of regions, the end. The first error of the io.Writer ends it: every
// later call returns that error. It belongs to one goroutine.
type Writer struct {
	w       io.Writer
	layout  Layout
	at      int64 // how much was written
	entries [][]Entry
	count   int // of all entries in the region
	index   []byte
	scratch []byte
	err     error
}

// NewWriter begins a file.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	if err := h.check(); err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	f := &Writer{w: w, layout: Layout{Header: h}, entries: make([][]Entry, h.Subpartitions)}
	f.scratch = h.append(nil)
	f.write(f.scratch)
	return f, f.err
}

// Written returns how many bytes of the file were written.
func (f *Writer) Written() int64 { return f.at }

// Entries returns how many buffers the region has that is being written.
func (f *Writer) Entries() int { return f.count }

// Regions returns how many regions have ended.
func (f *Writer) Regions() int { return int(f.layout.Regions) }

func (f *Writer) write(p []byte) {
	if f.err != nil {
		return
	}
	n, err := f.w.Write(p)
	if err == nil && n != len(p) {
		err = io.ErrShortWrite
	}
	if err != nil {
		f.err = fmt.Errorf("write of %d bytes at %d: %w", len(p), f.at, err)
		return
	}
	f.at += int64(len(p))
}

// Append stores a buffer for a subpartition. p is free again when it returns. An empty one is left out.
func (f *Writer) Append(sub int, p []byte, t segment.DataType, compressed bool) (Entry, error) {
	e := Entry{At: f.at, Len: int32(len(p)), Sum: Sum(p), Type: t, Compressed: compressed}
	switch {
	case len(p) == 0:
		return e, f.err
	case t.IsBuffer() && len(p) > int(f.layout.BufferSize) || len(p) > maxEvent && !t.IsBuffer():
		return e, fmt.Errorf("spool: %d bytes of %s in one buffer", len(p), t)
	}
	f.write(p)
	if f.err == nil {
		f.Repeat(sub, e)
	}
	return e, f.err
}

// Repeat lists a buffer that was stored in this region for another subpartition, too.
func (f *Writer) Repeat(sub int, e Entry) {
	f.entries[sub] = append(f.entries[sub], e)
	f.count++
}

// EndRegion ends the region, if it has anything. No record may go on behind it.
func (f *Writer) EndRegion() error {
	if f.count == 0 || f.err != nil {
		return f.err
	}
	if f.layout.Regions == math.MaxInt32 {
		return fmt.Errorf("spool: more than %d regions", f.layout.Regions)
	}
	region := f.layout.Regions
	first := f.at
	for sub, entries := range f.entries {
		f.scratch = f.scratch[:0]
		for n := range entries {
			f.scratch = entries[n].append(f.scratch, place{region, int32(sub), uint32(n)})
		}
		if len(entries) > 0 {
			f.write(f.scratch)
		}
	}
	f.index = appendRegion(f.index, region, f.at)
	f.scratch = f.scratch[:0]
	for sub, entries := range f.entries {
		f.scratch = run{first, uint32(len(entries))}.append(f.scratch, place{region, int32(sub), runPlace})
		first += int64(len(entries)) * EntryLen
		f.entries[sub] = entries[:0]
	}
	f.write(f.scratch)
	f.count = 0
	f.layout.Regions++
	return f.err
}

// Finish ends the last region and writes the index.
func (f *Writer) Finish() error {
	if err := f.EndRegion(); err != nil {
		return err
	}
	f.layout.Index = f.at
	f.write(f.index)
	f.scratch = f.layout.appendFooter(f.scratch[:0])
	f.write(f.scratch)
	if f.err == nil {
		f.err = errFinished
		return nil
	}
	return f.err
}

var errFinished = fmt.Errorf("spool: the file is finished")
