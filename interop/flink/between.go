package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/weirflow/weir"
)

// between is an exchange between two Flink processes through `weir inspect --proxy`. It writes what inspect prints (JSON, one object a
// line) to frames and a summary to out, and fails unless both ends saw the same and inspect could name every frame.
func between(weirBinary, version string, s *script, seed int64, limit time.Duration, frames, out io.Writer) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	sender, err := startPeer(version)
	if err != nil {
		return err
	}
	defer sender.stop()
	receiver, err := startPeer(version)
	if err != nil {
		return err
	}
	defer receiver.stop()
	if err := sender.command("send %d %d %d - %s", seed, s.channels, s.rounds, s.kind); err != nil {
		return err
	}
	addr, id, err := sender.ready(ctx)
	if err != nil {
		return err
	}
	release := "2.3"
	if endsFor(version, nil).release == weir.Flink120 {
		release = "1.20"
	}
	proxy, err := startProxy(ctx, weirBinary, release, addr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, proxy.stop()) }()
	host, port, _ := net.SplitHostPort(proxy.addr)
	if err := receiver.command("receive %s %s %x %d %d %d - %s", host, port, id[:], seed, s.channels, s.rounds, s.kind); err != nil {
		return err
	}
	got, err := receiver.follow(ctx, "complete", func(id int64) error { return sender.command("ack %d", id) })
	if err != nil {
		return fmt.Errorf("receiver: %w", err)
	}
	sent, err := sender.follow(ctx, "", nil)
	if err != nil {
		return fmt.Errorf("sender: %w", err)
	}
	if err := proxy.stop(); err != nil {
		return err
	}
	res, err := compare(s, sent, got)
	if err != nil {
		return err
	}
	seen, err := tally(io.TeeReader(strings.NewReader(proxy.shown.String()), frames))
	if err != nil {
		return err
	}
	seen.print(out)
	fmt.Fprintf(out, "both ends: %d records, %d bytes, CRC-32C %08x; checkpoints: %d aligned, %d turned unaligned, %d unaligned\n",
		res.records, res.bytes, res.sum, res.aligned, res.turned, res.unaligned)
	if n := res.aligned + res.turned + res.unaligned; n == 0 || seen.counts["CheckpointBarrier"] < n*s.channels {
		return fmt.Errorf("inspect showed %d barriers for %d checkpoints on %d channels", seen.counts["CheckpointBarrier"], n, s.channels)
	}
	return nil
}

// proxy is a `weir inspect --proxy` at work.
type proxy struct {
	addr  string
	cmd   *exec.Cmd
	shown strings.Builder
	ended bool
}

func startProxy(ctx context.Context, weirBinary, release, target string) (*proxy, error) {
	p := &proxy{cmd: exec.CommandContext(ctx, weirBinary, "inspect", "--json", "--flink", release, "--proxy", "127.0.0.1:0="+target)}
	p.cmd.Stdout = &p.shown
	says, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(says).ReadString('\n')
	_, rest, ok := strings.Cut(line, "listening on ")
	if p.addr, _, _ = strings.Cut(rest, ","); err != nil || !ok {
		return nil, errors.Join(fmt.Errorf("weir inspect says %q: %w", line, err), p.stop())
	}
	return p, nil
}

// stop lets the proxy end by itself, so that it prints its summary.
func (p *proxy) stop() error {
	if p.ended {
		return nil
	}
	p.ended = true
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("weir inspect: %w", err)
	}
	return nil
}

// seen is what inspect printed, summed up.
type seen struct {
	kinds  []string // of frames, in order of the first of each
	counts map[string]int
	waits  map[string]float64 // seconds, over all channels, by who and why
}

// tally sums up what inspect printed, and fails for a frame that it could not name, or that the protocol does not allow.
func tally(shown io.Reader) (seen, error) {
	s := seen{counts: make(map[string]int), waits: make(map[string]float64)}
	for dec := json.NewDecoder(shown); ; {
		var line struct {
			Type, Message string
			Event         *struct{ Kind, Invalid string }
			Odd, Errors   []string
			Channels      []struct {
				Waits []struct {
					Who, Why string
					Seconds  float64
				}
			}
		}
		if err := dec.Decode(&line); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return s, fmt.Errorf("what inspect printed: %w", err)
		}
		if len(line.Odd)+len(line.Errors) > 0 {
			return s, fmt.Errorf("inspect found %s: %v %v", line.Message, line.Odd, line.Errors)
		}
		for _, c := range line.Channels {
			for _, w := range c.Waits {
				s.waits[strings.TrimSpace(w.Who+" waited: "+w.Why)] += w.Seconds
			}
		}
		if line.Type != "frame" {
			continue
		}
		kind := line.Message
		if line.Event != nil {
			if kind = line.Event.Kind; line.Event.Invalid != "" {
				return s, fmt.Errorf("inspect cannot name an event: %s", line.Event.Invalid)
			}
		}
		if s.counts[kind]++; s.counts[kind] == 1 {
			s.kinds = append(s.kinds, kind)
		}
	}
	if s.counts["BufferResponse"] == 0 || s.counts["AddCredit"] == 0 {
		return s, fmt.Errorf("inspect showed no data or no credit: %v", s.counts)
	}
	return s, nil
}

func (s seen) print(out io.Writer) {
	for _, k := range s.kinds {
		fmt.Fprintf(out, "%6d  %s\n", s.counts[k], k)
	}
	for _, w := range slices.Sorted(maps.Keys(s.waits)) {
		fmt.Fprintf(out, "%6.3f s  %s\n", s.waits[w], w)
	}
}
