package checkpoint

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/weirflow/weir/internal/vfs"
)

// Hook is called before and after each step on a file, with the path. Its error makes the step fail. It is for tests and for
// chaos runs, which kill the process in it. Any goroutine.
type Hook = vfs.Hook

// Point is a moment in the life of a file: "before-write", "after-rename" and so on.
type Point = vfs.Point

// The points. The commit of a checkpoint is the rename of its "_metadata"; that of a file sink the rename to ".part".
const (
	BeforeMkdir   = vfs.BeforeMkdir
	AfterMkdir    = vfs.AfterMkdir
	BeforeCreate  = vfs.BeforeCreate
	AfterCreate   = vfs.AfterCreate
	BeforeOpen    = vfs.BeforeOpen
	AfterOpen     = vfs.AfterOpen
	BeforeWrite   = vfs.BeforeWrite
	AfterWrite    = vfs.AfterWrite
	BeforeSync    = vfs.BeforeSync
	AfterSync     = vfs.AfterSync
	BeforeRename  = vfs.BeforeRename
	AfterRename   = vfs.AfterRename
	BeforeSyncDir = vfs.BeforeSyncDir
	AfterSyncDir  = vfs.AfterSyncDir
	BeforeRemove  = vfs.BeforeRemove
	AfterRemove   = vfs.AfterRemove
	BeforeList    = vfs.BeforeList
	AfterList     = vfs.AfterList
)

// ErrLocked is in the error when another process works in the same folder.
var ErrLocked = vfs.ErrLocked

// DirOptions are the options of a DirStore.
type DirOptions struct {
	// Hook is called around each step. Nil: nothing is.
	Hook Hook

	fs vfs.FS // tests put theirs here
}

// DirStore is a Store in a directory:
//
//	_state                    the coordinator's record
//	_lock                     held by the coordinator
//	chk-ID/_metadata          the checkpoint exists since this does
//	chk-ID/MEMBER/NAME        a part
//
// Whatever is written goes to a file with the suffix ".tmp", which is synced and then renamed, and its directory synced. All methods
// are for any goroutine. Several processes may put parts into one folder, as members do that write to it themselves.
type DirStore struct {
	dir string
	fs  vfs.FS
	mem bool // a test's file system, which has no locks
}

const (
	metadataName = "_metadata"
	stateName    = "_state"
	lockName     = "_lock"
	checkpoints  = "chk-"
	tempSuffix   = ".tmp"
	// partBuffer is how much of a part is gathered before it goes to the file, in bytes.
	partBuffer = 256 << 10
)

// OpenDir opens a directory store, and makes the directory if it is not there. It is not made again if it is removed later: that
// is an error then.
func OpenDir(dir string, o DirOptions) (*DirStore, error) {
	s := &DirStore{dir: dir, fs: o.fs, mem: o.fs != nil}
	if !s.mem {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return nil, fmt.Errorf("checkpoint: folder: %w", err)
		}
		s.fs = vfs.OS{}
	}
	s.fs = vfs.Hooked(s.fs, o.Hook)
	if _, err := s.fs.ReadDir(dir); err != nil {
		return nil, fmt.Errorf("checkpoint: folder: %w", err)
	}
	return s, nil
}

// Dir is the store's directory.
func (s *DirStore) Dir() string { return s.dir }

// Lock is part of Locker.
func (s *DirStore) Lock() (unlock func() error, err error) {
	if s.mem {
		return func() error { return nil }, nil
	}
	unlock, err = vfs.Lock(filepath.Join(s.dir, lockName))
	return unlock, s.explain("lock", err)
}

func (s *DirStore) path(id int64) string {
	return filepath.Join(s.dir, checkpoints+strconv.FormatInt(id, 10))
}

// explain says what was tried, and tells a folder that is gone from a file that is.
func (s *DirStore) explain(what string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		if _, derr := s.fs.ReadDir(s.dir); errors.Is(derr, fs.ErrNotExist) {
			return fmt.Errorf("checkpoint: %s: %w: %s", what, ErrFolderGone, s.dir)
		}
	}
	return fmt.Errorf("checkpoint: %s: %w", what, err)
}

// mkdir makes a directory whose name is durable.
func (s *DirStore) mkdir(dir string) error {
	if err := s.fs.Mkdir(dir); err != nil {
		return err
	}
	return s.fs.SyncDir(filepath.Dir(dir))
}

// Put is part of Store.
func (s *DirStore) Put(ctx context.Context, id int64, part string) (Blob, error) {
	what := fmt.Sprintf("checkpoint %d, part %s", id, part)
	member, name, ok := strings.Cut(part, "/")
	if !ok || id < 1 {
		return nil, fmt.Errorf("checkpoint: %s: %w", what, ErrName)
	}
	if err := errors.Join(checkName("member", member), checkName("part", name), ctx.Err()); err != nil {
		return nil, err
	}
	dir := s.path(id)
	if err := s.mkdir(dir); err != nil {
		return nil, s.explain(what, err)
	}
	dir = filepath.Join(dir, member)
	if err := s.mkdir(dir); err != nil {
		return nil, s.explain(what, err)
	}
	b := &dirBlob{s: s, ctx: ctx, what: what, name: filepath.Join(dir, name)}
	f, err := s.fs.Create(b.name + tempSuffix)
	if err != nil {
		return nil, s.explain(what, err)
	}
	b.f, b.w = f, bufio.NewWriterSize(f, partBuffer)
	return b, nil
}

// dirBlob is a part on its way.
type dirBlob struct {
	s          *DirStore
	ctx        context.Context
	what, name string
	f          vfs.File // nil when done
	w          *bufio.Writer
}

func (b *dirBlob) Write(p []byte) (int, error) {
	if b.f == nil {
		return 0, fmt.Errorf("checkpoint: %s: %w", b.what, fs.ErrClosed)
	}
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := b.w.Write(p)
	return n, b.s.explain(b.what, err)
}

func (b *dirBlob) Commit() error {
	if b.f == nil {
		return fmt.Errorf("checkpoint: %s: %w", b.what, fs.ErrClosed)
	}
	err := b.ctx.Err()
	if err == nil {
		err = b.w.Flush()
	}
	if err == nil {
		err = b.f.Sync()
	}
	if err != nil {
		b.Abort()
		return b.s.explain(b.what, err)
	}
	f := b.f
	b.f = nil
	if err = f.Close(); err == nil {
		err = b.s.fs.Rename(b.name+tempSuffix, b.name)
	}
	if err != nil {
		_ = b.s.fs.Remove(b.name + tempSuffix)
		return b.s.explain(b.what, err)
	}
	return b.s.explain(b.what, b.s.fs.SyncDir(filepath.Dir(b.name)))
}

func (b *dirBlob) Abort() {
	if b.f != nil {
		_ = b.f.Close()
		_ = b.s.fs.Remove(b.name + tempSuffix)
		b.f = nil
	}
}

// Get is part of Store.
func (s *DirStore) Get(_ context.Context, id int64, part string) (io.ReadCloser, error) {
	f, err := s.fs.Open(filepath.Join(s.path(id), filepath.FromSlash(part)))
	if err != nil {
		return nil, s.explain(fmt.Sprintf("checkpoint %d, part %s", id, part), err)
	}
	return f, nil
}

// Parts is part of Store.
func (s *DirStore) Parts(_ context.Context, id int64) (map[string]int64, error) {
	what := fmt.Sprintf("checkpoint %d", id)
	parts := map[string]int64{}
	members, err := s.fs.ReadDir(s.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		if _, derr := s.fs.ReadDir(s.dir); derr == nil {
			return parts, nil // nobody put anything
		}
	}
	if err != nil {
		return nil, s.explain(what, err)
	}
	for _, m := range members {
		if !m.Dir {
			continue
		}
		files, err := s.fs.ReadDir(filepath.Join(s.path(id), m.Name))
		if err != nil {
			return nil, s.explain(what, err)
		}
		for _, f := range files {
			if !f.Dir && !strings.HasSuffix(f.Name, tempSuffix) {
				parts[m.Name+"/"+f.Name] = f.Size
			}
		}
	}
	return parts, nil
}

// Complete is part of Store.
func (s *DirStore) Complete(ctx context.Context, id int64, metadata []byte) error {
	what := fmt.Sprintf("checkpoint %d, metadata", id)
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.mkdir(s.path(id)); err != nil { // of a pipeline whose members have no state
		return s.explain(what, err)
	}
	return s.explain(what, vfs.WriteFile(s.fs, filepath.Join(s.path(id), metadataName), metadata))
}

// Metadata is part of Store.
func (s *DirStore) Metadata(_ context.Context, id int64) ([]byte, error) {
	data, err := vfs.ReadFile(s.fs, filepath.Join(s.path(id), metadataName), maxMetadata)
	return data, s.explain(fmt.Sprintf("checkpoint %d, metadata", id), err)
}

// List is part of Store.
func (s *DirStore) List(context.Context) ([]Entry, error) {
	names, err := s.fs.ReadDir(s.dir)
	if err != nil {
		return nil, s.explain("list", err)
	}
	var list []Entry
	for _, n := range names {
		digits, ok := strings.CutPrefix(n.Name, checkpoints)
		id, err := strconv.ParseInt(digits, 10, 64)
		if !ok || err != nil || !n.Dir {
			continue
		}
		files, err := s.fs.ReadDir(filepath.Join(s.dir, n.Name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, s.explain("list", err)
		}
		list = append(list, Entry{ID: id, Complete: slices.ContainsFunc(files, func(f vfs.Entry) bool { return f.Name == metadataName })})
	}
	slices.SortFunc(list, func(a, b Entry) int { return cmp.Compare(a.ID, b.ID) })
	return list, nil
}

// Delete is part of Store.
func (s *DirStore) Delete(_ context.Context, id int64) error {
	what := fmt.Sprintf("checkpoint %d, delete", id)
	meta := filepath.Join(s.path(id), metadataName)
	err := s.fs.Remove(meta)
	if err == nil {
		err = s.fs.SyncDir(s.path(id))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s.explain(what, err)
	}
	return s.explain(what, vfs.RemoveTree(s.fs, s.path(id)))
}

// SaveState is part of Store.
func (s *DirStore) SaveState(ctx context.Context, state []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.explain("state", vfs.WriteFile(s.fs, filepath.Join(s.dir, stateName), state))
}

// LoadState is part of Store.
func (s *DirStore) LoadState(context.Context) ([]byte, error) {
	data, err := vfs.ReadFile(s.fs, filepath.Join(s.dir, stateName), maxMetadata)
	return data, s.explain("state", err)
}
