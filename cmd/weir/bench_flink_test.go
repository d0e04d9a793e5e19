package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirflow/weir/cmd/weir/internal/bench"
)

// script makes a shell script.
func script(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
}

// fakeFlink makes a Flink end of which build is the script that builds it, and java what stands for a JVM, with its side in $side. It returns the
// folder.
func fakeFlink(t *testing.T, build, java string) string {
	t.Helper()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("takes a shell: ", err)
	}
	dir := t.TempDir()
	script(t, filepath.Join(dir, "build"), build)
	script(t, filepath.Join(dir, "bin", "mvn"), "")
	script(t, filepath.Join(dir, "bin", "java"), `dir=`+dir+`
for a; do case $a in send|receive|ping|pong) side=$a;; esac; done
`+java)
	script(t, filepath.Join(dir, "target", bench.DefaultFlink, "classpath.txt"), "")
	t.Setenv("PATH", filepath.Join(dir, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	return dir
}

// Without the Flink end, or the means to build it, a scenario that takes it says so.
func TestBenchWithoutFlink(t *testing.T) {
	for _, s := range []string{"flink-send", "flink-recv", "flink", "flink-echo"} {
		if _, err := execute("bench", s, "--flink-dir", t.TempDir()); !errors.Is(err, bench.ErrNoFlink) || !strings.Contains(err.Error(), s) {
			t.Errorf("%s: %v", s, err)
		}
	}
	dir := fakeFlink(t, "", "")
	t.Setenv("PATH", "")
	if _, err := execute("bench", "flink", "--flink-dir", dir); !errors.Is(err, bench.ErrNoFlink) || !strings.Contains(err.Error(), "Java 17 and Maven") {
		t.Errorf("without Java: %v", err)
	}
}

// A build that fails says why, in a folder that is named from here, too.
func TestBenchFlinkBuild(t *testing.T) {
	dir := fakeFlink(t, "echo nothing to build from; exit 1", "")
	t.Chdir(dir)
	if _, err := execute("bench", "flink", "--flink-dir", "."); !errors.Is(err, bench.ErrNoFlink) || !strings.Contains(err.Error(), "nothing to build from") {
		t.Errorf("%v", err)
	}
}

// When one of the two processes ends, the other one, which waits for it, is not waited for.
func TestBenchFlinkEndDies(t *testing.T) {
	for when, java := range map[string]string{
		"ended before it was warm": `case $side in
send) echo ADDR 127.0.0.1:1/00; exit 1;;
*) exec sleep 60;;
esac`,
		"ended without a result": `echo ADDR 127.0.0.1:1/00; echo WARM; read line
[ $side = send ] || exec sleep 60`,
	} {
		dir := fakeFlink(t, "", java)
		began := time.Now()
		_, err := execute("bench", "flink", "--flink-dir", dir)
		if err == nil || !strings.Contains(err.Error(), when) || !strings.Contains(err.Error(), "Bench send") {
			t.Errorf("want that the sender %s: %v", when, err)
		}
		if d := time.Since(began); d > 30*time.Second {
			t.Errorf("the end of the sender, that it %s, was seen after %v", when, d)
		}
	}
}

// No window opens before both sides are warm: a JVM takes longer than weir.
func TestBenchFlinkMeasuresTogether(t *testing.T) {
	dir := fakeFlink(t, "", `echo ADDR 127.0.0.1:1/00
[ $side = receive ] || sleep 0.5
touch $dir/warm.$side
echo WARM
read line
n=0
[ ! -e $dir/warm.send ] || [ ! -e $dir/warm.receive ] || n=1000
echo 'RESULT {"role":"Flink '$side'","seconds":1,"bytes":'$n'00,"items":'$n',"cpu_s":0.5,"extra":{"warm_up_s":5,"rate_halves":1,"cpu_halves":1}}'
exec sleep 60`)
	out, err := execute("bench", "flink", "--flink-dir", dir)
	if err != nil || !strings.Contains(out, "JVM       receive: warm after 5.0 s") {
		t.Errorf("%v: %s", err, out)
	}
}

// The scenarios with a Flink process, where one can be built.
func TestBenchFlink(t *testing.T) {
	for _, tool := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("takes Java 17 and Maven: ", err)
		}
	}
	if testing.Short() {
		t.Skip("short: four pairs of processes with JVMs")
	}
	dir := "../../interop/flink"
	if _, err := os.Stat(filepath.Join(dir, "target", bench.DefaultFlink, "classpath.txt")); err != nil {
		t.Skip("the Flink end was not built, and Maven would have to load it; make interop does: ", err)
	}
	for s, jvms := range map[string]int{"flink-send": 1, "flink-recv": 1, "flink": 2, "flink-echo": 2} {
		r := measure(t, s, "--flink-dir", dir)
		f := r.Flink
		if f == nil || len(f.JVMs) != jvms {
			t.Errorf("%s: %+v", s, f)
			continue
		}
		for _, j := range f.JVMs {
			if j.WarmUp <= 0 || j.Compiled < 0 || j.Rate <= 0 || j.CPU <= 0 {
				t.Errorf("%s: %+v", s, j)
			}
		}
		if ends := f.WeirRecord > 0 && f.FlinkRecord > 0 && f.WeirBuffer > f.WeirRecord && f.FlinkBuffer > f.FlinkRecord && r.OfFlink > 0; ends != (jvms == 1) {
			t.Errorf("%s: CPU %.2f of Flink's: %+v", s, r.OfFlink, f)
		}
		if (s == "flink-echo") != (r.P50 > 0) {
			t.Errorf("%s: p50 %v us", s, r.P50)
		}
	}
}
