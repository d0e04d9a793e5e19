package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/weirflow/weir/segment"
)

// refusal is an exchange that must fail soon, with an error that says why, and with all memory home.
type refusal struct {
	what  string
	sends bool // weir does
	spoil func(e *ends, k *keys)
	die   bool // Flink does, in the middle
	want  string
}

func otherRelease(e *ends, _ *keys) { e.release ^= 1 }
func noTLSAtFlink(e *ends, k *keys) { e.tls, e.handshake = k.config, 5*time.Second }
func noTLSHere(e *ends, k *keys)    { e.folder = k.folder }
func nothing(*ends, *keys)          {}

var refused = []refusal{
	{what: "weir speaks the other release line", spoil: otherRelease, want: "another release line"},
	{what: "weir's segments are smaller", spoil: func(e *ends, _ *keys) { e.segment = 16 << 10 }, want: "payload size out of range"},
	{what: "weir's segments are larger", sends: true, spoil: func(e *ends, _ *keys) { e.segment = 64 << 10 }, want: "no consumer before the end"},
	{what: "only weir has TLS", spoil: noTLSAtFlink, want: "TLS handshake"},
	{what: "only weir has TLS", sends: true, spoil: noTLSAtFlink, want: "unexpectedly closed"},
	{what: "only Flink has TLS", spoil: noTLSHere, want: "closed by the server"},
	{what: "only Flink has TLS", sends: true, spoil: noTLSHere, want: "not an SSL/TLS record"},
	{what: "Flink dies after two checkpoints", spoil: nothing, die: true, want: "credit: channel"},
	{what: "Flink dies after two checkpoints", sends: true, spoil: nothing, die: true, want: "no consumer before the end"},
}

const (
	refusalLimit = 60 * time.Second
	dieAfter     = 2 // checkpoints
)

// refusals runs them with the versions that the cells have.
func refusals(cells []cell, k *keys, seed int64) (passed, total int) {
	fmt.Println("\n| Flink | weir | must fail | s | |\n|---|---|---|---:|---|")
	version := ""
	for _, c := range cells {
		if c.version == version {
			continue
		}
		version = c.version
		for _, r := range refused {
			began := time.Now()
			verdict, does := "passed", "receives"
			if r.sends {
				does = "sends"
			}
			total++
			if err := r.run(version, k, seed); err != nil {
				verdict = "**failed**"
				fmt.Fprintf(os.Stderr, "interop: Flink %s, weir %s, %s: %v\n", version, does, r.what, err)
			} else {
				passed++
			}
			fmt.Printf("| %s | %s | %s | %.1f | %s |\n", version, does, r.what, time.Since(began).Seconds(), verdict)
		}
	}
	return passed, total
}

func (r refusal) run(version string, k *keys, seed int64) error {
	p, err := startPeer(version) // its own: who knows what it does afterwards
	if err != nil {
		return err
	}
	defer p.stop()
	e := endsFor(version, nil)
	r.spoil(&e, k)
	if r.die {
		e.alone = true
		e.completed = func(id int64) {
			if id == dieAfter {
				_ = p.cmd.Process.Kill()
			}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), refusalLimit)
	defer cancel()
	f := receiveCell
	if r.sends {
		f = sendCell
	}
	_, _, err = f(ctx, p, e, newScript(seed, 2, rounds(2), pipelined))
	switch {
	case err == nil:
		return errors.New("it went well")
	case ctx.Err() != nil:
		return fmt.Errorf("it took too long: %w", err)
	case !strings.Contains(err.Error(), r.want):
		return fmt.Errorf("the error does not say %q: %w", r.want, err)
	case errors.Is(err, segment.ErrLeak):
		return fmt.Errorf("memory did not come home: %w", err)
	}
	return nil
}
