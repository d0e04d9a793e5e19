package credit

import (
	"bytes"
	"errors"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// naiveLZ4 decodes a raw LZ4 block into at most limit bytes, as the format's description has it. ok is false if the block is broken
// or longer.
func naiveLZ4(p []byte, limit int) (out []byte, ok bool) {
	length := func(n int) (int, bool) {
		if n < 15 {
			return n, true
		}
		for len(p) > 0 {
			b := int(p[0])
			p = p[1:]
			if n += b; b < 255 || n > limit {
				return n, true
			}
		}
		return 0, false
	}
	for len(p) > 0 {
		token := p[0]
		p = p[1:]
		n, ok := length(int(token >> 4))
		if !ok || n > len(p) || len(out)+n > limit {
			return nil, false
		}
		out, p = append(out, p[:n]...), p[n:]
		if len(p) == 0 {
			return out, true // the last sequence has no match
		}
		if len(p) < 2 {
			return nil, false
		}
		at := int(p[0]) | int(p[1])<<8
		p = p[2:]
		m, ok := length(int(token & 15))
		if m += 4; !ok || at == 0 || at > len(out) || len(out)+m > limit {
			return nil, false
		}
		for range m {
			out = append(out, out[len(out)-at])
		}
	}
	return nil, false // it ends with literals
}

const fuzzBlock = 1 << 12

// FuzzCompressed decodes blocks of any bytes with both codecs: no more is written than fits, errors are ErrCorrupt, what is accepted
// is what other decoders make of it; and what a compressor makes of the same bytes comes back as they were.
func FuzzCompressed(f *testing.F) {
	for _, codec := range casesCodecs {
		c, err := NewCompressor(codec, fuzzBlock)
		if err != nil {
			f.Fatal(err)
		}
		vectorFrames(f, func(frame []byte, _, _ bool) {
			f.Add(frame)
			if block, ok := c.Compress(frame[:min(len(frame), fuzzBlock)]); ok {
				f.Add(bytes.Clone(block))
			}
		})
		c.Close()
	}
	plain, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(1<<20))
	if err != nil {
		f.Fatal(err)
	}
	defer plain.Close()
	var cs []*Compressor
	var ds []*Decompressor
	for _, codec := range casesCodecs {
		c, d := codecPair(f, codec, fuzzBlock)
		cs, ds = append(cs, c), append(ds, d)
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		for i, d := range ds {
			fuzzDecompress(t, d, plain, p)
			p := p[:min(len(p), fuzzBlock)]
			block, ok := cs[i].Compress(p)
			if !ok {
				continue
			}
			if len(block) >= len(p) {
				t.Fatalf("%v: %d bytes became %d", d.codec, len(p), len(block))
			}
			dst := make([]byte, fuzzBlock)
			if n, err := d.Decompress(dst, block); err != nil || !bytes.Equal(dst[:n], p) {
				t.Fatalf("%v: %d bytes came back as %d: %v", d.codec, len(p), n, err)
			}
		}
	})
}

// fuzzDecompress decodes one block, behind which nothing may be written. plain is a decoder that knows of no limits of ours.
func fuzzDecompress(t *testing.T, d *Decompressor, plain *zstd.Decoder, p []byte) {
	t.Helper()
	const guard = 64
	dst := bytes.Repeat([]byte{0xA5}, fuzzBlock+guard)
	n, err := d.Decompress(dst[:fuzzBlock], p)
	if tail := bytes.Trim(dst[fuzzBlock:], "\xA5"); len(tail) > 0 {
		t.Fatalf("%v: wrote behind the end: % x", d.codec, tail)
	}
	if err != nil {
		if !errors.Is(err, ErrCorrupt) || n != 0 {
			t.Fatalf("%v: %d bytes, %v", d.codec, n, err)
		}
		return
	}
	block, want, err := d.split(p)
	if err != nil || want != n {
		t.Fatalf("%v: %d bytes, the header says %d: %v", d.codec, n, want, err)
	}
	if n == 0 {
		return
	}
	if d.codec == LZ4 {
		if out, ok := naiveLZ4(block, n); !ok || !bytes.Equal(out, dst[:n]) {
			t.Fatalf("LZ4: % x became % x, want % x (%t)", block, dst[:n], out, ok)
		}
		return
	}
	if out, err := plain.DecodeAll(block, nil); err != nil || !bytes.Equal(out, dst[:n]) {
		t.Fatalf("ZSTD: % x became % x, want % x: %v", block, dst[:n], out, err)
	}
}
