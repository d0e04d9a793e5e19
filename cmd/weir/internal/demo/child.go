package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
)

// message is one line that a child prints.
type message struct {
	Kind string `json:"kind"` // address, status, done
	Who  int    `json:"who"`
	Addr string `json:"addr,omitempty"`

	Lines       uint64     `json:"lines"`
	Waiting     int        `json:"waiting"` // sender: for which subpartition; -1: not
	Sleeping    bool       `json:"sleeping,omitempty"`
	Channels    []channel  `json:"channels,omitempty"`
	Waits       int64      `json:"waits,omitempty"`
	WaitedS     []float64  `json:"waited_s,omitempty"`
	Checkpoints int64      `json:"checkpoints,omitempty"`
	Allocs      uint64     `json:"allocs,omitempty"`
	Segments    int        `json:"segments,omitempty"` // most in use at a status
	Budget      int        `json:"budget,omitempty"`
	Resident    int64      `json:"resident,omitempty"`
	Kept        []keptRate `json:"kept,omitempty"`
	PerOutput   []uint64   `json:"per_output,omitempty"`
}

// channel is the state of a channel at one end.
type channel struct {
	Credit  int    `json:"credit"`
	Unread  int    `json:"unread"`
	Queued  int    `json:"queued"`
	Backlog int    `json:"backlog"`
	Blocked bool   `json:"blocked"`
	Lines   uint64 `json:"lines"`
}

// keptRate compares an input's rate while another one slept with that before.
type keptRate struct {
	Input  int     `json:"input"`
	Before float64 `json:"before"`
	During float64 `json:"during"`
}

// child is a process of the demo.
type child struct {
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser
	done chan message // the last one; closed when the child ended

	mu   sync.Mutex
	last message
	err  error
}

// spawn starts a child with the hidden command demo-role.
func spawn(ctx context.Context, name string, args ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{name: name, done: make(chan message, 1), last: message{Waiting: -1}}
	c.cmd = exec.CommandContext(ctx, self, append([]string{"demo-role"}, args...)...)
	c.cmd.Stderr = os.Stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go c.read(out)
	return c, nil
}

// read takes the child's messages in until it ends.
func (c *child) read(out io.Reader) {
	s := bufio.NewScanner(out)
	s.Buffer(nil, 1<<20)
	var done *message
	for s.Scan() {
		var m message
		if err := json.Unmarshal(s.Bytes(), &m); err != nil {
			continue
		}
		c.mu.Lock()
		if m.Addr == "" {
			m.Addr = c.last.Addr
		}
		c.last = m
		c.mu.Unlock()
		if m.Kind == "done" {
			done = &m
		}
	}
	err := c.cmd.Wait()
	c.mu.Lock()
	if err == nil && done == nil {
		err = errors.New("ended without a result")
	}
	if err != nil {
		c.err = fmt.Errorf("%s: %w", c.name, err)
	}
	c.mu.Unlock()
	if done != nil {
		c.done <- *done
	}
	close(c.done)
}

// status is the child's last message.
func (c *child) status() message {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// result waits for the child's end.
func (c *child) result(ctx context.Context) (message, error) {
	select {
	case m, ok := <-c.done:
		c.mu.Lock()
		defer c.mu.Unlock()
		if !ok || c.err != nil {
			return m, c.err
		}
		return m, nil
	case <-ctx.Done():
		return message{}, fmt.Errorf("%s: %w", c.name, ctx.Err())
	}
}

// tell gives the child a command; a child that has ended hears nothing.
func (c *child) tell(format string, args ...any) { fmt.Fprintf(c.in, format+"\n", args...) }

// stop ends a child that still runs.
func (c *child) stop() {
	_ = c.in.Close()
	_ = c.cmd.Process.Kill()
	for range c.done {
	}
}
