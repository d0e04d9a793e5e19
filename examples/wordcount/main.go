// Command wordcount counts the words of a text, exactly once whatever is killed: a source and a counter, each a member of a pipeline, and
// their coordinator. Here they are three goroutines of one process; as three processes they would be the same.
//
// The counter's state is an ordinary map. Its snapshot is the map's encoding.
package main

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/weirflow/weir"
	"github.com/weirflow/weir/checkpoint"
	"github.com/weirflow/weir/pipeline"
)

const text = `It is not the strongest of the species that survives nor the most intelligent
it is the one that is most adaptable to change`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir, err := os.MkdirTemp("", "wordcount-")
	if err == nil {
		err = errors.Join(run(ctx, dir, strings.Fields(strings.ToLower(text)), os.Stdout), os.RemoveAll(dir))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "wordcount:", err)
		os.Exit(1)
	}
}

// run counts the words and writes the counts. Its checkpoints are in dir.
func run(ctx context.Context, dir string, words []string, w io.Writer) error {
	store, err := checkpoint.OpenDir(dir, checkpoint.DirOptions{})
	if err != nil {
		return err
	}
	coordinator, err := checkpoint.NewCoordinator(checkpoint.CoordinatorConfig{
		Members: []string{"source", "counter"}, Store: store, Listen: "127.0.0.1:0", Interval: 50 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	member := func(name string) pipeline.Config {
		return pipeline.Config{Member: checkpoint.MemberConfig{Name: name, Coordinator: coordinator.Addr().String()}}
	}
	addr := make(chan string, 1) // where the source of the newest attempt serves
	done := make(chan error, 3)
	go func() { done <- coordinator.Run(ctx) }()
	go func() {
		done <- pipeline.Run(ctx, member("source"), func(ctx context.Context, a *pipeline.Attempt) error {
			return source(ctx, a, words, addr)
		})
	}()
	go func() {
		done <- pipeline.Run(ctx, member("counter"), func(ctx context.Context, a *pipeline.Attempt) error {
			select {
			case at := <-addr:
				return counter(ctx, a, at, w)
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	return errors.Join(<-done, <-done, <-done)
}

// source sends the words. Its state is how many it has sent.
func source(ctx context.Context, a *pipeline.Attempt, words []string, addr chan string) (err error) {
	sent := 0
	if err := decode(a.State(), &sent); err != nil {
		return err
	}
	node, err := weir.Open(weir.Config{Listen: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	task, err := a.NewTask(node, weir.TaskConfig{}, func() ([]byte, error) { return encode(sent) })
	if err != nil {
		return err
	}
	out, err := node.NewOutput(weir.OutputConfig{Name: "words", Subpartitions: 1, Task: task})
	if err != nil {
		return err
	}
	a.Serve()
	select {
	case <-addr: // of an attempt that ended before anybody asked
	default:
	}
	addr <- node.Addr().String()
	for ; sent < len(words); sent++ { // behind Write: a barrier may go out before the word
		if err := out.Write(ctx, nil, []byte(words[sent])); err != nil {
			return err
		}
	}
	return a.Finish(ctx)
}

// counter counts the words, and writes the counts at the end.
func counter(ctx context.Context, a *pipeline.Attempt, addr string, w io.Writer) (err error) {
	counts := map[string]int{}
	if err := decode(a.State(), &counts); err != nil {
		return err
	}
	node, err := weir.Open(weir.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	task, err := a.NewTask(node, weir.TaskConfig{}, func() ([]byte, error) { return encode(counts) })
	if err != nil {
		return err
	}
	in, err := node.NewInput(weir.InputConfig{Sources: []weir.Source{{Addr: addr, Name: "words"}}, Task: task})
	if err != nil {
		return err
	}
	a.Serve()
	for e, err := range a.All(ctx, in) {
		if err != nil {
			return err
		}
		if e.Kind == weir.Record {
			counts[string(e.Value)]++
		}
	}
	if err := a.Finish(ctx); err != nil {
		return err
	}
	for _, word := range slices.Sorted(maps.Keys(counts)) {
		if counts[word] > 1 {
			fmt.Fprintln(w, word, counts[word])
		}
	}
	return nil
}

func encode(state any) ([]byte, error) {
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(state)
	return b.Bytes(), err
}

// decode leaves state as it is if there is none.
func decode(p []byte, state any) error {
	if p == nil {
		return nil
	}
	return pipeline.Permanent(gob.NewDecoder(bytes.NewReader(p)).Decode(state))
}
