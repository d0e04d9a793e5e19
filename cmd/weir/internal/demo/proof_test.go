package demo

import (
	"os"
	"path/filepath"
	"testing"
)

// notes writes a receiver's file of (source, offset, key) triples.
func notes(t *testing.T, name string, lines ...[3]int) string {
	t.Helper()
	var b []byte
	for _, l := range lines {
		b = appendNote(b, l[0], uint64(l[1]), []byte{byte(l[2])})
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestProofSeesEachFault(t *testing.T) {
	for name, c := range map[string]struct {
		a, b [][3]int
		want proof
		ok   bool
	}{
		"whole":                  {[][3]int{{0, 0, 1}, {1, 0, 1}, {0, 1, 1}}, [][3]int{{1, 1, 2}}, proof{in: 4, out: 4}, true},
		"lost":                   {[][3]int{{0, 0, 1}, {1, 0, 1}, {0, 1, 1}}, nil, proof{in: 4, out: 3, lost: 1}, false},
		"duplicated":             {[][3]int{{0, 0, 1}, {1, 0, 1}, {0, 1, 1}}, [][3]int{{1, 1, 2}, {1, 1, 3}}, proof{in: 4, out: 5, duplicated: 1}, false},
		"out of order":           {[][3]int{{0, 1, 1}, {1, 0, 1}, {0, 0, 1}}, [][3]int{{1, 1, 2}}, proof{in: 4, out: 4, outOfOrder: 1}, false},
		"order is per key":       {[][3]int{{0, 1, 1}, {1, 0, 1}, {0, 0, 7}}, [][3]int{{1, 1, 2}}, proof{in: 4, out: 4}, true},
		"a key at two receivers": {[][3]int{{0, 0, 1}, {1, 0, 3}}, [][3]int{{0, 1, 1}, {1, 1, 2}}, proof{in: 4, out: 4, outOfOrder: 1}, false},
	} {
		p, err := prove([]string{notes(t, "a", c.a...), notes(t, "b", c.b...)}, []uint64{2, 2})
		if err != nil || p != c.want || p.ok() != c.ok {
			t.Errorf("%s: %+v, %v, ok %v; want %+v", name, p, err, p.ok(), c.want)
		}
	}
	if _, err := prove([]string{notes(t, "a", [3]int{0, 2, 1})}, []uint64{2}); err == nil {
		t.Error("a line that was never sent passes")
	}
	if (proof{}).ok() {
		t.Error("nothing proves nothing")
	}
}

func TestRecordRoundTrip(t *testing.T) {
	rec := appendRecord(nil, 1, 1<<40, []byte("a line\n"))
	s, o, line, err := parseRecord(rec)
	if err != nil || s != 1 || o != 1<<40 || string(line) != "a line\n" {
		t.Fatal(s, o, string(line), err)
	}
	for i := headSize; i < len(rec); i++ {
		rec[i] ^= 1
		if _, _, _, err := parseRecord(rec); err == nil {
			t.Fatalf("a flipped bit in byte %d passes", i)
		}
		rec[i] ^= 1
	}
}

func TestLinesGoRound(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a": "1\n2", "b": "", "c": "3\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, err := findInput(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := filepath.Join(dir, "all")
	if _, _, err := gather(all, files, 1000); err != nil {
		t.Fatal(err)
	}
	l, err := openLines(all)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	for i, want := range []string{"1\n", "2\n", "3\n", "1\n", "2\n"} {
		if got, err := l.read(); err != nil || string(got) != want {
			t.Fatalf("line %d: %q, %v", i, got, err)
		}
	}
	if _, _, err := gather(all, []string{files[1]}, 1000); err == nil {
		t.Error("an empty input has a line")
	}
	if _, _, err := gather(all, files, 1); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(all); err != nil || string(b) != "1\n" {
		t.Errorf("one line: %q, %v", b, err)
	}
}
