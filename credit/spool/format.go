package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/weirflow/weir/segment"
)

// Sizes of the parts of a file, in bytes.
const (
	HeaderLen = 84
	EntryLen  = 24
	RunLen    = 16
	RegionLen = 16
	FooterLen = 40
)

// ErrCorrupt: the file is not what was written: torn, cut, changed, or not such a file at all.
var ErrCorrupt = errors.New("corrupt partition file")

var (
	headMagic = [8]byte{'w', 'e', 'i', 'r', 's', 'p', 'l', 1}
	footMagic = [8]byte{'w', 'e', 'i', 'r', 'e', 'n', 'd', 1}
	table     = crc32.MakeTable(crc32.Castagnoli)
	be        = binary.BigEndian
)

// Sum is the checksum of a payload.
func Sum(p []byte) uint32 { return crc32.Checksum(p, table) }

// Header says what a file holds.
type Header struct {
	// Partition is its id.
	Partition [60]byte
	// Subpartitions is their number, at least 1.
	Subpartitions int32
	// BufferSize is the size of a network buffer: no payload is longer, unless it is an event.
	BufferSize int32
	// Codec is the number of the codec that payloads with Entry.Compressed were compressed with.
	Codec uint8
}

// MaxSubpartitions is the most that a partition can have.
const MaxSubpartitions = 1 << 20

func (h *Header) check() error {
	if h.Subpartitions < 1 || h.Subpartitions > MaxSubpartitions || h.BufferSize < 1 {
		return fmt.Errorf("%d subpartitions, buffers of %d bytes", h.Subpartitions, h.BufferSize)
	}
	return nil
}

// append appends the header's bytes.
func (h *Header) append(dst []byte) []byte {
	at := len(dst)
	dst = append(dst, headMagic[:]...)
	dst = append(dst, h.Partition[:]...)
	dst = be.AppendUint32(dst, uint32(h.Subpartitions))
	dst = be.AppendUint32(dst, uint32(h.BufferSize))
	dst = append(dst, h.Codec, 0, 0, 0)
	return be.AppendUint32(dst, Sum(dst[at:]))
}

// ParseHeader reads the first HeaderLen bytes of a file. Errors wrap ErrCorrupt.
func ParseHeader(p []byte) (h Header, err error) {
	if err := sealed("header", p, HeaderLen, headMagic); err != nil {
		return h, err
	}
	copy(h.Partition[:], p[8:])
	h.Subpartitions, h.BufferSize, h.Codec = int32(be.Uint32(p[68:])), int32(be.Uint32(p[72:])), p[76]
	if err := h.check(); err != nil {
		return h, fmt.Errorf("%w: header: %w", ErrCorrupt, err)
	}
	return h, nil
}

// sealed checks length, magic and checksum of the header or footer.
func sealed(what string, p []byte, n int, magic [8]byte) error {
	switch {
	case len(p) != n:
		return fmt.Errorf("%w: %s of %d bytes, want %d", ErrCorrupt, what, len(p), n)
	case [8]byte(p) != magic:
		return fmt.Errorf("%w: %s begins with % x", ErrCorrupt, what, p[:8])
	case Sum(p[:n-4]) != be.Uint32(p[n-4:]):
		return fmt.Errorf("%w: %s: wrong checksum", ErrCorrupt, what)
	}
	return nil
}

// Layout is what a reader knows of a file once it has seen its header and footer: where the index is. It is a value.
type Layout struct {
	Header
	// Regions is the number of regions, Index where their records begin; everything before Index is header and regions.
	Regions int32
	Index   int64
}

func (l *Layout) appendFooter(dst []byte) []byte {
	at := len(dst)
	dst = append(dst, footMagic[:]...)
	dst = be.AppendUint32(dst, uint32(l.Regions))
	dst = be.AppendUint32(dst, uint32(l.Subpartitions))
	dst = be.AppendUint64(dst, uint64(l.Index))
	dst = be.AppendUint64(dst, uint64(l.size()))
	dst = append(dst, 0, 0, 0, 0)
	return be.AppendUint32(dst, Sum(dst[at:]))
}

// size is the size of the whole file.
func (l *Layout) size() int64 { return l.Index + int64(l.Regions)*RegionLen + FooterLen }

// ParseLayout reads a file's first HeaderLen and last FooterLen bytes; size is that of the file. Errors wrap ErrCorrupt.
func ParseLayout(head, foot []byte, size int64) (l Layout, err error) {
	if l.Header, err = ParseHeader(head); err != nil {
		return l, err
	}
	if err := sealed("footer", foot, FooterLen, footMagic); err != nil {
		return l, err
	}
	l.Regions, l.Index = int32(be.Uint32(foot[8:])), int64(be.Uint64(foot[16:]))
	subs, want := int32(be.Uint32(foot[12:])), int64(be.Uint64(foot[24:]))
	switch {
	case subs != l.Subpartitions:
		return l, fmt.Errorf("%w: %d subpartitions in the header, %d in the footer", ErrCorrupt, l.Subpartitions, subs)
	case want != size:
		return l, fmt.Errorf("%w: the file has %d bytes of %d", ErrCorrupt, size, want)
	case l.Regions < 0 || l.Index < HeaderLen || l.Index > size || l.size() != size:
		return l, fmt.Errorf("%w: %d regions, index at %d of %d bytes", ErrCorrupt, l.Regions, l.Index, size)
	}
	return l, nil
}

// Entry is a buffer as the directory lists it.
type Entry struct {
	// At is where its payload lies, Len how long it is, Sum its checksum.
	At  int64
	Len int32
	Sum uint32
	// Type says what it is, Compressed whether the payload is a compressed block.
	Type       segment.DataType
	Compressed bool
}

// place is where an entry stands. It is part of the entry's checksum.
type place struct {
	region, sub int32
	n           uint32
}

func (e *Entry) append(dst []byte, at place) []byte {
	from := len(dst)
	dst = be.AppendUint64(dst, uint64(e.At))
	dst = be.AppendUint32(dst, uint32(e.Len))
	dst = be.AppendUint32(dst, e.Sum)
	compressed := byte(0)
	if e.Compressed {
		compressed = 1
	}
	dst = append(dst, byte(e.Type), compressed, 0, 0)
	return be.AppendUint32(dst, at.sum(dst[from:]))
}

// sum is the checksum of what stands at a place: the CRC of its bytes, begun with a number made of the place, which two places of a file
// hardly share.
func (at place) sum(p []byte) uint32 {
	return crc32.Update(uint32(at.region)*0x9E3779B1^uint32(at.sub)*0x85EBCA77^at.n*0xC2B2AE3D, table, p)
}

// parse reads an entry of a file whose payloads end before end.
func (e *Entry) parse(p []byte, at place, l *Layout) error {
	if at.sum(p[:EntryLen-4]) != be.Uint32(p[EntryLen-4:]) {
		return fmt.Errorf("%w: entry %d of subpartition %d in region %d: wrong checksum", ErrCorrupt, at.n, at.sub, at.region)
	}
	e.At, e.Len, e.Sum = int64(be.Uint64(p)), int32(be.Uint32(p[8:])), be.Uint32(p[12:])
	e.Type, e.Compressed = segment.DataType(p[16]), p[17] != 0
	switch {
	case e.At < HeaderLen || e.Len < 1 || e.At > l.Index-int64(e.Len):
	case !e.Type.Valid() || e.Type == segment.None:
	case e.Type.IsBuffer() && e.Len > l.BufferSize || e.Len > maxEvent:
	default:
		return nil
	}
	return fmt.Errorf("%w: entry %d of subpartition %d in region %d: %d bytes of %s at %d", ErrCorrupt, at.n, at.sub, at.region, e.Len, e.Type, e.At)
}

// maxEvent bounds the payload of an event, so that a file cannot make a reader take more memory.
const maxEvent = 1 << 20

// runsPlace stands for n in the checksum of a run, regionPlace for sub in that of an index record.
const (
	runPlace    = math.MaxUint32
	regionPlace = -1
)

// run says where the entries of a subpartition in a region begin, and how many there are.
type run struct {
	at int64
	n  uint32
}

func (r run) append(dst []byte, at place) []byte {
	from := len(dst)
	dst = be.AppendUint64(dst, uint64(r.at))
	dst = be.AppendUint32(dst, r.n)
	return be.AppendUint32(dst, at.sum(dst[from:]))
}

func (r *run) parse(p []byte, at place, l *Layout) error {
	if at.sum(p[:RunLen-4]) != be.Uint32(p[RunLen-4:]) {
		return fmt.Errorf("%w: run of subpartition %d in region %d: wrong checksum", ErrCorrupt, at.sub, at.region)
	}
	r.at, r.n = int64(be.Uint64(p)), be.Uint32(p[8:])
	if r.at < HeaderLen || r.at > l.Index || int64(r.n) > (l.Index-r.at)/EntryLen {
		return fmt.Errorf("%w: run of subpartition %d in region %d: %d entries at %d", ErrCorrupt, at.sub, at.region, r.n, r.at)
	}
	return nil
}

// appendRegion appends a record of the index: where the runs of a region begin.
func appendRegion(dst []byte, region int32, runs int64) []byte {
	from := len(dst)
	dst = be.AppendUint64(dst, uint64(runs))
	dst = append(dst, 0, 0, 0, 0)
	return be.AppendUint32(dst, place{region, regionPlace, 0}.sum(dst[from:]))
}

func parseRegion(p []byte, region int32, l *Layout) (runs int64, err error) {
	if (place{region, regionPlace, 0}).sum(p[:RegionLen-4]) != be.Uint32(p[RegionLen-4:]) {
		return 0, fmt.Errorf("%w: index of region %d: wrong checksum", ErrCorrupt, region)
	}
	runs = int64(be.Uint64(p))
	if runs < HeaderLen || runs > l.Index-int64(l.Subpartitions)*RunLen {
		return 0, fmt.Errorf("%w: index of region %d: runs at %d", ErrCorrupt, region, runs)
	}
	return runs, nil
}
