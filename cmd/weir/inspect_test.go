package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const sessions = "../../internal/conform/testdata/vectors/sessions/"

// Every captured session is shown without an error, one after the other.
func TestInspectSessions(t *testing.T) {
	paths, err := filepath.Glob(sessions + "*.json")
	if err != nil || len(paths) < 10 {
		t.Fatalf("%d sessions, %v", len(paths), err)
	}
	out, err := execute(append([]string{"inspect", "--elements", "--compress", "lz4"}, paths...)...)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		if !strings.Contains(out, "-- file "+p+"\n") {
			t.Errorf("%s is not there", p)
		}
	}
	for _, want := range []string{"PartitionRequest credit 2", "ALIGNED_CHECKPOINT_BARRIER: CheckpointBarrier(1 @", "BacklogAnnouncement", "NewBufferSize 512",
		"PartitionNotFoundException", "Record(", "Watermark @", "LatencyMarker(", "WatermarkStatus(IDLE)", "the input has no times"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in the output", want)
		}
	}
	if n := strings.Count(out, "\nsummary: "); n != len(paths) {
		t.Errorf("%d summaries of %d files", n, len(paths))
	}
	if strings.Contains(out, "!!") {
		t.Error("something is said to be against the protocol")
	}
}

func TestInspectJSON(t *testing.T) {
	out, err := execute("inspect", "--json", "--kind", "data,CheckpointBarrier", sessions+"aligned-barriers")
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]int{}
	for line := range strings.Lines(out) {
		var o struct{ Type string }
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		types[o.Type]++
	}
	if len(types) != 2 || types["frame"] < 12 || types["summary"] != 1 {
		t.Errorf("%v", types)
	}
}

func TestInspectRefuses(t *testing.T) {
	basic := sessions + "basic.json"
	for _, c := range []struct {
		args string
		want []string
	}{
		{"", []string{"want files"}},
		{"--flink 3 " + basic, []string{"--flink", "2.3 or 1.20"}},
		{"--flink 1.20 " + basic, []string{"basic.json", "s2c", "byte 0", "release line"}},
		{"--compress LZO9 " + basic, []string{"--compress", "LZ4"}},
		{"--port 70000 " + basic, []string{"--port"}},
		{"--segment-size -1 " + basic, []string{"--segment-size"}},
		{"--segment-size 100 " + basic, []string{"s2c", "byte 0", "980 bytes", "0 frames"}},
		{"--channel xy " + basic, []string{"channel", "xy"}},
		{"--kind Credit " + basic, []string{"kind", "AddCredit"}},
		{"nothing-here", []string{"nothing-here.c2s.bin"}},
		{"--proxy 127.0.0.1:0", []string{"LISTEN=TARGET"}},
		{"--proxy 127.0.0.1:0=nowhere", []string{"nowhere"}},
		{"--proxy 127.0.0.1:0=127.0.0.1:1 " + basic, []string{"no file"}},
	} {
		_, err := execute(append([]string{"inspect"}, strings.Fields(c.args)...)...)
		if err == nil {
			t.Errorf("%q: no error", c.args)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q: %q is not in %v", c.args, w, err)
			}
		}
	}
}

// A sender and a receiver as processes, and the proxy between them.
func TestInspectProxy(t *testing.T) {
	t.Parallel()
	in := lines(2000, func(i int) string { return strings.Repeat("x", i%50) })
	send := start(t, "send", "--name", "x", file(t, in))
	proxy := start(t, "inspect", "--elements", "--json", "--proxy", "127.0.0.1:0="+send.listening())
	out := outFile(t)
	start(t, "recv", "--name", "x", "--out", out, proxy.listening()).succeeds()
	send.succeeds()
	same(t, content(t, out), in)
	if err := proxy.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	proxy.succeeds()
	records, summaries := 0, 0
	var bytesShown int
	for _, line := range proxy.stdout {
		var o struct {
			Type, Kind string
			Data       []byte
			Timed      bool
		}
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		switch {
		case o.Kind == "StreamRecord":
			records++
			bytesShown += len(o.Data)
		case o.Type == "summary" && o.Timed:
			summaries++
		}
	}
	if records != 2000 || bytesShown < len(in) || summaries != 1 {
		t.Errorf("%d records with %d bytes, %d summaries", records, bytesShown, summaries)
	}
}

// The examples in the documentation are what the tool prints.
func TestInspectExamples(t *testing.T) {
	text, err := os.ReadFile("../../docs/inspect.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir("../..") // where the commands are run
	n := 0
	for i, part := range strings.Split(string(text), "\n```\n") {
		_, command, ok := strings.Cut(part, "$ bin/weir ")
		if !ok {
			continue
		}
		command, want, _ := strings.Cut(command, "\n")
		out, err := execute(strings.Fields(command)...)
		if err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		if strings.TrimSpace(out) != strings.TrimSpace(want) {
			t.Errorf("part %d: weir %s prints\n%s", i, command, out)
		}
		n++
	}
	if n < 2 {
		t.Errorf("%d examples", n)
	}
}

func TestInspectEmptyCapture(t *testing.T) {
	head := append([]byte{0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0}, bytes.Repeat([]byte{0}, 16)...)
	path := filepath.Join(t.TempDir(), "x.pcap")
	if err := os.WriteFile(path, head, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := execute("inspect", path); err == nil || !strings.Contains(err.Error(), "no connection") {
		t.Error(err)
	}
}
