package weir

import (
	"bytes"
	"fmt"
	"os"
	"testing"
)

// blockingRecords are records with every kind of edge, half of which compress.
func blockingRecord(i int) []byte {
	sizes := []int{0, 1, 100, 1000, 32<<10 - 9, 32<<10 - 10, 100_000, 5000}
	p := make([]byte, sizes[i%len(sizes)])
	x := uint32(i + 1)
	for j := range p {
		if i%2 == 0 {
			x = x*1664525 + 1013904223
		}
		p[j] = byte(x >> 24)
	}
	return fmt.Appendf(p, "-%d", i)
}

// writeBlocking writes n records in turn and ends the file.
func writeBlocking(t testing.TB, o *Output, n int) (want [][][]byte) {
	t.Helper()
	ctx := limited(t)
	want = make([][][]byte, o.Subpartitions())
	for i := range n {
		rec := blockingRecord(i)
		if err := o.WriteTo(ctx, i%len(want), rec); err != nil {
			t.Fatal(err)
		}
		want[i%len(want)] = append(want[i%len(want)], rec)
	}
	if err := o.Finish(ctx); err != nil {
		t.Fatal(err)
	}
	return want
}

// readBlocking reads sources to the end and compares what each channel brought.
func readBlocking(t testing.TB, n *Node, src Source, want [][][]byte) {
	t.Helper()
	in := newInput(t, n, InputConfig{Sources: []Source{src}})
	got := make([][][]byte, in.Channels())
	read(limited(t), t, in, func(e *Element) {
		if e.Kind == Record {
			got[e.Channel] = append(got[e.Channel], bytes.Clone(e.Value))
		}
	})
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	for ch := range got {
		if len(got[ch]) != len(want[ch]) {
			t.Fatalf("channel %d brought %d records, want %d", ch, len(got[ch]), len(want[ch]))
		}
		for i := range got[ch] {
			if !bytes.Equal(got[ch][i], want[ch][i]) {
				t.Fatalf("channel %d, record %d: %d bytes, or others, want %d", ch, i, len(got[ch][i]), len(want[ch][i]))
			}
		}
	}
}

func TestBlockingOutput(t *testing.T) {
	for _, codec := range []Codec{NoCompression, LZ4, ZSTD} {
		t.Run(codec.String(), func(t *testing.T) {
			dir := t.TempDir()
			a, b := server(t), open(t, Config{})
			out := newOutput(t, a, OutputConfig{Name: "x", Subpartitions: 3, Blocking: &Blocking{Dir: dir, Codec: codec}})
			want := writeBlocking(t, out, 3000)
			for range 2 {
				readBlocking(t, b, source(a, out), want)
			}
			if err := out.AwaitRead(limited(t), 2); err != nil {
				t.Error(err)
			}
			st := a.Stats().Loop
			t.Logf("%d bytes sent, %d of them from the file", st.WriteBytes, st.FileBytes)
			if err := out.Close(); err != nil {
				t.Error(err)
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}
