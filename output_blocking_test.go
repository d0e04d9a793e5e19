package weir

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/credit/spool"
	"github.com/weirflow/weir/internal/buildtag"
	"github.com/weirflow/weir/internal/testcert"
	"github.com/weirflow/weir/segment"
)

// blockingRecord is a record of a size with every kind of edge; half of them compress.
func blockingRecord(i int) []byte {
	sizes := []int{0, 1, 100, 1000, 32<<10 - 9, 32<<10 - 10, 100_000, 5000}
	p := make([]byte, sizes[i%len(sizes)])
	x := uint32(i + 1)
	for j := range p {
		if i%4 < 2 {
			x = x*1664525 + 1013904223
		}
		p[j] = byte(x >> 24)
	}
	return fmt.Appendf(p, "-%06d", i)
}

// blockingOutput is an output in a directory of its own that must be empty when all is closed.
func blockingOutput(t testing.TB, n *Node, subs int, b Blocking) *Output {
	t.Helper()
	b.Dir = t.TempDir()
	o := newOutput(t, n, OutputConfig{Name: "x", Subpartitions: subs, Blocking: &b})
	t.Cleanup(func() {
		if err := o.Close(); err != nil {
			t.Error(err)
		}
		if left, _ := os.ReadDir(b.Dir); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	return o
}

// writeBlocking writes n records in turn, and ends the file.
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

// readBlocking reads a source to the end and compares what each channel brought; of a ranged one, what each subpartition of
// writeBlocking has.
func readBlocking(ctx context.Context, n *Node, src Source, want [][][]byte) (err error) {
	in, err := n.NewInput(InputConfig{Sources: []Source{src}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	at := make([]int, len(want))
	for e, err := range in.All(ctx) {
		if err != nil {
			return err
		}
		if e.Kind != Record {
			continue
		}
		ch := e.Channel
		if src.Ranged {
			var i int
			if _, err := fmt.Sscanf(string(e.Value[max(0, len(e.Value)-6):]), "%06d", &i); err != nil {
				return fmt.Errorf("a record that was not written: %w", err)
			}
			ch = i % len(want)
		}
		if at[ch] >= len(want[ch]) || !bytes.Equal(e.Value, want[ch][at[ch]]) {
			return fmt.Errorf("subpartition %d: record %d of %d has %d bytes, or others", ch, at[ch], len(want[ch]), len(e.Value))
		}
		at[ch]++
	}
	for ch := range at {
		if at[ch] != len(want[ch]) {
			return fmt.Errorf("subpartition %d brought %d records of %d", ch, at[ch], len(want[ch]))
		}
	}
	return nil
}

// Each codec, release and transport: plain from the file, plain from memory, TLS, to the same node; channel by channel and by range; one consumer
// after the other, several at once, and some that come before there is anything.
func TestBlockingOutput(t *testing.T) {
	const subs = 3
	records := 500
	if buildtag.Race { // where this takes fifty times as long; each kind of record still comes often
		records = 150
	}
	ca := testcert.New(t, "authority")
	secured := ca.TLS(t, "node")
	for _, codec := range []Codec{NoCompression, LZ4, ZSTD} {
		for _, flink := range []Flink{Flink23, Flink120} {
			for _, transport := range []string{"file", "memory", "tls", "local"} {
				t.Run(fmt.Sprintf("codec=%s/%s/%s", codec, flink, transport), func(t *testing.T) {
					var secure *tls.Config
					if transport == "tls" {
						secure = secured
					}
					ctx := limited(t)
					cfg := Config{Flink: flink, TLS: secure}
					at, b := together, open(t, cfg)
					a := b
					if transport != "local" {
						at, cfg.Listen = apart, "127.0.0.1:0"
						a = open(t, cfg)
					}
					out := blockingOutput(t, a, subs, Blocking{Codec: codec, inMemory: transport == "memory"})
					want := make([][][]byte, subs)
					for i := range records {
						want[i%subs] = append(want[i%subs], blockingRecord(i))
					}
					src := at.source(a, out)
					ranged := src
					ranged.Ranged = true
					early := inBackground(t, func() error { return readBlocking(ctx, b, src, want) })
					earlyRanged := inBackground(t, func() error { return readBlocking(ctx, b, ranged, want) })
					if err := out.AwaitConsumers(ctx); err != nil {
						t.Fatal(err)
					}
					writeBlocking(t, out, records)
					for _, err := range []error{early(), earlyRanged(), readBlocking(ctx, b, src, want), readBlocking(ctx, b, ranged, want)} {
						if err != nil {
							t.Error(err)
						}
					}
					if err := out.AwaitRead(ctx, 4); err != nil {
						t.Error(err)
					}
					st := a.Stats().Loop
					sent, fromFile := st.WriteBytes, st.FileBytes
					switch {
					case transport == "file" && sendsFiles && fromFile < sent*9/10:
						t.Errorf("%d of %d bytes were sent from the file", fromFile, sent)
					case (transport != "file" || !sendsFiles) && fromFile > 0:
						t.Errorf("%d bytes were sent from the file", fromFile)
					}
				})
			}
		}
	}
}

// However a stream travels, it is the same: everything that can be written, through a pipelined output and through a blocking one.
func TestBlockingIsLikePipelined(t *testing.T) {
	const subs = 3
	write := func(ctx context.Context, o *Output) error {
		for i := range 2000 {
			rec := blockingRecord(i)
			var err error
			switch i % 11 {
			case 0:
				err = o.Broadcast(ctx, rec)
			case 1:
				err = o.Watermark(ctx, int64(i))
			case 2:
				err = o.WriteToAt(ctx, i%subs, int64(i), rec)
			case 3:
				var ok bool
				if ok, err = o.TryWrite(rec[:1], rec); err == nil && !ok {
					err = o.Write(ctx, rec[:1], rec)
				}
			default:
				err = o.Write(ctx, rec[len(rec)-3:], rec)
			}
			if err != nil {
				return err
			}
		}
		giant := bytes.Repeat([]byte("giant"), 1_000_000) // more than all segments hold
		for range 2 {
			if err := o.Broadcast(ctx, giant); err != nil {
				return err
			}
			if err := o.WriteTo(ctx, 1, giant); err != nil {
				return err
			}
		}
		return o.Finish(ctx)
	}
	seen := func(blocking *Blocking) (all [subs][]string) {
		ctx := limited(t)
		a, b := server(t), open(t, Config{})
		out := newOutput(t, a, OutputConfig{Name: "x", Subpartitions: subs, Blocking: blocking})
		in := newInput(t, b, InputConfig{Sources: []Source{source(a, out)}})
		wait := inBackground(t, func() error { return write(ctx, out) })
		read(ctx, t, in, func(e *Element) {
			switch e.Kind {
			case Record:
				at := int64(-1)
				if e.HasTimestamp {
					at = e.Timestamp
				}
				all[e.Channel] = append(all[e.Channel], fmt.Sprintf("%d %d %x", at, len(e.Value), spool.Sum(e.Value)))
			case Watermark:
				all[0] = append(all[0], fmt.Sprint("watermark ", e.Timestamp))
			}
		})
		if err := in.Close(); err != nil {
			t.Error(err)
		}
		if err := wait(); err != nil {
			t.Error(err)
		}
		if blocking == nil {
			return all
		}
		if err := out.Close(); err != nil {
			t.Error(err)
		}
		return all
	}
	// Where a watermark stands among the records of a channel is not told; that it comes is.
	split := func(all [subs][]string) (records [subs][]string, marks []string) {
		for ch := range all {
			for _, s := range all[ch] {
				if strings.HasPrefix(s, "watermark") {
					marks = append(marks, s)
				} else {
					records[ch] = append(records[ch], s)
				}
			}
		}
		return records, marks
	}
	want, wantMarks := split(seen(nil))
	if len(want[0]) < 100 || len(wantMarks) < 100 {
		t.Fatalf("%d records, %d watermarks", len(want[0]), len(wantMarks))
	}
	for _, codec := range []Codec{NoCompression, LZ4, ZSTD} {
		got, marks := split(seen(&Blocking{Dir: t.TempDir(), Codec: codec}))
		if fmt.Sprint(marks) != fmt.Sprint(wantMarks) {
			t.Errorf("%s: %d watermarks, want %d, or others", codec, len(marks), len(wantMarks))
		}
		for ch := range want {
			if fmt.Sprint(got[ch]) != fmt.Sprint(want[ch]) {
				t.Errorf("%s: channel %d brought %d records, want %d, or others", codec, ch, len(got[ch]), len(want[ch]))
			}
		}
	}
}

// What the writer frames itself arrives buffer by buffer.
func TestBlockingClaimedBuffers(t *testing.T) {
	ctx := limited(t)
	a, b := server(t), open(t, Config{})
	out := blockingOutput(t, a, 1, Blocking{Codec: LZ4})
	var want []byte
	for i := range 100 {
		p, err := out.ClaimBuffer(ctx, 0)
		if err != nil {
			t.Fatal(err)
		}
		n := 1 + i*331%len(p)
		for j := range n {
			p[j] = byte(i * j)
		}
		want = append(want, p[:n]...)
		if err := out.CommitBuffer(n); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Finish(ctx); err != nil {
		t.Fatal(err)
	}
	in := newInput(t, b, InputConfig{Sources: []Source{source(a, out)}})
	var got []byte
	for {
		p, e, err := in.NextBuffer(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == Record {
			got = append(got, p...)
		}
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes, want %d, or others", len(got), len(want))
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
}

// limitedFS is the operating system's, on a disk with room for so many bytes.
type limitedFS struct {
	spool.OS
	room int
}

type limitedFile struct {
	io.WriteCloser
	fs *limitedFS
}

func (f *limitedFS) Create(dir, pattern string) (io.WriteCloser, string, error) {
	w, path, err := f.OS.Create(dir, pattern)
	return limitedFile{w, f}, path, err
}

func (f limitedFile) Write(p []byte) (int, error) {
	if len(p) > f.fs.room {
		n, _ := f.WriteCloser.Write(p[:f.fs.room])
		f.fs.room = 0
		return n, errDiskFull
	}
	f.fs.room -= len(p)
	return f.WriteCloser.Write(p)
}

var errDiskFull = errors.New("no space left on device")

// A disk that fills up ends the output and its consumers, and nothing else on the node; and gives the disk back.
func TestBlockingDiskFull(t *testing.T) {
	ctx := limited(t)
	a, b := server(t), open(t, Config{})
	for _, room := range []int{0, 300_000, 3_000_000} {
		honest := newOutput(t, a, OutputConfig{Name: "honest"})
		honestIn := newInput(t, b, InputConfig{Sources: []Source{source(a, honest)}})
		dir := t.TempDir()
		out := newOutput(t, a, OutputConfig{Name: "full", Subpartitions: 2, Blocking: &Blocking{Dir: dir, files: &limitedFS{room: room}}})
		in := newInput(t, b, InputConfig{Sources: []Source{source(a, out)}})
		var err error
		for i := 0; err == nil && i < 5000; i++ {
			err = out.WriteTo(ctx, i%2, blockingRecord(i))
		}
		if err == nil {
			err = out.Finish(ctx)
		}
		var be *credit.BlockingError
		if !errors.Is(err, errDiskFull) || !errors.As(err, &be) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), `"full"`) {
			t.Errorf("room for %d bytes: the writer got %v", room, err)
		}
		if _, err := in.Next(ctx); err == nil || !strings.Contains(err.Error(), errDiskFull.Error()) || !strings.Contains(err.Error(), a.Addr().String()) {
			t.Errorf("the consumer got %v", err)
		}
		if err := in.Close(); err != nil {
			t.Error(err)
		}
		if err := out.Close(); err != nil {
			t.Error(err)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
		if n, err := passOne(ctx, t, honest, honestIn); err != nil || n != 1 {
			t.Errorf("another output brought %d records, %v", n, err)
		}
		if err := honest.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A file that is damaged on the disk between two consumers: the one whose part it is gets an error that names it, the other one all of
// his records, over the same connection.
func TestBlockingDamagedFile(t *testing.T) {
	for name, damage := range map[string]func(f *os.File, size int64) error{
		"bits": func(f *os.File, size int64) error { // every 300 bytes of the first half of the payloads of subpartition 1
			for at := size / 4; at < size/2; at += 300 {
				if _, err := f.WriteAt([]byte{0x55}, at); err != nil {
					return err
				}
			}
			return nil
		},
		"cut": func(f *os.File, size int64) error { return f.Truncate(size / 2) },
	} {
		t.Run(name, func(t *testing.T) {
			ctx := limited(t)
			a, b := server(t), open(t, Config{})
			out := blockingOutput(t, a, 2, Blocking{})
			honest := blockingOutputNamed(t, a, "honest")
			want := writeBlocking(t, honest, 300)
			writeBlocking(t, out, 3000)
			if err := readBlocking(ctx, b, source(a, honest), want); err != nil {
				t.Fatal(err)
			}
			path := out.block.Path()
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			info, err := f.Stat()
			if err == nil {
				err = damage(f, info.Size())
			}
			if err = errors.Join(err, f.Close()); err != nil {
				t.Fatal(err)
			}
			both := newInput(t, b, InputConfig{Sources: []Source{{Addr: a.Addr().String(), Name: "x", Last: 1}}})
			for err = error(nil); err == nil; {
				_, err = both.Next(ctx)
			}
			text := err.Error()
			for _, w := range []string{path, "subpartition", spool.ErrCorrupt.Error(), a.Addr().String()} {
				if !strings.Contains(text, w) {
					t.Errorf("the error does not name %q: %v", w, err)
				}
			}
			if err := both.Close(); err != nil {
				t.Error(err)
			}
			if err := readBlocking(ctx, b, source(a, honest), want); err != nil {
				t.Errorf("another output: %v", err)
			}
		})
	}
}

func blockingOutputNamed(t *testing.T, n *Node, name string) *Output {
	t.Helper()
	o := newOutput(t, n, OutputConfig{Name: name, Subpartitions: 2, Blocking: &Blocking{Dir: t.TempDir()}})
	t.Cleanup(func() { _ = o.Close() })
	return o
}

// The directory is removed while the file is read: it is open, and all of it arrives. Before it was finished: an error.
func TestBlockingDirectoryRemoved(t *testing.T) {
	ctx := limited(t)
	a, b := server(t), open(t, Config{})
	dir := filepath.Join(t.TempDir(), "spool")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	out := newOutput(t, a, OutputConfig{Name: "x", Blocking: &Blocking{Dir: dir}})
	want := writeBlocking(t, out, 500)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := readBlocking(ctx, b, source(a, out), want); err != nil {
		t.Error(err)
	}
	if err := out.Close(); err != nil {
		t.Error(err)
	}
	if _, err := a.NewOutput(OutputConfig{Name: "y", Blocking: &Blocking{Dir: dir}}); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("a directory that is not there: %v", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	out = newOutput(t, a, OutputConfig{Name: "z", Blocking: &Blocking{Dir: dir}})
	if err := out.Write(ctx, nil, []byte("a record")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := out.Finish(ctx); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is not there at the end: %v", err)
	}
	if err := out.Close(); err != nil {
		t.Error(err)
	}
}

// A consumer that leaves in the middle, and one that is lost with its node, harm nobody; neither counts as a read.
func TestBlockingConsumerLeaves(t *testing.T) {
	for _, inMemory := range []bool{false, true} {
		t.Run(fmt.Sprintf("inMemory=%t", inMemory), func(t *testing.T) {
			ctx := limited(t)
			a, b := server(t), open(t, Config{})
			out := blockingOutput(t, a, 1, Blocking{inMemory: inMemory})
			want := writeBlocking(t, out, 3000)
			for i := range 6 {
				n, err := Open(Config{})
				if err != nil {
					t.Fatal(err)
				}
				in := newInput(t, n, InputConfig{Sources: []Source{source(a, out)}})
				for range 10 {
					if _, err := in.Next(ctx); err != nil {
						t.Fatal(err)
					}
				}
				if i%2 == 0 {
					if err := in.Close(); err != nil {
						t.Error(err)
					}
				}
				if err := n.Close(); err != nil {
					t.Error(err)
				}
			}
			if err := readBlocking(ctx, b, source(a, out), want); err != nil {
				t.Error(err)
			}
			if err := out.AwaitRead(ctx, 1); err != nil {
				t.Error(err)
			}
			short, cancel := context.WithCancel(ctx)
			cancel()
			if err := out.AwaitRead(short, 2); !errors.Is(err, ErrNoConsumer) || !errors.Is(err, context.Canceled) {
				t.Errorf("a second read that was none: %v", err)
			}
		})
	}
}

// With exactly the memory that MemoryNeeded says, a blocking output takes more consumers than it has subpartitions, over TLS, where each
// needs segments; some of them stand still.
func TestBlockingMemoryNeeded(t *testing.T) {
	const subs = 2
	ctx := limited(t)
	secure := testcert.New(t, "authority").TLS(t, "node")
	oc := OutputConfig{Name: "x", Subpartitions: subs, Buffers: 8, Blocking: &Blocking{Dir: t.TempDir(), Codec: ZSTD}}
	cfg := Config{Listen: "127.0.0.1:0", TLS: secure}
	cfg.Memory = MemoryNeeded(cfg, []OutputConfig{oc}, nil)
	a, b := open(t, cfg), open(t, Config{TLS: secure})
	before := a.Usage()
	out := newOutput(t, a, oc)
	want := writeBlocking(t, out, 800)
	var still []*Input
	for range 4 { // 8 channels
		in := newInput(t, b, InputConfig{Sources: []Source{source(a, out)}})
		if _, err := in.Next(ctx); err != nil {
			t.Fatal(err)
		}
		still = append(still, in)
	}
	if err := readBlocking(ctx, b, source(a, out), want); err != nil {
		t.Error(err)
	}
	if g := a.Usage().Guaranteed; int64(g)*int64(segment.DefaultSize) > cfg.Memory {
		t.Errorf("%d segments are guaranteed", g)
	}
	for _, in := range still {
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Error(err)
	}
	var u segment.PoolUsage
	await(t, func() bool { // what the connection was sending comes home when the consumers are gone
		u = a.Usage()
		return u.Guaranteed == before.Guaranteed && u.Free == before.Free
	})
	if t.Failed() {
		t.Errorf("%d segments are guaranteed and %d free after all was closed, %d and %d before", u.Guaranteed, u.Free, before.Guaranteed, before.Free)
	}
}

// An output that is closed before its end, or before everybody has all of it, tells its consumers.
func TestBlockingClosedEarly(t *testing.T) {
	ctx := limited(t)
	a, b := server(t), open(t, Config{})
	for _, finished := range []bool{false, true} {
		out := newOutput(t, a, OutputConfig{Name: "x", Blocking: &Blocking{Dir: t.TempDir()}})
		in := newInput(t, b, InputConfig{Sources: []Source{source(a, out)}, Exclusive: 2, Floating: -1})
		if finished {
			writeBlocking(t, out, 3000)
			if _, err := in.Next(ctx); err != nil {
				t.Fatal(err)
			}
		} else if err := errors.Join(out.Write(ctx, nil, []byte("a record")), out.AwaitConsumers(ctx)); err != nil {
			t.Fatal(err)
		}
		if err := out.Close(); err != nil {
			t.Error(err)
		}
		var err error
		for err == nil {
			_, err = in.Next(ctx)
		}
		if !strings.Contains(err.Error(), "before its end") {
			t.Errorf("finished %t: the consumer got %v", finished, err)
		}
		if err := in.Close(); err != nil {
			t.Error(err)
		}
		if err := out.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestBlockingRefuses(t *testing.T) {
	ctx := limited(t)
	a := server(t)
	if _, err := a.NewOutput(OutputConfig{Name: "lzo", Blocking: &Blocking{Codec: LZO}}); !errors.Is(err, credit.ErrCodec) || !strings.Contains(err.Error(), "LZO") {
		t.Errorf("LZO: %v", err)
	}
	out := blockingOutput(t, a, 1, Blocking{})
	if err := out.Barrier(Barrier{ID: 1}); !errors.Is(err, ErrBlocking) {
		t.Errorf("a barrier: %v", err)
	}
	writeBlocking(t, out, 10)
	if err := out.Write(ctx, nil, []byte("late")); err == nil {
		t.Error("a record behind the end is taken")
	}
	if err := out.Flush(); err != nil {
		t.Errorf("a flush behind the end: %v", err)
	}
	if err := out.Finish(ctx); err != nil {
		t.Errorf("a second Finish: %v", err)
	}
	if !out.Available() {
		t.Error("Write would wait")
	}
	if st := out.Stats(OutputStats{}); len(st.Subpartitions) != 1 || st.Subpartitions[0].Consumer {
		t.Errorf("stats %+v", st)
	}
	pipelined := newOutput(t, a, OutputConfig{Name: "p"})
	if err := pipelined.AwaitRead(ctx, 1); err == nil {
		t.Error("a pipelined output is read several times")
	}
	if err := pipelined.Close(); err != nil {
		t.Error(err)
	}
}
