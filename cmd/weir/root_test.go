package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// execute runs the tool with arguments and returns what it printed.
func execute(args ...string) (string, error) {
	var out bytes.Buffer
	root := newRoot()
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	err := root.Execute()
	return out.String(), err
}

func TestHelpNamesTheCommands(t *testing.T) {
	out, err := execute("--help")
	if err != nil || !strings.Contains(out, "conform") {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestVersion(t *testing.T) {
	out, err := execute("--version")
	if err != nil || !strings.Contains(out, "go1.") {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestConformReportsFailure(t *testing.T) {
	path := filepath.Join(t.TempDir(), "odd.jsonl")
	if err := os.WriteFile(path, []byte(`{"kind":"NoSuchKind"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := execute("conform", path)
	if err == nil {
		t.Fatalf("a line of an unknown kind passed:\n%s", out)
	}
}

func TestConformNeedsAFile(t *testing.T) {
	if _, err := execute("conform"); err == nil {
		t.Fatal("no file was given, and no error came")
	}
	if _, err := execute("conform", filepath.Join(t.TempDir(), "missing.jsonl")); err == nil {
		t.Fatal("the file does not exist, and no error came")
	}
}
