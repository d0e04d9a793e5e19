// Command join joins two streams on one goroutine: orders come with the number of a customer, customers with a name. One input reads both
// outputs, so that a checkpoint's barriers are aligned over both; Element.Channel tells which one a record is from.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/weirflow/weir"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "join:", err)
		os.Exit(1)
	}
}

var (
	customers = []string{"1 Ada", "2 Grace", "3 Edsger"}
	orders    = []string{"2 compiler", "1 engine", "2 moth", "3 semaphore"}
)

func run(ctx context.Context, w io.Writer) (err error) {
	node, err := weir.Open(weir.Config{Listen: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	done := make(chan error, 3)
	go func() { done <- send(ctx, node, "customers", customers) }()
	go func() { done <- send(ctx, node, "orders", orders) }()
	go func() { done <- join(ctx, node.Addr().String(), w) }()
	return errors.Join(<-done, <-done, <-done)
}

// send writes records to an output of its own.
func send(ctx context.Context, node *weir.Node, name string, records []string) error {
	out, err := node.NewOutput(weir.OutputConfig{Name: name, Subpartitions: 1})
	if err != nil {
		return err
	}
	for _, r := range records {
		if err := out.Write(ctx, nil, []byte(r)); err != nil {
			return err
		}
	}
	return out.Finish(ctx)
}

// The sources, in the order of InputConfig.Sources.
const (
	fromCustomers = iota
	fromOrders
)

// join writes each order with its customer's name, when both are there.
func join(ctx context.Context, addr string, w io.Writer) (err error) {
	node, err := weir.Open(weir.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	in, err := node.NewInput(weir.InputConfig{Sources: []weir.Source{
		fromCustomers: {Addr: addr, Name: "customers"}, fromOrders: {Addr: addr, Name: "orders"},
	}})
	if err != nil {
		return err
	}
	names, waiting := map[string]string{}, map[string][]string{}
	for e, err := range in.All(ctx) {
		if err != nil {
			return err
		}
		if e.Kind != weir.Record {
			continue
		}
		id, value, _ := strings.Cut(string(e.Value), " ")
		switch e.Channel { // one for each source
		case fromCustomers:
			names[id] = value
			for _, order := range waiting[id] {
				fmt.Fprintln(w, value, order)
			}
			delete(waiting, id)
		case fromOrders:
			if name, known := names[id]; known {
				fmt.Fprintln(w, name, value)
			} else {
				waiting[id] = append(waiting[id], value)
			}
		}
	}
	return nil
}
