package inspect

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// sessions are captured of Flink's own servers and clients.
const sessions = "../../../../internal/conform/testdata/vectors/sessions"

// recording keeps what a sink is told.
type recording struct {
	frames    []Frame
	texts     []string
	elements  []string
	notes     []string
	summaries []*Summary
}

func (r *recording) Frame(f *Frame) error {
	c := *f
	if f.Buffer != nil {
		h := *f.Buffer
		c.Buffer = &h
	}
	r.frames = append(r.frames, c)
	r.texts = append(r.texts, Describe(f))
	return nil
}
func (r *recording) Element(e *Element) error {
	r.elements = append(r.elements, e.String())
	return nil
}
func (r *recording) Note(n *Note) error       { r.notes = append(r.notes, n.Text); return nil }
func (r *recording) Summary(s *Summary) error { r.summaries = append(r.summaries, s); return nil }

// captured are the captured sessions.
func captured(t testing.TB) (names []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(sessions, "*.json"))
	if err != nil || len(paths) < 10 {
		t.Fatalf("%d sessions, %v", len(paths), err)
	}
	for _, p := range paths {
		names = append(names, strings.TrimSuffix(filepath.Base(p), ".json"))
	}
	return names
}

func load(t testing.TB, name string) (f *Files, cfg Config, size [2]int64) {
	t.Helper()
	f, err := FindFiles(filepath.Join(sessions, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Profile, _ = f.Profile()
	cfg.Elements = true
	cfg.Codec = credit.LZ4
	if strings.HasPrefix(name, "zstd") {
		cfg.Codec = credit.ZSTD
	}
	for d, path := range []string{f.ToServer, f.ToClient} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		size[d] = info.Size()
	}
	return f, cfg, size
}

// check fails unless each byte of both streams belongs to a frame that has a name, and nothing in them is against the protocol.
func check(t *testing.T, r *recording, size [2]int64) {
	t.Helper()
	var end [2]int64
	for i, f := range r.frames {
		if f.Offset != end[f.Dir] {
			t.Errorf("frame %d of %s begins at %d, the one before ends at %d", i, f.Dir, f.Offset, end[f.Dir])
		}
		end[f.Dir] = f.Offset + f.Length
		if text := r.texts[i]; text == "" || strings.HasPrefix(text, "message ") || strings.Contains(text, "not an event") {
			t.Errorf("frame %d is called %q", i, text)
		}
		if len(f.Odd) > 0 || f.State.Credit < 0 || !f.Channel.IsZero() && !f.State.CreditKnown {
			t.Errorf("frame %d, %s: %s %q", i, r.texts[i], f.State.Text(), f.Odd)
		}
	}
	if end != size {
		t.Errorf("the frames end at %v, the streams at %v", end, size)
	}
	for _, e := range r.elements {
		if strings.Contains(e, "cannot be read") || strings.Contains(e, "not a stream element") {
			t.Error(e)
			break
		}
	}
	if len(r.summaries) != 1 || r.summaries[0].Bytes != size {
		t.Errorf("%d summaries: %+v", len(r.summaries), r.summaries)
	}
}

func TestSessions(t *testing.T) {
	for _, name := range captured(t) {
		t.Run(name, func(t *testing.T) {
			f, cfg, size := load(t, name)
			var r recording
			if err := ReadFiles(f, cfg, &r); err != nil {
				t.Fatal(err)
			}
			check(t, &r, size)
			if len(r.notes) > 0 {
				t.Errorf("notes: %q", r.notes)
			}
			s := r.summaries[0]
			if s.Timed() || s.Unordered {
				t.Errorf("a summary with times %v, unordered %v", s.Timed(), s.Unordered)
			}
			for _, c := range s.Channels {
				if !c.Closed || c.initial() > 0 && c.Credit != int64(c.initial())+c.Granted-c.Data {
					t.Errorf("channel %s: %+v", c.ID, c)
				}
				if name != "partition-not-found" && (c.Data == 0 || c.Events == 0) || (name == "partition-not-found") != (c.Failure != nil) {
					t.Errorf("channel %s: %d data, %d events, failure %v", c.ID, c.Data, c.Events, c.Failure)
				}
			}
			// Without the pieces, an order is found in which the same frames are as legal.
			f.Chunks = nil
			var u recording
			if err := ReadFiles(f, cfg, &u); err != nil {
				t.Fatal(err)
			}
			check(t, &u, size)
			if len(u.frames) != len(r.frames) || len(u.elements) != len(r.elements) || !u.summaries[0].Unordered {
				t.Errorf("%d frames and %d elements without the pieces, %d and %d with them", len(u.frames), len(u.elements), len(r.frames), len(r.elements))
			}
		})
	}
}

var update = flag.Bool("update", false, "write the golden files anew")

func TestText(t *testing.T) {
	for _, c := range []struct {
		name, golden string
		elements     bool
		filter       Filter
	}{
		{"flink120-aligned-barriers", "flink120-aligned-barriers.txt", false, Filter{}},
		{"partition-not-found", "partition-not-found.txt", false, Filter{}},
		{"spanning-strings", "spanning-strings.txt", true, Filter{Kinds: []string{"data", "addcredit"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, cfg, _ := load(t, c.name)
			cfg.Elements = c.elements
			var out bytes.Buffer
			if err := ReadFiles(f, cfg, &Text{W: &out, Filter: c.filter}); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", c.golden)
			if *update {
				if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got, wanted := strings.Split(out.String(), "\n"), strings.Split(string(want), "\n")
			for i := range min(len(got), len(wanted)) {
				if got[i] != wanted[i] {
					t.Fatalf("line %d:\n got %s\nwant %s", i+1, got[i], wanted[i])
				}
			}
			if len(got) != len(wanted) {
				t.Fatalf("%d lines, want %d", len(got), len(wanted))
			}
		})
	}
}

// copyOf puts changed streams beside each other, without a description.
func copyOf(t *testing.T, f *Files, change func(toServer, toClient []byte) ([]byte, []byte)) *Files {
	t.Helper()
	var streams [2][]byte
	for d, path := range []string{f.ToServer, f.ToClient} {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		streams[d] = b
	}
	streams[0], streams[1] = change(streams[0], streams[1])
	base := filepath.Join(t.TempDir(), "x")
	for d, ext := range []string{toServerFile, toClientFile} {
		if err := os.WriteFile(base+ext, streams[d], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g, err := FindFiles(base)
	if err != nil || g.Chunks != nil {
		t.Fatal(g, err)
	}
	return g
}

// Each malformed stream gives an error that names direction and offset, and what came before is shown all the same, as is
// the other direction.
func TestMalformed(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s, c []byte) ([]byte, []byte)
		cfg    Config
		is     error
		want   []string
		frames [2]int
	}{
		"bad magic": {func(s, c []byte) ([]byte, []byte) { c[1027+5]++; return s, c }, Config{}, credit.ErrBadMagic, []string{"s2c", "byte 1027", "1 frames"}, [2]int{4, 1}},
		"client":    {func(s, c []byte) ([]byte, []byte) { s[97+8] = 77; return s, c }, Config{}, credit.ErrUnknownMessage, []string{"c2s", "byte 97", "1 frames"}, [2]int{1, 3}},
		"cut payload": {func(s, c []byte) ([]byte, []byte) { return s, c[:500] }, Config{}, nil,
			[]string{"s2c", "ends 500 bytes into", "begins at byte 0", "980 bytes of DATA_BUFFER", "0 frames"}, [2]int{4, 0}},
		"cut head":      {func(s, c []byte) ([]byte, []byte) { return s[:len(s)-20], c }, Config{}, nil, []string{"c2s", "ends 5 bytes into", "byte 151", "3 frames"}, [2]int{3, 3}},
		"other release": {func(s, c []byte) ([]byte, []byte) { return s, c }, Config{Profile: credit.Flink120}, nil, []string{"release line", "s2c"}, [2]int{4, 0}},
		"too large":     {func(s, c []byte) ([]byte, []byte) { return s, c }, Config{MaxBuffer: 900}, credit.ErrPayloadSize, []string{"980 bytes", "byte 0"}, [2]int{4, 0}},
		"swapped":       {func(s, c []byte) ([]byte, []byte) { return c, s }, Config{}, credit.ErrUnknownMessage, []string{"from a client", "from a server"}, [2]int{0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			f, _, _ := load(t, "basic")
			var r recording
			err := ReadFiles(copyOf(t, f, c.change), c.cfg, &r)
			if err == nil || c.is != nil && !errors.Is(err, c.is) {
				t.Fatalf("%v, want %v", err, c.is)
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) || !strings.Contains(strings.Join(r.notes, "\n"), w) {
					t.Errorf("%q is not in %v, or not in the notes %q", w, err, r.notes)
				}
			}
			var n [2]int
			for _, f := range r.frames {
				n[f.Dir]++
			}
			if n != c.frames || len(r.summaries) != 1 {
				t.Errorf("%v frames were shown, want %v; %d summaries", n, c.frames, len(r.summaries))
			}
		})
	}
}

func TestFindFiles(t *testing.T) {
	dir := t.TempDir()
	if _, err := FindFiles(filepath.Join(dir, "none")); err == nil || !strings.Contains(err.Error(), "none.c2s.bin") {
		t.Error(err)
	}
	base := filepath.Join(dir, "x")
	for path, text := range map[string]string{base + toClientFile: "", base + ".json": `{"flink":"1.20.5","chunks":[["s2c",0]]}`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{base, base + ".json", base + toServerFile, base + toClientFile} {
		f, err := FindFiles(path)
		if err != nil || f.ToServer != "" || f.ToClient != base+toClientFile || len(f.Chunks) != 1 {
			t.Errorf("%s: %+v, %v", path, f, err)
		}
		if p, ok := f.Profile(); p != credit.Flink120 || !ok {
			t.Error(p, ok)
		}
	}
	for _, text := range []string{`{"chunks":[["up",1]]}`, `{"chunks":[["c2s",-1]]}`, `{"chunks":[7]}`, `{`} {
		if err := os.WriteFile(base+".json", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := FindFiles(base); err == nil {
			t.Errorf("%s was accepted", text)
		}
	}
}

// A sink's error ends the reading.
func TestSinkFails(t *testing.T) {
	f, cfg, _ := load(t, "spanning-strings")
	for _, n := range []int{0, 1, 5} {
		w := &failing{left: n}
		for _, sink := range []Sink{&Text{W: w}, &JSON{W: w}} {
			w.left = n
			if err := ReadFiles(f, cfg, sink); !errors.Is(err, errFull) {
				t.Errorf("%T after %d lines: %v", sink, n, err)
			}
		}
	}
}

var errFull = errors.New("disk full")

type failing struct{ left int }

func (w *failing) Write(p []byte) (int, error) {
	if w.left--; w.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func Example() {
	files, err := FindFiles(filepath.Join(sessions, "basic"))
	if err != nil {
		fmt.Println(err)
		return
	}
	err = ReadFiles(files, Config{}, &Text{W: os.Stdout, Filter: Filter{Kinds: []string{"event", "AddCredit"}}, Quiet: false})
	fmt.Println(err)
	// Output:
	// s2c    1027     52 f195..3dba BufferResponse 1 END_OF_DATA: EndOfData(DRAIN) | credit 1, backlog 0
	// c2s      97     29 f195..3dba AddCredit +1 | credit 2, backlog 0
	// s2c    1079     51 f195..3dba BufferResponse 2 END_OF_PARTITION: EndOfPartitionEvent | credit 2, backlog 0, closed
	//
	// summary: c2s 4 frames, 176 bytes; s2c 3 frames, 1130 bytes
	// channel f195bf05e0755b29c594825b67493dba: subpartition 0 of 352cccfc0946b8f0552cf1e4a8ab85dd#0@73d51abbd89cb8196f0efb6892f94d68_f7bed9d4b5f308680190e5722719b812_0_0
	//   frames    c2s 4 (176 bytes), s2c 3 (1130 bytes): 1 data with 980 bytes, 2 events
	//   credit    2 requested with, 1 granted, 1 used; largest backlog 0; in the end credit 2, backlog 0, closed
	// the input has no times, so who waited for whom is not known
	// <nil>
}
