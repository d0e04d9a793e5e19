package measure

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// Process is one side of a benchmark in a process of its own. It says where it listens (Announce), may be told the other side's
// address (Tell, Told), says what it measured (Result.Print), and then goes on until it is stopped, so that neither side starves
// the window of the other.
type Process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

const addressMark = "ADDR "

// Announce is called by a side that listens.
func Announce(w io.Writer, addr string) { fmt.Fprintf(w, "%s%s\n", addressMark, addr) }

// Start runs a program as one side. What it says on standard error goes to that of this process. It is killed when ctx ends.
func Start(ctx context.Context, name string, args ...string) (*Process, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &Process{cmd: cmd, in: in, out: bufio.NewScanner(out)}, nil
}

// StartSelf runs this program again, as one side.
func StartSelf(ctx context.Context, args ...string) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return Start(ctx, self, args...)
}

// Address waits until the process announces where it listens.
func (p *Process) Address() (string, error) {
	for p.out.Scan() {
		if addr, ok := strings.CutPrefix(p.out.Text(), addressMark); ok {
			return addr, nil
		}
	}
	return "", fmt.Errorf("%s ended before it listened", p)
}

// Tell hands a line to the process, which reads it with Told.
func (p *Process) Tell(line string) error {
	_, err := fmt.Fprintln(p.in, line)
	return err
}

// Told reads the next line that the parent process told. One goroutine.
func Told() (string, error) {
	line, err := input.ReadString('\n')
	return strings.TrimSpace(line), err
}

var input = bufio.NewReader(os.Stdin)

// Result waits for what the process measured. A side that did nothing in its window is an error.
func (p *Process) Result() (Result, error) {
	for p.out.Scan() {
		r, ok := Find(p.out.Text())
		switch {
		case !ok:
		case r.Items == 0:
			return r, fmt.Errorf("%s did nothing in its window", r.Role)
		default:
			return r, nil
		}
	}
	return Result{}, errors.Join(fmt.Errorf("%s ended without a result", p), p.out.Err())
}

func (p *Process) String() string { return strings.Join(p.cmd.Args, " ") }

// Stop ends the process.
func (p *Process) Stop() {
	_ = p.cmd.Process.Kill() // it may have ended already
	_ = p.cmd.Wait()
}
