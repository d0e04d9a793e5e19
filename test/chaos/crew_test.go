//go:build unix

package chaos

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/weirflow/weir/checkpoint"
	"github.com/weirflow/weir/internal/loopback"
)

// crew is the processes of a round, and who starts them again: their supervisor.
type crew struct {
	free    []func() // addresses
	dir     string
	records uint32
	mode    checkpoint.Alignment
	proxies map[string]*proxy // by the name of whom they lead to

	mu          sync.Mutex
	procs       map[string]*proc // guarded by mu, like all below
	listen      map[string]string
	completed   int64 // newest checkpoint
	restarts    int
	coordinated bool // the coordinator has come to its end
	proven      bool // a process killed itself when there was a completed checkpoint, and records that were not committed
	ending      bool
	err         error
	wg          sync.WaitGroup
	over        chan struct{} // closed when all have ended, or one could not go on
	left        int
}

// proc is a running process.
type proc struct {
	role   role
	cmd    *exec.Cmd
	killed bool // by this test: it is started again; guarded by the crew's mu
	stderr bytes.Buffer
}

func newCrew(dir string, records uint32, mode checkpoint.Alignment) (*crew, error) {
	c := &crew{dir: dir, records: records, mode: mode, proxies: map[string]*proxy{}, procs: map[string]*proc{}, listen: map[string]string{},
		over: make(chan struct{})}
	for _, name := range append(members(), "coordinator") {
		if strings.HasPrefix(name, "sink") {
			continue
		}
		addr, free, err := loopback.FreeAddr()
		if err != nil {
			return nil, err
		}
		c.free = append(c.free, free)
		c.listen[name] = addr
		if c.proxies[name], err = newProxy(addr); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// role is what the process of a name is told.
func (c *crew) role(name string) role {
	r := role{Kind: strings.TrimRight(name, "0123456789"), Name: name, Dir: c.dir, Listen: c.listen[name], Coord: c.proxies["coordinator"].addr(),
		Mode: c.mode, Records: c.records}
	r.Index = int(name[len(name)-1] - '0')
	from := map[string]struct {
		kind string
		n    int
	}{"middle": {"source", sources}, "sink": {"middle", middles}}[r.Kind]
	for i := range from.n {
		r.From = append(r.From, c.proxies[fmt.Sprintf("%s%d", from.kind, i)].addr())
	}
	return r
}

// start starts a process. With mu.
func (c *crew) start(r role) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	p := &proc{role: r, cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), asRole+"="+string(text), "GOMAXPROCS=2")
	p.cmd.Stderr = &p.stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	c.procs[r.Name] = p
	c.wg.Go(func() { c.attend(p, out) })
	return nil
}

// attend reads what a process says, and starts it again when it was killed.
func (c *crew) attend(p *proc, out io.Reader) {
	for sc := bufio.NewScanner(out); sc.Scan(); {
		var id int64
		if _, err := fmt.Sscanf(sc.Text(), "completed %d", &id); err == nil {
			c.mu.Lock()
			c.completed = max(c.completed, id)
			c.mu.Unlock()
		}
	}
	err := p.cmd.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	var exit *exec.ExitError
	killed := errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
	// The coordinator ends when all members have said that everything is committed. One that is killed between that and its end has
	// nothing left to do, and nobody to ask.
	committed := c.coordinated && (killed || strings.Contains(p.stderr.String(), checkpoint.ErrCoordinatorAway.Error()))
	switch {
	case c.ending:
	case err == nil || committed:
		c.coordinated = c.coordinated || p.role.Kind == "coordinator"
		if c.left--; c.left == 0 {
			c.end(nil)
		}
	case killed:
		c.restarts++
		c.proven = c.proven || p.role.DieAt != "" && c.completed > 0 && c.seen() > c.committed()
		p.role.DieAt = ""
		if err := c.start(p.role); err != nil {
			c.end(err)
		}
	default:
		c.end(fmt.Errorf("%s: %w", p.role.Name, err))
	}
}

// end ends the round. With mu.
func (c *crew) end(err error) {
	if c.ending {
		return
	}
	c.ending, c.err = true, err
	for _, p := range c.procs {
		_ = p.cmd.Process.Kill()
	}
	close(c.over)
}

// logs are what the processes that ran last had to say.
func (c *crew) logs() string {
	var b strings.Builder
	for n, p := range c.procs {
		fmt.Fprintf(&b, "\n%s:\n%s", n, p.stderr.String())
	}
	return b.String()
}

// signal signals a process, if it runs.
func (c *crew) signal(name string, s syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.procs[name]; p != nil && !c.ending {
		_ = p.cmd.Process.Signal(s)
	}
}

// awaitCompleted waits until n checkpoints are completed, or the round is over.
func (c *crew) awaitCompleted(n int64) (over bool) {
	for {
		c.mu.Lock()
		got := c.completed
		c.mu.Unlock()
		select {
		case <-c.over:
			return true
		default:
		}
		if got >= n {
			return false
		}
		select {
		case <-c.over:
			return true
		case <-time.After(time.Millisecond):
		}
	}
}

// seen is how many records the sinks have had, those that came again included.
func (c *crew) seen() (n int64) {
	for i := range sinks {
		if info, err := os.Stat(filepath.Join(c.dir, fmt.Sprintf("seen-sink%d", i))); err == nil {
			n += info.Size()
		}
	}
	return n
}

// committed is how many are in committed files.
func (c *crew) committed() (n int64) {
	for i := range sinks {
		parts, err := checkpoint.CommittedParts(filepath.Join(c.dir, "out"), fmt.Sprintf("sink%d", i))
		if err != nil {
			continue // not there yet
		}
		for _, p := range parts {
			if info, err := os.Stat(p); err == nil {
				n += info.Size() / recordSize
			}
		}
	}
	return n
}

// check compares what was committed with what must be.
func (c *crew) check() error {
	next := map[uint32]uint32{}
	total := uint32(0)
	for i := range sinks {
		rc, err := checkpoint.ReadCommitted(filepath.Join(c.dir, "out"), fmt.Sprintf("sink%d", i))
		if err != nil {
			return err
		}
		all, err := io.ReadAll(rc)
		if err = errors.Join(err, rc.Close()); err != nil {
			return err
		}
		for ; len(all) > 0; all = all[recordSize:] {
			if len(all) < recordSize {
				return fmt.Errorf("sink %d has half a record", i)
			}
			rec, err := decode(all[:recordSize])
			if err != nil {
				return err
			}
			k := rec.key()
			if want := k%keys + keys*next[k]; rec.offset != want || rec.count != next[k]+1 {
				return fmt.Errorf("sink %d, key %d of source %d: record %d with count %d, want record %d with count %d",
					i, k, rec.source, rec.offset, rec.count, want, next[k]+1)
			}
			next[k]++
			total++
		}
	}
	if total != sources*c.records {
		return fmt.Errorf("%d records are committed, of %d", total, sources*c.records)
	}
	return nil
}
