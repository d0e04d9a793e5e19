package checkpoint

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
)

// The format of a part, integers big-endian:
//
//	"WEIRPART"  version u32
//	chunk:      length u32 (1 to 262144)  checksum u32  bytes
//	end:        0 u32                     checksum u32  total length u64
//
// A checksum is CRC-32C over the chunk's number (u32), its length as above, and the bytes that follow the checksum. So a chunk
// that was changed, moved, repeated or left out is seen before a byte of it is handed out, and so is a missing end.
const (
	partMagic   = "WEIRPART"
	partVersion = 1
	partHead    = len(partMagic) + 4
	chunkHead   = 8
	// maxChunk bounds a chunk, in bytes, and so what a reader allocates.
	maxChunk = 256 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// chunkSum is the checksum of chunk n.
func chunkSum(n, length uint32, body []byte) uint32 {
	var b [8]byte
	binary.BigEndian.PutUint32(b[:], n)
	binary.BigEndian.PutUint32(b[4:], length)
	return crc32.Update(crc32.Checksum(b[:], castagnoli), castagnoli, body)
}

// encoder writes the format. One goroutine.
type encoder struct {
	w     io.Writer
	buf   []byte // the head of the chunk, and what there is of it
	n     uint32
	total uint64
	size  int64  // of what was written, in bytes
	sum   uint32 // of what was written
}

func newEncoder(w io.Writer) *encoder {
	e := &encoder{w: w, buf: make([]byte, chunkHead, chunkHead+maxChunk)}
	return e
}

func (e *encoder) begin() error {
	return e.write(binary.BigEndian.AppendUint32([]byte(partMagic), partVersion))
}

func (e *encoder) write(p []byte) error {
	n, err := e.w.Write(p)
	e.size += int64(n)
	e.sum = crc32.Update(e.sum, castagnoli, p[:n])
	return err
}

func (e *encoder) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		k := min(len(p), cap(e.buf)-len(e.buf))
		e.buf = append(e.buf, p[:k]...)
		n, p = n+k, p[k:]
		if len(e.buf) == cap(e.buf) {
			if err := e.flush(); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

func (e *encoder) flush() error {
	body := e.buf[chunkHead:]
	if len(body) == 0 {
		return nil
	}
	e.total += uint64(len(body))
	err := e.chunk(uint32(len(body)), body)
	e.buf = e.buf[:chunkHead]
	return err
}

func (e *encoder) chunk(length uint32, body []byte) error {
	binary.BigEndian.PutUint32(e.buf, length)
	binary.BigEndian.PutUint32(e.buf[4:], chunkSum(e.n, length, body))
	e.n++
	return e.write(e.buf[:chunkHead+len(body)])
}

// end writes the last chunk and the end.
func (e *encoder) end() error {
	if err := e.flush(); err != nil {
		return err
	}
	e.buf = binary.BigEndian.AppendUint64(e.buf[:chunkHead], e.total)
	return e.chunk(0, e.buf[chunkHead:])
}

// decoder reads the format. One goroutine.
type decoder struct {
	r     io.Reader
	head  bool
	buf   []byte // of the chunk
	rest  []byte // what of it was not handed out
	n     uint32
	total uint64
	size  int64
	sum   uint32
	err   error
}

func newDecoder(r io.Reader) *decoder { return &decoder{r: r} }

func (d *decoder) Read(p []byte) (int, error) {
	for len(d.rest) == 0 {
		if d.err == nil {
			d.err = d.next()
		}
		if d.err != nil {
			return 0, d.err
		}
	}
	n := copy(p, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

// fill reads len(p) bytes.
func (d *decoder) fill(p []byte) error {
	n, err := io.ReadFull(d.r, p)
	d.size += int64(n)
	d.sum = crc32.Update(d.sum, castagnoli, p[:n])
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return damaged("cut off after %d bytes", d.size)
	}
	return err
}

func (d *decoder) begin() error {
	var head [partHead]byte
	if err := d.fill(head[:]); err != nil {
		return err
	}
	if string(head[:len(partMagic)]) != partMagic {
		return fmt.Errorf("%w: it begins with %q, not %q", ErrFormat, head[:len(partMagic)], partMagic)
	}
	if v := binary.BigEndian.Uint32(head[len(partMagic):]); v != partVersion {
		return fmt.Errorf("%w: version %d, this program reads %d", ErrFormat, v, partVersion)
	}
	d.head = true
	return nil
}

// next reads a chunk; io.EOF after the end.
func (d *decoder) next() error {
	if !d.head {
		if err := d.begin(); err != nil {
			return err
		}
	}
	var head [chunkHead]byte
	if err := d.fill(head[:]); err != nil {
		return err
	}
	length, sum := binary.BigEndian.Uint32(head[:]), binary.BigEndian.Uint32(head[4:])
	if length > maxChunk {
		return damaged("chunk %d has %d bytes, at most %d are allowed", d.n, length, maxChunk)
	}
	body := int(length)
	if length == 0 {
		body = 8
	}
	if cap(d.buf) < body {
		d.buf = make([]byte, body)
	}
	d.buf = d.buf[:body]
	if err := d.fill(d.buf); err != nil {
		return err
	}
	if chunkSum(d.n, length, d.buf) != sum {
		return damaged("the checksum of chunk %d is wrong", d.n)
	}
	d.n++
	if length == 0 {
		return d.last()
	}
	d.total += uint64(length)
	d.rest = d.buf
	return nil
}

func (d *decoder) last() error {
	if total := binary.BigEndian.Uint64(d.buf); total != d.total {
		return damaged("%d bytes, and its end says %d", d.total, total)
	}
	var more [1]byte
	switch n, err := d.r.Read(more[:]); {
	case n > 0:
		return damaged("bytes after the end")
	case err != nil && err != io.EOF:
		return err
	}
	return io.EOF
}

// sealVersion is that of metadata and state.
const sealVersion = 1

// seal is JSON behind a line that names the kind, the version, the checksum and the length of it, so that a person can read it and
// a program sees what was cut or changed.
func seal(kind string, v any) ([]byte, error) {
	body, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return nil, err
	}
	body = append(body, '\n')
	return append(fmt.Appendf(nil, "%s %d %08x %d\n", kind, sealVersion, crc32.Checksum(body, castagnoli), len(body)), body...), nil
}

// unseal reads what seal wrote.
func unseal(kind string, data []byte, v any) error {
	line, body, ok := bytes.Cut(data, []byte("\n"))
	if !ok {
		return damaged("no first line in %d bytes", len(data))
	}
	var version, length int
	var sum uint32
	var found string
	if n, _ := fmt.Sscanf(string(line), "%s %d %08x %d", &found, &version, &sum, &length); n < 2 || found != kind {
		return fmt.Errorf("%w: it begins with %.40q, not %q", ErrFormat, line, kind)
	}
	if version != sealVersion {
		return fmt.Errorf("%w: version %d, this program reads %d", ErrFormat, version, sealVersion)
	}
	if want := fmt.Sprintf("%s %d %08x %d", kind, version, sum, length); string(line) != want {
		return damaged("first line %.40q", line)
	}
	if len(body) != length {
		return damaged("%d bytes instead of %d", len(body), length)
	}
	if got := crc32.Checksum(body, castagnoli); got != sum {
		return damaged("checksum %08x instead of %08x", got, sum)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return damaged("%v", err)
	}
	return nil
}
