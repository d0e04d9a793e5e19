package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/weirflow/weir/checkpoint"
)

// copyLines is a process of a pipeline with one member: it copies lines from a file to a sink, exactly once, however often it is killed
// and started again. crash > 0 ends it after so many lines that follow a completed checkpoint.
func copyLines(ctx context.Context, coordinator, from, to string, crash int) error {
	source, err := checkpoint.OpenFileSource(from, checkpoint.FileSourceConfig{})
	if err != nil {
		return err
	}
	defer source.Close()
	sink, err := checkpoint.OpenFileSink(checkpoint.FileSinkConfig{Dir: to, Name: "copy"})
	if err != nil {
		return err
	}
	defer sink.Close()
	m, err := checkpoint.NewMember(checkpoint.MemberConfig{Name: "copy", Coordinator: coordinator})
	if err != nil {
		return err
	}
	defer m.Close()
	for { // an epoch in each turn
		e, err := m.Join(ctx)
		if err != nil {
			return err
		}
		err = copyEpoch(ctx, e, source, sink, crash)
		if !errors.Is(err, checkpoint.ErrFenced) {
			return err
		}
	}
}

func copyEpoch(ctx context.Context, e *checkpoint.Epoch, source *checkpoint.FileSource, sink *checkpoint.FileSink, crash int) error {
	tx := checkpoint.NewTransactions(sink)
	var offset, prepared []byte
	if r := e.Restored(); r != nil {
		var err error
		if offset, err = r.Get(ctx, "offset", 1<<10); err != nil {
			return err
		}
		if prepared, err = r.Get(ctx, "transactions", 1<<20); err != nil {
			return err
		}
	}
	if err := source.Restore(offset); err != nil {
		return err
	}
	if err := tx.Restore(ctx, e.Number(), e.Restored().ID(), prepared); err != nil {
		return err
	}
	if e.Finished() {
		return e.Finish(ctx)
	}
	for { // some lines, then what the coordinator has to say
		for range 10 {
			line, err := source.Next()
			if err == io.EOF {
				e.EndOfData()
				break
			}
			if err == nil {
				_, err = fmt.Fprintf(sink, "%s\n", line)
				source.Done()
			}
			if err != nil {
				return err
			}
		}
		ev, err := e.Next(ctx)
		if err != nil {
			return err
		}
		switch ev.Kind {
		case checkpoint.TriggerEvent:
			s := e.Snapshot(ev.ID)
			offset, err := source.Snapshot()
			if err == nil {
				err = s.Put(ctx, "offset", offset)
			}
			var prepared []byte
			if err == nil {
				prepared, err = tx.Snapshot(ctx, ev.ID)
			}
			if err == nil {
				err = s.Put(ctx, "transactions", prepared)
			}
			if err != nil {
				return err
			}
			_ = s.Ack() // it may be settled already
		case checkpoint.CompletedEvent:
			if crash > 0 {
				return errCrash // before the commit
			}
			if err := tx.Completed(ctx, ev.ID); err != nil {
				return err
			}
			if ev.Last {
				return e.Finish(ctx)
			}
		}
	}
}

var errCrash = errors.New("crash")

// A pipeline with one member. Its process crashes after a checkpoint was completed and before the sink had committed it; another one
// goes on from there.
func Example() {
	dir, err := os.MkdirTemp("", "checkpoint")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	lines := filepath.Join(dir, "lines")
	var text []byte
	for i := range 100 {
		text = fmt.Appendf(text, "line %d\n", i)
	}
	if err := os.WriteFile(lines, text, 0o666); err != nil {
		fmt.Println(err)
		return
	}
	store, err := checkpoint.OpenDir(filepath.Join(dir, "checkpoints"), checkpoint.DirOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := checkpoint.NewCoordinator(checkpoint.CoordinatorConfig{
		Members: []string{"copy"}, Store: store, Listen: "127.0.0.1:0", Interval: time.Millisecond,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()

	out := filepath.Join(dir, "out")
	fmt.Println("the first process:", copyLines(ctx, c.Addr().String(), lines, out, 1))
	fmt.Println("the second process:", copyLines(ctx, c.Addr().String(), lines, out, 0))
	fmt.Println("the coordinator:", <-done)

	r, err := checkpoint.ReadCommitted(out, "copy")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	got, err := io.ReadAll(r)
	fmt.Println("the output is the input:", string(got) == string(text), err)
	// Output:
	// the first process: crash
	// the second process: <nil>
	// the coordinator: <nil>
	// the output is the input: true <nil>
}
