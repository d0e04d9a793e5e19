package checkpoint

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/weirflow/weir/internal/vfs"
)

// FileSinkConfig configures a FileSink.
type FileSinkConfig struct {
	// Dir is where the files are; it is made if it is not there. Name begins each file's name: a sink has a name of its own in Dir.
	Dir, Name string
	// Retract: if the pipeline goes back to a checkpoint before one that was committed already, because that one is damaged, the
	// committed parts after it are renamed to end in ".retracted", since their records come again. Without it that is an error with
	// ErrCommittedBeyond.
	Retract bool
	// Hook is called around each step. Nil: nothing is.
	Hook Hook

	fs vfs.FS // tests put theirs here
}

// ErrCommittedBeyond is in the error of a sink that has committed more than the checkpoint that the pipeline goes back to contains.
var ErrCommittedBeyond = errors.New("more is committed than the restored checkpoint contains")

// FileSink writes to files that appear when the checkpoint they belong to is completed:
//
//	NAME-EPOCH.inprogress   being written
//	NAME-ID.pending         prepared for checkpoint ID
//	NAME-ID.part            committed
//
// A checkpoint's id has 20 digits, so the parts in the order of their names are the output, see ReadCommitted. A reader must leave the
// newest parts where they are: that a part is there tells that it was committed. All methods are for any goroutine; Write and
// Prepare must come in the order that the data has.
type FileSink struct {
	cfg FileSinkConfig
	fs  vfs.FS

	mu    sync.Mutex
	epoch int32         // guarded by mu, like all below
	open  vfs.File      // nil: nothing was written since Prepare
	w     *bufio.Writer // of open
	size  int64
	sum   uint32
	err   error // a write failed: the transaction cannot be prepared
	shut  bool
}

const (
	inProgressSuffix = ".inprogress"
	pendingSuffix    = ".pending"
	partSuffix       = ".part"
	retractedSuffix  = ".retracted"
	idDigits         = 20
)

// fileHandle is a prepared transaction.
type fileHandle struct {
	ID   int64  `json:"id"`
	Size int64  `json:"size"`
	Sum  uint32 `json:"sum"`
}

// OpenFileSink opens a sink. Recover comes before the first Write, see Transactions.Restore.
func OpenFileSink(cfg FileSinkConfig) (*FileSink, error) {
	if err := checkName("sink", cfg.Name); err != nil {
		return nil, err
	}
	s := &FileSink{cfg: cfg, fs: cfg.fs}
	if s.fs == nil {
		if err := os.MkdirAll(cfg.Dir, 0o777); err != nil {
			return nil, fmt.Errorf("checkpoint: sink %s: %w", cfg.Name, err)
		}
		s.fs = vfs.OS{}
	}
	s.fs = vfs.Hooked(s.fs, cfg.Hook)
	return s, nil
}

func (s *FileSink) path(id int64, suffix string) string {
	return filepath.Join(s.cfg.Dir, fmt.Sprintf("%s-%0*d%s", s.cfg.Name, idDigits, id, suffix))
}

func (s *FileSink) inProgress() string {
	return filepath.Join(s.cfg.Dir, fmt.Sprintf("%s-%d%s", s.cfg.Name, s.epoch, inProgressSuffix))
}

// explain adds the sink's name.
func (s *FileSink) explain(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("checkpoint: sink %s: %w", s.cfg.Name, err)
}

// Write adds bytes to the transaction that is open. After an error the epoch has to end: bytes may be missing.
func (s *FileSink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut {
		return 0, s.explain(fs.ErrClosed)
	}
	if s.epoch == 0 {
		return 0, s.explain(errors.New("written to before Recover"))
	}
	if s.err == nil && s.open == nil {
		s.begin()
	}
	if s.err != nil {
		return 0, s.explain(s.err)
	}
	n, err := s.w.Write(p)
	s.size += int64(n)
	s.sum = crc32.Update(s.sum, castagnoli, p[:n])
	s.err = err
	return n, s.explain(err)
}

// begin opens a transaction. With mu.
func (s *FileSink) begin() {
	f, err := s.fs.Create(s.inProgress())
	if err != nil {
		s.err = err
		return
	}
	s.open, s.size, s.sum = f, 0, 0
	if s.w == nil {
		s.w = bufio.NewWriterSize(f, partBuffer)
	} else {
		s.w.Reset(f)
	}
}

// Prepare is part of TwoPhase.
func (s *FileSink) Prepare(_ context.Context, id int64) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.explain(s.err)
	}
	if s.open == nil {
		return nil, nil
	}
	f := s.open
	s.open = nil
	err := s.w.Flush()
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = s.fs.Rename(s.inProgress(), s.path(id, pendingSuffix))
	}
	if err == nil {
		err = s.fs.SyncDir(s.cfg.Dir)
	}
	if err != nil {
		s.err = err // its bytes are in no transaction: nothing may be prepared after it
		return nil, s.explain(err)
	}
	return json.Marshal(fileHandle{id, s.size, s.sum})
}

// Commit is part of TwoPhase.
func (s *FileSink) Commit(_ context.Context, handle []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.explain(s.commit(handle))
}

func (s *FileSink) commit(handle []byte) error {
	h, err := parseHandle(handle)
	if err != nil {
		return err
	}
	from, to := s.path(h.ID, pendingSuffix), s.path(h.ID, partSuffix)
	err = s.fs.Rename(from, to)
	if errors.Is(err, fs.ErrNotExist) {
		var f vfs.File
		if f, err = s.fs.Open(to); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrTransactionLost, from, err)
		}
		_ = f.Close()
	}
	if err != nil {
		return err
	}
	return s.fs.SyncDir(s.cfg.Dir)
}

func parseHandle(handle []byte) (h fileHandle, err error) {
	if err := json.Unmarshal(handle, &h); err != nil || h.ID < 1 {
		return h, damaged("handle %.100q", handle)
	}
	return h, nil
}

// Abort is part of TwoPhase.
func (s *FileSink) Abort(_ context.Context, handle []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, err := parseHandle(handle)
	if err == nil {
		err = s.fs.Remove(s.path(h.ID, pendingSuffix))
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = s.fs.SyncDir(s.cfg.Dir)
	}
	return s.explain(err)
}

// Recover is part of TwoPhase. It looks at each prepared file that it commits, byte by byte.
func (s *FileSink) Recover(_ context.Context, epoch int32, restored int64, prepared [][]byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open != nil {
		_ = s.open.Close()
		s.open = nil
	}
	s.err, s.epoch = nil, epoch
	for _, handle := range prepared {
		if err := s.recommit(handle); err != nil {
			return s.explain(err)
		}
	}
	return s.explain(s.rollBack(restored))
}

// recommit commits a file after it was checked.
func (s *FileSink) recommit(handle []byte) error {
	h, err := parseHandle(handle)
	if err != nil {
		return err
	}
	name := s.path(h.ID, pendingSuffix)
	f, err := s.fs.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return s.commit(handle) // it should have been
	}
	if err != nil {
		return err
	}
	defer f.Close()
	sum := crc32.New(castagnoli)
	size, err := io.Copy(sum, struct{ io.Reader }{f})
	if err != nil {
		return err
	}
	if size != h.Size || sum.Sum32() != h.Sum {
		return fmt.Errorf("%s: %w", name, damaged("%d bytes with checksum %08x instead of %d with %08x", size, sum.Sum32(), h.Size, h.Sum))
	}
	return s.commit(handle)
}

// rollBack removes what is not committed, and takes back what is committed beyond a checkpoint.
func (s *FileSink) rollBack(restored int64) error {
	list, err := s.fs.ReadDir(s.cfg.Dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		rest, mine := strings.CutPrefix(e.Name, s.cfg.Name+"-")
		digits, suffix, dot := strings.Cut(rest, ".")
		id, err := strconv.ParseInt(digits, 10, 64)
		if !mine || !dot || err != nil {
			continue
		}
		name := filepath.Join(s.cfg.Dir, e.Name)
		switch "." + suffix {
		case inProgressSuffix, pendingSuffix:
			err = s.fs.Remove(name)
			if errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
		case partSuffix:
			if id <= restored {
				continue
			}
			if !s.cfg.Retract {
				return fmt.Errorf("%w: %s, and the checkpoint is %d", ErrCommittedBeyond, name, restored)
			}
			err = s.fs.Rename(name, name+retractedSuffix)
		}
		if err != nil {
			return err
		}
	}
	return s.fs.SyncDir(s.cfg.Dir)
}

// Close gives up the transaction that is open; what is prepared stays. Close does not commit.
func (s *FileSink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shut = true
	if s.open == nil {
		return nil
	}
	err := s.open.Close()
	s.open = nil
	return s.explain(err)
}

// CommittedParts are the files that the sink of a name has committed in a directory, in order.
func CommittedParts(dir, name string) ([]string, error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: sink %s: %w", name, err)
	}
	var parts []string
	for _, e := range list {
		digits, ok := strings.CutPrefix(e.Name(), name+"-")
		digits, part := strings.CutSuffix(digits, partSuffix)
		if _, err := strconv.ParseInt(digits, 10, 64); ok && part && err == nil && len(digits) == idDigits {
			parts = append(parts, filepath.Join(dir, e.Name()))
		}
	}
	slices.Sort(parts)
	return parts, nil
}

// ReadCommitted reads what the sink of a name has committed in a directory until now, from the first byte to the last.
func ReadCommitted(dir, name string) (io.ReadCloser, error) {
	parts, err := CommittedParts(dir, name)
	if err != nil {
		return nil, err
	}
	return &partsReader{parts: parts}, nil
}

// partsReader reads files one after the other, with one of them open at a time.
type partsReader struct {
	parts []string
	f     *os.File
}

func (r *partsReader) Read(p []byte) (int, error) {
	for {
		if r.f == nil {
			if len(r.parts) == 0 {
				return 0, io.EOF
			}
			f, err := os.Open(r.parts[0])
			if err != nil {
				return 0, err
			}
			r.f, r.parts = f, r.parts[1:]
		}
		n, err := r.f.Read(p)
		if n > 0 || err != io.EOF {
			return n, err
		}
		_ = r.f.Close()
		r.f = nil
	}
}

func (r *partsReader) Close() error {
	r.parts = nil
	if r.f == nil {
		return nil
	}
	return r.f.Close()
}
