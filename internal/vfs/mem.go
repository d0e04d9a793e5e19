package vfs

import (
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Mem is a file system in memory that can crash. All methods are for any goroutine.
type Mem struct {
	mu   sync.Mutex
	root *memNode
	era  int // counts crashes: files that were open in one are dead
}

// memNode is a file or a directory.
type memNode struct {
	entries map[string]*memNode // of a directory, nil for a file
	durable map[string]*memNode // the entries at the last SyncDir
	changes []func(map[string]*memNode)

	data   []byte
	synced []byte
}

// NewMem makes an empty file system.
func NewMem() *Mem { return &Mem{root: newMemDir()} }

func newMemDir() *memNode {
	return &memNode{entries: map[string]*memNode{}, durable: map[string]*memNode{}}
}

func (n *memNode) change(f func(map[string]*memNode)) {
	f(n.entries)
	n.changes = append(n.changes, f)
}

// Loss says how much of what was not synced a crash takes.
type Loss int

// The losses. LoseSome takes a random part: of each directory the last changes, of each file the last bytes.
const (
	LoseNothing Loss = iota
	LoseAll
	LoseSome
)

// Crash takes from the file system what was not synced, and makes every open file fail.
func (m *Mem) Crash(loss Loss, rnd *rand.Rand) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.era++
	if loss != LoseNothing {
		m.root.crash(loss, rnd)
	}
	m.root.settle()
}

func (n *memNode) crash(loss Loss, rnd *rand.Rand) {
	if n.entries == nil {
		keep := slices.Clone(n.synced)
		if loss == LoseSome && len(n.data) > len(n.synced) {
			keep = append(keep, n.data[len(n.synced):len(n.synced)+rnd.IntN(len(n.data)-len(n.synced)+1)]...)
		}
		n.data = keep
		return
	}
	kept := map[string]*memNode{}
	for name, e := range n.durable {
		kept[name] = e
	}
	if loss == LoseSome {
		for _, f := range n.changes[:rnd.IntN(len(n.changes)+1)] {
			f(kept)
		}
	}
	n.entries = kept
	for _, name := range sortedNames(kept) {
		kept[name].crash(loss, rnd)
	}
}

// settle makes what is there durable: the machine is up again.
func (n *memNode) settle() {
	if n.entries == nil {
		n.synced = slices.Clone(n.data)
		return
	}
	n.sync()
	for _, e := range n.entries {
		e.settle()
	}
}

func (n *memNode) sync() {
	n.changes = nil
	n.durable = map[string]*memNode{}
	for name, e := range n.entries {
		n.durable[name] = e
	}
}

func sortedNames(m map[string]*memNode) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func memError(op, name string, err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }

func clean(name string) string { return strings.Trim(path.Clean("/"+filepath.ToSlash(name)), "/") }

func (m *Mem) find(name string) *memNode {
	n := m.root
	for _, s := range strings.Split(clean(name), "/") {
		if s == "" {
			continue
		}
		if n = n.entries[s]; n == nil {
			return nil
		}
	}
	return n
}

// parent finds the directory that name is in.
func (m *Mem) parent(op, name string) (*memNode, string, error) {
	dir, base := path.Split(clean(name))
	n := m.find(dir)
	if n == nil || n.entries == nil {
		return nil, "", memError(op, name, fs.ErrNotExist)
	}
	return n, base, nil
}

// Mkdir is part of FS.
func (m *Mem) Mkdir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	parent, base, err := m.parent("mkdir", dir)
	if err != nil || base == "" {
		return err
	}
	switch n := parent.entries[base]; {
	case n == nil:
		n = newMemDir()
		parent.change(func(e map[string]*memNode) { e[base] = n })
	case n.entries == nil:
		return memError("mkdir", dir, fs.ErrExist)
	}
	return nil
}

// Create is part of FS.
func (m *Mem) Create(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parent("create", name)
	if err != nil {
		return nil, err
	}
	n := dir.entries[base]
	switch {
	case n == nil:
		n = &memNode{}
		dir.change(func(e map[string]*memNode) { e[base] = n })
	case n.entries != nil:
		return nil, memError("create", name, fs.ErrExist)
	}
	n.data, n.synced = nil, nil
	return &memFile{m: m, n: n, name: name, era: m.era}, nil
}

// Open is part of FS.
func (m *Mem) Open(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.find(name)
	if n == nil {
		return nil, memError("open", name, fs.ErrNotExist)
	}
	return &memFile{m: m, n: n, name: name, era: m.era}, nil
}

// Rename is part of FS. Both names are in the same directory.
func (m *Mem) Rename(old, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, from, err := m.parent("rename", old)
	if err != nil {
		return err
	}
	to, base, err := m.parent("rename", name)
	if err != nil {
		return err
	}
	n := dir.entries[from]
	if n == nil {
		return memError("rename", old, fs.ErrNotExist)
	}
	if to != dir {
		return memError("rename", name, os.ErrInvalid)
	}
	dir.change(func(e map[string]*memNode) {
		delete(e, from)
		e[base] = n
	})
	return nil
}

// Remove is part of FS.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parent("remove", name)
	if err != nil {
		return err
	}
	n := dir.entries[base]
	if n == nil {
		return memError("remove", name, fs.ErrNotExist)
	}
	if len(n.entries) > 0 {
		return memError("remove", name, fs.ErrExist)
	}
	dir.change(func(e map[string]*memNode) { delete(e, base) })
	return nil
}

// ReadDir is part of FS.
func (m *Mem) ReadDir(dir string) ([]Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.find(dir)
	if n == nil || n.entries == nil {
		return nil, memError("readdir", dir, fs.ErrNotExist)
	}
	var list []Entry
	for _, name := range sortedNames(n.entries) {
		e := n.entries[name]
		list = append(list, Entry{Name: name, Dir: e.entries != nil, Size: int64(len(e.data))})
	}
	return list, nil
}

// SyncDir is part of FS.
func (m *Mem) SyncDir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.find(dir)
	if n == nil || n.entries == nil {
		return memError("sync", dir, fs.ErrNotExist)
	}
	n.sync()
	return nil
}

type memFile struct {
	m    *Mem
	n    *memNode
	name string
	era  int
	at   int
	shut bool
}

func (f *memFile) alive(op string) error {
	if f.shut || f.era != f.m.era {
		return memError(op, f.name, fs.ErrClosed)
	}
	return nil
}

func (f *memFile) Read(p []byte) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.alive("read"); err != nil {
		return 0, err
	}
	if f.at >= len(f.n.data) {
		return 0, io.EOF
	}
	n := copy(p, f.n.data[f.at:])
	f.at += n
	return n, nil
}

func (f *memFile) Write(p []byte) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.alive("write"); err != nil {
		return 0, err
	}
	f.n.data = append(f.n.data, p...)
	return len(p), nil
}

func (f *memFile) Sync() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.alive("sync"); err != nil {
		return err
	}
	f.n.synced = slices.Clone(f.n.data)
	return nil
}

func (f *memFile) Close() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	err := f.alive("close")
	f.shut = true
	return err
}
