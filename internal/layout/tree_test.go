package layout

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const modulePath = "github.com/weirflow/weir"

// file is a Go file of the repository.
type file struct {
	name   string // slash-separated, relative to the root of the repository
	nested bool   // in a module of its own (cmd/weir, bench/peers)
	text   []byte
	ast    *ast.File
}

func (f *file) dir() string  { return path.Dir(f.name) }
func (f *file) test() bool   { return strings.HasSuffix(f.name, "_test.go") }
func (f *file) base() string { return path.Base(f.name) }
func (f *file) imports(t *testing.T) []string {
	var paths []string
	for _, i := range f.ast.Imports {
		p, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			t.Fatalf("%s: %v", f.name, err)
		}
		paths = append(paths, p)
	}
	return paths
}

// tree reads all Go files of the repository, of all modules.
func tree(t *testing.T) []*file {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	var files []*file
	nested := make(map[string]bool) // directories below which another module lies
	fset := token.NewFileSet()
	err = filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if e.IsDir() {
			base := e.Name()
			if rel != "." && (base == "testdata" || base == "bin" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_")) {
				return fs.SkipDir
			}
			if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil && rel != "." {
				nested[rel] = true
			}
			nested[rel] = nested[rel] || nested[path.Dir(rel)]
			return nil
		}
		if !strings.HasSuffix(rel, ".go") {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(fset, rel, text, parser.ParseComments)
		if err != nil {
			return err
		}
		files = append(files, &file{name: rel, nested: nested[path.Dir(rel)], text: text, ast: parsed})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 10 {
		t.Fatalf("found only %d Go files: the walk is wrong", len(files))
	}
	return files
}

// TestUnsafeInNamedFiles: package unsafe is imported only by files that say so in their name.
func TestUnsafeInNamedFiles(t *testing.T) {
	for _, f := range tree(t) {
		for _, p := range f.imports(t) {
			if p == "unsafe" && !strings.Contains(f.base(), "_unsafe") {
				t.Errorf("%s imports unsafe; only files named *_unsafe*.go may", f.name)
			}
		}
	}
}

// TestFileLength: a file has one subject; beyond 700 lines it has two.
func TestFileLength(t *testing.T) {
	const most = 700
	for _, f := range tree(t) {
		if n := bytes.Count(f.text, []byte("\n")); n > most {
			t.Errorf("%s has %d lines, at most %d are allowed", f.name, n, most)
		}
	}
}

// TestNothingLeftOpen: no marker of unfinished work.
func TestNothingLeftOpen(t *testing.T) {
	for _, f := range tree(t) {
		for _, marker := range []string{"TO" + "DO", "FIX" + "ME"} {
			if i := bytes.Index(f.text, []byte(marker)); i >= 0 {
				t.Errorf("%s:%d: %s", f.name, 1+bytes.Count(f.text[:i], []byte("\n")), marker)
			}
		}
	}
}

// TestPackagesExplainThemselves: each package has a doc.go with a package comment; a command may have the comment in main.go.
func TestPackagesExplainThemselves(t *testing.T) {
	explained := make(map[string]bool)
	home := make(map[string]string)
	for _, f := range tree(t) {
		if f.test() {
			continue
		}
		want := "doc.go"
		if f.ast.Name.Name == "main" {
			want = "main.go"
		}
		home[f.dir()] = want
		if (f.base() == want || f.base() == "doc.go") && f.ast.Doc.Text() != "" {
			explained[f.dir()] = true
		}
	}
	for dir, want := range home {
		if !explained[dir] {
			t.Errorf("%s/%s with a package comment is missing", dir, want)
		}
	}
}

// plainWords are packages that use 64-bit atomics on plain words all the same, because the sole owner of such a word reads
// it without an atomic. Each has a test, named here, that asserts the alignment.
var plainWords = map[string]string{
	"segment": "TestRNG06HeaderWordIsAligned",
}

// TestTyped64BitAtomics: the functions of sync/atomic on plain 64-bit words fault on 32-bit platforms when the word is not
// aligned. The types (atomic.Uint64, …) align themselves, so only files about raw memory may use the functions.
func TestTyped64BitAtomics(t *testing.T) {
	files := tree(t)
	for dir, test := range plainWords {
		if !slices.ContainsFunc(files, func(f *file) bool {
			return f.dir() == dir && f.test() && bytes.Contains(f.text, []byte("func "+test+"("))
		}) {
			t.Errorf("%s uses plain words and has no %s", dir, test)
		}
	}
	for _, f := range files {
		if strings.Contains(f.base(), "_unsafe") || plainWords[f.dir()] != "" {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, ok := sel.X.(*ast.Ident)
			if ok && pkg.Name == "atomic" && strings.HasSuffix(sel.Sel.Name, "64") && sel.Sel.Name != "Int64" && sel.Sel.Name != "Uint64" {
				t.Errorf("%s: atomic.%s on a plain word; use atomic.Uint64 or atomic.Int64", f.name, sel.Sel.Name)
			}
			return true
		})
	}
}
