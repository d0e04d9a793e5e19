package vfs

import "errors"

// ErrLocked says that a lock is somebody else's, ErrTooLong that a file is longer than its reader allows.
var (
	ErrLocked  = errors.New("locked by another process")
	ErrTooLong = errors.New("too long")
)

// Point is a moment in the life of a file: before or after a step.
type Point string

// The points.
const (
	BeforeMkdir   Point = "before-mkdir"
	AfterMkdir    Point = "after-mkdir"
	BeforeCreate  Point = "before-create"
	AfterCreate   Point = "after-create"
	BeforeOpen    Point = "before-open"
	AfterOpen     Point = "after-open"
	BeforeWrite   Point = "before-write"
	AfterWrite    Point = "after-write"
	BeforeSync    Point = "before-sync"
	AfterSync     Point = "after-sync"
	BeforeRename  Point = "before-rename"
	AfterRename   Point = "after-rename"
	BeforeSyncDir Point = "before-sync-dir"
	AfterSyncDir  Point = "after-sync-dir"
	BeforeRemove  Point = "before-remove"
	AfterRemove   Point = "after-remove"
	BeforeList    Point = "before-list"
	AfterList     Point = "after-list"
)

// Hook is called at a point with the path concerned; of a rename it is the new one. Before a step its error is the step's, and the step is
// not done; after a step the error is the step's although it was done. Any goroutine.
type Hook func(at Point, path string) error

// Hooked is fsys with a hook around each step; fsys itself if the hook is nil.
func Hooked(fsys FS, hook Hook) FS {
	if hook == nil {
		return fsys
	}
	return hooked{fsys, hook}
}

type hooked struct {
	fs   FS
	hook Hook
}

// around does a step between its points.
func (h Hook) around(before, after Point, path string, step func() error) error {
	err := h(before, path)
	if err == nil {
		err = step()
	}
	if err == nil {
		err = h(after, path)
	}
	return err
}

func (h hooked) Mkdir(dir string) error {
	return h.hook.around(BeforeMkdir, AfterMkdir, dir, func() error { return h.fs.Mkdir(dir) })
}

func (h hooked) Create(name string) (File, error) {
	return h.file(BeforeCreate, AfterCreate, name, h.fs.Create)
}

func (h hooked) Open(name string) (File, error) {
	return h.file(BeforeOpen, AfterOpen, name, h.fs.Open)
}

func (h hooked) file(before, after Point, name string, open func(string) (File, error)) (f File, err error) {
	err = h.hook.around(before, after, name, func() error {
		f, err = open(name)
		return err
	})
	if err != nil {
		if f != nil {
			_ = f.Close()
		}
		return nil, err
	}
	return &hookedFile{f, h.hook, name}, nil
}

func (h hooked) Rename(old, name string) error {
	return h.hook.around(BeforeRename, AfterRename, name, func() error { return h.fs.Rename(old, name) })
}

func (h hooked) Remove(name string) error {
	return h.hook.around(BeforeRemove, AfterRemove, name, func() error { return h.fs.Remove(name) })
}

func (h hooked) ReadDir(dir string) (list []Entry, err error) {
	err = h.hook.around(BeforeList, AfterList, dir, func() error {
		list, err = h.fs.ReadDir(dir)
		return err
	})
	return list, err
}

func (h hooked) SyncDir(dir string) error {
	return h.hook.around(BeforeSyncDir, AfterSyncDir, dir, func() error { return h.fs.SyncDir(dir) })
}

type hookedFile struct {
	File
	hook Hook
	name string
}

func (f *hookedFile) Write(p []byte) (n int, err error) {
	err = f.hook.around(BeforeWrite, AfterWrite, f.name, func() error {
		n, err = f.File.Write(p)
		return err
	})
	return n, err
}

func (f *hookedFile) Sync() error {
	return f.hook.around(BeforeSync, AfterSync, f.name, f.File.Sync)
}
