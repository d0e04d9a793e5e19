package task_test

import (
	"os"
	"testing"

	"github.com/weirflow/weir/serde"
	"github.com/weirflow/weir/serde/event"
	"github.com/weirflow/weir/task"
)

// A buffer goes home with the call after its last record, also if nothing follows: the sender may wait for its credit to send more.
func TestLastBufferGoesHome(t *testing.T) {
	r := newRig(t, task.InputConfig{}, 1)
	in := r.inputs[0]
	r.data(0, 0, records(1))
	for _, want := range []struct {
		st    task.Status
		inUse int
	}{{task.Element, 1}, {task.Nothing, 0}} {
		if st, err := in.Next(); st != want.st || err != nil {
			t.Fatalf("%v, %v; want %v", st, err, want.st)
		}
		r.local.Drain()
		if n := r.local.Stats().InUse; n != want.inUse {
			t.Errorf("after %v %d segments are in use, want %d", want.st, n, want.inUse)
		}
	}
}

// What a channel had of a record goes with the end of the channel, not only with the input: here it is a file.
func TestEndOfPartitionDropsPart(t *testing.T) {
	dir := t.TempDir()
	r := newRig(t, task.InputConfig{Deserializer: serde.DeserializerConfig{SpillThreshold: serde.MinSpillThreshold, SpillDirs: []string{dir}}}, 2)
	in := r.inputs[0]
	p := framed(serde.Element{Kind: serde.Record, Value: make([]byte, 2*serde.MinSpillThreshold)})
	for range 3 {
		r.data(0, 0, p[:1000])
		p = p[1000:]
		must(t, r.next(in))
	}
	before := openSpills(t, dir)
	if before == 0 {
		t.Fatal("no file: that proves nothing")
	}
	r.event(0, 0, event.Event{Kind: event.EndOfPartition})
	must(t, r.next(in))
	if n := openSpills(t, dir); n != 0 {
		t.Errorf("%d files of %d are left", n, before)
	}
}

// openSpills counts the files of a folder, and those that are open and have no name any more, where the system tells.
func openSpills(t *testing.T, dir string) (n int) {
	t.Helper()
	files, err := os.ReadDir(dir)
	must(t, err)
	n = len(files)
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return n
	}
	for _, fd := range fds {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && len(to) > len(dir) && to[:len(dir)+1] == dir+string(os.PathSeparator) {
			if _, err := os.Stat(to); err != nil {
				n++ // otherwise it is among files
			}
		}
	}
	return n
}
