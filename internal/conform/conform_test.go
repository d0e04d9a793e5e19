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
		{"cut.txt", "--- a\ncfg spill=1\nin records 9\nout -\nin buffer 13 0\nout -\n", 1, 0, ""}, // a scenario may end with a buffer in use
		{"lost.txt", "--- a\ncfg spill=1\nin records 9\nout -\nin buffer 13 0\nout recycle\n", 0, 1, "wanted: recycle"},
		{"small.jsonl", `{"name":"x","kind":"LZ4","fields":{"codec":"LZ4","compressed":true,"originalSize":19,"compressedSize":18,"original":"` + strings.Repeat("00", 19) + `"},"hex":"0a0000001300000019000100500000000000"}`, 1, 0, ""},
		{"big.jsonl", `{"name":"x","kind":"Value","fields":{"type":"BigDecimal","value":{"unscaled":"1","scale":5}},"hex":"000000050100000005"}
			{"name":"y","kind":"Value","fields":{"type":"BigDecimal","value":{"unscaled":"1","scale":5}},"hex":"000000050a00000005"}`, 1, 1, "wanted"},
		{"keys.jsonl", `{"name":"x","kind":"Key","fields":{"type":"List<Long>","key":[1,2],"hashCode":994,"murmurHash":853044911,"assignments":[]},"hex":"0000000200000000000000010000000000000002"}
			{"name":"y","kind":"Key","fields":{"type":"java.sql.Timestamp","key":{"millis":1001,"nanos":1000000},"hashCode":1001,"murmurHash":2131111877,"assignments":[]},"hex":"00000000000003e9000f4240"}`, 2, 0, ""},
		{"unknown.txt", "--- a\ncfg what=1\nin x\nout -\n", 0, 1, "unknown kind of scenario"},
		{"wrong.txt", "--- a\ncfg channels=1\nin wm 0 5\nout wm 6\n--- b\ncfg channels=1\nin wm 0 5\nout wm 5\n", 1, 1, "wanted: wm 6\n\tgot:    wm 5"},
		{"missing.txt", "--- a\ncfg channels=1\nin wm 0\nout wm 6\n", 0, 1, "no argument 1"},
		{"op.txt", "--- a\ncfg channels=1\nin jump 0\nout -\n", 0, 1, "jump"},
		{"more.txt", "--- a\ncfg channels=1\nin wm 0 5 6\nout wm 5\n", 0, 1, "more than the step takes"},
		{"key.txt", "--- a\ncfg channels=1 idle=true\nin wm 0 5\nout wm 5\n", 0, 1, "unknown kind of scenario"},
		{"finished.txt", "--- a\ncfg mode=unaligned channels=1 finished=0\nin poll\nout none\n", 0, 1, "finished"},
		{"eod.txt", "--- a\ncfg mode=unaligned channels=1 finished=true\nin eod 0 some\nout -\n", 0, 1, "unknown step"},
		{"over.txt", "--- a\ncfg channels=1\nin wm 7 5\nout error X\nin wm 0 5\nout -\n", 0, 0, "after the error"},
		{"last.txt", "--- a\ncfg channels=1\nin wm 7 5\nout error X\nout idle\n", 0, 0, "after the error"},
		{"alone.txt", "--- a\ncfg channels=1\nin wm 0 5\nout wm 5\nout -\n", 0, 0, "stands alone"},
		{"nothing.txt", "--- a\ncfg channels=1\nin wm 0 5\nout -\nout wm 5\n", 0, 0, "stands alone"},
		{"keys.txt", "--- a\ncfg channels=1 channels=2\n", 0, 0, "twice"},
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
