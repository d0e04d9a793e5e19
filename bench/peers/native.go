package main

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed native/framed.c
var framedC []byte

// buildNative compiles the program in C. remove removes it again.
func (s *settings) buildNative() (remove func(), err error) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		return func() {}, err
	}
	dir, err := os.MkdirTemp("", "weir-peers-")
	if err != nil {
		return func() {}, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	source, program := filepath.Join(dir, "framed.c"), filepath.Join(dir, "framed")
	if err := os.WriteFile(source, framedC, 0o600); err != nil {
		return remove, err
	}
	out, err := exec.Command(cc, "-O2", "-march=native", "-o", program, source).CombinedOutput()
	if err != nil {
		return remove, fmt.Errorf("%w: %s", err, out)
	}
	s.native = program
	return remove, nil
}
