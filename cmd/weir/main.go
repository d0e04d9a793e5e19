// Command weir is the tool of the library: it runs exchanges, measures them, and checks the library against golden data.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newRoot().ExecuteContext(ctx)
	stop()
	if err != nil {
		// The library's errors begin with its name, too.
		fmt.Fprintln(os.Stderr, "weir:", strings.TrimPrefix(err.Error(), "weir: "))
		os.Exit(1)
	}
}
