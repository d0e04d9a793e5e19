package main

import (
	"context"
	"os"
	"time"
)

func Example_run() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, os.Stdout); err != nil {
		panic(err)
	}
	// Unordered output:
	// Ada engine
	// Grace compiler
	// Grace moth
	// Edsger semaphore
}
