package sim_test

import (
	"fmt"

	"github.com/weirflow/weir/fuzz/sim"
)

// A seed is a run: the same one each time.
func Example() {
	a, b := sim.Run(7, sim.Options{}), sim.Run(7, sim.Options{})
	fmt.Println(a.Err, a.Digest == b.Digest, a.Exposure.Records > 100)
	// Output: <nil> true true
}
