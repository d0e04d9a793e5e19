package main

// A row is one thing that can do a scenario's work.
type row struct {
	name, what    string
	receive, send func(*role) error // for rows that are code of this module
	weir          []string          // for rows that are weir: the arguments of weir bench
	beside        bool              // the row comes with the figures of the one before
	native        bool              // for rows that are the C program
	java          bool              // for rows of weir bench with a Flink process
	pin           string            // split: each side on a CPU of its own; same: both on one
}

// versus is a comparison that is printed: weir's row against another one of the same rounds.
type versus struct{ row, base string }

// sum is a comparison of a row's round trips with those of another one and the wake-ups that the row has measured of its own.
type sum struct{ row, base string }

// scenario is one kind of work.
type scenario struct {
	name, title string
	unit        string
	rows        []row
	against     []versus
	sums        []sum
}

const (
	bytesUnit   = "GB/s"
	recordsUnit = "M records/s"
	tripsUnit   = "us"
)

var (
	conns  = transport{}
	yamuxs = transport{wrap: wrapYamux}
	smuxs  = transport{wrap: wrapSmux}
)

// both makes a row of a transport's scenario.
func both(name, what string, f func() (receive, send func(*role) error)) row {
	r, s := f()
	return row{name: name, what: what, receive: r, send: s}
}

func ping(mode string) func() (receive, send func(*role) error) {
	return func() (receive, send func(*role) error) {
		return func(r *role) error { return receivePing(r, mode) }, func(r *role) error { return sendPing(r, mode) }
	}
}

// pinned is a row with both sides on one CPU, or each on its own.
func pinned(r row, pin string) row {
	r.name, r.pin = r.name+"@"+pin, pin
	if r.weir != nil {
		r.weir = append([]string{"--pin", pin}, r.weir...)
	}
	return r
}

var scenarios = []scenario{
	{
		name: "bulk", title: "frames of 32 KiB over one channel", unit: bytesUnit,
		rows: []row{
			{name: "raw-16", what: "Go, blocking sockets, 16 framed buffers a call", receive: receiveBulk, send: sendBulk},
			{name: "c-framed-16", what: "the same in C", native: true},
			both("net.Conn", "Write; ReadFull of header and payload", conns.bulk),
			{name: "net.Conn-16", what: "net.Buffers of 16; reads of 512 KiB, frames in place", receive: receiveConnRegion, send: sendConnBuffers},
			both("gnet", "gnet receiver, raw-16 sender", gnetFrames),
			both("netpoll", "cloudwego/netpoll receiver, raw-16 sender", netpollFrames),
			both("gRPC", "a stream of BytesValue, as it comes", grpcPlain.bulk),
			both("gRPC-tuned", "codec that passes bytes through, large windows", grpcTuned.bulk),
			both("smux", "one stream, version 2, large windows", smuxs.bulk),
			both("yamux", "one stream, as it comes", yamuxs.bulk),
			both("NATS", "core, the server in the receiver's process, acknowledged window", natsBulk),
			{name: "weir", what: "as it comes", weir: []string{"bulk"}},
			{name: "weir-park", what: "without polling", weir: []string{"bulk", "--park"}},
			{name: "weir-backlog", what: "credit of 2 for the channel itself, 70 by its backlog, 64 buffers at the sender", weir: []string{"bulk", "--window", "72", "--buffers", "64"}},
		},
		against: []versus{{"weir", "raw-16"}, {"weir", "c-framed-16"}, {"weir-park", "raw-16"}, {"weir-backlog", "raw-16"}, {"weir-backlog", "c-framed-16"}, {"weir", "net.Conn"}, {"weir", "net.Conn-16"},
			{"weir", "gnet"}, {"weir", "netpoll"}, {"weir", "gRPC"}, {"weir", "gRPC-tuned"}, {"weir", "smux"}, {"weir", "yamux"}, {"weir", "NATS"}},
	},
	{
		name: "shapes", title: "bulk in other shapes, against the same as it comes", unit: bytesUnit,
		rows: []row{
			{name: "weir", what: "bulk as it comes", weir: []string{"bulk"}},
			{name: "weir-window-10", what: "Flink's window of 10", weir: []string{"bulk", "--window", "10"}},
			{name: "weir-1KiB", what: "frames of 1 KiB, flushed early", weir: []string{"bulk", "--frame", "1KiB"}},
			{name: "weir-1KiB-alone", what: "the same, each in a message of its own, as Flink sends them", weir: []string{"bulk", "--frame", "1KiB", "--no-packing"}},
			{name: "weir-4KiB", what: "frames of 4 KiB", weir: []string{"bulk", "--frame", "4KiB"}},
			{name: "weir-task", what: "the consumer on a goroutine of its own", weir: []string{"bulk", "--task-goroutine"}},
			pinned(row{name: "weir", what: "bulk, each process on a CPU of its own, with one P", weir: []string{"bulk"}}, "split"),
			pinned(row{name: "weir-task", what: "the same with the consumer on a goroutine of its own", weir: []string{"bulk", "--task-goroutine"}}, "split"),
		},
		against: []versus{{"weir-window-10", "weir"}, {"weir-1KiB", "weir"}, {"weir-1KiB-alone", "weir"}, {"weir-4KiB", "weir"}, {"weir-task", "weir"}, {"weir-task@split", "weir@split"}},
	},
	{
		name: "tls", title: "bulk over TLS 1.3", unit: bytesUnit,
		rows: []row{
			{name: "weir", what: "over TLS", weir: []string{"bulk", "--tls", "--rounds", "1"}},
			{name: "plain", what: "weir without TLS", beside: true},
			{name: "crypto/tls", what: "tls.Conn over net.Conn, writes and reads of 512 KiB", beside: true},
		},
		against: []versus{{"weir", "crypto/tls"}, {"weir", "plain"}},
	},
	{
		name: "fan", title: "64 channels, one of them not read", unit: bytesUnit,
		rows: []row{
			{name: "proto-credit", what: "by hand: credits of 8 a channel, batches of 16", receive: receiveCredit, send: sendCredit},
			both("net.Conn-64", "64 TCP connections", conns.fan),
			both("gRPC-tuned", "64 streams, codec that passes bytes through", grpcTuned.fan),
			both("smux", "64 streams, version 2", smuxs.fan),
			both("yamux", "64 streams, as it comes", yamuxs.fan),
			{name: "weir", what: "as it comes", weir: []string{"fan"}},
			{name: "weir-tasks", what: "a goroutine for each channel at each end", weir: []string{"fan", "--tasks", "63"}},
			{name: "weir-bulk", what: "one channel", weir: []string{"bulk"}},
			{name: "weir-reno", what: "with reno in place of the system's congestion control", weir: []string{"fan", "--congestion", "reno"}},
			{name: "weir-bulk-reno", what: "the same over one channel", weir: []string{"bulk", "--congestion", "reno"}},
		},
		against: []versus{{"weir", "weir-bulk"}, {"weir-reno", "weir"}, {"weir-reno", "weir-bulk-reno"}, {"weir", "proto-credit"}, {"weir-tasks", "weir"}, {"weir", "net.Conn-64"}, {"weir", "gRPC-tuned"}, {"weir", "smux"}, {"weir", "yamux"}},
	},
	{
		name: "records", title: "records of 100 bytes over 8 channels", unit: recordsUnit,
		rows: []row{
			{name: "proto-spanning", what: "by hand: records span buffers, read where they lie", receive: receiveRecords, send: sendRecords},
			both("net.Conn", "8 connections, bufio", conns.records),
			both("gnet", "gnet receiver, proto-spanning's sender", gnetFrames),
			both("netpoll", "cloudwego/netpoll receiver, proto-spanning's sender", netpollFrames),
			both("smux", "8 streams, bufio", smuxs.records),
			both("yamux", "8 streams, bufio", yamuxs.records),
			both("gRPC-batched", "8 streams, 315 records a message", grpcTuned.records),
			both("gRPC", "8 streams, a message each", grpcPlain.records),
			both("NATS-batched", "315 records a message", natsBatched),
			both("NATS", "a message each", natsRecords),
			{name: "weir", what: "as it comes: 64 records a call", weir: []string{"records"}},
			{name: "weir-one", what: "a call for each record", weir: []string{"records", "--batch", "1"}},
			{name: "weir-park", what: "without polling", weir: []string{"records", "--park"}},
			{name: "weir-task", what: "the consumer on a goroutine of its own", weir: []string{"records", "--task-goroutine"}},
		},
		against: []versus{{"weir", "proto-spanning"}, {"weir-park", "proto-spanning"}, {"weir-one", "proto-spanning"}, {"weir-task", "weir"}, {"weir", "net.Conn"}, {"weir", "gnet"}, {"weir", "netpoll"},
			{"weir", "smux"}, {"weir", "yamux"}, {"weir", "gRPC-batched"}, {"weir", "gRPC"}, {"weir", "NATS-batched"}, {"weir", "NATS"}},
	},
	{
		name: "latency", title: "64 bytes to and fro", unit: tripsUnit,
		rows: []row{
			both("raw-spin", "non-blocking reads in a loop", ping("spin")),
			both("raw-epollyield", "polls with sched_yield for 50 us, then epoll_wait", ping("epollyield")),
			both("raw-epollyield-2", "the same with a connection for each way, as Flink's protocol has", ping("epollyield"+twoWay)),
			both("raw-epoll", "epoll_wait, then read", ping("epoll")),
			pinned(both("raw-epoll", "both on one CPU", ping("epoll")), "same"),
			pinned(both("raw-epoll-2", "the same with a connection for each way", ping("epoll"+twoWay)), "same"),
			both("raw-block", "blocking reads", ping("block")),
			both("net.Conn", "Write, ReadFull", conns.ping),
			both("gnet", "gnet echoes to raw-block", gnetEcho),
			both("netpoll", "cloudwego/netpoll echoes to raw-block", netpollEcho),
			both("smux", "one stream", smuxs.ping),
			both("yamux", "one stream", yamuxs.ping),
			both("gRPC", "a stream both ways", grpcPlain.ping),
			both("NATS", "Request and Respond", natsPing),
			{name: "weir", what: "polling", weir: []string{"latency"}},
			{name: "weir-park", what: "without polling", weir: []string{"latency", "--park"}},
			pinned(row{name: "weir-park", what: "both on one CPU", weir: []string{"latency", "--park"}}, "same"),
			{name: "weir-task", what: "polling, consumers on goroutines of their own", weir: []string{"latency", "--task-goroutine"}},
			{name: "weir-park-task", what: "the same without polling", weir: []string{"latency", "--park", "--task-goroutine"}},
		},
		against: []versus{{"weir", "raw-epollyield"}, {"weir", "raw-epollyield-2"}, {"weir", "raw-spin"}, {"weir-park", "raw-epoll"}, {"weir-park@same", "raw-epoll@same"}, {"weir-park@same", "raw-epoll-2@same"}, {"weir-task", "weir"},
			{"weir-park-task", "weir-park"}, {"weir", "net.Conn"}, {"weir", "gnet"}, {"weir", "netpoll"}, {"weir", "smux"}, {"weir", "yamux"}, {"weir", "gRPC"}, {"weir", "NATS"}},
		sums: []sum{{"weir-task", "raw-epollyield"}, {"weir-park-task", "raw-epoll"}},
	},
	{
		name: "flink", title: "records of 100 bytes over 8 channels, Flink at one end, both or none", unit: recordsUnit,
		rows: []row{
			{name: "flink", what: "Flink at both ends", weir: []string{"flink"}, java: true},
			{name: "flink-weir", what: "Flink sends to weir", weir: []string{"flink-recv"}, java: true},
			{name: "weir-flink", what: "weir sends to Flink", weir: []string{"flink-send"}, java: true},
			{name: "flink-weir-park", what: "Flink sends to weir, without polling", weir: []string{"flink-recv", "--park"}, java: true},
			{name: "weir-park-flink", what: "weir sends to Flink, without polling", weir: []string{"flink-send", "--park"}, java: true},
			{name: "weir", what: "weir at both ends", weir: []string{"records"}},
			{name: "weir-park", what: "weir at both ends, without polling", weir: []string{"records", "--park"}},
		},
		against: []versus{{"weir", "flink"}, {"weir-park", "flink"}, {"flink-weir", "flink"}, {"weir-flink", "flink"}},
	},
	{
		name: "flink-bulk", title: "records of 8 KiB over one channel", unit: recordsUnit,
		rows: []row{
			{name: "flink", what: "Flink at both ends", weir: []string{"flink", "--record", "8KiB", "--channels", "1"}, java: true},
			{name: "weir", what: "weir at both ends", weir: []string{"records", "--record", "8KiB", "--channels", "1"}},
			{name: "weir-park", what: "weir at both ends, without polling", weir: []string{"records", "--record", "8KiB", "--channels", "1", "--park"}},
		},
		against: []versus{{"weir", "flink"}, {"weir-park", "flink"}},
	},
	{
		name: "flink-echo", title: "64 bytes to and fro", unit: tripsUnit,
		rows: []row{
			{name: "flink", what: "Flink at both ends", weir: []string{"flink-echo"}, java: true},
			{name: "weir", what: "polling", weir: []string{"latency"}},
			{name: "weir-park", what: "without polling", weir: []string{"latency", "--park"}},
		},
		against: []versus{{"weir", "flink"}, {"weir-park", "flink"}},
	},
}
