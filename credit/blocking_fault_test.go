package credit

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/weirflow/weir/credit/spool"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde"
)

// memFS is a file system of one file that goes wrong where a test wants it to.
type memFS struct {
	data    []byte
	room    int // bytes that fit; negative: any number
	full    error
	onClose error
	onOpen  error
	// read looks at each read before it is served; nil: all is well.
	read    func(p []byte, at int64) error
	open    int
	removed bool
}

const memPath = "/disk/weir-1.partition"

func newMemFS() *memFS { return &memFS{room: -1, full: errors.New("no space left on device")} }

func (f *memFS) Create(dir, pattern string) (io.WriteCloser, string, error) {
	f.open++
	return f, memPath, nil
}

func (f *memFS) Open(path string) (spool.ReadFile, int64, error) {
	if f.onOpen != nil {
		return nil, 0, f.onOpen
	}
	f.open++
	return memReader{f}, int64(len(f.data)), nil
}

func (f *memFS) Remove(path string) error {
	f.removed = true
	return nil
}

func (f *memFS) Write(p []byte) (int, error) {
	if f.room >= 0 && len(p) > f.room {
		n := f.room
		f.data = append(f.data, p[:n]...)
		f.room = 0
		return n, f.full
	}
	if f.room >= 0 {
		f.room -= len(p)
	}
	f.data = append(f.data, p...)
	return len(p), nil
}

func (f *memFS) Close() error {
	f.open--
	return f.onClose
}

type memReader struct{ f *memFS }

func (r memReader) Close() error {
	r.f.open--
	return nil
}

func (r memReader) ReadAt(p []byte, at int64) (int, error) {
	if r.f.read != nil {
		if err := r.f.read(p, at); err != nil {
			return 0, err
		}
	}
	if at >= int64(len(r.f.data)) {
		return 0, io.EOF
	}
	n := copy(p, r.f.data[at:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// honest checks that a pipelined partition on the same connection goes on.
func (r *blockingRig) honest() {
	r.t.Helper()
	id := senderChannel(0)
	if r.core.Reader(id) == nil {
		r.request(0, 1<<20)
	}
	before := len(r.got[id])
	r.buffer(0, []byte("honest"), true)
	r.senderRig.w.Flush(0)
	r.pump()
	r.drive()
	if m := r.got[id]; len(m) != before+1 || string(m[before].payload) != "honest" {
		r.t.Fatalf("another channel of the connection brought %d messages instead of one", len(m)-before)
	}
}

// told checks that exactly the channel id was told of an error that names what went wrong, and returns it.
func (r *blockingRig) told(id ChannelID, what ...string) {
	r.t.Helper()
	if len(r.errors) != 1 || r.errors[0].Fatal || r.errors[0].Receiver != id {
		r.t.Fatalf("%d errors were sent: %+v", len(r.errors), r.errors)
	}
	text := r.errors[0].Cause.Error()
	for _, w := range append(what, blockingPartition.String()) {
		if !strings.Contains(text, w) {
			r.t.Errorf("the error does not name %q: %s", w, text)
		}
	}
	r.errors = nil
}

// A disk that fills up at any point: the writer gets the error, and so do consumers, each for itself, who came before and after.
func TestBlockingDiskFull(t *testing.T) {
	whole := newMemFS()
	fill := func(r *blockingRig) error {
		for i := range 120 {
			rec := someRecord(i%2, i, 100*(i%9))
			err := r.rec.WriteRecord(i%2, rec)
			for n := 0; err == serde.ErrFull || err == serde.ErrUnfinished; n++ {
				if n > 1000 {
					t.Fatalf("neither memory nor an error: %v", err)
				}
				if gone, cause := r.bw.Gone(); gone {
					return cause
				}
				r.bw.Reclaim()
				r.drive()
				if err == serde.ErrFull {
					err = r.rec.WriteRecord(i%2, rec)
				} else {
					err = r.rec.Continue()
				}
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		r.finish()
		_, cause := r.bw.Gone()
		return cause
	}
	r := newBlockingRig(t, BlockingConfig{Subpartitions: 2, Files: whole})
	if err := fill(r); err != nil {
		t.Fatal(err)
	}
	size := len(whole.data)
	for room := 0; room < size; room += max(1, size/97) {
		for _, full := range []error{whole.full, nil} { // nil: a short write without a word
			fs := newMemFS()
			fs.room, fs.full = room, full
			r := newBlockingRig(t, BlockingConfig{Subpartitions: 2, Files: fs})
			r.ask(One(1), blockingChannel(1), 10)
			err := fill(r)
			var be *BlockingError
			want := full
			if full == nil {
				want = io.ErrShortWrite
			}
			if !errors.Is(err, want) || !errors.As(err, &be) || be.Path != memPath || be.Partition != blockingPartition {
				t.Fatalf("room for %d of %d bytes: %v", room, size, err)
			}
			if r.bp.Finished() || r.bp.Failed() == nil {
				t.Fatal("a file that is not complete is finished")
			}
			r.drive()
			r.told(blockingChannel(1), memPath, "write of")
			r.ask(One(0), blockingChannel(2), 10)
			r.told(blockingChannel(2), memPath, "write of")
			r.honest()
		}
	}
}

// The file cannot be closed, or is not there any more, or is another one, once it is written.
func TestBlockingFileVanishes(t *testing.T) {
	errIO := errors.New("input/output error")
	for name, c := range map[string]struct {
		break_ func(fs *memFS)
		what   string
	}{
		"close": {func(fs *memFS) { fs.onClose = errIO }, "input/output error"},
		"open":  {func(fs *memFS) { fs.onOpen = errors.New("open " + memPath + ": no such file or directory") }, "no such file"},
		"footer": {func(fs *memFS) {
			fs.read = func([]byte, int64) error { fs.data[len(fs.data)-5] ^= 1; fs.read = nil; return nil }
		}, "footer"},
		"torn": {func(fs *memFS) {
			fs.read = func([]byte, int64) error { fs.data = fs.data[:len(fs.data)/2]; fs.read = nil; return nil }
		}, "ends after"},
		"other": {func(fs *memFS) {
			fs.read = func([]byte, int64) error { copy(fs.data[8:], "another partition"); fs.read = nil; return nil }
		}, "header"},
	} {
		t.Run(name, func(t *testing.T) {
			fs := newMemFS()
			c.break_(fs)
			r := newBlockingRig(t, BlockingConfig{Subpartitions: 2, Files: fs})
			r.write(0, []byte("a record"))
			r.ask(One(0), blockingChannel(1), 10)
			r.finish()
			r.drive()
			if r.bp.Finished() || r.bp.Failed() == nil {
				t.Fatal("the file is finished")
			}
			r.told(blockingChannel(1), memPath, c.what)
			r.honest()
		})
	}
}

// filled is a rig whose file is finished, with records for two subpartitions, and the payloads of each in the file.
func filled(t testing.TB, fs spool.FS, files bool) (r *blockingRig, want [2][][]byte) {
	t.Helper()
	r = newBlockingRig(t, BlockingConfig{Subpartitions: 2, Files: fs})
	r.files = files
	for i := range 400 {
		rec := someRecord(i%2, i, 50)
		r.write(i%2, rec)
		want[i%2] = append(want[i%2], rec)
	}
	r.finish()
	return r, want
}

// What is wrong with a part of the file is the error of who reads it, names it, and comes after what was good; everybody else
// has all of his.
func TestBlockingReadFaults(t *testing.T) {
	errIO := errors.New("input/output error")
	for name, c := range map[string]struct {
		hurt func(fs *memFS, at int)
		what string
	}{
		"bit":       {func(fs *memFS, at int) { fs.data[at] ^= 0x10 }, "checksum"},
		"truncated": {func(fs *memFS, at int) { fs.data = fs.data[:at] }, "ends after"},
		"eio": {func(fs *memFS, at int) {
			fs.read = func(p []byte, from int64) error {
				if from <= int64(at) && int64(at) < from+int64(len(p)) {
					return errIO
				}
				return nil
			}
		}, "input/output error"},
	} {
		t.Run(name, func(t *testing.T) {
			fs := newMemFS()
			r, want := filled(t, fs, false)
			// A record in the middle of what subpartition 1 has.
			at := strings.Index(string(fs.data), fmt.Sprintf("-01-%06d", 301))
			if at < 0 {
				t.Fatal("there is no such record in one piece")
			}
			before := len(fs.data)
			r.ask(One(1), blockingChannel(1), 0) // without credit: nothing is sent, but some is read ahead
			c.hurt(fs, at)
			r.feed(AppendAddCredit(nil, blockingChannel(1), 1<<20))
			r.drive()
			r.told(blockingChannel(1), memPath, c.what, "subpartition 1")
			var got int
			for _, m := range r.got[blockingChannel(1)] {
				got += len(m.payload)
			}
			if got == 0 || got > before/2 {
				t.Errorf("%d bytes came before the error", got)
			}
			if name != "truncated" { // else the directory is gone, too
				r.ask(One(0), blockingChannel(2), 1<<20)
				sameRecords(t, "the other subpartition", r.records(blockingChannel(2), 1, NoCompression), want[0])
			}
			r.honest()
		})
	}
}

// Consumers that leave in the middle, and stay without taking anything, hold up nobody: with no more memory than is guaranteed, more
// consumers than subpartitions, in memory and from the file.
func TestBlockingConsumersDoNotWaitForEachOther(t *testing.T) {
	for _, files := range []bool{false, true} {
		t.Run(fmt.Sprintf("files=%t", files), func(t *testing.T) {
			r, want := filled(t, newMemFS(), files)
			for i := range 40 {
				r.ask(One(int32(i%2)), blockingChannel(100+i), int32(i%3)) // stuck, after so much
			}
			for i := range 4 {
				r.ask(One(int32(i%2)), blockingChannel(i), 1<<20)
				sameRecords(t, fmt.Sprint("consumer ", i), r.records(blockingChannel(i), 1, NoCompression), want[i%2])
				r.feed(AppendCancelPartitionRequest(nil, blockingChannel(100+i))) // in the middle
				r.drive()
			}
			for i := 4; i < 40; i++ { // now they go on
				r.feed(AppendAddCredit(nil, blockingChannel(100+i), 1<<20))
			}
			r.drive()
			for i := 4; i < 40; i++ {
				sameRecords(t, fmt.Sprint("late consumer ", i), r.records(blockingChannel(100+i), 1, NoCompression), want[i%2])
			}
			if len(r.errors) > 0 {
				t.Errorf("errors: %v", r.errors[0].Cause)
			}
			if files != (r.fromFile > 0) {
				t.Errorf("%d messages were sent from the file", r.fromFile)
			}
			if n := r.bp.Reads(0) + r.bp.Reads(1); n != 0 {
				t.Errorf("%d reads before anybody has closed his channel", n)
			}
			r.feed(AppendAckAllUserRecordsProcessed(nil, blockingChannel(0)), AppendCancelPartitionRequest(nil, blockingChannel(0)),
				AppendCancelPartitionRequest(nil, blockingChannel(1)))
			if r.bp.Reads(0) != 1 || r.bp.Reads(1) != 1 {
				t.Errorf("read %d and %d times, want 1 and 1", r.bp.Reads(0), r.bp.Reads(1))
			}
		})
	}
}

// A consumer without credit is told of the backlog, and gets as much as it grants.
func TestBlockingWithoutCredit(t *testing.T) {
	r, want := filled(t, newMemFS(), false)
	r.ask(One(0), blockingChannel(0), 0)
	if len(r.backlogs) == 0 || r.backlogs[len(r.backlogs)-1] < 1 || len(r.got) > 0 {
		t.Fatalf("announced %v, sent %d", r.backlogs, len(r.got))
	}
	for n := 1; ; n++ {
		r.feed(AppendAddCredit(nil, blockingChannel(0), 1))
		r.drive()
		m := r.got[blockingChannel(0)]
		if m[len(m)-1].Type == segment.EndOfPartition {
			break
		}
		if len(m) != n {
			t.Fatalf("%d messages for %d credits", len(m), n)
		}
		for i := range m {
			if m[i].Type == segment.DataBuffer && (m[i].Backlog < 0 || m[i].Backlog > blockingWindow) {
				t.Fatalf("backlog %d", m[i].Backlog)
			}
		}
	}
	sameRecords(t, "credit by credit", r.records(blockingChannel(0), 1, NoCompression), want[0])
}

// An output that is closed while it is read, and before it was finished.
func TestBlockingClosedEarly(t *testing.T) {
	cause := errors.New("closed before its end")
	r, _ := filled(t, newMemFS(), false)
	r.ask(One(0), blockingChannel(0), 1)
	r.ask(One(1), blockingChannel(1), 1<<20) // has everything: no error for this one
	r.bp.Fail(cause)
	r.drive()
	r.told(blockingChannel(0), "closed before its end")
	r.honest()

	r = newBlockingRig(t, BlockingConfig{})
	r.ask(One(0), blockingChannel(0), 1)
	r.bp.Fail(cause)
	r.drive()
	if len(r.errors) != 1 || !strings.Contains(r.errors[0].Cause.Error(), "closed before its end") {
		t.Errorf("told %+v", r.errors)
	}
	if gone, why := r.bw.Gone(); !gone || why != cause {
		t.Errorf("the writer: gone %t, %v", gone, why)
	}
	r.rec.Close()
	if _, err := r.bp.CreateView(One(0), nil); !errors.Is(err, ErrReleased) {
		t.Errorf("a view of a partition that was released: %v", err)
	}
}

// A writer that closes before the end of the partition leaves nothing that can be read.
func TestBlockingUnfinished(t *testing.T) {
	r := newBlockingRig(t, BlockingConfig{Subpartitions: 2})
	r.write(0, []byte("a record"))
	r.ask(One(0), blockingChannel(0), 10)
	r.rec.Close()
	r.bw.Close()
	r.drive()
	if r.bp.Finished() || r.bp.Failed() == nil {
		t.Fatalf("finished %t, failed %v", r.bp.Finished(), r.bp.Failed())
	}
	r.told(blockingChannel(0), "unfinished")
}

func TestBlockingRefuses(t *testing.T) {
	pool, err := segment.NewPool(segment.Config{SegmentSize: 256, Segments: 8})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		cfg  BlockingConfig
		want error
		text string
	}{
		{BlockingConfig{Subpartitions: 0, Pool: pool}, ErrConfig, "0 subpartitions"},
		{BlockingConfig{Subpartitions: 1}, ErrConfig, "pool"},
		{BlockingConfig{Subpartitions: 1, Pool: pool, Codec: LZO}, ErrCodec, "LZO"},
		{BlockingConfig{Subpartitions: 20, Pool: pool}, segment.ErrTooFew, ""},
		{BlockingConfig{Subpartitions: 1, Pool: pool, Dir: "/nowhere/at/all"}, nil, "/nowhere/at/all"},
	} {
		_, _, err := NewBlockingPartition(c.cfg)
		if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%+v: %v", c.cfg, err)
		}
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	r, _ := filled(t, newMemFS(), false)
	r.ask(SubpartitionRange{1, 2}, blockingChannel(0), 1)
	if len(r.errors) != 1 || !strings.Contains(r.errors[0].Cause.Error(), "not found") {
		t.Errorf("a range that is not there: %+v", r.errors)
	}
	v, err := r.bp.CreateView(One(0), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Resume(); err == nil {
		t.Error("a view that cannot be blocked can be resumed")
	}
	v.Release()
	v.Release()
}
