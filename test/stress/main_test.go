package stress

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirflow/weir"
	"github.com/weirflow/weir/internal/leaktest"
)

// asRole in the environment makes the test binary be a child with that role.
const asRole = "WEIR_STRESS_ROLE"

func TestMain(m *testing.M) {
	text := os.Getenv(asRole)
	if text == "" {
		leaktest.Main(m)
	}
	var r role
	err := json.Unmarshal([]byte(text), &r)
	if err == nil {
		err = r.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// role is what a child does: it sends if it has no address, else it reads.
type role struct {
	Addr, Name string
	Sub, Subs  int           // reader: which one; sender: how many
	Pause      time.Duration // between records
	Stall      int           // reader: stop reading after that many records; 0: never
}

func (r role) run() error {
	var enough atomic.Bool
	go func() { // standard input ends when the parent wants no more, or is gone
		_, _ = io.Copy(io.Discard, os.Stdin)
		enough.Store(true)
		time.Sleep(2 * soon)
		os.Exit(2) // it did not come to an end
	}()
	if r.Addr == "" {
		return r.send(&enough)
	}
	return r.read(&enough)
}

func (r role) send(enough *atomic.Bool) (err error) {
	ctx := context.Background()
	node, err := weir.Open(weir.Config{Listen: "127.0.0.1:0", Memory: 8 << 20, Poll: -1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	out, err := node.NewOutput(weir.OutputConfig{Name: r.Name, Subpartitions: r.Subs, Partition: weir.RoundRobin, BufferTimeout: 5 * time.Millisecond})
	if err != nil {
		return err
	}
	fmt.Printf("ADDR %s\n", node.Addr())
	var rec []byte
	n := uint64(0)
	for ; !enough.Load(); n++ {
		rec = appendRecord(rec[:0], n)
		if err := out.Write(ctx, nil, rec); err != nil {
			return err
		}
		time.Sleep(r.Pause)
	}
	if err := out.Finish(ctx); err != nil {
		return err
	}
	fmt.Printf("COUNT %d\n", n)
	return nil
}

func (r role) read(enough *atomic.Bool) (err error) {
	node, err := weir.Open(weir.Config{Memory: 8 << 20, Poll: -1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	in, err := node.NewInput(weir.InputConfig{Sources: []weir.Source{{Addr: r.Addr, Name: r.Name, Subpartition: r.Sub}}})
	if err != nil {
		return err
	}
	fmt.Println("READY")
	n, told := uint64(0), time.Now()
	for e, err := range in.All(context.Background()) {
		if err != nil {
			return err
		}
		if e.Kind != weir.Record {
			continue
		}
		if err := checkRecord(e.Value, uint64(r.Sub)+n*uint64(r.Subs)); err != nil {
			return err
		}
		n++
		if time.Since(told) > 10*time.Millisecond {
			told = time.Now()
			fmt.Printf("N %d\n", n)
		}
		for r.Stall > 0 && n >= uint64(r.Stall) && !enough.Load() {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(r.Pause)
	}
	fmt.Printf("COUNT %d\n", n)
	return nil
}

// child is a process with a role.
type child struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	addr  chan string   // of a sender
	ready chan struct{} // closed when a reader has asked for its channel
	done  chan struct{}
	n     atomic.Int64 // progress of a reader

	mu    sync.Mutex
	count int64 // the last word, -1 before
	err   error
}

func spawn(t testing.TB, r role) *child {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: exec.Command(os.Args[0]), addr: make(chan string, 1), ready: make(chan struct{}), done: make(chan struct{}), count: -1}
	c.cmd.Env = append(os.Environ(), asRole+"="+string(text))
	c.cmd.Stderr = os.Stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go c.listen(out)
	return c
}

func (c *child) listen(out io.Reader) {
	defer close(c.done)
	for s := bufio.NewScanner(out); s.Scan(); {
		word, arg, _ := strings.Cut(s.Text(), " ")
		var n int64
		_, _ = fmt.Sscan(arg, &n)
		switch word {
		case "ADDR":
			c.addr <- arg
		case "READY":
			close(c.ready)
		case "N":
			c.n.Store(n)
		case "COUNT":
			c.mu.Lock()
			c.count = n
			c.mu.Unlock()
		}
	}
	err := c.cmd.Wait()
	c.mu.Lock()
	c.err = err
	c.mu.Unlock()
}

// kill ends the child with SIGKILL and waits until it is gone.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // it may have ended already
	<-c.done
	_ = c.in.Close()
}

// finish lets the child come to its end and returns its last word.
func (c *child) finish(limit time.Duration) (int64, error) {
	_ = c.in.Close()
	select {
	case <-c.done:
	case <-time.After(limit):
		c.kill()
		return 0, errors.New("a child does not come to its end")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count, c.err
}
