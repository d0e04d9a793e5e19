package layout

import (
	"path"
	"slices"
	"strings"
	"testing"
)

// layers says for each public package which other public packages it may import, besides internal/*. It is the picture in
// docs/architecture.md.
var layers = map[string][]string{
	"ringbuf":      {},
	"segment":      {"ringbuf"},
	"serde/event":  {"segment", "ringbuf"},
	"serde":        {"serde/event", "segment", "ringbuf"},
	"netio":        {"segment", "ringbuf"},
	"credit/spool": {"segment", "ringbuf"},
	"credit":       {"credit/spool", "serde/event", "segment", "ringbuf"}, // and netio, see mayUseSockets
	"align":        {"credit", "credit/spool", "serde/event", "segment", "ringbuf"},
	"task":         {"align", "credit", "credit/spool", "serde", "serde/event", "segment", "ringbuf"},
	"checkpoint":   {},
	"pipeline":     {".", "checkpoint", "task", "align", "credit", "credit/spool", "netio", "serde", "serde/event", "segment", "ringbuf"},
	".":            {"task", "align", "credit", "credit/spool", "netio", "serde", "serde/event", "segment", "ringbuf"},
}

// mayUseSockets are the only files of credit that import netio.
var mayUseSockets = []string{"credit/server.go", "credit/server_limits.go", "credit/client.go"}

// tops may import everything, and no layer may import them.
var tops = []string{"bench", "fuzz", "cmd", "examples", "test", "internal/conform"}

func isTop(dir string) bool {
	return slices.ContainsFunc(tops, func(top string) bool { return dir == top || strings.HasPrefix(dir, top+"/") })
}

func isInternal(dir string) bool { return strings.HasPrefix(dir, "internal/") && !isTop(dir) }

// local returns the directory of an imported package of this module.
func local(importPath string) (dir string, ok bool) {
	if importPath == modulePath {
		return ".", true
	}
	return strings.CutPrefix(importPath, modulePath+"/")
}

// allowed tells whether a file may import the package in directory to.
func allowed(fileName, to string) bool {
	from := path.Dir(fileName)
	switch {
	case isTop(from):
		return true
	case isTop(to):
		return false
	case isInternal(to):
		return true
	case isInternal(from):
		return false
	case to == "netio" && from == "credit":
		return slices.Contains(mayUseSockets, fileName)
	}
	return slices.Contains(layers[from], to)
}

// TestLayers reads the imports of the library, not of its tests.
func TestLayers(t *testing.T) {
	for _, f := range tree(t) {
		if f.test() || f.nested {
			continue
		}
		if _, known := layers[f.dir()]; !known && !isTop(f.dir()) && !isInternal(f.dir()) {
			t.Errorf("%s: package %s has no place in the layers; enter it here and in docs/architecture.md", f.name, f.dir())
		}
		for _, p := range f.imports(t) {
			if to, ok := local(p); ok && !allowed(f.name, to) {
				t.Errorf("%s imports %s: not a layer below", f.name, to)
			}
		}
	}
}

// TestLayersHaveNoCircle checks the table itself: what a package may import may not import it.
func TestLayersHaveNoCircle(t *testing.T) {
	for from, below := range layers {
		for _, to := range below {
			if _, ok := layers[to]; !ok {
				t.Errorf("%s may import %s, which is no layer", from, to)
			}
			if slices.Contains(layers[to], from) {
				t.Errorf("%s and %s may import each other", from, to)
			}
			for _, lower := range layers[to] {
				if !slices.Contains(below, lower) {
					t.Errorf("%s may import %s but not %s below it", from, to, lower)
				}
			}
		}
	}
}

// TestUpwardEdgeIsSeen shows that the rule can say no.
func TestUpwardEdgeIsSeen(t *testing.T) {
	for _, c := range []struct {
		file, to string
		want     bool
	}{
		{"ringbuf/spsc.go", "internal/buildtag", true},
		{"ringbuf/spsc.go", "segment", false},
		{"segment/pool.go", "ringbuf", true},
		{"credit/ledger.go", "netio", false},
		{"credit/server.go", "netio", true},
		{"credit/gate.go", "align", false},
		{"internal/alloctest/alloctest.go", "segment", false},
		{"task/input.go", "internal/conform", false},
		{"internal/conform/align.go", "align", true},
		{"segment/pool.go", ".", false},
	} {
		if got := allowed(c.file, c.to); got != c.want {
			t.Errorf("%s importing %s: allowed is %t, want %t", c.file, c.to, got, c.want)
		}
	}
}
