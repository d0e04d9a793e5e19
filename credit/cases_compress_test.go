package credit

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/weirflow/weir/internal/buildtag"
	"github.com/weirflow/weir/segment"
)

// casesCodecs are the codecs that compress.
var casesCodecs = []Codec{LZ4, ZSTD}

// codecPair makes both ends for buffers of size bytes.
func codecPair(t testing.TB, codec Codec, size int) (*Compressor, *Decompressor) {
	t.Helper()
	c, err := NewCompressor(codec, size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	d, err := NewDecompressor(codec, size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return c, d
}

// noise is n bytes that do not compress.
func noise(n int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 77))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// withHeader puts the two lengths before a raw block.
func withHeader(block []byte, original int) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(block)))
	b = binary.LittleEndian.AppendUint32(b, uint32(original))
	return append(b, block...)
}

// literals is an LZ4 block that says src as it is: what a compressor writes that does not give up on noise.
func literals(src []byte) []byte {
	if len(src) < 15 {
		return append([]byte{byte(len(src)) << 4}, src...)
	}
	b := []byte{0xf0}
	rest := len(src) - 15
	for ; rest >= 255; rest -= 255 {
		b = append(b, 255)
	}
	return append(append(b, byte(rest)), src...)
}

// blockOf is a compressed block of src, whether or not it is smaller.
func blockOf(t testing.TB, codec Codec, c *Compressor, src []byte) []byte {
	t.Helper()
	if len(src) == 0 {
		return make([]byte, blockHeader)
	}
	if b, ok := c.Compress(src); ok {
		return bytes.Clone(b)
	}
	if codec == LZ4 {
		return withHeader(literals(src), len(src))
	}
	return withHeader(c.zstd.EncodeAll(src, nil), len(src))
}

// TestCompressionSER06: what does not compress stays as it was, and no reference is lost or taken twice; what does leaves
// the original alone, too, for whoever else reads it, and the memory for the result comes from Take and goes back once.
func TestCompressionSER06(t *testing.T) {
	for _, codec := range casesCodecs {
		pool, err := segment.NewPool(segment.Config{SegmentSize: 1024, Segments: 8})
		if err != nil {
			t.Fatal(err)
		}
		local, err := pool.NewLocal(segment.LocalConfig{Name: "codec", Required: 8})
		if err != nil {
			t.Fatal(err)
		}
		inUse := func(want int, when string) {
			t.Helper()
			local.Drain()
			if got := local.Stats().InUse; got != want {
				t.Errorf("%s, %s: %d segments in use, want %d", codec, when, got, want)
			}
		}
		c, d := codecPair(t, codec, 1024)
		taken := 0
		d.Take = func() (segment.Buffer, bool) {
			taken++
			return local.Take()
		}
		for _, tc := range []struct {
			name    string
			content []byte
			smaller bool
		}{{"noise", noise(1024, 6), false}, {"zeros", make([]byte, 1024), true}} {
			b, ok := local.Take()
			if !ok {
				t.Fatal("the pool is empty")
			}
			copy(b.Memory(), tc.content)
			b = b.Resized(1024).WithType(segment.DataBuffer)
			second := b.Retain()
			block, ok := c.Compress(b.Bytes())
			if ok != tc.smaller {
				t.Fatalf("%s, %s: compressed: %v", codec, tc.name, ok)
			}
			if b.Compressed() || !bytes.Equal(b.Bytes(), tc.content) {
				t.Errorf("%s, %s: the source was touched", codec, tc.name)
			}
			inUse(1, tc.name+" compressed")
			b.Release()
			inUse(1, tc.name+" with one reference left")
			if !bytes.Equal(second.Bytes(), tc.content) {
				t.Errorf("%s, %s: the second consumer reads something else", codec, tc.name)
			}
			second.Release()
			inUse(0, tc.name+" released")
			if !tc.smaller {
				continue
			}
			sent := segment.Wrap(bytes.Clone(block), segment.DataBuffer).WithCompressed(true)
			out, err := d.Buffer(sent)
			if err != nil || out.Compressed() || out.Type() != segment.DataBuffer || !bytes.Equal(out.Bytes(), tc.content) {
				t.Fatalf("%s: got %d bytes, %v", codec, out.Len(), err)
			}
			inUse(1, "decompressed")
			out.Release()
			inUse(0, "the result released")
			// On an error, too, what was taken is returned.
			broken := bytes.Clone(block)
			binary.LittleEndian.PutUint32(broken[4:], 1023)
			if _, err := d.Buffer(segment.Wrap(broken, segment.DataBuffer).WithCompressed(true)); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s: a wrong length: %v", codec, err)
			}
			inUse(0, "after an error")
			if taken != 2 {
				t.Errorf("%s: memory was taken %d times, want 2", codec, taken)
			}
		}
		local.Close()
		if err := pool.Close(); err != nil {
			t.Errorf("%s: %v", codec, err)
		}
	}
}

// guard is what the neighbours of a target are filled with.
const guard = 0xA5

// guarded is a region of three pages, filled with the guard.
type guarded []byte

func newGuarded() guarded { return bytes.Repeat([]byte{guard}, 3*4096) }

// intact checks all but the bytes [from, to), and fills these anew.
func (g guarded) intact(t testing.TB, from, to int, what string) {
	t.Helper()
	for i, v := range g {
		if i >= from && i < to {
			g[i] = guard
		} else if v != guard {
			t.Fatalf("%s: byte %d changed, the target is [%d, %d)", what, i, from, to)
		}
	}
}

// TestCompressionSER09: nobody writes beside the target, whatever comes, and a target that is too small is an error.
func TestCompressionSER09(t *testing.T) {
	const size = 4096
	var sizes []int
	for n := range 301 {
		sizes = append(sizes, n)
	}
	for n := 4000; n <= size; n++ {
		sizes = append(sizes, n)
	}
	for _, codec := range casesCodecs {
		c, d := codecPair(t, codec, size)
		g := newGuarded()
		rng := rand.New(rand.NewPCG(9, uint64(codec)))
		for _, n := range sizes {
			for kind, src := range [][]byte{bytes.Repeat([]byte{7}, n), compressible(n, uint64(n)), noise(n, uint64(n))} {
				what := fmt.Sprintf("%s, %d bytes of kind %d", codec, n, kind)
				// The source, too, has neighbours: the compressor only reads.
				copy(g[size:], src)
				block := blockOf(t, codec, c, g[size:size+n])
				if !bytes.Equal(g[size:size+n], src) {
					t.Fatalf("%s: the source changed", what)
				}
				g.intact(t, size, size+n, what+", compressed")

				got, err := d.Decompress(g[size:size+n], block)
				if err != nil || got != n || !bytes.Equal(g[size:size+n], src) {
					t.Fatalf("%s: %d, %v", what, got, err)
				}
				g.intact(t, size, size+n, what)
				if n == 0 {
					continue
				}
				if _, err := d.Decompress(g[size:size+n-1], block); !errors.Is(err, ErrCorrupt) {
					t.Fatalf("%s: a target that is too small: %v", what, err)
				}
				g.intact(t, size, size, what+", target too small")
				// The header lies, so that only the codec itself can see that it does not fit.
				if n > 1 {
					binary.LittleEndian.PutUint32(block[4:], uint32(n-1))
					if _, err := d.Decompress(g[size:size+n-1], block); !errors.Is(err, ErrCorrupt) {
						t.Fatalf("%s: a header that lies: %v", what, err)
					}
					g.intact(t, size, size+n-1, what+", header lies")
					binary.LittleEndian.PutUint32(block[4:], uint32(n))
				}
				// Hostile: some bytes of the block are others. It may still be a block; it must stay in its place.
				for range 3 {
					block[blockHeader+rng.IntN(len(block)-blockHeader)] = byte(rng.Uint32())
				}
				if m, err := d.Decompress(g[size:size+n], block); err != nil && !errors.Is(err, ErrCorrupt) || m > n {
					t.Fatalf("%s, hostile: %d, %v", what, m, err)
				}
				g.intact(t, size, size+n, what+", hostile")
			}
		}
	}
}

// TestPinSER09: klauspost/compress below 1.18.7 may write beside its target.
func TestPinSER09(t *testing.T) {
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^\s*(?:require\s+)?github\.com/klauspost/compress v(\d+)\.(\d+)\.(\d+)`).FindSubmatch(mod)
	if m == nil {
		t.Fatal("go.mod does not name klauspost/compress")
	}
	version := 0
	for _, part := range m[1:] {
		n, err := strconv.Atoi(string(part))
		if err != nil {
			t.Fatal(err)
		}
		version = version*1000 + n
	}
	if version < 1_018_007 {
		t.Errorf("go.mod has klauspost/compress %s.%s.%s, want 1.18.7 or later", m[1], m[2], m[3])
	}
}

// zstdRuns is a frame without a content size, of blocks that repeat one byte.
func zstdRuns(lengths ...int) []byte {
	f := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 6 << 3} // a window of 64 KiB
	for i, n := range lengths {
		h := n<<3 | 1<<1
		if i == len(lengths)-1 {
			h |= 1
		}
		f = append(f, byte(h), byte(h>>8), byte(h>>16), 'x')
	}
	return f
}

// lz4Run is an LZ4 block of n times one byte; n at least 25.
func lz4Run(n int) []byte {
	b := []byte{0x1f, 'x', 1, 0}
	rest := n - 1 - 19 - 5
	for ; rest >= 255; rest -= 255 {
		b = append(b, 255)
	}
	return append(append(b, byte(rest), 5<<4), "xxxxx"...)
}

// TestBombSER11: what gives more than a segment ends before more than a segment was allocated. Exactly a segment is fine.
func TestBombSER11(t *testing.T) {
	const size = 32 << 10
	runs := func(total int) (r []int) {
		for ; total > 64<<10; total -= 64 << 10 {
			r = append(r, 64<<10)
		}
		return append(r, total)
	}
	// A content size of 1 GiB in the frame itself, of 4 bytes, in a single segment, and with a window.
	single := append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0b10_1_00000, 0, 0, 0, 0x40}, zstdRuns(runs(10 << 20)...)[6:]...)
	window := append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0b10_0_00000, 6 << 3, 0, 0, 0, 0x40}, zstdRuns(runs(10 << 20)...)[6:]...)
	want := bytes.Repeat([]byte{'x'}, size)
	// Compressed blocks do not say what they give.
	packed := func(n int) []byte {
		var b bytes.Buffer
		enc, err := zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(64<<10), zstd.WithEncoderCRC(false))
		if err != nil {
			t.Fatal(err)
		}
		for part := range slices.Chunk(bytes.Repeat([]byte("0123456789abcdef"), n/16), 512) { // flushed in between: no content size
			if _, err := enc.Write(part); err != nil {
				t.Fatal(err)
			}
			if b.Len() == 0 {
				if err := enc.Flush(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := enc.Close(); err != nil {
			t.Fatal(err)
		}
		var h zstd.Header
		if err := h.Decode(b.Bytes()); err != nil || h.HasFCS || !h.FirstBlock.Compressed {
			t.Fatalf("not the frame that it should be: %+v, %v", h, err)
		}
		return b.Bytes()
	}
	for _, tc := range []struct {
		name     string
		codec    Codec
		block    []byte
		original int
		fits     bool
	}{
		{"LZ4, header of 1 GiB", LZ4, lz4Run(size), 1 << 30, false},
		{"LZ4, 10 MiB", LZ4, lz4Run(10 << 20), size, false},
		{"LZ4, 100 bytes", LZ4, lz4Run(size)[:100], size, false},
		{"LZ4, a segment", LZ4, lz4Run(size), size, true},
		{"LZ4, a byte more", LZ4, lz4Run(size + 1), size, false},
		{"LZ4, a byte more in the header", LZ4, lz4Run(size + 1), size + 1, false},
		{"ZSTD, header of 1 GiB", ZSTD, zstdRuns(size), 1 << 30, false},
		{"ZSTD, 10 MiB", ZSTD, zstdRuns(runs(10 << 20)...), size, false},
		{"ZSTD, 100 bytes", ZSTD, zstdRuns(runs(23 * (64 << 10))...), size, false},
		{"ZSTD, 10 MiB in compressed blocks", ZSTD, packed(10 << 20), size, false},
		{"ZSTD, compressed, 16 bytes more", ZSTD, packed(size + 16), size, false},
		{"ZSTD, a segment, then compressed", ZSTD, append(zstdRuns(size), packed(1024)...), size, false},
		{"ZSTD, frame of 1 GiB", ZSTD, single, size, false},
		{"ZSTD, frame of 1 GiB with a window", ZSTD, window, size, false},
		{"ZSTD, twice the memory limit", ZSTD, zstdRuns(64<<10, 64<<10), size, false},
		{"ZSTD, a second frame", ZSTD, append(zstdRuns(size), zstdRuns(size)...), size, false},
		{"ZSTD, a segment", ZSTD, zstdRuns(size), size, true},
		{"ZSTD, a segment in pieces", ZSTD, zstdRuns(1, size-1001, 1000), size, true},
		{"ZSTD, a byte more", ZSTD, zstdRuns(size + 1), size, false},
		{"ZSTD, a byte more in pieces", ZSTD, zstdRuns(size, 1), size, false},
		{"ZSTD, a byte more in the header", ZSTD, zstdRuns(size + 1), size + 1, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, d := codecPair(t, tc.codec, size)
			dst := make([]byte, 4*size) // the limit is the decoder's own, not the target's
			good := withHeader(packed(size), size)
			if tc.codec == LZ4 {
				good = withHeader(lz4Run(size), size)
			}
			if _, err := d.Decompress(dst, good); err != nil { // it has what it needs from now on
				t.Fatal(err)
			}
			clear(dst)
			src := withHeader(tc.block, tc.original)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			n, err := d.Decompress(dst, src)
			runtime.ReadMemStats(&after)
			if got := after.TotalAlloc - before.TotalAlloc; got > size {
				t.Errorf("%d bytes were allocated", got)
			}
			if !tc.fits {
				if n != 0 || !errors.Is(err, ErrCorrupt) {
					t.Errorf("got %d, %v", n, err)
				}
				return
			}
			if err != nil || n != size || !bytes.Equal(dst[:n], want) {
				t.Errorf("got %d, %v, or other bytes", n, err)
			}
			if !bytes.Equal(dst[size:], make([]byte, 3*size)) {
				t.Error("bytes behind the original changed")
			}
		})
	}
}

// TestReuseSER13: an instance that returned an error is as good as a new one, for whoever gets it next.
func TestReuseSER13(t *testing.T) {
	const workers, size = 8, 512
	each := 100_000 / workers / len(casesCodecs)
	if buildtag.Race {
		each /= 4 // the detector costs a lot here, and sees it as well
	}
	for _, codec := range casesCodecs {
		type pair struct {
			c    *Compressor
			d    *Decompressor
			lent bool // the race detector sees it if two have it
		}
		pool := make(chan *pair, 2)
		for range cap(pool) {
			c, d := codecPair(t, codec, size)
			pool <- &pair{c: c, d: d}
		}
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				src := make([][]byte, 16)
				for i := range src {
					src[i] = compressible(100+size/16*i/2, uint64(w*16+i))
					copy(src[i][len(src[i])/2:], src[i])
				}
				dst := make([]byte, size)
				for i := range each {
					s := src[i%len(src)]
					p := <-pool
					if p.lent {
						t.Error("lent twice")
					}
					p.lent = true
					block, ok := p.c.Compress(s)
					switch {
					case !ok:
						t.Errorf("%s: %d bytes did not shrink", codec, len(s))
					case i%10 == 3: // the codec itself runs out of room
						binary.LittleEndian.PutUint32(block[4:], uint32(len(s)-1))
						if _, err := p.d.Decompress(dst, block); !errors.Is(err, ErrCorrupt) {
							t.Errorf("%s: no room: %v", codec, err)
						}
					default:
						n, err := p.d.Decompress(dst, block)
						if err != nil || !bytes.Equal(dst[:n], s) {
							t.Errorf("%s: %d bytes of %d, %v", codec, n, len(s), err)
						}
					}
					p.lent = false
					pool <- p
					if t.Failed() {
						return
					}
				}
			})
		}
		wg.Wait()
	}
}

// TestOffsetsSER17: block and target lie anywhere in a segment, mapped or of the heap.
func TestOffsetsSER17(t *testing.T) {
	const size, n = 4096, 1000
	pool, err := segment.NewPool(segment.Config{SegmentSize: size, Segments: 2})
	if err != nil {
		t.Fatal(err)
	}
	local, err := pool.NewLocal(segment.LocalConfig{Name: "offsets", Required: 2})
	if err != nil {
		t.Fatal(err)
	}
	var mapped [2]segment.Buffer
	for i := range mapped {
		var ok bool
		if mapped[i], ok = local.Take(); !ok {
			t.Fatal("the pool is empty")
		}
	}
	for name, mem := range map[string][2][]byte{
		"mapped": {mapped[0].Memory(), mapped[1].Memory()},
		"heap":   {make([]byte, size), make([]byte, size)},
	} {
		for _, codec := range casesCodecs {
			c, d := codecPair(t, codec, size)
			content := compressible(n, 17)
			block, ok := c.Compress(content)
			if !ok {
				t.Fatal("it did not shrink")
			}
			for _, from := range []int{0, 1, 7, 100} {
				for _, to := range []int{0, 3, 64} {
					src, dst := mem[0], mem[1]
					for i := range size {
						src[i], dst[i] = 0x5A, guard
					}
					copy(src[from:], block)
					// To the segment's end: surplus behind the block, and room behind the target.
					got, err := d.Decompress(dst[to:], src[from:])
					if err != nil || got != n || !bytes.Equal(dst[to:to+n], content) {
						t.Errorf("%s, %s, from %d to %d: %d, %v", name, codec, from, to, got, err)
					}
					for i, v := range dst {
						if (i < to || i >= to+n) && v != guard {
							t.Fatalf("%s, %s, from %d to %d: byte %d changed", name, codec, from, to, i)
						}
					}
				}
			}
		}
	}
	for _, b := range mapped {
		b.Release()
	}
	local.Close()
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
}
