package credit

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/weirflow/weir/segment"
)

// Codec is how buffers of a blocking or hybrid partition are compressed (taskmanager.network.compression.codec). It is
// not on the wire, where a buffer has but a flag: both ends are configured alike. Pipelined partitions never compress.
type Codec uint8

// The codecs.
const (
	NoCompression Codec = iota
	LZ4                 // raw LZ4 blocks
	LZO                 // raw LZO1X blocks: known by name, but not supported
	ZSTD                // Zstandard frames with content size and checksum
)

var codecNames = [...]string{"NONE", "LZ4", "LZO", "ZSTD"}

// String returns the name as in Flink's configuration.
func (c Codec) String() string {
	if int(c) < len(codecNames) {
		return codecNames[c]
	}
	return fmt.Sprintf("codec %d", uint8(c))
}

// ParseCodec reads a name as in Flink's configuration.
func ParseCodec(name string) (Codec, error) {
	for i, n := range codecNames {
		if n == name {
			return Codec(i), nil
		}
	}
	return 0, fmt.Errorf("credit: %w: codec %q, want NONE, LZ4, LZO or ZSTD", ErrConfig, name)
}

// Sentinels for errors.Is: compression.
var (
	// ErrCodec: the codec is not supported. It comes when the compressor is made, not at a buffer.
	ErrCodec = errors.New("codec not supported")
	// ErrCorrupt: a compressed buffer that cannot be decompressed, or whose lengths are wrong.
	ErrCorrupt = errors.New("corrupt compressed buffer")
)

// blockHeader is what a compressed buffer begins with: the lengths of the block and of the original, little-endian, the
// only such numbers in the protocol.
const blockHeader = 8

// Compressor compresses buffers, one block each (BufferCompressor). It is not safe for concurrent use. In steady state it
// allocates nothing.
type Compressor struct {
	codec Codec
	lz4   lz4.Compressor
	zstd  *zstd.Encoder
	buf   []byte
}

// NewCompressor makes a compressor for buffers of at most size bytes. NoCompression gives one that compresses nothing.
func NewCompressor(codec Codec, size int) (*Compressor, error) {
	c := &Compressor{codec: codec}
	switch codec {
	case NoCompression, LZ4:
	case ZSTD:
		// Bytes that do not repeat, but of which some are more frequent, shrink too: without the last option they are sent as they are.
		enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(true), zstd.WithSingleSegment(true),
			zstd.WithAllLitEntropyCompression(true))
		if err != nil {
			return nil, fmt.Errorf("credit: %s: %w", codec, err)
		}
		c.zstd = enc
	default:
		return nil, unsupported(codec)
	}
	c.buf = make([]byte, 0, blockHeader+max(lz4.CompressBlockBound(size), size+size/128+64))
	return c, nil
}

func unsupported(c Codec) error {
	return fmt.Errorf("credit: %w: %s; use NONE, LZ4 or ZSTD at both ends", ErrCodec, c)
}

// Compress returns a compressed block of src, valid until the next call. ok is false if it would not be smaller than
// src, or if src is empty: then src is sent as it is, with the flag clear.
func (c *Compressor) Compress(src []byte) (block []byte, ok bool) {
	if len(src) == 0 {
		return nil, false
	}
	out := c.buf[:blockHeader]
	switch c.codec {
	case LZ4:
		n, err := c.lz4.CompressBlock(src, c.buf[blockHeader:cap(c.buf)])
		if err != nil || n == 0 {
			return nil, false
		}
		out = c.buf[:blockHeader+n]
	case ZSTD:
		out = c.zstd.EncodeAll(src, out)
	}
	if len(out) >= len(src) || len(out) == blockHeader {
		return nil, false
	}
	binary.LittleEndian.PutUint32(out, uint32(len(out)-blockHeader))
	binary.LittleEndian.PutUint32(out[4:], uint32(len(src)))
	return out, true
}

// Close frees what the compressor holds.
func (c *Compressor) Close() {
	if c.zstd != nil {
		_ = c.zstd.Close()
	}
}

// Decompressor decompresses buffers (BufferDecompressor). It checks every length before it is used, and never writes more
// than size bytes. It is not safe for concurrent use.
type Decompressor struct {
	codec Codec
	size  int
	zstd  *zstd.Decoder
	// Take gives memory for decompressed buffers; nil, or ok false: the heap. It is called by Buffer only.
	Take func() (b segment.Buffer, ok bool)
}

// minZstdMemory is the least that the decoder must be allowed: a frame's window is not smaller than 1 KiB.
const minZstdMemory = 64 << 10

// NewDecompressor makes a decompressor for buffers whose original is at most size bytes, the size of a network buffer.
func NewDecompressor(codec Codec, size int) (*Decompressor, error) {
	d := &Decompressor{codec: codec, size: size}
	switch codec {
	case LZ4:
	case ZSTD:
		// The cap limit keeps it from growing the target for a frame that holds more than its block's header says.
		dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true),
			zstd.WithDecoderMaxMemory(uint64(max(size, minZstdMemory))))
		if err != nil {
			return nil, fmt.Errorf("credit: %s: %w", codec, err)
		}
		d.zstd = dec
	default:
		return nil, unsupported(codec)
	}
	return d, nil
}

// Decompress decompresses a block into dst, which must have room for the original, and returns the original's length.
// The bytes behind the block are ignored, as in Flink. Errors wrap ErrCorrupt.
func (d *Decompressor) Decompress(dst, src []byte) (int, error) {
	block, n, err := d.split(src)
	if err != nil || n == 0 {
		return 0, err
	}
	if len(dst) < n {
		return 0, fmt.Errorf("credit: %w: %d bytes where %d fit", ErrCorrupt, n, len(dst))
	}
	var got int
	if d.codec == LZ4 {
		got, err = lz4.UncompressBlock(block, dst[:n])
	} else if err = zstdFits(block, n); err == nil {
		var out []byte
		out, err = d.zstd.DecodeAll(block, dst[:0:n])
		got = len(out)
	}
	if err != nil {
		return 0, fmt.Errorf("credit: %w: %s: %w", ErrCorrupt, d.codec, err)
	}
	if got != n {
		return 0, fmt.Errorf("credit: %w: %d bytes instead of %d", ErrCorrupt, got, n)
	}
	return n, nil
}

// zstdFits checks that frames do not say of themselves that they give more than n bytes. The decoder finds that out, too,
// but may allocate a block of 64 KiB for it first. Compressed blocks do not say what they give: one behind others that
// fill the target may still cost that once, and no more. Whatever is broken is for the decoder to find.
func zstdFits(p []byte, n int) error {
	var h zstd.Header
	for given := 0; len(p) > 0; {
		if h.Decode(p) != nil || len(p) < h.HeaderSize {
			return nil
		}
		p = p[h.HeaderSize:]
		if h.Skippable {
			p = p[min(uint64(len(p)), uint64(h.SkippableSize)):]
			continue
		}
		if h.HasFCS && h.FrameContentSize > uint64(n-given) {
			return zstd.ErrDecoderSizeExceeded
		}
		for last := false; !last; {
			if len(p) < 3 {
				return nil
			}
			b := uint32(p[0]) | uint32(p[1])<<8 | uint32(p[2])<<16
			stored, size, kind := int(b>>3), int(b>>3), b>>1&3
			last = b&1 != 0
			switch kind {
			case 1: // one byte, repeated
				stored = 1
			case 2:
				size = 1 // at least
			}
			if given += size; given > n {
				return zstd.ErrDecoderSizeExceeded
			}
			p = p[min(len(p), 3+stored):]
		}
		if h.HasCheckSum {
			p = p[min(len(p), 4):]
		}
	}
	return nil
}

// split reads the lengths of a block.
func (d *Decompressor) split(src []byte) (block []byte, original int, err error) {
	if len(src) < blockHeader {
		return nil, 0, fmt.Errorf("credit: %w: %d bytes, less than a header", ErrCorrupt, len(src))
	}
	c, n := int32(binary.LittleEndian.Uint32(src)), int32(binary.LittleEndian.Uint32(src[4:]))
	switch rest := len(src) - blockHeader; {
	case c < 0 || n < 0 || (c == 0) != (n == 0) || int64(c) > int64(rest):
		return nil, 0, fmt.Errorf("credit: %w: lengths %d and %d in %d bytes", ErrCorrupt, c, n, rest)
	case int64(n) > int64(d.size):
		return nil, 0, fmt.Errorf("credit: %w: %d bytes, a network buffer has %d", ErrCorrupt, n, d.size)
	}
	return src[blockHeader : blockHeader+c], int(n), nil
}

// Buffer decompresses b into another buffer and releases b, also on errors. It fits GateConfig.Decompress.
func (d *Decompressor) Buffer(b segment.Buffer) (segment.Buffer, error) {
	defer b.Release()
	_, n, err := d.split(b.Bytes())
	if err != nil {
		return segment.Buffer{}, err
	}
	var out segment.Buffer
	ok := false
	if d.Take != nil {
		if out, ok = d.Take(); ok && len(out.Memory()) < n {
			out.Release()
			ok = false
		}
	}
	if !ok {
		out = segment.Wrap(make([]byte, n), b.Type())
	}
	if _, err := d.Decompress(out.Memory(), b.Bytes()); err != nil {
		out.Release()
		return segment.Buffer{}, err
	}
	return out.Resized(n).WithType(b.Type()), nil
}

// Close frees what the decompressor holds.
func (d *Decompressor) Close() {
	if d.zstd != nil {
		d.zstd.Close()
	}
}
