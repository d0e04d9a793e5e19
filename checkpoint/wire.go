package checkpoint

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// A frame, integers big-endian:
//
//	length u32   of what follows the checksum: the kind and the body
//	checksum u32 CRC-32C of it
//	kind u8
//	body         JSON, or the bytes of a chunk
//
// The length is checked before anything is allocated: a chunk's body has at most 256 KiB, any other 512 KiB.
const frameHead = 8

// ErrProtocol is in the error for bytes that no honest peer of this version sends.
var ErrProtocol = errors.New("protocol error")

// frameReader reads messages. One goroutine.
type frameReader struct {
	r   *bufio.Reader
	buf []byte
}

func newFrameReader(r io.Reader) *frameReader {
	return &frameReader{r: bufio.NewReaderSize(r, 16<<10)}
}

// read reads a message. Its chunk is valid until the next call. io.EOF: the connection ended between two frames.
func (f *frameReader) read() (*message, error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(f.r, head[:]); err != nil {
		if err == io.ErrUnexpectedEOF {
			err = fmt.Errorf("%w in the head of a frame", err)
		}
		return nil, err
	}
	length, sum := binary.BigEndian.Uint32(head[:]), binary.BigEndian.Uint32(head[4:])
	if length < 1 || length > 1+maxControl {
		return nil, fmt.Errorf("%w: a frame of %d bytes, want 1 to %d", ErrProtocol, length, 1+maxControl)
	}
	k, err := f.r.Peek(1)
	if err != nil {
		return nil, unexpected(err)
	}
	if kind(k[0]) == msgChunk && length > 1+maxChunk {
		return nil, fmt.Errorf("%w: a chunk of %d bytes, at most %d are allowed", ErrProtocol, length-1, maxChunk)
	}
	if cap(f.buf) < int(length) {
		f.buf = make([]byte, length)
	}
	f.buf = f.buf[:length]
	if _, err := io.ReadFull(f.r, f.buf); err != nil {
		return nil, unexpected(err)
	}
	if crc32.Checksum(f.buf, castagnoli) != sum {
		return nil, fmt.Errorf("%w: the checksum of a frame of %d bytes is wrong", ErrProtocol, length)
	}
	m := &message{Kind: kind(f.buf[0])}
	if m.Kind == msgChunk {
		m.chunk = f.buf[1:]
		return m, nil
	}
	if err := json.Unmarshal(f.buf[1:], m); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrProtocol, m.Kind, err)
	}
	return m, m.check()
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// appendFrame appends a message.
func appendFrame(dst []byte, m *message) ([]byte, error) {
	body, err := m.body()
	if err != nil {
		return dst, err
	}
	at := len(dst)
	dst = binary.BigEndian.AppendUint32(dst, uint32(1+len(body)))
	dst = append(dst, 0, 0, 0, 0, byte(m.Kind))
	dst = append(dst, body...)
	binary.BigEndian.PutUint32(dst[at+4:], crc32.Checksum(dst[at+frameHead:], castagnoli))
	return dst, nil
}

// appendChunkHead begins a frame whose chunk is read into the buffer behind it; endChunk completes it.
func appendChunkHead(dst []byte) []byte { return append(dst, 0, 0, 0, 0, 0, 0, 0, 0, byte(msgChunk)) }

// endChunk fills in the head of a frame that is all of b.
func endChunk(b []byte) []byte {
	binary.BigEndian.PutUint32(b, uint32(len(b)-frameHead))
	binary.BigEndian.PutUint32(b[4:], crc32.Checksum(b[frameHead:], castagnoli))
	return b
}
