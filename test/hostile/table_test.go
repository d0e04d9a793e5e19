package hostile

import (
	"crypto/tls"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/weirflow/weir/internal/buildtag"
	"github.com/weirflow/weir/internal/modelrun"
	"github.com/weirflow/weir/internal/testcert"
)

// bounded is whether what an attack costs is held against its bound: in the build that people run. Elsewhere everything costs more,
// and the attacks must merely do no harm.
const bounded = !buildtag.Race && !buildtag.Debug && !buildtag.Portable && !buildtag.NoUnsafe && runtime.GOOS == "linux"

// attack is one way to harm a node.
type attack struct {
	name  string
	reads bool // the node that is attacked is a client of the attacker's server
	tls   bool
	// mass: it is so much of something that it takes minutes in a build in which everything costs more. What it is about is its cost.
	mass bool
	// Bounds of what it costs while it lasts, the attacker's side included.
	bound usage
	run   func(*victim)
}

const (
	// held is what an output and an input hold at most: the honest ones always may.
	held = 32 + 20 + 40

	kib = 1 << 10
	mib = 1 << 20
)

// TestHostileTable carries out all attacks and prints what each of them cost.
func TestHostileTable(t *testing.T) {
	attacks := append(clientAttacks(), serverAttacks()...)
	var rows strings.Builder
	for _, a := range attacks {
		t.Run(strings.NewReplacer(" ", "-", ",", "", "/", "-").Replace(a.name), func(t *testing.T) {
			if a.mass && !bounded {
				t.Skip("what this one costs is held against its bound in the plain build on Linux")
			}
			var conf *tls.Config
			if a.tls {
				conf = testcert.New(t, "hostile").TLS(t, "node")
			}
			modelrun.Rounds(t, func(int) bool { // of a short attack the honest ones may hear nothing
				v := newVictim(t, a.reads, conf)
				before := v.honest.read.Load()
				a.run(v)
				v.measure()
				meanwhile := v.honest.read.Load() - before
				v.honest.moves(t)
				v.honest.finish(t)
				g := v.grown()
				if bounded && (g.heap > a.bound.heap || g.goroutines > a.bound.goroutines || g.descriptors > a.bound.descriptors || g.segments > a.bound.segments) {
					t.Errorf("it cost %v; the bound is %v", g, a.bound)
				}
				if v.seen == "" {
					t.Error("no exposure")
				}
				if meanwhile > 0 {
					fmt.Fprintf(&rows, "| %s | %s | %s | %d | %s |\n", a.name, a.bound, g, meanwhile, v.seen)
				}
				return meanwhile > 0
			})
		})
	}
	if !t.Failed() {
		t.Logf("\n| attack | bound: heap, goroutines, descriptors, segments | measured | honest records meanwhile | what was done |\n|---|---|---|---|---|\n%s",
			rows.String())
	}
}

// String is a cell of the table.
func (u usage) String() string {
	heap := fmt.Sprintf("%d KiB", (u.heap+kib-1)/kib)
	if u.heap >= 10*mib {
		heap = fmt.Sprintf("%.1f MiB", float64(u.heap)/mib)
	}
	return fmt.Sprintf("%s, %d, %d, %d", heap, u.goroutines, u.descriptors, u.segments)
}
