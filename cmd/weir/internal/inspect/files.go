package inspect

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/weirflow/weir/credit"
)

// Files are the two streams of a connection, and in which pieces they came.
type Files struct {
	// ToServer and ToClient are paths; "" is an empty stream.
	ToServer, ToClient string
	// Flink is the release that the description names, "" if there is none.
	Flink string
	// Chunks are the pieces in their order; nil: not known.
	Chunks []Chunk
}

// Chunk is a piece of a stream.
type Chunk struct {
	Dir Dir
	N   int64
}

const (
	toServerFile = ".c2s.bin"
	toClientFile = ".s2c.bin"
)

// FindFiles finds the files of a session by the path of one of them, or by what their paths have in common: NAME.json,
// NAME.c2s.bin, NAME.s2c.bin.
func FindFiles(path string) (*Files, error) {
	base := path
	for _, ext := range []string{".json", toServerFile, toClientFile} {
		base = strings.TrimSuffix(base, ext)
	}
	f := &Files{}
	exists := func(path string) (string, error) {
		_, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		return path, err
	}
	var err error
	if f.ToServer, err = exists(base + toServerFile); err != nil {
		return nil, err
	}
	if f.ToClient, err = exists(base + toClientFile); err != nil {
		return nil, err
	}
	if f.ToServer == "" && f.ToClient == "" {
		return nil, fmt.Errorf("%s: neither a capture of packets nor %s%s or %s%s", path, base, toServerFile, base, toClientFile)
	}
	text, err := os.ReadFile(base + ".json")
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return nil, err
	}
	var d struct {
		Flink  string
		Chunks []Chunk
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("%s.json: %w", base, err)
	}
	f.Flink, f.Chunks = d.Flink, d.Chunks
	return f, nil
}

// UnmarshalJSON reads ["c2s", 97].
func (c *Chunk) UnmarshalJSON(p []byte) error {
	var dir string
	if err := json.Unmarshal(p, &[]any{&dir, &c.N}); err != nil {
		return err
	}
	switch dir {
	case ToServer.String():
		c.Dir = ToServer
	case ToClient.String():
		c.Dir = ToClient
	default:
		return fmt.Errorf("direction %q: want c2s or s2c", dir)
	}
	if c.N < 0 {
		return fmt.Errorf("a chunk of %d bytes", c.N)
	}
	return nil
}

// Profile is the release line that the description names; ok is false if it names none.
func (f *Files) Profile() (p credit.Profile, ok bool) {
	if strings.HasPrefix(f.Flink, "1.") {
		return credit.Flink120, true
	}
	return credit.Flink23, f.Flink != ""
}

// reading is a stream that is being read.
type reading struct {
	r   *bufio.Reader
	buf [64 << 10]byte
}

func openStream(path string) (*reading, io.Closer, error) {
	if path == "" {
		return &reading{r: bufio.NewReader(strings.NewReader(""))}, io.NopCloser(nil), nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	return &reading{r: bufio.NewReader(file)}, file, nil
}

// ReadFiles shows the frames of a session's files to the sink. Bytes that are no frames are an error, once everything
// else was shown.
func ReadFiles(f *Files, cfg Config, sink Sink) (err error) {
	var streams [2]*reading
	for d, path := range []string{f.ToServer, f.ToClient} {
		r, c, err := openStream(path)
		if err != nil {
			return err
		}
		defer c.Close()
		streams[d] = r
	}
	s := NewSession(cfg, 1, sink)
	defer s.release()
	feed := func(dir Dir, most int64) (n int64, err error) {
		r := streams[dir]
		for n < most {
			k, err := r.r.Read(r.buf[:min(most-n, int64(len(r.buf)))])
			n += int64(k)
			if k > 0 {
				if err := s.Feed(dir, r.buf[:k], time.Time{}); err != nil {
					return n, err
				}
			}
			if err == io.EOF {
				return n, nil
			}
			if err != nil {
				return n, err
			}
		}
		return n, nil
	}
	switch {
	case f.Chunks != nil:
		for i, c := range f.Chunks {
			n, err := feed(c.Dir, c.N)
			if err != nil {
				return err
			}
			if n < c.N {
				if err := s.note("chunk %d has %d bytes, but the file %s ends after %d of them", i, c.N, c.Dir, n); err != nil {
					return err
				}
			}
		}
	case f.ToServer != "" && f.ToClient != "":
		h := &s.half[ToServer]
		s.pull = func() (bool, error) {
			for frames := h.frames; h.frames == frames && h.err == nil; {
				if n, err := feed(ToServer, 1); n == 0 || err != nil {
					return false, err
				}
			}
			return h.err == nil, nil
		}
	}
	const rest = 1 << 62
	for _, d := range []Dir{ToClient, ToServer} {
		if _, err := feed(d, rest); err != nil {
			return err
		}
	}
	if err := s.Close(true); err != nil {
		return err
	}
	return s.Err()
}
