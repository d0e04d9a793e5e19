package weir

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weirflow/weir/netio"
)

// TestDeadlockCRD19: two nodes send to each other over links that are full in both directions. Each goes on reading while
// it cannot write, and credit is not stuck behind data for which there is no room.
func TestDeadlockCRD19(t *testing.T) {
	const (
		channels = 16
		messages = 64
		size     = 1024
		hang     = 20 * 5 * time.Second // it takes well below a second; the limit only says that it hangs
	)
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	// Two messages do not fit in one segment, so that each is a buffer of its own.
	cfg := Config{Listen: "127.0.0.1:0", SegmentSize: size + 64, Socket: netio.SocketOptions{SendBuffer: 4096, RecvBuffer: 4096}}
	nodes := [2]*Node{open(t, cfg), open(t, cfg)}
	var outs [2]*Output
	var ins [2]*Input
	for i, n := range nodes {
		outs[i] = newOutput(t, n, OutputConfig{
			Name: fmt.Sprint("from ", i), Subpartitions: channels, FlushEach: true,
			Buffers: 2 * channels * messages, BuffersPerSubpartition: 2 * messages,
		})
	}
	for i, n := range nodes {
		ins[i] = newInput(t, n, InputConfig{Sources: []Source{source(nodes[1-i], outs[1-i])}, Exclusive: 2, Floating: 8})
	}
	content := func(from, ch, i int) []byte {
		return bytes.Repeat([]byte{byte(from), byte(ch), byte(i), 0x55}, size/4)
	}
	// All of it is written before anybody reads: 64 messages per channel are outstanding at both ends.
	for i, o := range outs {
		for m := range messages {
			for ch := range channels {
				if err := o.WriteTo(ctx, ch, content(i, ch, m)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	var waits []func() error
	for i, in := range ins {
		waits = append(waits, inBackground(t, func() error { return outs[i].Finish(ctx) }), inBackground(t, func() error {
			var got [channels]int
			for e, err := range in.All(ctx) {
				if err != nil {
					return fmt.Errorf("node %d, after %v: %w", i, got, err)
				}
				if e.Kind != Record {
					continue
				}
				if want := content(1-i, e.Channel, got[e.Channel]); !bytes.Equal(e.Value, want) {
					return fmt.Errorf("node %d: message %d of channel %d is another", i, got[e.Channel], e.Channel)
				}
				got[e.Channel]++
			}
			for ch, n := range got {
				if n != messages {
					return fmt.Errorf("node %d: %d messages of channel %d, want %d", i, n, ch, messages)
				}
			}
			return in.Close()
		}))
	}
	for _, wait := range waits {
		if err := wait(); err != nil {
			t.Error(err)
		}
	}
}
