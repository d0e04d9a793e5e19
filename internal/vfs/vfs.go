package vfs

import (
	"io"
	"os"
	"path/filepath"
)

// File is an open file. One goroutine at a time.
type File interface {
	io.ReadWriteCloser
	// Sync makes the file's bytes durable; its name is durable after SyncDir of its directory.
	Sync() error
}

// Entry is what a directory holds under a name.
type Entry struct {
	Name string
	Dir  bool
	Size int64 // of a file, in bytes
}

// FS is a file system. All methods are for any goroutine; errors name the path.
type FS interface {
	// Mkdir makes a directory below one that is there; one that is there already is no error. Its name is durable once its parent was
	// synced.
	Mkdir(dir string) error
	// Create makes a file, or empties the one that is there.
	Create(name string) (File, error)
	// Open opens a file for reading.
	Open(name string) (File, error)
	// Rename gives a file another name, at once: whoever looks sees the old or the new name, and never neither.
	Rename(old, name string) error
	// Remove removes a file or an empty directory.
	Remove(name string) error
	// ReadDir lists a directory, sorted by name.
	ReadDir(dir string) ([]Entry, error)
	// SyncDir makes the names in a directory durable.
	SyncDir(dir string) error
}

// OS is the operating system's file system.
type OS struct{}

// Mkdir is part of FS.
func (OS) Mkdir(dir string) error {
	err := os.Mkdir(dir, 0o777)
	if os.IsExist(err) {
		if info, serr := os.Stat(dir); serr == nil && info.IsDir() {
			return nil
		}
	}
	return err
}

// Create is part of FS.
func (OS) Create(name string) (File, error) { return osFile(os.Create(name)) }

// Open is part of FS.
func (OS) Open(name string) (File, error) { return osFile(os.Open(name)) }

// osFile keeps a nil *os.File from becoming a File that is not nil.
func osFile(f *os.File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Rename is part of FS.
func (OS) Rename(old, name string) error { return os.Rename(old, name) }

// Remove is part of FS.
func (OS) Remove(name string) error { return os.Remove(name) }

// ReadDir is part of FS.
func (OS) ReadDir(dir string) ([]Entry, error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, 0, len(list))
	for _, d := range list {
		e := Entry{Name: d.Name(), Dir: d.IsDir()}
		if !e.Dir {
			info, err := d.Info()
			if os.IsNotExist(err) {
				continue // removed meanwhile
			}
			if err != nil {
				return nil, err
			}
			e.Size = info.Size()
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// SyncDir is part of FS.
func (OS) SyncDir(dir string) error { return syncDir(dir) }

// RemoveTree removes a directory with the files and directories in it. One that is not there is removed.
func RemoveTree(fsys FS, dir string) error {
	entries, err := fsys.ReadDir(dir)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name)
		if e.Dir {
			err = RemoveTree(fsys, name)
		} else {
			err = fsys.Remove(name)
		}
		if err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	if err := fsys.Remove(dir); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// WriteFile writes a file so that it is there whole and durable under its name, or not at all: a file besides, synced, renamed,
// and the directory synced.
func WriteFile(fsys FS, name string, data []byte) error {
	temp := name + ".tmp"
	f, err := fsys.Create(temp)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = fsys.Rename(temp, name)
	}
	if err != nil {
		_ = fsys.Remove(temp)
		return err
	}
	return fsys.SyncDir(filepath.Dir(name))
}

// ReadFile reads a file that has at most limit bytes.
func ReadFile(fsys FS, name string, limit int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = &os.PathError{Op: "read", Path: name, Err: ErrTooLong}
	}
	return data, err
}
