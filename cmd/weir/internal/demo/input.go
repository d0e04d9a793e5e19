package demo

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/weirflow/weir/cmd/weir/internal/framing"
)

// maxLine bounds a line of the input.
const maxLine = 16 << 20

// findInput lists the files of a file or folder, by default the Go sources of the Go installation.
func findInput(path string) ([]string, error) {
	match := func(string) bool { return true }
	if path == "" {
		root, err := goRoot()
		if err != nil {
			return nil, err
		}
		path = filepath.Join(root, "src")
		match = func(name string) bool { return strings.HasSuffix(name, ".go") }
	}
	var files []string
	err := filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Type().IsRegular() && match(p) {
			files = append(files, p)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no files in %s", path)
	}
	slices.Sort(files)
	return files, nil
}

var errNoLine = errors.New("the input has no line")

// gather copies lines of files into one file, at most limit of them, and sees to it that each ends with a line feed.
// It returns how many lines and bytes that were.
func gather(path string, files []string, limit uint64) (n, size uint64, err error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, 0, err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	for _, name := range files {
		if n >= limit {
			break
		}
		k, bytes, err := gatherOne(w, name, limit-n)
		if err != nil {
			return 0, 0, errors.Join(err, f.Close())
		}
		n += k
		size += bytes
	}
	if n == 0 {
		return 0, 0, errors.Join(errNoLine, f.Close())
	}
	return n, size, errors.Join(w.Flush(), f.Close())
}

func gatherOne(w *bufio.Writer, name string, limit uint64) (n, size uint64, err error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	s := framing.NewScanner(f, framing.Lines, maxLine)
	for ; n < limit; n++ {
		line, err := s.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return n, size, fmt.Errorf("%s: %w", name, err)
		}
		size += uint64(len(line))
		_, _ = w.Write(line) // Flush says what went wrong
		if line[len(line)-1] != '\n' {
			_ = w.WriteByte('\n')
		}
	}
	return n, size, nil
}

// lines yields the lines of a file over and over, each without copying.
type lines struct {
	f *os.File
	s *framing.Scanner
}

func openLines(path string) (*lines, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return &lines{f: f, s: framing.NewScanner(f, framing.Lines, maxLine)}, nil
}

// read returns the next line, valid until the following call.
func (l *lines) read() ([]byte, error) {
	line, err := l.s.Next()
	if err != io.EOF {
		return line, err
	}
	if _, err := l.f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	l.s.Reset(l.f)
	if line, err = l.s.Next(); err == io.EOF {
		err = errNoLine
	}
	return line, err
}

func (l *lines) close() { _ = l.f.Close() } // it was only read

// firstWord is a line's key.
func firstWord(line []byte) []byte {
	i := 0
	for i < len(line) && line[i] <= ' ' {
		i++
	}
	j := i
	for j < len(line) && line[j] > ' ' {
		j++
	}
	return line[i:j]
}

func goRoot() (string, error) {
	root := runtime.GOROOT() //nolint:staticcheck // go env may be missing where only the binary is
	if out, err := goEnv(); err == nil && out != "" {
		root = out
	}
	if root == "" {
		return "", errors.New("no Go installation found for the default input: say --input PATH")
	}
	return root, nil
}
