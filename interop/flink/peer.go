package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/weirflow/weir"
)

// peer is a JVM with the Flink end: Main.java says what it understands.
type peer struct {
	version string
	cmd     *exec.Cmd
	in      io.WriteCloser
	lines   chan string
	log     *os.File
}

// startPeer starts the Flink end of a version that was built before. What it logs goes to a file beside its classes.
func startPeer(version string) (*peer, error) {
	dir := filepath.Join("target", version)
	path, err := os.ReadFile(filepath.Join(dir, "classpath.txt"))
	if err != nil {
		return nil, err
	}
	// Appended to: two peers of a version may run at a time.
	log, err := os.OpenFile(filepath.Join(dir, "peer.log"), os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	args := []string{"-Xmx1g", "-XX:MaxDirectMemorySize=512m", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"}
	for _, p := range []string{"java.lang", "java.net", "java.nio", "java.util", "sun.nio.ch"} {
		args = append(args, "--add-opens=java.base/"+p+"=ALL-UNNAMED")
	}
	classes := filepath.Join(dir, "classes") + string(os.PathListSeparator) + strings.TrimSpace(string(path))
	p := &peer{version: version, cmd: exec.Command("java", append(args, "-cp", classes, "io.weirflow.interop.Main")...), lines: make(chan string, 64), log: log}
	p.cmd.Stderr = log
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.lines)
		sc := bufio.NewScanner(out)
		sc.Buffer(nil, 16<<20) // a report of 500 channels is long
		for sc.Scan() {
			p.lines <- sc.Text()
		}
	}()
	return p, nil
}

// stop ends the JVM.
func (p *peer) stop() {
	_ = p.in.Close()
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	_ = p.log.Close()
}

func (p *peer) command(format string, args ...any) error {
	_, err := fmt.Fprintf(p.in, format+"\n", args...)
	return err
}

var errPeer = errors.New("flink's end failed")

// next is the next answer: its word and what follows.
func (p *peer) next(ctx context.Context) (word, rest string, err error) {
	select {
	case line, ok := <-p.lines:
		if !ok {
			return "", "", fmt.Errorf("%w: it is gone, see %s", errPeer, p.log.Name())
		}
		word, rest, _ = strings.Cut(line, " ")
		if word == "failed" {
			return "", "", fmt.Errorf("%w: %s", errPeer, rest)
		}
		return word, rest, nil
	case <-ctx.Done():
		return "", "", fmt.Errorf("no answer from flink's end: %w", ctx.Err())
	}
}

// failure is what the other end has said of a failure, if it has.
func (p *peer) failure() error {
	select {
	case line := <-p.lines:
		if rest, ok := strings.CutPrefix(line, "failed "); ok {
			return fmt.Errorf("%w: %s", errPeer, rest)
		}
	default:
	}
	return nil
}

// ready waits until a sender serves.
func (p *peer) ready(ctx context.Context) (addr string, id weir.PartitionID, err error) {
	word, rest, err := p.next(ctx)
	if err != nil {
		return "", id, err
	}
	port, hex, ok := strings.Cut(rest, " ")
	if word != "ready" || !ok {
		return "", id, fmt.Errorf("%w: it says %q", errPeer, word+" "+rest)
	}
	id, err = weir.ParseID(hex)
	return net.JoinHostPort("127.0.0.1", port), id, err
}

// follow reads answers up to the report, and hands the numbers of those that begin with word to f.
func (p *peer) follow(ctx context.Context, word string, f func(int64) error) (*report, error) {
	for {
		w, rest, err := p.next(ctx)
		if err != nil {
			return nil, err
		}
		switch {
		case w == "done":
			rep := new(report)
			if err := json.Unmarshal([]byte(rest), rep); err != nil {
				return nil, fmt.Errorf("%w: its report: %w", errPeer, err)
			}
			sortCheckpoints(rep.Checkpoints)
			return rep, nil
		case w == word && f != nil:
			n, err := strconv.ParseInt(rest, 10, 64)
			if err == nil {
				err = f(n)
			}
			if err != nil {
				return nil, err
			}
		default:
			return nil, fmt.Errorf("%w: it says %q", errPeer, w)
		}
	}
}

func hostPort(a net.Addr) (host, port string) {
	host, port, _ = net.SplitHostPort(a.String())
	return host, port
}
