// Command embed has weir inside an HTTP server: what is posted to /events goes to a consumer over weir, in order and with back-pressure, and
// a shutdown loses nothing that was answered with 202.
//
//	curl -d 'hello' http://127.0.0.1:8080/events
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/weirflow/weir"
)

func main() {
	addr := flag.String("listen", "127.0.0.1:8080", "where to serve HTTP")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	l, err := net.Listen("tcp", *addr)
	if err == nil {
		err = serve(ctx, l, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "embed:", err)
		os.Exit(1)
	}
}

const (
	maxEvent = 64 << 10
	// patience is how long a shutdown waits for requests and consumers.
	patience = 10 * time.Second
)

// serve serves until ctx ends; then it takes no more requests, lets those under way end, and the consumer have everything.
func serve(ctx context.Context, l net.Listener, w io.Writer) (err error) {
	node, err := weir.Open(weir.Config{Listen: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	out, err := node.NewOutput(weir.OutputConfig{Name: "events", Subpartitions: 1})
	if err != nil {
		return err
	}
	consumed := make(chan error, 1)
	go func() { consumed <- consume(node.Addr().String(), w) }()

	// One goroutine writes to an output; handlers hand over to it.
	events := make(chan []byte)
	written := make(chan error, 1)
	go func() {
		for e := range events {
			if err := errors.Join(out.Write(context.Background(), nil, e), out.Flush()); err != nil {
				written <- err
				return
			}
		}
		finish, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		written <- out.Finish(finish)
	}()

	mux := http.NewServeMux()
	mux.HandleFunc("POST /events", func(rw http.ResponseWriter, r *http.Request) {
		e, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, maxEvent))
		if err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		select {
		case events <- e: // it waits when the consumer is slow
			rw.WriteHeader(http.StatusAccepted)
		case <-r.Context().Done():
		}
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-written: // the output broke
		return errors.Join(err, server.Close())
	case err := <-consumed:
		return errors.Join(err, server.Close())
	case <-ctx.Done():
	}
	shutdown, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err = server.Shutdown(shutdown)
	if serr := <-served; !errors.Is(serr, http.ErrServerClosed) {
		err = errors.Join(err, serr)
	}
	close(events) // no handler is left
	return errors.Join(err, <-written, <-consumed)
}

// consume writes down what comes, until its end.
func consume(addr string, w io.Writer) (err error) {
	node, err := weir.Open(weir.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	in, err := node.NewInput(weir.InputConfig{Sources: []weir.Source{{Addr: addr, Name: "events"}}})
	if err != nil {
		return err
	}
	for e, err := range in.All(context.Background()) {
		if err != nil {
			return err
		}
		if e.Kind == weir.Record {
			fmt.Fprintf(w, "%s\n", e.Value)
		}
	}
	return nil
}
