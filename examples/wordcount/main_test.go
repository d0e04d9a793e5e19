package main

import (
	"context"
	"os"
	"strings"
	"time"
)

func Example_run() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dir, _ := os.MkdirTemp("", "wordcount-")
	defer os.RemoveAll(dir)
	if err := run(ctx, dir, strings.Fields(strings.ToLower(text)), os.Stdout); err != nil {
		panic(err)
	}
	// Output:
	// is 3
	// it 2
	// most 2
	// that 2
	// the 4
}
