//go:build !race && !weirdebug

package credit

import (
	"fmt"
	"io"
	"testing"

	"github.com/weirflow/weir/internal/alloctest"
)

// sinkFS takes everything and keeps nothing.
type sinkFS struct {
	*memFS
	written int
}

func (f *sinkFS) Create(dir, pattern string) (io.WriteCloser, string, error) { return f, memPath, nil }

func (f *sinkFS) Write(p []byte) (int, error) {
	f.written += len(p)
	return len(p), nil
}

// TestBlockingWriteAllocatesNothing: from the writer to the file, regions included.
func TestBlockingWriteAllocatesNothing(t *testing.T) {
	for _, codec := range []Codec{NoCompression, LZ4, ZSTD} {
		t.Run(codec.String(), func(t *testing.T) {
			fs := &sinkFS{memFS: newMemFS()}
			r := newBlockingRig(t, BlockingConfig{Subpartitions: 2, Codec: codec, Files: fs})
			recs := [2][]byte{someRecord(0, 0, 100), someRecord(1, 1, 100)}
			before := 0
			alloctest.Zero(t, 3000, 3000, func() {
				r.write(0, recs[0])
				r.write(1, recs[1])
				for r.bp.Step() {
				}
				before++
			})
			if n := r.bp.disk.in.w.Regions(); n < 3 || fs.written < 100_000 {
				t.Errorf("%d regions, %d bytes", n, fs.written)
			}
		})
	}
}

// TestBlockingReadAllocatesNothing: from the file to the connection, by segments and by parts of the file, packed and by range.
func TestBlockingReadAllocatesNothing(t *testing.T) {
	for _, files := range []bool{false, true} {
		t.Run(fmt.Sprintf("files=%t", files), func(t *testing.T) {
			r := newBlockingRig(t, BlockingConfig{Subpartitions: 2, Codec: LZ4, Files: newMemFS()})
			for i := range 8000 {
				r.write(i%2, someRecord(i%2, i, 100))
			}
			r.finish()
			r.files = files
			r.onlyCount = true
			r.requestOf(blockingPartition, SubpartitionRange{0, 1}, blockingChannel(0), 1<<30)
			alloctest.Zero(t, 20, 60, func() {
				r.bp.Step()
				r.bp.Poll()
				if _, err := r.core.Run(); err != nil {
					t.Fatal(err)
				}
			})
			if r.counted < 500 {
				t.Errorf("%d messages were sent", r.counted)
			}
		})
	}
}
