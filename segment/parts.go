package segment

import "encoding/binary"

// A segment can hold several small whole buffers, its parts. Their bytes lie one behind the other from its beginning, and their lengths, two bytes
// each, in a table at its end, which is outside of every buffer's window. A part costs its bytes, its length and one store of the marker: no
// reference, no handle and no place in a queue of its own before somebody asks for it.
const (
	// MostParts is how many parts a segment has at most.
	MostParts = 256
	partEntry = 2 // bytes of a length
	mostPart  = 1<<(8*partEntry) - 1
)

// partTable is the table of a segment of n bytes: at most a sixteenth of it.
func partTable(n int) int { return min(MostParts, n/(16*partEntry)) * partEntry }

// PartsBuilder fills a segment with parts, while its PartsReader already passes on those that are there. It belongs to one goroutine, is a value
// that must not be copied once used, and allocates nothing. It holds one reference, given up by Close. The zero value is closed.
type PartsBuilder struct {
	w     Builder
	table []byte // what is left of it
}

// MakePartsBuilder starts to fill b and takes b's reference over. b must be the only reference.
func MakePartsBuilder(b Buffer) PartsBuilder {
	mem := b.Memory()
	room := len(mem) - partTable(len(mem))
	p := PartsBuilder{w: MakeBuilder(b), table: mem[room:]}
	p.w.SetCap(room)
	return p
}

// NewReader returns the builder's only reader: to be passed to ReadParts.
func (p *PartsBuilder) NewReader() Reader { return p.w.NewReader() }

// Append adds a copy of part, and the reader sees it. It returns false, and does nothing, if there is no room for it, or part is empty or longer
// than 65535 bytes, or the builder is closed.
func (p *PartsBuilder) Append(part []byte) bool {
	if len(part) == 0 || len(part) > mostPart || len(p.table) < partEntry || len(part) > len(p.w.Spare()) {
		return false
	}
	binary.NativeEndian.PutUint16(p.table, uint16(len(part)))
	p.table = p.table[partEntry:]
	p.w.Publish(copy(p.w.Spare(), part))
	return true
}

// Open tells whether the builder has a segment.
func (p *PartsBuilder) Open() bool { return !p.w.b.IsZero() }

// Close says that no more parts will come, and gives the builder's reference up. It may be called again.
func (p *PartsBuilder) Close() {
	if p.Open() {
		p.w.Finish()
		p.w.Close()
		p.table = nil
	}
}

// PartsReader follows a PartsBuilder. It belongs to one goroutine at a time, is a value that is passed on rather than copied, holds one reference,
// given up by Close, and allocates nothing. The zero value is closed.
type PartsReader struct {
	r Reader
	n int
}

// ReadParts makes the reader of a PartsBuilder one of parts, and takes its reference over.
func ReadParts(r Reader) PartsReader { return PartsReader{r: r} }

// Next returns the parts that were added since the last call as one buffer with a reference of its own, the index of the first one and their number,
// and whether the builder was closed, so that no more will come. The lengths are had from PartLen. Without new parts it returns the zero Buffer.
func (p *PartsReader) Next() (b Buffer, first, n int, finished bool) {
	b, finished = p.r.Next()
	first = p.n
	for left := b.Len(); left > 0; p.n++ {
		left -= b.PartLen(p.n)
	}
	return b, first, p.n - first, finished
}

// Open tells whether the reader has a segment.
func (p *PartsReader) Open() bool { return !p.r.IsZero() }

// Close gives the reader's reference up. It may be called again.
func (p *PartsReader) Close() { p.r.Close() }

// PartLen returns the length in bytes of part i of the segment that b is of, which a PartsReader has returned.
func (b Buffer) PartLen(i int) int {
	mem := b.h.mem
	return int(binary.NativeEndian.Uint16(mem[len(mem)-partTable(len(mem))+partEntry*i:]))
}

// PartLen is Buffer.PartLen of the buffer that r reads.
func (r *Reader) PartLen(i int) int { return r.b.PartLen(i) }
