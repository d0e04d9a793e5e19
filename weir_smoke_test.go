package weir

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"
)

func TestSmoke(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	a, err := Open(Config{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	b, err := Open(Config{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := a.NewOutput(OutputConfig{Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	in, err := b.NewInput(InputConfig{Sources: []Source{{Addr: a.Addr().String(), Name: "x"}}})
	if err != nil {
		t.Fatal(err)
	}
	const n = 1000000
	werr := make(chan error, 1)
	go func() {
		for i := range n {
			if err := out.Write(ctx, []byte("k"), []byte(fmt.Sprintf("record %d", i))); err != nil {
				werr <- err
				return
			}
			if i == n/2 {
				if err := out.Barrier(AlignedBarrier(1, time.Now())); err != nil {
					werr <- err
					return
				}
			}
		}
		werr <- out.Finish(ctx)
	}()
	k, cps := 0, 0
	for {
		e, err := in.Next(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err, k)
		}
		switch e.Kind {
		case Record:
			if string(e.Value) != fmt.Sprintf("record %d", k) {
				t.Fatalf("record %d is %q", k, e.Value)
			}
			k++
		case Checkpoint:
			cps++
			e.Checkpoint.Ack()
		}
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if err := <-werr; err != nil {
		t.Error(err)
	}
	if k != n || cps != 1 {
		t.Errorf("%d records, %d checkpoints", k, cps)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}
