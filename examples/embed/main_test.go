package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// TestShutdownLosesNothing posts from several goroutines and shuts down: each event that was accepted is there, once.
func TestShutdownLosesNothing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var seen bytes.Buffer
	done := make(chan error, 1)
	go func() { done <- serve(ctx, l, &seen) }()
	const posters, events = 4, 50
	var wg sync.WaitGroup
	for p := range posters {
		wg.Go(func() {
			for i := range events {
				r, err := http.Post("http://"+l.Addr().String()+"/events", "text/plain", strings.NewReader(fmt.Sprintf("%d-%d", p, i)))
				if err != nil {
					t.Error(err)
					return
				}
				_ = r.Body.Close()
				if r.StatusCode != http.StatusAccepted {
					t.Errorf("event %d-%d: %s", p, i, r.Status)
				}
			}
		})
	}
	wg.Wait()
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	next := [posters]int{}
	for line := range strings.Lines(seen.String()) {
		var p, i int
		if _, err := fmt.Sscanf(line, "%d-%d\n", &p, &i); err != nil || i != next[p] {
			t.Fatalf("%q came, want event %d of poster %d: %v", line, next[p], p, err)
		}
		next[p]++
	}
	for p, n := range next {
		if n != events {
			t.Errorf("%d events of poster %d came, want %d", n, p, events)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}
