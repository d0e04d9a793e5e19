package segment

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

// onePool is a pool of small segments with a local pool that has them all, and misuse counted rather than panicking.
func onePool(t testing.TB, segments, size int) (*Pool, *LocalPool, *[]*MisuseError) {
	var seen []*MisuseError
	p := mustPool(t, Config{Segments: segments, SegmentSize: size, OnMisuse: func(e *MisuseError) { seen = append(seen, e) }})
	return p, mustLocal(t, p, LocalConfig{Name: "one", Required: segments}), &seen
}

func filled(t testing.TB, l *LocalPool, text string) Buffer {
	b := mustTake(t, l)
	copy(b.Memory(), text)
	return b.Resized(len(text))
}

func TestDataTypes(t *testing.T) {
	// Ordinal, name, and the properties buffer, event, blocks upstream, priority, announcement, partial record.
	want := []struct{ name, bits string }{
		{"NONE", "......"}, {"DATA_BUFFER", "x....x"}, {"EVENT_BUFFER", ".x...."}, {"PRIORITIZED_EVENT_BUFFER", ".x.x.."},
		{"ALIGNED_CHECKPOINT_BARRIER", ".xx..."}, {"TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER", ".xx.x."}, {"RECOVERY_COMPLETION", ".xx..."},
		{"END_OF_SEGMENT", ".x...."}, {"DATA_BUFFER_WITH_CLEAR_END", "x....."}, {"END_OF_DATA", ".x...."}, {"END_OF_PARTITION", ".x...."},
		{"RECOVERY_METADATA", ".x...."}, {"ALIGNED_WATERMARK_EVENT", ".xx..."}, {"UNALIGNED_WATERMARK_EVENT", ".x...."},
	}
	for i, w := range want {
		d := DataType(i)
		got := ""
		for _, on := range []bool{d.IsBuffer(), d.IsEvent(), d.BlocksUpstream(), d.HasPriority(), d.RequiresAnnouncement(), d.PartialRecord()} {
			got += map[bool]string{true: "x", false: "."}[on]
		}
		if got != w.bits || d.String() != w.name || !d.Valid() {
			t.Errorf("%d: %s %s, want %s %s", i, d, got, w.name, w.bits)
		}
	}
	if d := DataType(len(want)); d.Valid() || d.IsBuffer() || d.IsEvent() || d.String() != "DataType(14)" {
		t.Errorf("%v is valid", d)
	}
}

func TestZeroBuffer(t *testing.T) {
	var b Buffer
	b.Release()
	b.SetTag(1)
	if !b.IsZero() || b.Bytes() != nil || b.Memory() != nil || b.Len() != 0 || b.Tag() != 0 || b.Refs() != 0 || b.Released() || b.IsFile() ||
		b.TryRelease() != nil || !b.Retain().IsZero() || !b.Slice(0, 0).IsZero() || !b.Resized(3).IsZero() || b.Type() != None {
		t.Fatal("the zero Buffer is something")
	}
	if _, err := b.TryRetain(); !errors.Is(err, ErrReleased) {
		t.Fatal(err)
	}
}

// The contract of Flink's Buffer: a count of one at the start, the recycler called once, an error for what is too much
// (B1, B2).
func TestBufferContract(t *testing.T) {
	p, l, seen := onePool(t, 1, 32)
	b := filled(t, l, "abc")
	if b.Refs() != 1 || b.Len() != 3 || b.Type() != DataBuffer || b.Compressed() {
		t.Fatal("not a fresh buffer")
	}
	c := b.Retain()
	if b.Refs() != 2 {
		t.Fatal(b.Refs())
	}
	b.Release()
	if c.Refs() != 1 || string(c.Bytes()) != "abc" {
		t.Fatal("the other reference is gone too")
	}
	c.Release()
	if !c.Released() || c.Refs() != 0 || l.Drain() != 1 || l.Drain() != 0 {
		t.Fatal("not home once")
	}
	if len(*seen) != 0 {
		t.Fatal(*seen)
	}
	for _, misuse := range []struct {
		what string
		f    func()
		want error
	}{
		{"released twice", func() { c.Release() }, ErrReleased},
		{"released twice", func() { l.Put(b) }, ErrReleased},
		{"used after release", func() { c.Retain() }, ErrReleased},
		{"used after release", func() { c.Slice(0, 1) }, ErrReleased},
	} {
		*seen = nil
		misuse.f()
		if len(*seen) != 1 || (*seen)[0].What != misuse.what || !errors.Is((*seen)[0], misuse.want) || (*seen)[0].Pool != "one" ||
			!strings.Contains((*seen)[0].Error(), misuse.what) {
			t.Errorf("%s: reported %v", misuse.what, *seen)
		}
	}
	*seen = nil
	if c.Bytes() != nil || c.Memory() != nil {
		t.Fatal("a released handle has bytes")
	}
	if l.Drain() != 0 || l.idleCount() != 1 {
		t.Fatal("the misuse brought the segment home again")
	}
	if u := p.Usage().Misuse; u.OverRelease != 2 || u.UseAfterRelease < 2 {
		t.Fatalf("%+v", u)
	}
	closeAll(t, p, l)
}

// A handle of an earlier life finds that the segment is somebody else's.
func TestStaleHandle(t *testing.T) {
	p, l, seen := onePool(t, 1, 32)
	old := filled(t, l, "old")
	l.Put(old)
	now := filled(t, l, "now")
	if old.Bytes() != nil || !old.Released() {
		t.Fatal("a stale handle reads its successor's bytes")
	}
	old.Release()
	old.SetTag(9)
	if now.Tag() != 0 || string(now.Bytes()) != "now" || now.Refs() != 1 || len(*seen) == 0 {
		t.Fatal("a stale handle changed its successor")
	}
	l.Put(now)
	closeAll(t, p, l)
}

// References beyond the first have identities of their own, also when many were made and released in one life.
func TestManyReferences(t *testing.T) {
	p, l, seen := onePool(t, 1, 32)
	b := filled(t, l, "abc")
	var bs []Buffer
	for range 1000 {
		bs = append(bs, b.Retain())
	}
	for _, x := range bs {
		x.Release()
	}
	if b.Refs() != 1 {
		t.Fatal(b.Refs())
	}
	for _, x := range bs[:refIDs-1] {
		if err := x.TryRelease(); !errors.Is(err, ErrReleased) {
			t.Fatal("a second release was taken for another's")
		}
	}
	for range 100 { // longer than identities last
		x := b.Retain()
		x.Release()
	}
	l.Put(b)
	if l.idleCount() != 1 || len(*seen) != 0 {
		t.Fatal("not home", *seen)
	}
	closeAll(t, p, l)
}

// Windows: what fits, what doesn't, slices of slices, and compressed blocks, which can only be sliced whole. (Flink's
// check for a compressed NetworkBuffer is the other way round.)
func TestWindows(t *testing.T) {
	p, l, seen := onePool(t, 1, 32)
	b := filled(t, l, "0123456789")
	s := b.Slice(2, 6) // 234567
	u := s.Slice(1, 2) // 34
	if string(u.Bytes()) != "34" || u.off() != 3 || !u.ReadOnly() || cap(u.Bytes()) != 2 {
		t.Fatalf("slice of a slice: %q at %d", u.Bytes(), u.off())
	}
	if e := b.Slice(10, 0); e.Len() != 0 || e.IsZero() {
		t.Fatal("empty slice at the end")
	} else {
		e.Release()
	}
	if n := b.Narrow(4, 2); string(n.Bytes()) != "45" || b.Refs() != 3 {
		t.Fatal("narrow")
	}
	for _, w := range [][2]int{{-1, 2}, {0, 11}, {11, 0}, {5, 6}, {0, -1}, {1<<31 - 1, 1}} {
		*seen = nil
		if x := b.Slice(w[0], w[1]); !x.IsZero() || len(*seen) != 1 || !errors.Is((*seen)[0], ErrRange) {
			t.Errorf("slice %v: %v", w, *seen)
		}
	}
	*seen = nil
	if s.Memory() != nil {
		t.Fatal("a slice can be written")
	}
	if x := b.Resized(33); x.Len() != 32 {
		t.Fatal(x.Len())
	}
	if x := b.Resized(-1); x.Len() != 0 {
		t.Fatal(x.Len())
	}
	// Type and flag are the handle's: they don't travel in either direction.
	z := b.WithType(EventBuffer).WithCompressed(true)
	if s.Type() != DataBuffer || s.Compressed() || z.Type() != EventBuffer || !z.Compressed() || z.WithCompressed(false).Compressed() {
		t.Fatal("type or flag travelled")
	}
	*seen = nil
	if x := z.Slice(0, 9); !x.IsZero() || len(*seen) != 1 {
		t.Fatal("a compressed block was cut")
	}
	whole := z.Slice(0, 10)
	if !whole.Compressed() || whole.Type() != EventBuffer {
		t.Fatal("a compressed block can't be sliced whole")
	}
	for _, x := range []Buffer{whole, s, u, b} {
		x.Release()
	}
	l.Drain()
	closeAll(t, p, l)
}

func TestTagGoesHome(t *testing.T) {
	var tags []uint32
	p := mustPool(t, Config{Segments: 3, SegmentSize: 32})
	l := mustLocal(t, p, LocalConfig{Required: 3, Subpartitions: 2, OnReturn: func(tag uint32) { tags = append(tags, tag) }})
	a, b, c := mustTakeFor(t, l, 1), mustTake(t, l), mustTake(t, l)
	a.SetTag(1)
	b.SetTag(2)
	c.SetTag(3)
	c.SetTag(4)
	if a.Tag() != 1 || c.Slice(0, 0).Tag() != 4 || l.counts[1] != 1 {
		t.Fatal("tags")
	}
	c.Release() // the slice is still there
	l.Put(a)
	b.Release()
	l.Drain()
	if len(tags) != 2 || tags[0] != 1 || tags[1] != 2 || l.counts[1] != 0 {
		t.Fatal(tags)
	}
	if x := mustTake(t, l); x.Tag() != 0 {
		t.Fatal("an old tag")
	} else {
		l.Put(x)
	}
	l.Close()
	if err := p.Close(); !errors.Is(err, ErrLeak) || !strings.Contains(err.Error(), "1 references") {
		t.Fatal(err)
	}
}

func TestWrap(t *testing.T) {
	text := []byte("event")
	b := Wrap(text, EventBuffer)
	s := b.Slice(1, 3)
	if string(b.Bytes()) != "event" || b.Type() != EventBuffer || string(s.Bytes()) != "ven" || b.Refs() != 2 {
		t.Fatal("wrapped bytes")
	}
	b.Release()
	s.Release()
	if !s.Released() || string(text) != "event" {
		t.Fatal("not released, or poisoned")
	}
	if e := Wrap(nil, EventBuffer); e.Len() != 0 || e.IsZero() {
		t.Fatal("empty event")
	} else {
		e.Release()
	}
	if misuseOfWrapped(func() { b.Release() }) == nil {
		t.Fatal("a second release went unnoticed")
	}
}

type closer struct {
	io.ReaderAt
	closed int
}

func (c *closer) Close() error {
	c.closed++
	return io.ErrClosedPipe
}

func TestFileBacked(t *testing.T) {
	p, l, _ := onePool(t, 1, 8)
	c := &closer{ReaderAt: strings.NewReader("0123456789abcdef")}
	f := NewFile(c)
	b := f.Wrap(4, 8, DataBuffer).WithCompressed(true)
	if b.Bytes() != nil || !b.IsFile() || !b.ReadOnly() || b.Len() != 8 || f.Regions() != 1 {
		t.Fatal("file-backed buffer")
	}
	if os, _, _ := b.FileRegion(); os != nil {
		t.Fatal("a reader is not a file")
	}
	dst := mustTake(t, l)
	got, err := b.ReadInto(dst)
	if err != nil || string(got.Bytes()) != "456789ab" || !got.Compressed() || got.Type() != DataBuffer {
		t.Fatalf("%q %v", got.Bytes(), err)
	}
	plain := f.Wrap(0, 16, DataBuffer)
	s := plain.Slice(10, 3)
	if got, err = s.ReadInto(got); err != nil || string(got.Bytes()) != "abc" || got.Compressed() {
		t.Fatalf("%q %v", got.Bytes(), err)
	}
	if _, err = plain.ReadInto(got); !errors.Is(err, ErrRange) {
		t.Fatal("16 bytes into 8:", err)
	}
	if x := f.Wrap(-1, 1, DataBuffer); !x.IsZero() {
		t.Fatal("negative offset")
	}
	if err := f.Close(); err != nil || c.closed != 0 {
		t.Fatal("closed while buffers refer to it")
	}
	if x := f.Wrap(0, 1, DataBuffer); !x.IsZero() {
		t.Fatal("wrapped a closed file")
	}
	b.Release()
	plain.Release()
	if c.closed != 0 {
		t.Fatal("closed under a slice")
	}
	s.Release()
	if c.closed != 1 || f.Regions() != 0 || f.Broken() != nil {
		t.Fatal(c.closed)
	}
	if _, err = s.ReadInto(got); !errors.Is(err, ErrReleased) {
		t.Fatal(err)
	}
	if err := NewFile(c).Close(); !errors.Is(err, io.ErrClosedPipe) || c.closed != 2 {
		t.Fatal(err)
	}
	l.Put(got)
	closeAll(t, p, l)
}

func TestComposite(t *testing.T) {
	p, l, _ := onePool(t, 3, 16)
	parent := filled(t, l, "0123456789")
	target := mustTake(t, l)
	var c Composite
	c.Reset(EventBuffer, false, 10)
	add := func(off, n int) {
		if err := c.Add(parent.Slice(off, n)); err != nil {
			t.Fatal(err)
		}
	}
	add(0, 4)
	if c.Len() != 4 || c.Missing() != 6 || c.Parts()[0].Type() != EventBuffer {
		t.Fatal("first part")
	}
	add(4, 6)
	over := parent.Slice(0, 1)
	if err := c.Add(over); !errors.Is(err, ErrComposite) || c.Len() != 10 {
		t.Fatal("one too many was added", err)
	}
	over.Release()
	if err := c.Add(Buffer{}); !errors.Is(err, ErrComposite) {
		t.Fatal(err)
	}
	if _, _, err := c.Whole(Buffer{}); !errors.Is(err, ErrComposite) {
		t.Fatal(err)
	}
	whole, used, err := c.Whole(target)
	if err != nil || !used || string(whole.Bytes()) != "0123456789" || whole.Type() != EventBuffer || parent.Refs() != 1 || c.Len() != 0 {
		t.Fatalf("%q %v, parent has %d references", whole.Bytes(), err, parent.Refs())
	}
	// One part is passed on as it is.
	c.Reset(DataBuffer, true, 3)
	add(1, 3)
	one, used, err := c.Whole(Buffer{})
	if err != nil || used || string(one.Bytes()) != "123" || !one.Compressed() || parent.Refs() != 2 {
		t.Fatalf("%q %v", one.Bytes(), err)
	}
	one.Release()
	// Parts of several whole buffers have to be alike.
	c.ResetSame(DataBuffer, false, 10)
	for _, bad := range []Buffer{parent.Slice(0, 2).WithType(EventBuffer), parent.Slice(0, 2).WithCompressed(true)} {
		if err := c.Add(bad); !errors.Is(err, ErrComposite) || len(c.Parts()) != 0 {
			t.Fatal(err)
		}
		bad.Release()
	}
	add(0, 5)
	add(5, 5)
	// Abandoned: each part gives its reference up once, the parent goes home once.
	parent.Release()
	c.Release()
	c.Release()
	if !parent.Released() || l.Drain() != 1 {
		t.Fatal("the parent is not home once")
	}
	if _, _, err := c.Whole(target); !errors.Is(err, ErrComposite) {
		t.Fatal(err)
	}
	l.Put(whole)
	closeAll(t, p, l)
}

func TestCompositeTargetTooSmall(t *testing.T) {
	p, l, _ := onePool(t, 1, 4)
	var c Composite
	c.Reset(DataBuffer, false, 6)
	for _, s := range []string{"abc", "def"} {
		if err := c.Add(Wrap([]byte(s), DataBuffer)); err != nil {
			t.Fatal(err)
		}
	}
	b := mustTake(t, l)
	if _, _, err := c.Whole(b); !errors.Is(err, ErrRange) || c.Len() != 6 {
		t.Fatal(err)
	}
	c.Release()
	l.Put(b)
	closeAll(t, p, l)
}

// A builder's rules (BufferBuilder): what is committed is seen, what isn't isn't; finish, close, trim, and their quirks.
func TestBuilderRules(t *testing.T) {
	p, l, seen := onePool(t, 2, 16)
	w := MakeBuilder(mustTake(t, l))
	w.SetType(EventBuffer)
	if w.Cap() != 16 || w.Full() || w.Finished() || w.Type() != EventBuffer {
		t.Fatal("fresh builder")
	}
	w.Append([]byte("ab"))
	w.Commit()
	r := w.NewReaderHere() // behind what is committed
	if r.Pos() != 2 || r.Type() != EventBuffer || r.Written() != 2 {
		t.Fatal(r.Pos())
	}
	*seen = nil
	if x := w.NewReader(); !x.IsZero() || len(*seen) != 1 || !errors.Is((*seen)[0], ErrFinished) {
		t.Fatal("a second reader")
	}
	if n := copy(w.Spare(), "cde"); n != 3 {
		t.Fatal(n)
	}
	w.Advance(3)
	if w.Written() != 5 || r.DataAvailable() {
		t.Fatal("uncommitted bytes are seen")
	}
	w.Commit()
	if !r.DataAvailable() || r.Written() != 2 {
		t.Fatal("DataAvailable looks afresh, Written doesn't")
	}
	c := r.Copy()
	b, fin := r.Next()
	if string(b.Bytes()) != "cde" || fin || b.Type() != EventBuffer || !b.ReadOnly() {
		t.Fatalf("%q", b.Bytes())
	}
	// trim: not below what is written, not above the segment.
	for _, x := range [][2]int{{3, 5}, {8, 8}, {100, 16}, {7, 7}} {
		if w.SetCap(x[0]); w.Cap() != x[1] {
			t.Fatalf("SetCap(%d) gives %d", x[0], w.Cap())
		}
	}
	if w.Append([]byte("fghi")) != 2 || !w.Full() {
		t.Fatal("limit")
	}
	*seen = nil
	w.Advance(1)
	if len(*seen) != 1 || w.Written() != 7 {
		t.Fatal("advance beyond the room")
	}
	if r.Finished() || w.Finish() != 7 || w.Finish() != 7 || r.Finished() {
		t.Fatal("Finished is of what the reader saw last")
	}
	*seen = nil
	if w.Append([]byte("x")) != 0 || len(*seen) != 1 || len(w.Spare()) != 0 {
		t.Fatal("append after finish")
	}
	w.Advance(1)
	w.Commit()
	w.Close()
	w.Close() // in Flink a second close takes a reader's reference
	b2, fin := r.Next()
	if string(b2.Bytes()) != "fg" || !fin || !r.Finished() || r.Written() != 7 {
		t.Fatalf("%q %v", b2.Bytes(), fin)
	}
	if b3, fin := r.Next(); !b3.IsZero() || !fin {
		t.Fatal("after the end") // B5
	}
	r.Close()
	r.Close() // in Flink a second close steals the copy's reference
	if c.Skip(1); c.Pos() != 3 {
		t.Fatal(c.Pos())
	}
	at0 := c.CopyAt(0)
	b4, _ := at0.NextClose()
	if string(b4.Bytes()) != "abcdefg" || !at0.IsZero() {
		t.Fatalf("%q", b4.Bytes())
	}
	*seen = nil
	if x := c.CopyAt(8); !x.IsZero() || len(*seen) != 1 {
		t.Fatal("copy beyond the writer")
	}
	c.Skip(10)
	if c.Pos() != 7 {
		t.Fatal(c.Pos())
	}
	if x, fin := c.NextClose(); !x.IsZero() || !fin || !c.IsZero() {
		t.Fatal("NextClose at the end")
	}
	for _, x := range []Buffer{b, b2, b4} {
		if x.Released() {
			t.Fatal("a slice was released with its reader")
		}
		x.Release()
	}
	if l.Drain() != 1 {
		t.Fatal("not home")
	}
	closeAll(t, p, l)
}

// The marker's three forms, and readers of builders that finish empty or finished before the reader was made (there
// Flink's reader gets a negative position).
func TestMarker(t *testing.T) {
	for _, n := range []int32{0, 1, 32768, 1 << 30} { // B6
		if markLen(n) != n || markLen(markFinished(n)) != n || markFinished(n) >= 0 {
			t.Errorf("%d", n)
		}
	}
	p, l, _ := onePool(t, 1, 16)
	w := MakeBuilder(mustTake(t, l))
	if w.Finish() != 0 {
		t.Fatal("empty")
	}
	r := w.NewReaderHere()
	if b, fin := r.Next(); !b.IsZero() || !fin || r.Pos() != 0 {
		t.Fatal("finished empty")
	}
	w.Close()
	r.Close()
	l.Drain()
	w = MakeBuilder(mustTake(t, l)) // the marker of the last life is gone
	w.Append([]byte("abc"))
	r = w.NewReader()
	if _, fin := r.Next(); fin {
		t.Fatal("an old marker")
	}
	w.Finish()
	r.Close()
	w.Close()
	l.Drain()
	w = MakeBuilder(mustTake(t, l))
	w.Append([]byte("abc"))
	w.Finish()
	r = w.NewReaderHere()
	if r.Pos() != 3 || !r.Finished() {
		t.Fatal("reader of a finished builder stands at", r.Pos())
	}
	w.Close()
	r.Close()
	l.Drain()
	closeAll(t, p, l)
}

// A builder of what can't be written takes nothing, and doesn't panic.
func TestBuilderWithoutBuffer(t *testing.T) {
	w := MakeBuilder(Buffer{})
	r := w.NewReader()
	if w.Append([]byte("x")) != 0 || !w.Full() || w.Finish() != 0 || w.Spare() != nil || !r.Finished() {
		t.Fatal("a builder without a buffer")
	}
	w.Commit()
	w.Advance(0)
	w.SetCap(5)
	w.Close()
	if r = w.NewReaderHere(); !r.IsZero() {
		t.Fatal("reader of nothing")
	}
}

func TestConfig(t *testing.T) {
	for _, c := range []Config{{Segments: -1}, {SegmentSize: -1}, {SegmentSize: 1<<30 + 1}, {HugePages: 4}, {Backing: 3}} {
		if _, err := NewPool(c); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	p := mustPool(t, Config{})
	if p.SegmentSize() != DefaultSize || p.Segments() != 0 || p.Usage().Slabs != 0 {
		t.Fatal("empty pool")
	}
	if _, err := p.NewLocal(LocalConfig{Required: 1}); !errors.Is(err, ErrTooFew) {
		t.Fatal(err)
	}
	closeAll(t, p)
	for _, x := range []string{HugeAdvise.String(), HugeNever.String(), HugeTry.String(), HugeMust.String(), Receive.String(), Send.String(),
		State.String(), Other.String()} {
		if x == "" || x == "?" {
			t.Error("a constant without a name")
		}
	}
	if Purpose(9).String() != "?" {
		t.Error("Purpose(9)")
	}
}

func TestUsage(t *testing.T) {
	p := mustPool(t, Config{Segments: 10, SegmentSize: 64})
	in := mustLocal(t, p, LocalConfig{Name: "in", Purpose: Receive, Required: 2, Max: 4})
	out := mustLocal(t, p, LocalConfig{Name: "out", Purpose: Send, Required: 3, Subpartitions: 1, Quota: 1, Overdraft: 1})
	var bs []Buffer
	for range 4 {
		bs = append(bs, mustTakeFor(t, out, 0))
	}
	bs = append(bs, mustTake(t, in))
	in.Drain()
	out.Drain()
	out.publish()
	in.publish()
	u := p.Usage()
	if s := u.ByPurpose[Send]; s.Pools != 1 || s.Required != 3 || s.Requested != 4 || s.InUse != 4 || s.Overdraft != 1 {
		t.Fatalf("%+v", s)
	}
	if s := u.ByPurpose[Receive]; s.Pools != 1 || s.Requested != 2 || s.Idle != 1 || s.InUse != 1 {
		t.Fatalf("%+v", s)
	}
	if u.Free != 4 || u.Guaranteed != 5 || u.LocalPools != 2 || u.Segments != 10 || u.SegmentSize != 64 {
		t.Fatalf("%+v", u)
	}
	all := p.AppendUsage(nil)
	if len(all) != 2 || all[0] != in.Stats() || all[1] != out.Stats() || all[1].Over != 1 || all[1].Name != "out" {
		t.Fatalf("%+v", all)
	}
	for _, b := range bs {
		b.Release()
	}
	closeAll(t, p, in, out)
	if !bytes.Contains([]byte((&LeakError{Leaks: make([]Leak, 30)}).Error()), []byte("and 14 more")) {
		t.Fatal("a long list is not cut")
	}
}
