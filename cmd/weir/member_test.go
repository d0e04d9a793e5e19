package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirflow/weir/checkpoint"
	"github.com/weirflow/weir/internal/modelrun"
)

// crew is a pipeline of processes of the tool: two that send files, two that receive, and their coordinator.
type crew struct {
	t           *testing.T
	dir, coord  string
	coordinator *process
	inputs      []string
	addrs       []string
	args        map[string][]string
	at          map[string]*process
}

const crewLines = 80_000 // of each input

// newCrew makes a crew that runs for the longer the larger slower is: on a slow machine everything that is to happen takes its time.
func newCrew(t *testing.T, mode string, slower int) *crew {
	c := &crew{t: t, dir: t.TempDir(), coord: deadAddr(t), args: map[string][]string{}, at: map[string]*process{}}
	for i := range 2 {
		c.inputs = append(c.inputs, file(t, lines(crewLines, func(n int) string { return fmt.Sprintf("%d %d", i, n) })))
		c.addrs = append(c.addrs, deadAddr(t))
		c.member(fmt.Sprintf("send%d", i), "send", "--listen", c.addrs[i], "--name", "x", "--subpartitions", "2", c.inputs[i])
	}
	for i := range 2 {
		args := []string{"--name", "x", "--subpartition", fmt.Sprint(i), "--rate", fmt.Sprint(20_000 >> min(slower, 5)), "--exclusive", "2", "--floating", "2", "--out", c.out()}
		c.member(fmt.Sprintf("recv%d", i), "recv", append(args, c.addrs...)...)
	}
	c.args["coordinate"] = []string{"coordinate", "--listen", c.coord, "--checkpoint-dir", filepath.Join(c.dir, "checkpoints"),
		"--members", "send0,send1,recv0,recv1", "--interval", "20ms", "--mode", mode, "--alignment-timeout", "5ms", "--member-timeout", "30s"}
	return c
}

func (c *crew) out() string { return filepath.Join(c.dir, "out") }

// member says how a member is started: with the same command each time.
func (c *crew) member(name, command string, args ...string) {
	c.args[name] = append([]string{command, "--coordinator", c.coord, "--member", name, "--stats", "json", "--segment-size", "1024"}, args...)
}

func (c *crew) start(names ...string) {
	for _, n := range names {
		c.at[n] = start(c.t, c.args[n]...)
	}
}

// completed waits until the coordinator that runs now has completed n checkpoints. False: all data came to its end before.
func (c *crew) completed(n int) bool {
	c.t.Helper()
	return c.coordinated("completed", n)
}

// coordinated waits until the coordinator that runs now has printed n lines with what. False: it has ended before.
func (c *crew) coordinated(what string, n int) bool {
	c.t.Helper()
	p := c.at["coordinate"]
	for {
		p.mu.Lock()
		got := 0
		for _, line := range p.stdout {
			if strings.Contains(line, what) {
				got++
			}
		}
		p.mu.Unlock()
		if got >= n {
			return true
		}
		select {
		case <-p.done:
			if p.err != nil {
				c.t.Fatalf("the coordinator ended after %d times %q, want %d: %v\n%s", got, what, n, p.err, strings.Join(p.stderr, "\n"))
			}
			return false
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// again kills a member and starts it, and waits until the coordinator that runs now has opened its nth epoch because of that.
func (c *crew) again(member string, n int) bool {
	c.t.Helper()
	c.at[member].kill()
	c.start(member)
	return c.coordinated("epoch ", n)
}

// stop ends what still runs.
func (c *crew) stop() {
	for _, p := range c.at {
		p.kill()
	}
}

// epochs are those that the coordinator that runs now has opened.
func (c *crew) epochs() (n int) {
	p := c.at["coordinate"]
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range p.stdout {
		if strings.HasPrefix(line, "epoch ") {
			n++
		}
	}
	return n
}

// finish waits for the end of all, and compares what was committed with what was sent: each record once, in order for each sender and
// receiver.
func (c *crew) finish() {
	c.t.Helper()
	for _, n := range []string{"send0", "send1", "recv0", "recv1", "coordinate"} {
		c.at[n].succeeds()
	}
	var all []string
	for _, n := range []string{"recv0", "recv1"} {
		rc, err := checkpoint.ReadCommitted(c.out(), n)
		if err != nil {
			c.t.Fatal(err)
		}
		b, err := io.ReadAll(rc)
		if err != nil {
			c.t.Fatal(err)
		}
		_ = rc.Close()
		last := map[string]int{"0": -1, "1": -1}
		records := int64(0)
		for line := range strings.Lines(string(b)) {
			var sender string
			var number int
			if _, err := fmt.Sscanf(line, "%s %d\n", &sender, &number); err != nil {
				c.t.Fatalf("%s has %q: %v", n, line, err)
			}
			if number <= last[sender] {
				c.t.Fatalf("%s: record %d of %s after %d", n, number, sender, last[sender])
			}
			last[sender] = number
			all = append(all, line)
			records++
		}
		if rep := c.at[n].report(); rep.Records != records {
			c.t.Errorf("%s reports %d records and committed %d", n, rep.Records, records)
		}
	}
	slices.Sort(all)
	want := slices.Sorted(strings.Lines(content(c.t, c.inputs[0]) + content(c.t, c.inputs[1])))
	same(c.t, strings.Join(all, ""), strings.Join(want, ""))
	left, err := filepath.Glob(filepath.Join(c.out(), "*pending"))
	if err != nil || len(left) > 0 {
		c.t.Errorf("not committed: %v %v", left, err)
	}
}

// TestKilledMembersGoOn kills members with SIGKILL in the middle, and the coordinator, and starts each again with the same command.
func TestKilledMembersGoOn(t *testing.T) {
	for _, mode := range []string{"aligned", "unaligned", "timed"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			modelrun.Rounds(t, func(i int) bool {
				c := newCrew(t, mode, i)
				c.start("coordinate", "send0", "send1", "recv0", "recv1")
				if !c.completed(2) || !c.again("recv0", 2) || !c.completed(4) || !c.again("send1", 3) || !c.completed(6) {
					c.stop() // the data came to its end before all of that had happened
					return false
				}
				if n := c.epochs(); n != 3 {
					t.Errorf("%d epochs, want 3: more failed than was killed", n)
				}
				c.at["coordinate"].kill() // data goes on flowing
				c.start("coordinate")
				if !c.completed(1) {
					c.stop()
					return false
				}
				c.finish()
				return true
			})
		})
	}
}

// TestOlderProcessIsFenced: of two processes with one name the older ends with an error that says so, and commits nothing more.
func TestOlderProcessIsFenced(t *testing.T) {
	t.Parallel()
	modelrun.Rounds(t, func(i int) bool {
		c := newCrew(t, "aligned", i)
		c.start("coordinate", "send0", "send1", "recv0", "recv1")
		if !c.completed(3) {
			c.stop()
			return false
		}
		old := c.at["recv1"]
		c.start("recv1")
		if <-old.done; old.err == nil { // it had come to its end before
			old.kill()
			c.stop()
			return false
		}
		old.fails("recv1", checkpoint.ErrReplaced.Error())
		c.finish()
		return true
	})
}

// TestRecvRetract: when the newest checkpoint is damaged and its records are committed, the pipeline goes back before it only where
// --retract allows that, and then the output has each record once all the same.
func TestRecvRetract(t *testing.T) {
	t.Parallel()
	modelrun.Rounds(t, func(i int) bool {
		c := newCrew(t, "aligned", i)
		for _, name := range []string{"coordinate", "send0", "send1", "recv0", "recv1"} {
			if name != "coordinate" {
				c.args[name] = append(c.args[name], "--wait", "90s") // for those that give up
			}
		}
		all := []string{"coordinate", "send0", "send1", "recv0", "recv1"}
		c.start(all...)
		if !c.completed(4) {
			c.stop()
			return false
		}
		c.stop()
		newest := c.damageNewest()
		beyond, err := filepath.Glob(filepath.Join(c.out(), fmt.Sprintf("recv*-%020d.part", newest)))
		if err != nil {
			t.Fatal(err)
		}
		if len(beyond) == 0 {
			return false // it was killed before the commit
		}
		c.start(all...)
		refuses := strings.SplitN(filepath.Base(beyond[0]), "-", 2)[0]
		<-c.at[refuses].done
		c.at[refuses].fails(checkpoint.ErrCommittedBeyond.Error(), filepath.Base(beyond[0]))
		c.stop()
		for _, name := range []string{"recv0", "recv1"} {
			c.args[name] = append(c.args[name], "--retract")
		}
		c.start(all...)
		c.finish()
		for _, name := range beyond {
			if _, err := os.Stat(name + ".retracted"); err != nil {
				t.Error(err)
			}
		}
		return true
	})
}

// damageNewest changes a byte of the newest complete checkpoint, and returns its id.
func (c *crew) damageNewest() (id int64) {
	c.t.Helper()
	found, err := filepath.Glob(filepath.Join(c.dir, "checkpoints", "chk-*", "_metadata"))
	if err != nil {
		c.t.Fatal(err)
	}
	name := ""
	for _, n := range found {
		if v, err := strconv.ParseInt(strings.TrimPrefix(filepath.Base(filepath.Dir(n)), "chk-"), 10, 64); err == nil && v > id {
			id, name = v, n
		}
	}
	b, err := os.ReadFile(name)
	if err != nil {
		c.t.Fatal(err)
	}
	b[len(b)/2] ^= 0x10
	if err := os.WriteFile(name, b, 0o600); err != nil {
		c.t.Fatal(err)
	}
	return id
}

// TestCoordinatorFlags: what is missing or wrong is named.
func TestCoordinatorFlags(t *testing.T) {
	dir := t.TempDir()
	readOnly := filepath.Join(dir, "file")
	if err := os.WriteFile(readOnly, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"coordinate"}, "--checkpoint-dir"},
		{[]string{"coordinate", "--checkpoint-dir", dir}, "--members"},
		{[]string{"coordinate", "--checkpoint-dir", dir, "--members", "a,a"}, "a"},
		{[]string{"coordinate", "--checkpoint-dir", dir, "--members", "a", "--mode", "fast"}, "--mode"},
		{[]string{"coordinate", "--checkpoint-dir", readOnly, "--members", "a"}, readOnly},
		{[]string{"send", "--name", "x", "--coordinator", "127.0.0.1:1", readOnly}, "--member"},
		{[]string{"send", "--name", "x", "--coordinator", "127.0.0.1:1", "--member", "a", "-"}, "standard input"},
		{[]string{"send", "--name", "x", "--coordinator", "127.0.0.1:1", "--member", "a", "--blocking", readOnly}, "--blocking"},
		{[]string{"recv", "--name", "x", "--out", dir, "--retract", "127.0.0.1:1"}, "--coordinator"},
		{[]string{"recv", "--name", "x", "--coordinator", "127.0.0.1:1", "--member", "a", "--out", "-", "127.0.0.1:1"}, "FOLDER"},
		{[]string{"recv", "--name", "x", "--coordinator", "127.0.0.1:1", "--member", "a", "--out", dir, "--wait", "300ms", "127.0.0.1:1"}, "127.0.0.1:1"},
	} {
		start(t, c.args...).fails(c.want)
	}
}
