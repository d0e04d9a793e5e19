package bench

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// A build that does not end is given up with the context, also if what the script has started lives on: Maven keeps the script's output
// open.
func TestBuildFlinkHangs(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("takes a shell: ", err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"build": "sleep 60 & echo begun; wait", "java": "", "mvn": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	err := buildFlink(ctx, &Options{FlinkDir: dir, Flink: DefaultFlink})
	if !errors.Is(err, ErrNoFlink) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if d := time.Since(began); d > 40*time.Second {
		t.Errorf("given up after %v", d)
	}
}
