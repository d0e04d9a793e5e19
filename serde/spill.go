package serde

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/valyala/bytebufferpool"

	"github.com/weirflow/weir/internal/buildtag"
)

const (
	spillSuffix   = ".inputchannel"
	spillAttempts = 10 // names tried before giving up
	spillNameSize = 20 // random bytes in a name
)

// spillDirs makes files for large records (Flink: SpanningWrapper's
// createSpillingChannel).
type spillDirs struct {
	cfg  *DeserializerConfig
	dirs []string // those that still work; nil until the first file
}

func (s *spillDirs) init(cfg *DeserializerConfig) { s.cfg = cfg }

// create makes a file that did not exist before. The i-th attempt uses the
// i-th directory from a random one on. A directory that fails is dropped while
// another is left; a name that is taken costs one attempt.
func (s *spillDirs) create() (*spillFile, error) {
	if s.dirs == nil {
		s.dirs = append(s.dirs, s.cfg.SpillDirs...)
		if len(s.dirs) == 0 {
			s.dirs = append(s.dirs, os.TempDir())
		}
	}
	all := s.dirs
	open := s.cfg.openFile
	if open == nil {
		open = openExclusive
	}
	start := int(s.cfg.Random() % uint64(len(s.dirs)))
	for i := range spillAttempts {
		k := (start + i) % len(s.dirs)
		name := filepath.Join(s.dirs[k], s.name())
		f, err := open(name)
		if err == nil {
			return s.file(f, name), nil
		}
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if len(s.dirs) == 1 {
			return nil, fmt.Errorf("%w: %w", ErrSpill, err)
		}
		left := make([]string, 0, len(s.dirs)-1)
		s.dirs = append(append(left, s.dirs[:k]...), s.dirs[k+1:]...)
	}
	return nil, fmt.Errorf("%w: could not find a unique file channel name in '%s' for spilling large records during deserialization",
		ErrSpill, strings.Join(all, ", "))
}

// name is 40 hex digits and a suffix, as Flink's.
func (s *spillDirs) name() string {
	var b [spillNameSize + 4]byte
	for i := 0; i < len(b); i += 8 {
		binary.BigEndian.PutUint64(b[i:], s.cfg.Random())
	}
	return hex.EncodeToString(b[:spillNameSize]) + spillSuffix
}

func openExclusive(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}

// spillFile is the body of one large record. The deserializer holds one
// reference, each iterator of a snapshot another; the last one closes the file
// and deletes it. Where the system allows it, the name is removed as soon as
// the file is open, so that nothing is left behind by a process that dies.
type spillFile struct {
	f     *os.File
	name  string // to be removed at the end; empty when it already was
	refs  atomic.Int32
	noMap bool
}

func (s *spillDirs) file(f *os.File, name string) *spillFile {
	file := &spillFile{f: f, name: name, noMap: s.cfg.noMap}
	file.refs.Store(1)
	if unlinkOpenFiles && !s.cfg.keepName && os.Remove(name) == nil {
		file.name = ""
	}
	return file
}

func (s *spillFile) retain() *spillFile {
	s.refs.Add(1)
	return s
}

// release is for any goroutine. Errors of closing and deleting are ignored:
// the content is not wanted any more.
func (s *spillFile) release() {
	if s.refs.Add(-1) != 0 {
		return
	}
	_ = s.f.Close()
	if s.name != "" {
		_ = os.Remove(s.name)
	}
}

func (s *spillFile) write(p []byte) error {
	if _, err := s.f.Write(p); err != nil {
		return fmt.Errorf("%w: %w", ErrSpill, err)
	}
	return nil
}

// readAt fills p from offset off.
func (s *spillFile) readAt(p []byte, off int64) error {
	if _, err := s.f.ReadAt(p, off); err != nil {
		return fmt.Errorf("%w: reading back: %w", ErrSpill, err)
	}
	return nil
}

// spillView is the content of a file as bytes: mapped, or read into pooled
// memory where mapping is not to be had. The zero value is empty.
type spillView struct {
	mapped []byte
	read   *bytebufferpool.ByteBuffer
}

// view shows the first n bytes, n > 0. It stays valid when the file is
// released, until close.
func (s *spillFile) view(n int) (spillView, error) {
	if !s.noMap && !buildtag.Race { // the race detector does not see mapped memory
		if m := mapFile(s.f, n); m != nil {
			return spillView{mapped: m}, nil
		}
	}
	b := bytebufferpool.Get()
	if cap(b.B) < n {
		b.B = make([]byte, n)
	}
	b.B = b.B[:n]
	if err := s.readAt(b.B, 0); err != nil {
		bytebufferpool.Put(b)
		return spillView{}, err
	}
	return spillView{read: b}, nil
}

func (v *spillView) bytes() []byte {
	if v.mapped != nil {
		return v.mapped[:len(v.mapped):len(v.mapped)]
	}
	return v.read.B[:len(v.read.B):len(v.read.B)]
}

func (v *spillView) close() {
	if v.mapped != nil {
		unmapFile(v.mapped)
	}
	if v.read != nil {
		bytebufferpool.Put(v.read)
	}
	*v = spillView{}
}
