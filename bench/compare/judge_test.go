package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// results are the lines of a benchmark in six rounds.
func results(name string, ns float64, allocs int) string {
	var b strings.Builder
	for i := range 6 {
		fmt.Fprintf(&b, "Benchmark%s-2 \t 1000000\t %.2f ns/op\t %d B/op\t %d allocs/op\n", name, ns*(1+0.001*float64(i)), 8*allocs, allocs)
	}
	return b.String()
}

// What benchstat makes of two files is judged as it should be.
func TestJudge(t *testing.T) {
	const head = "goos: linux\ngoarch: amd64\npkg: example\n"
	dir := t.TempDir()
	files := [2]string{filepath.Join(dir, "base.txt"), filepath.Join(dir, "head.txt")}
	texts := [2]string{
		head + results("Same", 10, 0) + results("Slower", 10, 0) + results("ABit", 10, 0) + results("Faster", 10, 1) + results("New", 10, 0) + results("Gone", 5, 0) +
			results("Two/impl=chan", 10, 0),
		head + results("Same", 10, 0) + results("Slower", 12, 0) + results("ABit", 10.5, 0) + results("Faster", 5, 0) + results("New", 10, 1) +
			results("Two/impl=chan", 20, 3),
	}
	for i, f := range files {
		if err := os.WriteFile(f, []byte(texts[i]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	csv, err := output(".", "go", "tool", "benchstat", "-format", "csv", "base="+files[0], "head="+files[1])
	if err != nil {
		t.Fatal(err)
	}
	v, err := judge(csv)
	if err != nil {
		t.Fatalf("%v\n%s", err, csv)
	}
	if v.compared != 5 || v.alone != 1 || len(v.slower) != 1 || !strings.Contains(v.slower[0], "Slower") ||
		len(v.allocates) != 1 || !strings.Contains(v.allocates[0], "New") {
		t.Errorf("%+v of\n%s", v, csv)
	}
	s := settings{base: "base"}
	if err := s.decide(files); err == nil || !strings.Contains(err.Error(), "allocate more") {
		t.Errorf("a new allocation passes: %v", err)
	}
}

func TestRival(t *testing.T) {
	for name, want := range map[string]bool{"HandOver/n=1/impl=chan-2": true, "HandOver/impl=weir-2": false, "HandOver/impl=weir-next/n=3": false, "Ledger-2": false} {
		if rival(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}

// A slow-down alone fails the whole form, and not the short one.
func TestDecideSlower(t *testing.T) {
	dir := t.TempDir()
	files := [2]string{filepath.Join(dir, "base.txt"), filepath.Join(dir, "head.txt")}
	for i, ns := range []float64{10, 12} {
		if err := os.WriteFile(files[i], []byte("pkg: example\n"+results("X", ns, 0)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := (&settings{base: "base"}).decide(files); err == nil || !strings.Contains(err.Error(), "slower") {
		t.Errorf("a slow-down passes: %v", err)
	}
	if err := (&settings{base: "base", short: true}).decide(files); err != nil {
		t.Errorf("in short form: %v", err)
	}
	if err := os.WriteFile(files[1], []byte("pkg: example\n"+results("Y", 10, 0)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (&settings{base: "base"}).decide(files); err == nil || !strings.Contains(err.Error(), "in common") {
		t.Errorf("nothing to compare passes: %v", err)
	}
}
