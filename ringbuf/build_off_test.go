//go:build !race && !weirdebug

package ringbuf

import "testing"

// raceOrDebug tells that steps can be perturbed, and that everything is slow.
const raceOrDebug = false

// perturbFor does nothing in this build.
func perturbFor(*testing.T, uint32) {}
