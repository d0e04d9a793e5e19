package bench

import (
	"context"
	"fmt"
	"strings"

	"github.com/weirflow/weir"
	"github.com/weirflow/weir/internal/measure"
)

// scenario is one kind of work.
type scenario struct {
	name, does string
	unit       string // of the rate
	takes      string // the flags that it takes besides those that all take
	// send and receive are the work of the two processes; alone that of a scenario within one.
	send, receive, alone func(ctx context.Context, r *role) error
	// config changes the node's configuration, if the default one does not do. It says why in options.
	config  func(side string, opt *Options, cfg *weir.Config)
	options string
	// points are numbers of channels, each of which is measured by itself; none: the scenario has its number.
	points []int
	// echo: both sides listen, and the sender is told where the receiver does.
	echo bool
	// bare: a row that is not weir, so there is no node.
	bare bool
	// flink is what the Flink end does for each side that is one.
	flink map[string]string
	// beside are the rows that are measured interleaved with this one, for the options given.
	beside func(opt Options) []beside
	// more checks and adds what only this scenario has. With work of one process, recv and send are the same.
	more func(res *Result, recv, send *measure.Result) error
}

// beside is a row that is shown beside a scenario: a scenario, hidden or not, with options.
type beside struct {
	row, scenario string
	opt           Options
}

var scenarios = []scenario{
	{name: "bulk", does: "frames of 32 KiB over one channel; the sender stamps them, the receiver sums every word",
		unit: "bytes", takes: "window buffers frame no-packing congestion park task-goroutine tls", send: sendBulk, receive: receiveBulk, beside: besideTLS},
	{name: "records", does: "records of 100 bytes over 8 channels, written in calls of 64 for each channel in turn, read one by one",
		unit: "records", takes: "channels record batch window congestion park task-goroutine tls", send: sendRecords, receive: receiveRecords},
	{name: "fan", does: "frames of 32 KiB over 64 channels on one connection, one of which a task of its own writes and another reads: that reader stops",
		unit: "bytes", takes: "tasks congestion park task-goroutine", send: sendFan, receive: receiveFan,
		config: fanConfig, options: "a credit of 8 for each channel, memory by MemoryNeeded", more: moreFan},
	{name: "latency", does: "records of 64 bytes to and fro, one at a time, each flushed",
		unit: "trips", takes: "congestion park task-goroutine", send: sendLatency, receive: receiveLatency, echo: true, more: moreLatency},
	{name: "channels", does: "frames of 4 KiB, in turn over 10 to 10 000 channels on one connection: what a frame costs",
		unit: "bytes", takes: "channels park task-goroutine", send: sendChannels, receive: receiveChannels,
		config: channelsConfig, options: "segments of 4 KiB, memory by MemoryNeeded", points: []int{10, 64, 100, 1000, 10_000}},
	{name: "align", does: "frames over 8 channels with a checkpoint barrier every 10 ms, and over 1000 with one each second, by turns with and without",
		unit: "bytes", takes: "channels park task-goroutine", send: sendAlign, receive: receiveAlign, config: alignConfig,
		options: "of 1000 channels segments of 4 KiB, memory by MemoryNeeded", points: []int{8, 1000}, more: moreAlign},
	{name: "local", does: "records of 100 bytes between two goroutines over a local channel, beside a Go channel of recycled batches",
		unit: "records", takes: "record batch park task-goroutine", alone: runLocal, beside: besideLocal},
	{name: "flink-send", does: "records to a Flink process", unit: "records", takes: "channels record batch park task-goroutine",
		send: sendRecords, flink: map[string]string{"receive": "receive"}, bare: true, more: moreFlink},
	{name: "flink-recv", does: "records from a Flink process", unit: "records", takes: "channels record window park task-goroutine",
		receive: receiveRecords, flink: map[string]string{"send": "send"}, more: moreFlink},
	{name: "flink", does: "records between two Flink processes, for comparison", unit: "records", takes: "channels record",
		flink: map[string]string{"send": "send", "receive": "receive"}, bare: true, more: moreFlink},
	{name: "flink-echo", does: "records of 64 bytes to and fro between two Flink processes, for comparison", unit: "trips",
		flink: map[string]string{"send": "ping", "receive": "pong"}, echo: true, bare: true, more: moreFlinkEcho},
}

// rows are what is only measured beside a scenario.
var rows = []scenario{
	{name: "crypto/tls", unit: "bytes", send: sendCryptoTLS, receive: receiveCryptoTLS, bare: true},
	{name: "go-channel", unit: "records", alone: runGoChannel, bare: true},
}

// Names lists the scenarios with what they do.
func Names() (lines []string) {
	for _, s := range scenarios {
		lines = append(lines, fmt.Sprintf("  %-10s %s", s.name, s.does))
		if s.takes != "" {
			lines = append(lines, "             takes --"+strings.Join(strings.Fields(s.takes), ", --"))
		}
	}
	return lines
}

func find(name string) (*scenario, error) {
	for i := range rows {
		if rows[i].name == name {
			return &rows[i], nil
		}
	}
	var names []string
	for i := range scenarios {
		if scenarios[i].name == name {
			return &scenarios[i], nil
		}
		names = append(names, scenarios[i].name)
	}
	return nil, fmt.Errorf("no scenario %q: there are %s", name, strings.Join(names, ", "))
}
