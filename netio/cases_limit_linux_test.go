//go:build linux && !weirportable

package netio

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// NET-14: at the descriptor limit the accept loop spins and no error is seen.
func TestNET14DescriptorLimit(t *testing.T) {
	if os.Getenv("NETIO_TEST_CHILD") == "limit" {
		limitChild()
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestNET14DescriptorLimit$")
	cmd.Env = append(os.Environ(), "NETIO_TEST_CHILD=limit")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	lines := bufio.NewScanner(out)
	word := func(want string) string {
		t.Helper()
		for lines.Scan() {
			if v, ok := strings.CutPrefix(lines.Text(), want+" "); ok {
				return v
			}
		}
		t.Fatalf("child did not say %q", want)
		return ""
	}
	addr, err := net.ResolveTCPAddr("tcp", word("addr"))
	if err != nil {
		t.Fatal(err)
	}
	const clients = 30
	var conns [clients]net.Conn
	for i := range conns {
		conns[i] = dialNet(t, addr)
	}
	// served tells how many get an answer within d each; those that do not keep their request in the socket.
	answered := [clients]bool{}
	served := func(d time.Duration) (n int) {
		for i, nc := range conns {
			if !answered[i] {
				_ = nc.SetReadDeadline(time.Now().Add(d))
				_, err := nc.Read(make([]byte, 1))
				answered[i] = err == nil
			}
			if answered[i] {
				n++
			}
		}
		return n
	}
	for _, nc := range conns {
		if _, err := nc.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
	}
	defer time.AfterFunc(hang, func() { _ = cmd.Process.Kill() }).Stop()
	word("limit")
	_ = conns[0].SetReadDeadline(time.Now().Add(hang))
	if _, err := conns[0].Read(make([]byte, 1)); err != nil { // the first to be accepted
		t.Fatal(err)
	}
	answered[0] = true
	if n := served(30 * time.Millisecond); n == clients {
		t.Fatalf("the case did not happen: %d of %d served at the limit", n, clients)
	}
	time.Sleep(1200 * time.Millisecond)
	for i, nc := range conns { // the served ones go on
		if answered[i] {
			_ = nc.SetReadDeadline(time.Now().Add(hang))
			if _, err := nc.Write([]byte{2}); err != nil {
				t.Fatal(err)
			}
			if _, err := nc.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	fmt.Fprintln(in, "free")
	report := word("report")
	var reports int
	var turns, seconds, all float64
	var text string
	if _, err := fmt.Sscanf(report, "%d %g %g %g", &reports, &turns, &seconds, &all); err != nil {
		t.Fatal(err)
	}
	text = word("error")
	if reports < 1 || float64(reports) > all+1 {
		t.Errorf("%d reports in %.1f s", reports, all)
	}
	if !strings.Contains(text, "descriptors open") || !strings.Contains(text, "too many open files") {
		t.Errorf("error is %q", text)
	}
	// A loop that turns round makes a hundred thousand in a second; with polling, timers and a busy machine it is some hundreds.
	if turns > 1000+2000*seconds {
		t.Errorf("%.0f turns in %.1f s", turns, seconds)
	}
	if n := served(hang); n != clients {
		t.Fatalf("%d of %d served after descriptors were freed", n, clients)
	}
}

// limitChild serves an echo at the descriptor limit, says what it saw when told to free descriptors, and frees them.
func limitChild() {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
	}
	var reports []string // the loop's
	l, err := NewLoop(LoopConfig{OnError: func(err error) {
		var e *AcceptError
		if !errors.As(err, &e) || e.Limit == 0 || e.Open < e.Limit-5 {
			fail(fmt.Errorf("odd report %w", err))
		}
		if reports = append(reports, err.Error()); len(reports) == 1 {
			fmt.Println("limit is reached")
		}
	}})
	fail(err)
	addr, err := l.Listen("tcp", "127.0.0.1:0", echo)
	fail(err)
	var ballast []*os.File
	for range 30 {
		f, err := os.Open("/dev/null")
		fail(err)
		ballast = append(ballast, f)
	}
	names, err := os.ReadDir("/proc/self/fd")
	fail(err)
	limit := uint64(len(names) + 10)
	fail(unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: limit}))
	start, turns := time.Now(), l.turns.Load()
	fmt.Println("addr", addr)
	_, err = bufio.NewReader(os.Stdin).ReadString('\n')
	fail(err)
	turns, seconds := l.turns.Load()-turns, time.Since(start).Seconds()
	for _, f := range ballast {
		_ = f.Close()
	}
	done := make(chan struct{})
	l.Post(func() {
		fmt.Println("report", len(reports), turns, seconds, time.Since(start).Seconds())
		fmt.Println("error", append(reports, "none")[0])
		close(done)
	})
	<-done
	_, _ = io.Copy(io.Discard, os.Stdin) // until the parent is done
	os.Exit(0)
}
