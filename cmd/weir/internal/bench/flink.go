package bench

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/weirflow/weir"
	"github.com/weirflow/weir/internal/measure"
)

// DefaultFlink is the release that is measured if none is named.
const DefaultFlink = "2.3.0"

// flinkWarmUp is how long both ends work before the window opens, in seconds: a JVM compiles what is hot.
const flinkWarmUp = 5

// ErrNoFlink is in the error of a scenario with a Flink end that is not there.
var ErrNoFlink = errors.New("no Flink end")

// buildFlink builds the Flink end of the repository, with its own script.
func buildFlink(ctx context.Context, opt *Options) error {
	build := filepath.Join(opt.FlinkDir, "build")
	if _, err := os.Stat(build); err != nil {
		return fmt.Errorf("%w in folder %q (--flink-dir: interop/flink of the repository): %w", ErrNoFlink, opt.FlinkDir, err)
	}
	for _, tool := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%w: it takes Java 17 and Maven: %w", ErrNoFlink, err)
		}
	}
	if out, err := exec.CommandContext(ctx, build, opt.Flink).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: building it: %w: %s", ErrNoFlink, err, out)
	}
	return nil
}

// startFlink starts a JVM as one side.
func startFlink(ctx context.Context, side, addr string, opt *Options) (*measure.Process, error) {
	target := filepath.Join(opt.FlinkDir, "target", opt.Flink)
	path, err := os.ReadFile(filepath.Join(target, "classpath.txt"))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoFlink, err)
	}
	args := []string{"-Xmx1g", "-XX:MaxDirectMemorySize=512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"}
	for _, p := range []string{"java.lang", "java.net", "java.nio", "java.util", "sun.nio.ch"} {
		args = append(args, "--add-opens=java.base/"+p+"=ALL-UNNAMED")
	}
	classes := filepath.Join(target, "classes") + string(os.PathListSeparator) + strings.TrimSpace(string(path))
	size, channels, _ := opt.shape()
	args = append(args, "-cp", classes, "io.weirflow.interop.Bench", side, strconv.Itoa(channels), strconv.Itoa(size),
		strconv.FormatFloat(opt.WarmUp.Seconds(), 'f', -1, 64), strconv.FormatFloat(opt.Window.Seconds(), 'f', -1, 64))
	if addr != "" {
		args = append(args, addr)
	}
	return measure.Start(ctx, "java", args...)
}

// flinkAddress is how a Flink end is told of an output of weir's: HOST:PORT/PARTITION.
func flinkAddress(addr, name string) string {
	id := weir.NameID(name)
	return addr + "/" + hex.EncodeToString(id[:])
}

// source is the other side's output: that of a name, or the partition that a Flink end has.
func (r *role) source(name string) (weir.Source, error) {
	addr, partition, flink := strings.Cut(r.addr, "/")
	s := weir.Source{Addr: addr, Name: name}
	if flink {
		id, err := weir.ParseID(partition)
		if err != nil {
			return s, fmt.Errorf("the Flink end's partition: %w", err)
		}
		s.ID = &id
	}
	return s, nil
}

// moreFlink compares what a unit costs at the two ends.
func moreFlink(res *Result, _, _ *measure.Result) error {
	res.OfFlink = res.CPURecv / res.CPUSend
	if res.Scenario == "flink-send" {
		res.OfFlink = 1 / res.OfFlink
	}
	return nil
}
