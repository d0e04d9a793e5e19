package conform

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestVectors runs every vector file.
func TestVectors(t *testing.T) {
	runAll(t, "testdata/vectors/*.jsonl", 8)
}

// TestSessions runs every captured session.
func TestSessions(t *testing.T) {
	runAll(t, "testdata/vectors/sessions/*.json", 14)
}

// TestTraces runs every trace file.
func TestTraces(t *testing.T) {
	runAll(t, "testdata/traces/*.txt", 8)
}

// runAll runs each file that matches in a subtest of its own; there must be at least min of them.
func runAll(t *testing.T, pattern string, min int) {
	paths, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) < min {
		t.Fatalf("%d files %s, want at least %d", len(paths), pattern, min)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			passed, failed := 0, 0
			err := Each(path, func(r Result) {
				if r.Err == nil {
					passed++
					return
				}
				if failed++; failed <= 3 {
					t.Errorf("line %d %s: %v", r.Line, r.Name, r.Err)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if passed+failed == 0 {
				t.Fatal("nothing was tested")
			}
			if failed > 0 {
				t.Errorf("%d passed, %d failed", passed, failed)
			}
		})
	}
}

// TestRunReports checks what is said about files whose lines are wrong, unknown or unreadable.
func TestRunReports(t *testing.T) {
	dir := t.TempDir()
	for _, tc := range []struct {
		name, text     string
		passed, failed int
		says           string // in the report, or in the error
	}{
		{"unknown.jsonl", `{"name":"x","kind":"NoSuchKind","fields":{},"hex":""}`, 0, 1, "unknown kind of vector"},
		{"wrong.jsonl", `{"name":"x","kind":"Ranges","fields":{"maxParallelism":4,"parallelism":2,"ranges":[[0,1],[2,2]]}}`, 0, 1, "wanted"},
		{"json.jsonl", `{"name":`, 0, 0, "line 1"},
		{"hex.jsonl", `{"name":"x","kind":"Value","fields":{},"hex":"0"}`, 0, 0, "line 1"},
		{"unknown.txt", "--- a\ncfg what=1\nin x\nout -\n", 0, 1, "unknown kind of scenario"},
		{"wrong.txt", "--- a\ncfg channels=1\nin wm 0 5\nout wm 6\n--- b\ncfg channels=1\nin wm 0 5\nout wm 5\n", 1, 1, "wanted: wm 6\n\tgot:    wm 5"},
		{"missing.txt", "--- a\ncfg channels=1\nin wm 0\nout wm 6\n", 0, 1, "no argument 1"},
		{"op.txt", "--- a\ncfg channels=1\nin jump 0\nout -\n", 0, 1, "jump"},
		{"order.txt", "in wm 0 5\n", 0, 0, "before the first scenario"},
		{"cfg.txt", "--- a\nin wm 0 5\n", 0, 0, "before cfg"},
		{"twice.txt", "--- a\ncfg channels=1\n--- a\n", 0, 0, "repeated"},
		{"word.txt", "--- a\ncfg channels=1\nat noon\n", 0, 0, "unknown line"},
		{"name.pdf", "", 0, 0, "neither"},
	} {
		path := filepath.Join(dir, tc.name)
		if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		var report strings.Builder
		passed, failed, err := Run(path, &report)
		if err != nil {
			report.WriteString(err.Error())
		}
		if passed != tc.passed || failed != tc.failed || !strings.Contains(report.String(), tc.says) {
			t.Errorf("%s: %d passed, %d failed, report %q; want %d, %d, %q", tc.name, passed, failed, report.String(), tc.passed, tc.failed, tc.says)
		}
	}
	if _, _, err := Run(filepath.Join(dir, "absent.txt"), &strings.Builder{}); err == nil {
		t.Error("no error for a file that does not exist")
	}
}

// TestCompare checks that a * matches one word, and nothing else does.
func TestCompare(t *testing.T) {
	s := &Scenario{Setup: []string{"st 0"}, Steps: []Step{{Op: "poll", Outs: []string{"error BufferReorderingException"}}, {Op: "poll"}}}
	for _, tc := range []struct {
		name string
		fill func(o *Out)
		ok   bool
	}{
		{"same", func(o *Out) { o.Line("st 0"); o.Step(0); o.Error("BufferReorderingException") }, true},
		{"any", func(o *Out) { o.Line("st 0"); o.Step(0); o.Error("*"); o.Step(1) }, true},
		{"other", func(o *Out) { o.Line("st 0"); o.Step(0); o.Error("NullPointerException") }, false},
		{"no setup", func(o *Out) { o.Step(0); o.Error("*") }, false},
		{"too much", func(o *Out) { o.Line("st 0"); o.Step(0); o.Error("*"); o.Step(1); o.Line("none") }, false},
		{"nothing", func(o *Out) {}, false},
	} {
		var o Out
		tc.fill(&o)
		if err := o.compare(s); (err == nil) != tc.ok {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// TestGuard checks that a panic of the library is a failed test and no more.
func TestGuard(t *testing.T) {
	err := guard(func() error { panic("broken") })
	if err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("got %v", err)
	}
}
