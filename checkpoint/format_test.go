package checkpoint

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func encoded(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	e := newEncoder(&b)
	if err := e.begin(); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := e.end(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func noise(n int) []byte {
	b := make([]byte, n)
	rnd := rand.New(rand.NewPCG(uint64(n), 3))
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return b
}

func TestPartRoundTrip(t *testing.T) {
	for _, n := range []int{0, 1, 7, maxChunk - 1, maxChunk, maxChunk + 1, 3*maxChunk + 5} {
		data := noise(n)
		got, err := io.ReadAll(newDecoder(bytes.NewReader(encoded(t, data))))
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes: got %d, %v", n, len(got), err)
		}
	}
}

// TestPartDamage: a part that is cut anywhere, has any bit changed, or chunks moved, repeated or left out, is refused, and what was
// handed out before is right.
func TestPartDamage(t *testing.T) {
	data := noise(300)
	whole := encoded(t, data)
	try := func(what string, b []byte) {
		got, err := io.ReadAll(newDecoder(bytes.NewReader(b)))
		if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrFormat) {
			t.Fatalf("%s: %v", what, err)
		}
		if !bytes.HasPrefix(data, got) {
			t.Fatalf("%s: wrong bytes were handed out", what)
		}
	}
	tries := 0
	for n := range whole {
		try(fmt.Sprintf("cut at %d", n), whole[:n])
		for bit := range 8 {
			b := bytes.Clone(whole)
			b[n] ^= 1 << bit
			try(fmt.Sprintf("bit %d of byte %d", bit, n), b)
			tries++
		}
	}
	try("a byte more", append(bytes.Clone(whole), 0))
	if tries < 2000 {
		t.Errorf("only %d bits", tries)
	}

	long := noise(3 * maxChunk)
	data = long
	b := encoded(t, long)
	chunk := func(i int) []byte { return b[partHead+i*(chunkHead+maxChunk) : partHead+(i+1)*(chunkHead+maxChunk)] }
	end := b[partHead+3*(chunkHead+maxChunk):]
	join := func(chunks ...[]byte) []byte {
		return append(append(bytes.Clone(b[:partHead]), bytes.Join(chunks, nil)...), end...)
	}
	try("moved", join(chunk(1), chunk(0), chunk(2)))
	try("repeated", join(chunk(0), chunk(0), chunk(1), chunk(2)))
	try("left out", join(chunk(0), chunk(2)))
	try("the last one left out", join(chunk(0), chunk(1)))
}

// TestOldFormat: another version is named in the error.
func TestOldFormat(t *testing.T) {
	b := encoded(t, []byte("x"))
	binary.BigEndian.PutUint32(b[len(partMagic):], 0)
	_, err := io.ReadAll(newDecoder(bytes.NewReader(b)))
	if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "version 0") {
		t.Errorf("a part of version 0: %v", err)
	}
	sealed, err := seal(metadataKind, Metadata{ID: 1})
	if err != nil {
		t.Fatal(err)
	}
	var m Metadata
	old := bytes.Replace(sealed, []byte(metadataKind+" 1 "), []byte(metadataKind+" 0 "), 1)
	if err := unseal(metadataKind, old, &m); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "version 0") {
		t.Errorf("metadata of version 0: %v", err)
	}
	if err := unseal(stateKind, sealed, &m); !errors.Is(err, ErrFormat) {
		t.Errorf("metadata as state: %v", err)
	}
}

// TestSealDamage: metadata that is cut anywhere, or has any bit changed, is refused.
func TestSealDamage(t *testing.T) {
	sealed, err := seal(metadataKind, Metadata{ID: 7, Members: []MemberState{{Name: "a", Parts: []Part{{"p", 10, 20}}}}})
	if err != nil {
		t.Fatal(err)
	}
	var m Metadata
	if err := unseal(metadataKind, sealed, &m); err != nil || m.ID != 7 || m.Members[0].Parts[0].Sum != 20 {
		t.Fatalf("%+v, %v", m, err)
	}
	for n := range sealed {
		if err := unseal(metadataKind, sealed[:n], &m); !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrFormat) {
			t.Fatalf("cut at %d: %v", n, err)
		}
		for bit := range 8 {
			b := bytes.Clone(sealed)
			b[n] ^= 1 << bit
			if err := unseal(metadataKind, b, &m); !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrFormat) {
				t.Fatalf("bit %d of byte %d: %v", bit, n, err)
			}
		}
	}
}

// putCheckpoint stores a checkpoint of one member with one part.
func putCheckpoint(ctx context.Context, s Store, id int64, data []byte) error {
	b, err := s.Put(ctx, id, "a/state")
	if err != nil {
		return err
	}
	defer b.Abort()
	e := newEncoder(b)
	if err := e.begin(); err != nil {
		return err
	}
	if _, err := e.Write(data); err != nil {
		return err
	}
	if err := e.end(); err != nil {
		return err
	}
	if err := b.Commit(); err != nil {
		return err
	}
	return NewArchive(s).Complete(ctx, &Metadata{
		ID: id, Epoch: 1, Time: time.Unix(1700000000, 0), Members: []MemberState{{Name: "a", Parts: []Part{{"state", e.size, e.sum}}}},
	})
}

// TestNewestWholeIsUsed: whatever is done to the newest checkpoint, the one before it is used, and the error says what is wrong.
func TestNewestWholeIsUsed(t *testing.T) {
	const part, meta = "chk-2/a/state", "chk-2/_metadata"
	change := func(name string, f func([]byte) []byte) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), f(b), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		spoil func(*testing.T, string)
		want  error
		text  string
	}{
		"part truncated":         {change(part, func(b []byte) []byte { return b[:len(b)/2] }), ErrDamaged, "cut off"},
		"part empty":             {change(part, func([]byte) []byte { return nil }), ErrDamaged, "cut off"},
		"part torn":              {change(part, func(b []byte) []byte { clear(b[len(b)/2:]); return b }), ErrDamaged, "checksum"},
		"part bit":               {change(part, func(b []byte) []byte { b[100] ^= 4; return b }), ErrDamaged, "checksum"},
		"part of another":        {change(part, func([]byte) []byte { return encoded(t, []byte("other")) }), ErrDamaged, "instead of"},
		"part of old format":     {change(part, func(b []byte) []byte { b[11] = 0; return b }), ErrFormat, "version 0"},
		"part gone":              {func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, part)) }, fs.ErrNotExist, "a/state"},
		"metadata truncated":     {change(meta, func(b []byte) []byte { return b[:len(b)-1] }), ErrDamaged, "bytes instead of"},
		"metadata empty":         {change(meta, func([]byte) []byte { return nil }), ErrDamaged, "first line"},
		"metadata bit":           {change(meta, func(b []byte) []byte { b[60] ^= 1; return b }), ErrDamaged, "checksum"},
		"metadata of old format": {change(meta, func(b []byte) []byte { return bytes.Replace(b, []byte(" 1 "), []byte(" 0 "), 1) }), ErrFormat, "version 0"},
		"metadata of another": {func(t *testing.T, dir string) {
			b, _ := os.ReadFile(filepath.Join(dir, "chk-1/_metadata"))
			os.WriteFile(filepath.Join(dir, meta), b, 0o666)
		}, ErrDamaged, "checkpoint 1"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := testContext(t)
			s := dirStore(t)
			for id := int64(1); id <= 2; id++ {
				if err := putCheckpoint(ctx, s, id, noise(1000)); err != nil {
					t.Fatal(err)
				}
			}
			m, refused, err := NewArchive(s).Latest(ctx, nil)
			if err != nil || m.ID != 2 || len(refused) > 0 {
				t.Fatalf("before: %+v, %v, %v", m, refused, err)
			}
			c.spoil(t, s.Dir())
			m, refused, err = NewArchive(s).Latest(ctx, nil)
			if err != nil || m == nil || m.ID != 1 {
				t.Fatalf("latest: %+v, %v", m, err)
			}
			if len(refused) != 1 || !errors.Is(refused[0], c.want) || !strings.Contains(refused[0].Error(), c.text) ||
				!strings.Contains(refused[0].Error(), "checkpoint 2") {
				t.Errorf("refused: %v, want %v with %q", refused, c.want, c.text)
			}
			// With the other one damaged, too, nothing is used, and nothing begins from the beginning.
			os.WriteFile(filepath.Join(s.Dir(), "chk-1/a/state"), nil, 0o666)
			if m, _, err := NewArchive(s).Latest(ctx, nil); !errors.Is(err, ErrNoneWhole) || m != nil {
				t.Errorf("none is whole: %+v, %v", m, err)
			}
		})
	}
}

// TestPrune keeps the newest completed ones, and removes what is unfinished and unused.
func TestPrune(t *testing.T) {
	ctx := testContext(t)
	s := dirStore(t)
	for id := int64(1); id <= 5; id++ {
		if err := putCheckpoint(ctx, s, id, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []int64{6, 7} { // unfinished: one was aborted, one is in flight
		b, err := s.Put(ctx, id, "a/state")
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	if err := NewArchive(s).Prune(ctx, 2, func(id int64) bool { return id != 7 }); err != nil {
		t.Fatal(err)
	}
	list, err := s.List(ctx)
	if want := "[{4 true} {5 true} {7 false}]"; err != nil || fmt.Sprint(list) != want {
		t.Errorf("left: %v, %v, want %s", list, err, want)
	}
}

// TestForeignPart: a member that writes to another store than the coordinator's is told so.
func TestForeignPart(t *testing.T) {
	ctx := testContext(t)
	err := NewArchive(dirStore(t)).Complete(ctx, &Metadata{ID: 1, Members: []MemberState{{Name: "a", Parts: []Part{{"state", 10, 20}}}}})
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "does it write to another one") {
		t.Errorf("complete: %v", err)
	}
}
