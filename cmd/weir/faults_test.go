package main

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirflow/weir"
	"github.com/weirflow/weir/internal/loopback"
)

// deadAddr is an address that nobody listens at.
func deadAddr(t testing.TB) string {
	t.Helper()
	addr, free, err := loopback.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(free)
	return addr
}

// stranger accepts connections at the address that it returns, and speaks something else.
func stranger(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "220 mail.example.org ESMTP\r\n") // the other side may have gone
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l.Addr().String()
}

func TestReceiverFails(t *testing.T) {
	id := weir.NameID("x").String()
	serving := func(t *testing.T, args ...string) string {
		return start(t, append([]string{"send", "--name", "x", file(t, lines(100_000, strconv.Itoa))}, args...)...).listening()
	}
	dead := func(t *testing.T) string { return deadAddr(t) }
	other := func(t *testing.T) string { return stranger(t) }
	for name, c := range map[string]struct {
		args  []string // of recv, besides --name x and --wait, which is short where nothing else ends it
		addr  func(t *testing.T) string
		names []string // besides the address, if at is set
		at    bool
	}{
		"nobody listens": {nil, dead, []string{id, "channel 0", "could not connect"}, true},
		"wrong magic":    {nil, other, []string{id, "channel 0", "magic"}, true},
		"no such partition": {[]string{"--name", "y"}, func(t *testing.T) string { return serving(t) },
			[]string{weir.NameID("y").String(), "channel 0", "not found"}, true},
		"no such subpartition": {[]string{"--subpartition", "7"}, func(t *testing.T) string { return serving(t, "--subpartitions", "2") },
			[]string{id, "channel 0", "subpartition"}, true},
		"some subpartitions too many": {[]string{"--subpartition", "1-2"}, func(t *testing.T) string { return serving(t, "--subpartitions", "2") },
			[]string{id, "subpartition not found: 2 of 2"}, true},
		"record above the limit": {[]string{"--max-record", "4"}, func(t *testing.T) string { return serving(t) },
			[]string{id, "channel 0", "the limit is 4"}, true},
		"another release line": {[]string{"--flink", "1.20"}, func(t *testing.T) string { return serving(t) }, []string{id, "channel 0"}, true},
		"less than no rate":    {[]string{"--rate", "-1"}, dead, []string{"--rate", "-1"}, false},
		"smaller segments":     {[]string{"--segment-size", "1024"}, func(t *testing.T) string { return serving(t) }, []string{id, "channel 0", "1024"}, true},
		"one segment":          {[]string{"--memory", "32768"}, dead, []string{"32768", "MemoryNeeded"}, false},
		"no segment":           {[]string{"--memory", "1000"}, dead, []string{"1000 bytes"}, false},
		"no memory at all":     {[]string{"--memory", "-1"}, dead, []string{"--memory", "-1"}, false},
		"no segment size":      {[]string{"--segment-size", "-5"}, dead, []string{"--segment-size", "-5"}, false},
		"no record size":       {[]string{"--max-record", "-5"}, dead, []string{"--max-record", "-5"}, false},
		"odd address":          {nil, func(t *testing.T) string { return "nowhere" }, []string{"nowhere"}, true},
		"cannot write":         {[]string{"--out", "/dev/full"}, func(t *testing.T) string { return serving(t) }, []string{"/dev/full", "space"}, false},
		"odd output": {[]string{"--out", filepath.Join("missing", "folder", "out")}, dead,
			[]string{filepath.Join("missing", "folder", "out")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := os.Stat("/dev/full"); err != nil && name == "cannot write" {
				t.Skip("this system has no device that is always full")
			}
			addr := c.addr(t)
			wait := "60s"
			if name == "nobody listens" || name == "no such partition" || name == "odd address" {
				wait = "1s"
			}
			p := start(t, append([]string{"recv", "--name", "x", "--wait", wait, "--out", outFile(t), addr}, c.args...)...)
			if c.at {
				c.names = append(c.names, addr)
			}
			p.fails(c.names...)
			t.Log(strings.Join(p.stderr, "\n"))
		})
	}
}

func TestSenderFails(t *testing.T) {
	id := weir.NameID("x").String()
	small := file(t, "{}\n[1]\n")
	for name, c := range map[string]struct {
		args  []string
		reads []string // arguments of recv, if there is one
		names []string
	}{
		"nobody reads":         {[]string{small}, nil, []string{id, "no consumer", "[0] of 1"}},
		"one does not read":    {[]string{small, "--subpartitions", "2"}, []string{}, []string{id, "no consumer", "[1] of 2"}},
		"missing file":         {[]string{"missing.txt"}, nil, []string{"missing.txt", "no such file"}},
		"a folder":             {[]string{t.TempDir()}, []string{}, []string{"directory"}},
		"record above limit":   {[]string{file(t, "short\n"+strings.Repeat("x", 101)), "--max-record", "100"}, []string{}, []string{"byte 6", "100 bytes"}},
		"cut off":              {[]string{file(t, "\x00\x00\x00\x01a\x00\x00"), "--framing", "length"}, []string{}, []string{"byte 5", "unexpected EOF"}},
		"a key where none is":  {[]string{small, "--framing", "ndjson", "--partition-by", "key", "--key", "k"}, []string{}, []string{"byte 3", "JSON"}},
		"too little memory":    {[]string{small, "--memory", "1048576", "--subpartitions", "100"}, nil, []string{id, "MemoryNeeded", "1048576"}},
		"too many":             {[]string{small, "--subpartitions", "100000"}, nil, []string{"100000"}},
		"no subpartition":      {[]string{small, "--subpartitions", "-1"}, nil, []string{"--subpartitions -1"}},
		"zero subpartitions":   {[]string{small, "--subpartitions", "0"}, nil, []string{"--subpartitions 0"}},
		"odd address":          {[]string{small, "--listen", "nowhere"}, nil, []string{"nowhere"}},
		"an address in use":    {[]string{small, "--listen", stranger(t)}, nil, []string{"in use"}},
		"no name":              {[]string{small, "--name", ""}, nil, []string{"--name"}},
		"odd id":               {[]string{small, "--partition-id", "abc"}, nil, []string{"abc", "120"}},
		"odd framing":          {[]string{small, "--framing", "xml"}, nil, []string{"xml", "ndjson"}},
		"odd partitioning":     {[]string{small, "--partition-by", "x"}, nil, []string{"broadcast"}},
		"odd release":          {[]string{small, "--flink", "9"}, nil, []string{"1.20"}},
		"odd stats":            {[]string{small, "--stats", "xml"}, nil, []string{"json"}},
		"a key without a need": {[]string{small, "--key", "1"}, nil, []string{"--partition-by key"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wait := "1s"
			switch {
			case name == "one does not read":
				wait = "8s" // within which the other one has come
			case c.reads != nil:
				wait = "60s" // nobody waits that long: the receiver comes
			}
			p := start(t, append([]string{"send", "--name", "x", "--wait", wait}, c.args...)...)
			var recv *process
			if c.reads != nil {
				recv = start(t, append([]string{"recv", "--name", "x", "--wait", "10s", "--out", outFile(t), p.listening()}, c.reads...)...)
			}
			p.fails(c.names...)
			t.Log(strings.Join(p.stderr, "\n"))
			if recv != nil { // the other end hears of it, too
				recv.fails(id, "channel 0")
			}
		})
	}
}

// endless is a sender that has more than anybody reads.
func endless(t *testing.T, args ...string) *process {
	return start(t, append([]string{"send", "--name", "x", "/dev/zero", "--framing", "raw"}, args...)...)
}

// A sender is killed in the middle: the receiver says which, and exits with 1.
func TestSenderIsKilled(t *testing.T) {
	t.Parallel()
	send := endless(t)
	addr := send.listening()
	out := outFile(t)
	recv := start(t, "recv", "--name", "x", "--rate", "1000", "--out", out, addr)
	grows(t, out)
	send.kill()
	recv.fails(addr, weir.NameID("x").String(), "channel 0")
	t.Log(strings.Join(recv.stderr, "\n"))
}

// A receiver is killed in the middle: the sender says which subpartition has no consumer any more, and exits with 1.
func TestReceiverIsKilled(t *testing.T) {
	t.Parallel()
	send := endless(t)
	out := outFile(t)
	recv := start(t, "recv", "--name", "x", "--rate", "1000", "--out", out, send.listening())
	grows(t, out)
	recv.kill()
	send.fails("127.0.0.1:", weir.NameID("x").String(), "subpartition 0", "no consumer")
	t.Log(strings.Join(send.stderr, "\n"))
}

// grows waits until something is in a file.
func grows(t *testing.T, path string) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if b, err := size(path); err == nil && b > 0 {
			return
		}
		if time.Since(begin) > limit {
			t.Fatalf("nothing arrived in %s", path)
		}
	}
}
