package modelrun

import "testing"

// mostRounds is how many rounds a test may need to meet what it is about.
const mostRounds = 20

// Rounds calls round with 0, 1, 2, … until it returns true: until what the test is about has been met, in that round or in all of them
// together. It is for tests whose threads and sockets decide whether, say, anything is in flight when a checkpoint comes: a
// scheduler that lets a round pass without it has shown nothing, neither good nor bad. What is wrong fails the test in the round in
// which it is seen, and no further one begins. The test fails, too, after 20 rounds without what it needs.
func Rounds(t testing.TB, round func(i int) (exposed bool)) {
	t.Helper()
	for i := range mostRounds {
		exposed := round(i)
		if t.Failed() {
			return
		}
		if exposed {
			if i > 0 {
				t.Logf("exposed after %d rounds", i+1)
			}
			return
		}
	}
	t.Errorf("%d rounds, and what the test is about was not met: that proves nothing", mostRounds)
}
