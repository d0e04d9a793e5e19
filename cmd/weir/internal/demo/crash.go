package demo

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weirflow/weir/checkpoint"
	"github.com/weirflow/weir/internal/loopback"
)

// The third stage.
const (
	crashReceivers = 2
	crashLines     = 60_000 // of each sender, at most
	crashBytes     = 4 << 20
	crashSeconds   = 4.0
	crashInterval  = 50 * time.Millisecond
	// crashAfter is how many checkpoints are completed before each kill.
	crashAfter = 3
)

// tool is a process of the third stage: weir itself, with a command that anybody could type.
type tool struct {
	args      []string
	cmd       *exec.Cmd
	stderr    bytes.Buffer
	completed atomic.Int64 // checkpoints, epochs: of a coordinator
	epochs    atomic.Int64
	done      chan error
}

func startTool(ctx context.Context, args ...string) (*tool, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	t := &tool{args: args, cmd: exec.CommandContext(ctx, self, args...), done: make(chan error, 1)}
	t.cmd.Stderr = &t.stderr
	out, err := t.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := t.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		for sc := bufio.NewScanner(out); sc.Scan(); {
			switch {
			case strings.HasPrefix(sc.Text(), "checkpoint "):
				t.completed.Add(1)
			case strings.HasPrefix(sc.Text(), "epoch "):
				t.epochs.Add(1)
			}
		}
		t.done <- t.cmd.Wait()
	}()
	return t, nil
}

// kill is SIGKILL, where there is such a thing.
func (t *tool) kill() {
	_ = t.cmd.Process.Kill()
	t.done <- <-t.done // it is gone, and whoever asks later hears so, too
}

func (t *tool) wait(ctx context.Context) error {
	select {
	case err := <-t.done:
		if err != nil {
			return fmt.Errorf("weir %s: %w\n%s", strings.Join(t.args, " "), err, t.stderr.String())
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("weir %s: %w\n%s", strings.Join(t.args, " "), ctx.Err(), t.stderr.String())
	}
}

// awaitCheckpoints waits for n more checkpoints.
func (t *tool) awaitCheckpoints(ctx context.Context, n int64) error {
	for until := t.completed.Load() + n; t.completed.Load() < until; {
		select {
		case err := <-t.done:
			t.done <- err
			return fmt.Errorf("the coordinator ended after %d checkpoints: %w", t.completed.Load(), errors.Join(err, errTooFast))
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

var errTooFast = errors.New("nothing was killed in the middle, so nothing is shown")

// crash is the third stage: weir's own commands as members of a pipeline, two of which are killed halfway.
func (d *demo) crash(ctx context.Context) (err error) {
	fmt.Fprintln(d.out, "\nStage 3: weir coordinate, send and recv; halfway a receiver, then a sender is killed with SIGKILL and started again.")
	var counts [senders]uint64
	for s := range senders {
		if counts[s], err = d.numbered(s); err != nil {
			return err
		}
	}
	var addrs [senders + 1]string // the last is the coordinator's
	for i := range addrs {
		var free func()
		if addrs[i], free, err = loopback.FreeAddr(); err != nil {
			return err
		}
		defer free()
	}
	coord, out := addrs[senders], filepath.Join(d.dir, "committed")
	commands := map[string][]string{}
	var names []string
	for s := range senders {
		name := "send" + strconv.Itoa(s)
		names = append(names, name)
		commands[name] = []string{"send", "--coordinator", coord, "--member", name, "--name", "demo", "--listen", addrs[s], "--segment-size", "4096",
			"--subpartitions", strconv.Itoa(crashReceivers), "--partition-by", "key", "--key", "3", d.numberedFile(s)}
	}
	rate := float64(counts[0]+counts[1]) / crashReceivers / crashSeconds
	for r := range crashReceivers {
		name := "recv" + strconv.Itoa(r)
		names = append(names, name)
		commands[name] = append([]string{"recv", "--coordinator", coord, "--member", name, "--name", "demo", "--subpartition", strconv.Itoa(r),
			"--segment-size", "4096", "--exclusive", "2", "--floating", "2", "--rate", strconv.FormatFloat(max(rate, 10), 'f', 0, 64), "--out", out}, addrs[:senders]...)
	}
	c, err := startTool(ctx, "coordinate", "--listen", coord, "--checkpoint-dir", filepath.Join(d.dir, "checkpoints"),
		"--members", strings.Join(names, ","), "--interval", crashInterval.String(), "--mode", "timed", "--alignment-timeout", "20ms")
	if err != nil {
		return err
	}
	running := map[string]*tool{"coordinate": c}
	defer func() {
		for _, t := range running {
			_ = t.cmd.Process.Kill()
		}
	}()
	for _, name := range names {
		if running[name], err = startTool(ctx, commands[name]...); err != nil {
			return err
		}
	}
	for _, victim := range []string{"recv1", "send0"} {
		if err := c.awaitCheckpoints(ctx, crashAfter); err != nil {
			return fmt.Errorf("stage 3: %w", err)
		}
		running[victim].kill()
		fmt.Fprintf(d.out, "  killed %s after %d checkpoints\n", victim, c.completed.Load())
		if running[victim], err = startTool(ctx, commands[victim]...); err != nil {
			return err
		}
	}
	for _, t := range running {
		if err := t.wait(ctx); err != nil {
			return fmt.Errorf("stage 3: %w", err)
		}
	}
	return d.reportCrash(out, counts[:], c)
}

func (d *demo) numberedFile(s int) string { return filepath.Join(d.dir, "numbered-"+strconv.Itoa(s)) }

// numbered writes the beginning of a sender's lines with the sender's number and their own before them, and returns how many there are.
func (d *demo) numbered(s int) (n uint64, err error) {
	in, err := openLines(d.lines(s))
	if err != nil {
		return 0, err
	}
	defer in.close()
	f, err := os.Create(d.numberedFile(s))
	if err != nil {
		return 0, err
	}
	w := bufio.NewWriter(f)
	for size := 0; n < min(crashLines, d.opt.Lines/senders) && size < crashBytes; n++ {
		line, err := in.read()
		if err != nil {
			return 0, errors.Join(err, f.Close())
		}
		k, err := fmt.Fprintf(w, "%d %d k%s\n", s, n, bytes.TrimSpace(line)) // a word for the key, whatever the line is
		if err != nil {
			return 0, errors.Join(err, f.Close())
		}
		size += k
	}
	return n, errors.Join(w.Flush(), f.Close())
}

// reportCrash compares what was committed with what was sent.
func (d *demo) reportCrash(out string, counts []uint64, c *tool) error {
	notes := make([]string, crashReceivers)
	for r := range notes {
		notes[r] = d.notes(receivers + r)
		if err := takeNotes(out, "recv"+strconv.Itoa(r), notes[r]); err != nil {
			return fmt.Errorf("stage 3: %w", err)
		}
	}
	p, err := prove(notes, counts)
	if err != nil {
		return fmt.Errorf("stage 3: %w", err)
	}
	w := d.out
	fmt.Fprintf(w, "  checkpoints    %d completed, in %d epochs\n", c.completed.Load(), c.epochs.Load())
	fmt.Fprintf(w, "  lines in       %d\n  lines out      %d, in committed files\n", p.in, p.out)
	fmt.Fprintf(w, "  out of order %d\n  lost %d\n  duplicated %d\n", p.outOfOrder, p.lost, p.duplicated)
	switch {
	case !p.ok():
		return errors.New("stage 3: not every line was committed exactly once and in order")
	case c.epochs.Load() < 3:
		return fmt.Errorf("stage 3: %w", errTooFast)
	}
	return nil
}

// takeNotes makes of a receiver's committed files the notes that prove reads.
func takeNotes(dir, member, path string) error {
	rc, err := checkpoint.ReadCommitted(dir, member)
	if err != nil {
		return err
	}
	defer rc.Close()
	file, notes, err := createNotes(path)
	if err != nil {
		return err
	}
	r := bufio.NewReader(rc)
	for note := []byte(nil); err == nil; {
		var line []byte
		if line, err = r.ReadBytes('\n'); err != nil {
			break
		}
		var source int
		var offset uint64
		if _, err = fmt.Sscanf(string(line), "%d %d k", &source, &offset); err != nil {
			return errors.Join(fmt.Errorf("%s has the line %.60q: %w", member, line, err), file.Close())
		}
		key := bytes.Fields(line)[2]
		note = appendNote(note[:0], source, offset, key)
		_, err = notes.Write(note)
	}
	if err == io.EOF {
		err = nil
	}
	return errors.Join(err, notes.Flush(), file.Close())
}
