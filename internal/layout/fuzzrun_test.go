package layout

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestFuzzTargetRunsAgain: fuzz/target.sh runs a target again for the one end that is Go's own (golang.org/issue/75804), as
// often as it says, and for nothing that a target found. The go command is a script here that ends as told, run by run.
func TestFuzzTargetRunsAgain(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("fuzz/target.sh needs a Unix shell")
	}
	const (
		pass     = "PASS\nok  \tp\t5.0s\n"
		deadline = "fuzz: elapsed: 4s, execs: 63238 (0/sec)\n--- FAIL: FuzzX (4.03s)\n    context deadline exceeded\nFAIL\nexit status 1\n"
		found    = "--- FAIL: FuzzX (0.03s)\n    --- FAIL: FuzzX (0.00s)\n        x_test.go:9: context deadline exceeded\n    \n" +
			"    Failing input written to testdata/fuzz/FuzzX/6f1c\n    To re-run:\n    go test -run=FuzzX/6f1c\nFAIL\nexit status 1\n"
		seed  = "--- FAIL: FuzzX (0.03s)\n    x_test.go:9: context deadline exceeded\nFAIL\nexit status 1\n"
		hung  = "--- FAIL: FuzzX (9.03s)\n    fuzzing process hung or terminated unexpectedly: exit status 2\nFAIL\n"
		build = "# p\n./x.go:3:1: syntax error: context deadline exceeded\nFAIL\tp [build failed]\nFAIL\n"
	)
	for _, c := range []struct {
		name string
		ends []string // of the runs, one after the other
		runs int
		good bool
	}{
		{"passes", []string{pass}, 1, true},
		{"the end of its time, then passes", []string{deadline, pass}, 2, true},
		{"the end of its time, always", []string{deadline, deadline, deadline, pass}, 3, false},
		{"the end of its time, then a finding", []string{deadline, found, pass}, 2, false},
		{"a finding", []string{found, pass}, 1, false},
		{"a seed that fails", []string{seed, pass}, 1, false},
		{"a process that hung", []string{hung, pass}, 1, false},
		{"a build that fails", []string{build, pass}, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for i, end := range c.ends {
				write(t, filepath.Join(dir, "end"+string(rune('1'+i))), end, 0o644)
			}
			write(t, filepath.Join(dir, "go"), "#!/usr/bin/env bash\ncd '"+dir+"'\necho run >>runs\nout=end$(wc -l <runs | tr -d ' ')\n"+
				"cat \"$out\"\ngrep -q '^ok' \"$out\"\n", 0o755)
			cmd := exec.Command("../../fuzz/target.sh", "p", "FuzzX", "-fuzztime", "3s")
			cmd.Env = append(os.Environ(), "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			runs, readErr := os.ReadFile(filepath.Join(dir, "runs"))
			if readErr != nil {
				t.Fatal(readErr)
			}
			if n := strings.Count(string(runs), "run"); n != c.runs || (err == nil) != c.good {
				t.Fatalf("%d runs, %v; want %d, good %v:\n%s", n, err, c.runs, c.good, out)
			}
		})
	}
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}
