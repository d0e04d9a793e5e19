package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/weirflow/weir/internal/measure"
)

// role is one side of a row, in a process of its own.
type role struct {
	addr  string
	meter *measure.Meter
}

// listening tells the parent process where to send.
func (r *role) listening(addr string) { fmt.Printf("ADDR %s\n", addr) }

func runRole(name, addr string, window time.Duration) error {
	parts := strings.Split(name, "/")
	if len(parts) != 3 {
		return fmt.Errorf("no role %q", name)
	}
	for _, r := range rows {
		if r.scenario != parts[0] || r.name != parts[1] {
			continue
		}
		side := r.receive
		if parts[2] == "send" {
			side = r.send
		}
		ro := &role{addr: addr, meter: measure.NewMeter()}
		failed := make(chan error, 1)
		go func() { failed <- side(ro) }()
		result := make(chan measure.Result, 1)
		go func() { result <- ro.meter.Window(parts[2], window) }()
		select {
		case err := <-failed:
			return fmt.Errorf("%s: %w", name, err)
		case res := <-result:
			if err := res.Print(os.Stdout); err != nil {
				return err
			}
		}
		<-failed // until the parent stops this process, or the other one
		return nil
	}
	return fmt.Errorf("no role %q", name)
}
