//go:build race && linux

package segment

import (
	"os"
	"strings"
	"sync"
	"testing"
)

// The race detector sees a race on heap-backed memory, which is what race builds use, and is blind to the same race on
// mapped memory: so a clean run on the latter would prove nothing.
func TestSEG22RaceDetectorSeesTheHeap(t *testing.T) {
	backing := map[string]Backing{"heap": BackingHeap, "mapped": BackingMapped}
	if b, ok := backing[os.Getenv(childWord)]; ok {
		p := mustPool(t, Config{Segments: 1, SegmentSize: 4096, Backing: b})
		l := mustLocal(t, p, LocalConfig{Required: 1})
		x := mustTake(t, l)
		mem := x.Memory()
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				for range 1000 {
					mem[0]++
				}
			})
		}
		both.Wait()
		return
	}
	for name := range backing {
		out, err := child(t, name)
		if found := strings.Contains(out, "DATA RACE"); found != (name == "heap") {
			t.Errorf("%s: race found %v (%v)\n%s", name, found, err, out)
		}
	}
}
