// Command peers runs weir beside what one would write or take instead, on the same work, in one run.
//
//	go run . -rounds 9 -seconds 0.6 bulk records
//
// Each round runs every row of a scenario once, so that a slow minute of the machine meets them all. A row is a receiver
// and a sender, two processes over loopback; each measures its own window. Only ratios of one round mean anything.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

// A row is one thing that can do a scenario's work.
type row struct {
	scenario, name string
	unit           string            // of the rate
	receive, send  func(*role) error // for rows that are code of this module
	weir           []string          // for rows that are weir: its arguments
	base           string            // the row that ratios are taken against
}

var rows = []row{
	{scenario: "bulk", name: "raw-16", unit: "GB/s", receive: receiveBulk, send: sendBulk},
	{scenario: "bulk", name: "weir", unit: "GB/s", weir: []string{"bulk"}, base: "raw-16"},
	{scenario: "records", name: "proto-spanning", unit: "M/s", receive: receiveRecords, send: sendRecords},
	{scenario: "records", name: "weir", unit: "M/s", weir: []string{"records"}, base: "proto-spanning"},
}

func main() {
	rounds := flag.Int("rounds", 9, "interleaved rounds")
	seconds := flag.Float64("seconds", 0.6, "measured window of each run")
	bin := flag.String("weir", "../../bin/weir", "the weir command")
	roleName := flag.String("role", "", "internal: run one side of a row")
	addr := flag.String("addr", "", "internal: where the receiver listens")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: peers [flags] [SCENARIO...]")
		flag.PrintDefaults()
	}
	flag.Parse()
	window := time.Duration(*seconds * float64(time.Second))
	if *roleName != "" {
		if err := runRole(*roleName, *addr, window); err != nil {
			fmt.Fprintln(os.Stderr, "peers:", err)
			os.Exit(1)
		}
		return
	}
	if err := compare(*bin, *rounds, window, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// compare runs the chosen scenarios, all of them if none is named, and prints a table for each.
func compare(bin string, rounds int, window time.Duration, scenarios []string) error {
	done := map[string]bool{}
	for _, r := range rows {
		s := r.scenario
		if done[s] || len(scenarios) > 0 && !contains(scenarios, s) {
			continue
		}
		done[s] = true
		if err := compareScenario(bin, s, rounds, window); err != nil {
			return err
		}
	}
	if len(done) == 0 {
		return fmt.Errorf("no scenario named %s", strings.Join(scenarios, ", "))
	}
	return nil
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}
