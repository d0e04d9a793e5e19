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
	"time"

	"github.com/weirflow/weir"
	"github.com/weirflow/weir/internal/measure"
)

// DefaultFlink is the release that is measured if none is named.
const DefaultFlink = "2.3.0"

// How long both ends work before the window opens: a JVM compiles what is hot, and goes on until it has compiled for less than a
// twentieth of two seconds, which takes two JVMs on two cores seven to ten seconds.
const (
	flinkWarmUp     = 5 * time.Second
	flinkMostWarmUp = 30 * time.Second
)

// Building takes Maven seconds, or minutes if it has to load Flink; buildWait is how long what it started may outlive it.
const (
	buildLimit = 10 * time.Minute
	buildWait  = time.Second
)

// ErrNoFlink is in the error of a scenario with a Flink end that is not there.
var ErrNoFlink = errors.New("no Flink end")

// buildFlink builds the Flink end of the repository, with its own script.
func buildFlink(ctx context.Context, opt *Options) error {
	build, err := filepath.Abs(filepath.Join(opt.FlinkDir, "build"))
	if err != nil {
		return err
	}
	if _, err := os.Stat(build); err != nil {
		return fmt.Errorf("%w in folder %q (--flink-dir: interop/flink of the repository): %w", ErrNoFlink, opt.FlinkDir, err)
	}
	for _, tool := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%w: it takes Java 17 and Maven: %w", ErrNoFlink, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, buildLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, build, opt.Flink)
	// Maven is the script's child and has its output, too: whoever ends the script does not wait until Maven has noticed.
	cmd.WaitDelay = buildWait
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: building it: %w: %s", ErrNoFlink, errors.Join(err, ctx.Err()), out)
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
	args := []string{"-Xms1g", "-Xmx1g", "-XX:MaxDirectMemorySize=512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"}
	for _, p := range []string{"java.lang", "java.net", "java.nio", "java.util", "sun.nio.ch"} {
		args = append(args, "--add-opens=java.base/"+p+"=ALL-UNNAMED")
	}
	classes := filepath.Join(target, "classes") + string(os.PathListSeparator) + strings.TrimSpace(string(path))
	size, channels, _ := opt.shape()
	args = append(args, "-cp", classes, "io.weirflow.interop.Bench", side, strconv.Itoa(channels), strconv.Itoa(size),
		seconds(opt.WarmUp), seconds(opt.MostWarmUp), seconds(opt.Window))
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

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }

// together waits until both sides are warm and has them measure the same time.
func together(recv, send *measure.Process) error {
	if err := both((*measure.Process).Warm, recv, send); err != nil {
		return err
	}
	for _, p := range []*measure.Process{recv, send} {
		if err := p.Tell("measure"); err != nil {
			return err
		}
	}
	return nil
}

// Flink is what a scenario with Flink's ends adds. Both ends measure the same time.
type Flink struct {
	// CPU time per record, and per buffer of 32 KiB that is full of such records, at weir's end and at Flink's. Of flink-send and
	// flink-recv.
	WeirRecord  float64 `json:"weir_cpu_us_per_record,omitempty"`
	FlinkRecord float64 `json:"flink_cpu_us_per_record,omitempty"`
	WeirBuffer  float64 `json:"weir_cpu_us_per_buffer,omitempty"`
	FlinkBuffer float64 `json:"flink_cpu_us_per_buffer,omitempty"`
	JVMs        []JVM   `json:"jvms"`
}

// JVM tells how steady a Flink process was in its window.
type JVM struct {
	Side     string  `json:"side"`
	WarmUp   float64 `json:"warm_up_s"`
	Compiled float64 `json:"compiled_of_window"` // time that the compiler worked, of the window
	// The second half of the window over the first: rate, and CPU time per record.
	Rate float64 `json:"rate_halves"`
	CPU  float64 `json:"cpu_halves"`
}

// moreFlink compares what a unit costs at the two ends, and says how steady Flink's was.
func moreFlink(res *Result, recv, send *measure.Result) error {
	res.Flink = new(Flink)
	for _, x := range []struct {
		side string
		r    *measure.Result
	}{{"receive", recv}, {"send", send}} {
		perRecord := 1e6 * x.r.CPUSeconds / float64(x.r.Items)
		perBuffer := perRecord * frameSize / float64(x.r.Bytes/x.r.Items+recordHead)
		warm, jvm := x.r.Extra["warm_up_s"]
		if !jvm {
			res.Flink.WeirRecord, res.Flink.WeirBuffer = perRecord, perBuffer
			continue
		}
		res.Flink.FlinkRecord, res.Flink.FlinkBuffer = perRecord, perBuffer
		e := x.r.Extra
		res.Flink.JVMs = append(res.Flink.JVMs, JVM{x.side, warm, e["compiled_s"] / x.r.Seconds, e["rate_halves"], e["cpu_halves"]})
	}
	if res.Flink.WeirRecord > 0 {
		res.OfFlink = res.Flink.WeirRecord / res.Flink.FlinkRecord
	} else {
		res.Flink.FlinkRecord, res.Flink.FlinkBuffer = 0, 0
	}
	return nil
}

// moreFlinkEcho adds the round trips.
func moreFlinkEcho(res *Result, recv, send *measure.Result) error {
	return errors.Join(moreLatency(res, recv, send), moreFlink(res, recv, send))
}

func (p *printer) flink(r *Result) {
	f := r.Flink
	if f == nil {
		return
	}
	if r.OfFlink > 0 {
		p.f("  CPU       %.4f us a record, %.3f us a buffer of 32 KiB at weir's end; %.4f and %.3f at Flink's: weir's end takes %.3f of the CPU of Flink's\n",
			f.WeirRecord, f.WeirBuffer, f.FlinkRecord, f.FlinkBuffer, r.OfFlink)
	}
	for _, j := range f.JVMs {
		p.f("  JVM       %s: warm after %.1f s; its compiler worked for %.3f of the window; second half over first: rate %.3f, CPU per record %.3f\n",
			j.Side, j.WarmUp, j.Compiled, j.Rate, j.CPU)
	}
}
