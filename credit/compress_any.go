package credit

import (
	"encoding/binary"
	"fmt"

	"github.com/weirflow/weir/segment"
)

// zstdMagic begins every frame of Zstandard. No block of LZ4 can begin with it: it would be two literals and then a copy from at
// least 253 bytes before them, where there is nothing.
const zstdMagic = 0xFD2FB528

// AnyDecompressor decompresses buffers of LZ4 and of ZSTD, and tells them apart by themselves, since the codec is not on the wire. It is
// not safe for concurrent use. Each codec's decoder is made when its first buffer comes.
type AnyDecompressor struct {
	size      int
	lz4, zstd *Decompressor
	// Take gives memory for decompressed buffers; nil, or ok false: the heap.
	Take func() (b segment.Buffer, ok bool)
}

// NewAnyDecompressor makes a decompressor for buffers whose original is at most size bytes, the size of a network buffer.
func NewAnyDecompressor(size int) *AnyDecompressor { return &AnyDecompressor{size: size} }

// Buffer decompresses b into another buffer and releases b, also on errors, which wrap ErrCorrupt. It fits GateConfig.Decompress.
func (d *AnyDecompressor) Buffer(b segment.Buffer) (segment.Buffer, error) {
	codec, slot := LZ4, &d.lz4
	if p := b.Bytes(); len(p) >= blockHeader+4 && binary.LittleEndian.Uint32(p[blockHeader:]) == zstdMagic {
		codec, slot = ZSTD, &d.zstd
	}
	if *slot == nil {
		made, err := NewDecompressor(codec, d.size)
		if err != nil {
			b.Release()
			return segment.Buffer{}, err
		}
		made.Take = d.Take
		*slot = made
	}
	out, err := (*slot).Buffer(b)
	if err != nil && codec == LZ4 {
		err = fmt.Errorf("%w (it is no block of ZSTD either; LZO is not supported)", err)
	}
	return out, err
}

// Close frees what the decompressor holds.
func (d *AnyDecompressor) Close() {
	for _, c := range []*Decompressor{d.lz4, d.zstd} {
		if c != nil {
			c.Close()
		}
	}
	d.lz4, d.zstd = nil, nil
}
