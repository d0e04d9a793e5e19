package credit

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weirflow/weir/segment"
)

// compressible is data of n bytes that shrinks to about half.
func compressible(n int, seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 5))
	b := make([]byte, n)
	for i := range b {
		if b[i] = byte(rng.Uint32()); i >= 64 && i/32%2 == 1 {
			b[i] = b[i-64]
		}
	}
	return b
}

// TestCompressRoundTrip: what was compressed comes back; what does not shrink is left alone.
func TestCompressRoundTrip(t *testing.T) {
	for _, codec := range []Codec{LZ4, ZSTD} {
		c, err := NewCompressor(codec, segment.DefaultSize)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		d, err := NewDecompressor(codec, segment.DefaultSize)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		random := make([]byte, 5000)
		rng := rand.New(rand.NewPCG(9, 9))
		for i := range random {
			random[i] = byte(rng.Uint32())
		}
		if _, ok := c.Compress(random); ok {
			t.Errorf("%s: random data shrank", codec)
		}
		if _, ok := c.Compress(nil); ok {
			t.Errorf("%s: nothing shrank", codec)
		}
		for _, n := range []int{64, 100, 1000, 4096, 32768} {
			src := bytes.Repeat([]byte("abcd"), n/4)
			if n > 1000 {
				src = compressible(n, uint64(n))
			}
			block, ok := c.Compress(src)
			if !ok || len(block) >= len(src) {
				t.Fatalf("%s: %d bytes did not shrink", codec, n)
			}
			dst := make([]byte, n)
			got, err := d.Decompress(dst, append(bytes.Clone(block), 1, 2, 3)) // surplus is ignored
			if err != nil || got != n || !bytes.Equal(dst, src) {
				t.Fatalf("%s: %d bytes: %d, %v", codec, n, got, err)
			}
			if _, err := d.Decompress(dst[:n-1], block); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s: a short destination: %v", codec, err)
			}
		}
	}
}

// TestCompressSkewed: bytes of which none repeats the ones before, but some are rarer than others, shrink with ZSTD, in blocks of any size.
func TestCompressSkewed(t *testing.T) {
	c, err := NewCompressor(ZSTD, segment.DefaultSize)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	d, err := NewDecompressor(ZSTD, segment.DefaultSize)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	rng := rand.New(rand.NewPCG(4, 4))
	for _, n := range []int{1000, 4096, segment.DefaultSize} {
		src := make([]byte, n)
		for i := range src {
			src[i] = byte(rng.Uint32() & 15)
		}
		block, ok := c.Compress(src)
		if !ok || len(block) > n*3/5 {
			t.Errorf("%d bytes of four bits: %d bytes, %t", n, len(block), ok)
			continue
		}
		back := make([]byte, n)
		if got, err := d.Decompress(back, block); err != nil || !bytes.Equal(back[:got], src) {
			t.Errorf("%d bytes: %d back, %v", n, got, err)
		}
	}
}

// TestDecompressReference decompresses the blocks that Flink's own compressors make of 16 times abcd.
func TestDecompressReference(t *testing.T) {
	want := bytes.Repeat([]byte("abcd"), 16)
	for codec, digits := range map[Codec]string{
		LZ4:  "0e000000400000004f61626364040024506461626364",
		ZSTD: "170000004000000028b52ffd2440550000206162636401005972447d1f9c9a",
	} {
		src, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatal(err)
		}
		d, err := NewDecompressor(codec, 64)
		if err != nil {
			t.Fatal(err)
		}
		dst := make([]byte, 64)
		if n, err := d.Decompress(dst, src); err != nil || !bytes.Equal(dst[:n], want) {
			t.Errorf("%s: %x, %v", codec, dst[:n], err)
		}
		d.Close()
	}
}

// TestDecompressRefuses: lengths that lie and blocks that are broken are errors, whatever they are.
func TestDecompressRefuses(t *testing.T) {
	src := compressible(4096, 1)
	for _, codec := range []Codec{LZ4, ZSTD} {
		c, _ := NewCompressor(codec, 4096)
		d, err := NewDecompressor(codec, 4096)
		if err != nil {
			t.Fatal(err)
		}
		block, _ := c.Compress(src)
		put := func(at int, v uint32) []byte {
			b := bytes.Clone(block)
			binary.LittleEndian.PutUint32(b[at:], v)
			return b
		}
		blocklen := uint32(len(block) - blockHeader)
		dst := make([]byte, 8192)
		for name, b := range map[string][]byte{
			"empty":             nil,
			"cut in the header": block[:7],
			"cut in the block":  block[:len(block)-1],
			"length -1":         put(0, 0xffffffff),
			"original -1":       put(4, 0xffffffff),
			"length 0":          put(0, 0),
			"original 0":        put(4, 0),
			"length shorter":    put(0, blocklen-1),
			"original shorter":  put(4, 4095),
			"original longer":   put(4, 4097),
			"original huge":     put(4, 1<<31-1),
			"noise":             append(bytes.Clone(block[:8]), bytes.Repeat([]byte{0xff}, int(blocklen))...),
		} {
			if _, err := d.Decompress(dst, b); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s, %s: %v", codec, name, err)
			}
		}
		if n, err := d.Decompress(dst, make([]byte, 8)); n != 0 || err != nil {
			t.Errorf("%s: two zero lengths: %d, %v", codec, n, err)
		}
		d.Close()
	}
}

// TestCodecs: LZO is named in the error that says it is not supported.
func TestCodecs(t *testing.T) {
	for _, name := range []string{"NONE", "LZ4", "LZO", "ZSTD"} {
		c, err := ParseCodec(name)
		if err != nil || c.String() != name {
			t.Errorf("%s: %v, %v", name, c, err)
		}
	}
	if _, err := ParseCodec("GZIP"); !errors.Is(err, ErrConfig) {
		t.Errorf("got %v", err)
	}
	if _, err := NewCompressor(LZO, 1); !errors.Is(err, ErrCodec) || !bytes.Contains([]byte(err.Error()), []byte("LZO")) {
		t.Errorf("got %v", err)
	}
	if _, err := NewDecompressor(LZO, 1); !errors.Is(err, ErrCodec) {
		t.Errorf("got %v", err)
	}
	if c, err := NewCompressor(NoCompression, 10); err != nil {
		t.Error(err)
	} else if _, ok := c.Compress(make([]byte, 10)); ok {
		t.Error("NONE compressed")
	}
}

// TestDecompressBuffer: the compressed buffer goes home, also on errors, and memory comes from where it shall.
func TestDecompressBuffer(t *testing.T) {
	pool, err := segment.NewPool(segment.Config{SegmentSize: 4096, Segments: 2})
	if err != nil {
		t.Fatal(err)
	}
	local, err := pool.NewLocal(segment.LocalConfig{Name: "test", Required: 2})
	if err != nil {
		t.Fatal(err)
	}
	c, _ := NewCompressor(LZ4, 4096)
	d, _ := NewDecompressor(LZ4, 4096)
	src := compressible(4096, 2)
	block, _ := c.Compress(src)
	for _, take := range []func() (segment.Buffer, bool){nil, local.Take} {
		d.Take = take
		in, _ := local.Take()
		copy(in.Memory(), block)
		out, err := d.Buffer(in.Resized(len(block)).WithType(segment.DataBufferWithClearEnd).WithCompressed(true))
		if err != nil || !bytes.Equal(out.Bytes(), src) || out.Type() != segment.DataBufferWithClearEnd || out.Compressed() {
			t.Fatalf("%d bytes, %v", out.Len(), err)
		}
		out.Release()
		bad, _ := local.Take()
		for i := range bad.Memory() {
			bad.Memory()[i] = 0xff
		}
		if _, err := d.Buffer(bad.Resized(100).WithCompressed(true)); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("a broken block: %v", err)
		}
	}
	local.Close()
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
}

// BenchmarkCompress compresses a network buffer into a block that is used again, and back.
func BenchmarkCompress(b *testing.B) {
	src := compressible(32<<10, 3)
	dst := make([]byte, 32<<10)
	for _, codec := range []Codec{LZ4, ZSTD} {
		c, err := NewCompressor(codec, len(src))
		if err != nil {
			b.Fatal(err)
		}
		d, err := NewDecompressor(codec, len(src))
		if err != nil {
			b.Fatal(err)
		}
		block, ok := c.Compress(src)
		if !ok {
			b.Fatal("did not shrink")
		}
		block = bytes.Clone(block)
		for _, way := range []string{"compress", "decompress"} {
			b.Run(fmt.Sprintf("codec=%s/way=%s", codec, way), func(b *testing.B) {
				b.SetBytes(int64(len(src)))
				b.ReportAllocs()
				for b.Loop() {
					if way == "compress" {
						if _, ok := c.Compress(src); !ok {
							b.Fatal("did not shrink")
						}
					} else if _, err := d.Decompress(dst, block); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		c.Close()
		d.Close()
	}
}
