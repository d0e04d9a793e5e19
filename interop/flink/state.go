package main

import (
	"fmt"
	"sync"

	"github.com/weirflow/weir/segment"
)

// inFlight keeps the channel state of checkpoints in memory. It is a credit.StateSink.
type inFlight struct {
	mu     sync.Mutex
	bytes  map[channelOf][]byte // guarded by mu
	broken error                // guarded by mu
}

type channelOf struct {
	checkpoint int64
	channel    int
}

func newInFlight() *inFlight { return &inFlight{bytes: map[channelOf][]byte{}} }

func (f *inFlight) add(id int64, ch int, b segment.Buffer) {
	if b.IsZero() || !b.Type().IsBuffer() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	k := channelOf{id, ch}
	f.bytes[k] = append(f.bytes[k], b.Bytes()...)
}

// InputData is part of credit.InputSink.
func (f *inFlight) InputData(id int64, ch int, _ int32, b segment.Buffer) { f.add(id, ch, b) }

// OutputData is part of credit.OutputSink, and so are the methods below.
func (f *inFlight) OutputData(id int64, sub int, bufs []segment.Buffer) {
	for _, b := range bufs {
		f.add(id, sub, b)
	}
}

// OutputPromise: nothing to do, what is kept comes with OutputKept.
func (f *inFlight) OutputPromise(int64, int) {}

// OutputKept brings what a barrier overtook when its time ran out.
func (f *inFlight) OutputKept(id int64, sub int, bufs []segment.Buffer) { f.OutputData(id, sub, bufs) }

// OutputBroken must not happen.
func (f *inFlight) OutputBroken(id int64, sub int, cause error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken = fmt.Errorf("checkpoint %d, subpartition %d: nothing comes for the promise: %w", id, sub, cause)
}

// take hands out what was in flight of a channel, or subpartition.
func (f *inFlight) take(id int64, ch int) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	k := channelOf{id, ch}
	p := f.bytes[k]
	delete(f.bytes, k)
	return p, f.broken
}
