package segment

import (
	"fmt"
	"testing"
)

// Readers without a builder; in Flink one of an empty buffer is never finished.
func TestReadAll(t *testing.T) {
	p, l, _ := onePool(t, 1, 16)
	b := filled(t, l, "0123456789").Narrow(2, 5)
	r := ReadAll(b)
	if !r.Finished() || !r.DataAvailable() || !r.IsStartOfData() || r.Written() != 5 {
		t.Fatal("content")
	}
	c := r.Copy()
	r.Skip(1)
	x, fin := r.NextClose()
	if string(x.Bytes()) != "3456" || !fin || r.IsStartOfData() {
		t.Fatalf("%q", x.Bytes())
	}
	y, fin := c.Next()
	if string(y.Bytes()) != "23456" || !fin {
		t.Fatalf("%q", y.Bytes())
	}
	c.Close()
	x.Release()
	y.Release()
	if l.Drain() != 1 {
		t.Fatal("not home")
	}
	e := ReadAll(Wrap(nil, DataBuffer))
	if z, fin := e.Next(); !z.IsZero() || !fin {
		t.Fatal("empty content is finished")
	}
	e.Close()
	var zero Reader
	if z, fin := zero.Next(); !z.IsZero() || !fin || !zero.Finished() || zero.DataAvailable() {
		t.Fatal("the zero Reader")
	}
	zero.Close()
	closeAll(t, p, l)
}

// Whatever the window, and however it came about, a reader of it hands out that and nothing else.
func TestReadAllOfWindow(t *testing.T) {
	const text = "0123456789"
	p, l, seen := onePool(t, 1, 16)
	whole := filled(t, l, text)
	check := func(how string, b Buffer, want string) {
		t.Helper()
		typ, compressed := b.Type(), b.Compressed()
		r := ReadAll(b)
		if n, fin := r.Rest(); n != len(want) || !fin || r.Written() != len(want) || r.Pos() != 0 || r.Type() != typ {
			t.Fatalf("%s: %d bytes of %d, finished %v, want %d", how, n, r.Written(), fin, len(want))
		}
		c := r.Copy()
		got, fin := c.Next()
		if string(got.Bytes()) != want || got.Len() != len(want) || cap(got.Bytes()) != len(want) || !fin || got.IsZero() != (want == "") {
			t.Fatalf("%s: read %q, room for %d, finished %v, want %q", how, got.Bytes(), cap(got.Bytes()), fin, want)
		}
		if want != "" && (got.Type() != typ || got.Compressed() != compressed || !got.ReadOnly()) {
			t.Fatalf("%s: read %v, compressed %v, of %v, %v", how, got.Type(), got.Compressed(), typ, compressed)
		}
		got.Release()
		c.Close()
		if len(want) > 0 {
			r.Skip(1)
			want = want[1:]
		}
		if got, fin = r.NextClose(); string(got.Bytes()) != want || !fin {
			t.Fatalf("%s: read %q behind the first byte, want %q", how, got.Bytes(), want)
		}
		got.Release()
	}
	for off := range len(text) + 1 {
		for n := range len(text) - off + 1 {
			window := fmt.Sprintf("[%d, %d)", off, off+n)
			check("narrowed to "+window, whole.Retain().Narrow(off, n), text[off:][:n])
			check("slice "+window, whole.Slice(off, n), text[off:][:n])
			if off > 0 && n > 1 {
				check("narrowed twice to "+window, whole.Retain().Narrow(1, len(text)-1).Narrow(off-1, n), text[off:][:n])
				check("compressed, narrowed to "+window, whole.Retain().Narrow(off, n).WithCompressed(true).WithType(EventBuffer), text[off:][:n])
			}
		}
	}
	if whole.Refs() != 1 || len(*seen) != 0 {
		t.Fatalf("%d references are left, misuse %v", whole.Refs(), *seen)
	}
	l.Put(whole)
	closeAll(t, p, l)
}

// Rest looks ahead: it says what Next would return, and changes neither the position nor what was last seen.
func TestReaderRest(t *testing.T) {
	p, l, _ := onePool(t, 2, 16)
	rest := func(what string, r *Reader, n int, finished bool) {
		t.Helper()
		for range 2 {
			if got, fin := r.Rest(); got != n || fin != finished {
				t.Fatalf("%s: %d bytes are left, finished %v; want %d, %v", what, got, fin, n, finished)
			}
		}
	}
	var zero Reader
	rest("the zero Reader", &zero, 0, true)

	w := MakeBuilder(mustTake(t, l))
	r := w.NewReader()
	rest("nothing written", &r, 0, false)
	w.Append([]byte("abcde"))
	rest("nothing committed", &r, 0, false)
	w.Commit()
	rest("committed", &r, 5, false)
	if r.Written() != 0 || r.Pos() != 0 {
		t.Fatalf("looking has moved the reader: at %d of %d", r.Pos(), r.Written())
	}
	r.Skip(2)
	rest("skipped", &r, 3, false)
	b, _ := r.Next()
	rest("read", &r, 0, false)
	w.Append([]byte("fg"))
	w.Finish()
	rest("finished", &r, 2, true)
	if r.Finished() {
		t.Fatal("Finished is of what the reader saw last")
	}
	c := r.CopyAt(0)
	rest("a copy at the beginning", &c, 7, true)
	b2, _ := r.Next()
	rest("read to the end", &r, 0, true)
	w.Close()
	for _, x := range []Buffer{b, b2} {
		x.Release()
	}
	r.Close()
	c.Close()

	w = MakeBuilder(mustTake(t, l))
	r = w.NewReader()
	w.Finish()
	rest("finished empty", &r, 0, true)
	w.Close()
	r.Close()
	rest("closed", &r, 0, true)

	r = ReadAll(filled(t, l, "0123456789").Narrow(2, 5))
	rest("ReadAll", &r, 5, true)
	r.Skip(1)
	rest("ReadAll, skipped", &r, 4, true)
	b, _ = r.Next()
	rest("ReadAll, read", &r, 0, true)
	b.Release()
	r.Close()
	r = ReadAll(Wrap(nil, EventBuffer))
	rest("ReadAll of no bytes", &r, 0, true)
	r.Close()
	l.Drain()
	closeAll(t, p, l)
}

// TestJoin: neighbours in a segment become one window with one reference; whatever is not right behind stays by itself.
func TestJoin(t *testing.T) {
	p, l, misuses := onePool(t, 2, 64)
	b, _ := l.Take()
	w := MakeBuilder(b)
	r := w.NewReader()
	part := func(text string) Buffer {
		t.Helper()
		w.Append([]byte(text))
		w.Commit()
		b, _ := r.Next()
		return b
	}
	ab, cd, ef := part("ab"), part("cd"), part("ef")
	if _, ok := ab.Join(ef); ok {
		t.Error("a gap was passed over")
	}
	if _, ok := cd.Join(ab); ok {
		t.Error("what is in front was taken for what is behind")
	}
	if _, ok := ab.Join(cd.WithType(DataBuffer + 1)); ok {
		t.Error("types were mixed")
	}
	if _, ok := ab.Join(Buffer{}); ok {
		t.Error("joined nothing")
	}
	if _, ok := (Buffer{}).Join(ab); ok {
		t.Error("nothing was joined")
	}
	other := filled(t, l, "cd")
	slice := other.Slice(0, 2)
	if _, ok := ab.Join(slice); ok {
		t.Error("joined another segment")
	}
	slice.Release()
	other.Release()
	before := ab.Refs()
	all, ok := ab.Join(cd)
	if !ok || string(all.Bytes()) != "abcd" || all.Refs() != before-1 {
		t.Fatalf("%v: %q, %d references, before %d", ok, all.Bytes(), all.Refs(), before)
	}
	if all, ok = all.Join(ef); !ok || string(all.Bytes()) != "abcdef" {
		t.Fatalf("%v: %q", ok, all.Bytes())
	}
	r.Close()
	w.Close()
	if all.Refs() != 1 || len(*misuses) != 0 {
		t.Errorf("%d references, misuse %v", all.Refs(), *misuses)
	}
	all.Release()
	closeAll(t, p, l)
}
