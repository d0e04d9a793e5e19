//go:build unix

package chaos

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirflow/weir/checkpoint"
	"github.com/weirflow/weir/internal/buildtag"
)

const (
	// roundLimit is how long a round may take until it counts as hanging.
	roundLimit = 3 * time.Minute
	// inTest is the number of rounds without ROUNDS, recordsPerSource what each source sends.
	inTest           = 20
	extra            = 20 // rounds, at most, when those did not meet enough
	recordsPerSource = 2500
)

func setting(t *testing.T, name string, otherwise int64) int64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// points are where a process may kill itself: in the coordinator while a snapshot is written, renamed or made final, in a sink while a
// transaction is prepared or committed.
var points = []struct{ who, at, in string }{
	{"coordinator", "before-write", "/task"},
	{"coordinator", "before-rename", "/task"},
	{"coordinator", "after-write", "_metadata"},
	{"coordinator", "before-rename", "_metadata"},
	{"coordinator", "after-rename", "_metadata"},
	{"coordinator", "before-rename", "_state"},
	{"sink", "before-sync", ".inprogress"},
	{"sink", "before-rename", ".pending"},
	{"sink", "after-rename", ".pending"},
	{"sink", "before-rename", ".part"},
	{"sink", "after-rename", ".part"},
}

// tally counts what happened in all rounds.
type tally struct {
	rounds, counted, kills, stops, harms, hooks int
	replayed                                    int64
}

// TestChaos runs ROUNDS rounds; SEED repeats a run's choices, though not its moments.
func TestChaos(t *testing.T) {
	rounds := setting(t, "ROUNDS", inTest)
	if os.Getenv("ROUNDS") == "" && (testing.Short() || buildtag.Race || buildtag.Debug || buildtag.NoUnsafe || buildtag.Portable) {
		rounds = 3 // the processes take long there
	}
	seed := setting(t, "SEED", time.Now().UnixNano())
	t.Logf("seed %d", seed)
	began := time.Now()
	var all tally
	shown := func() bool { return int64(all.counted)*2 >= rounds && (all.hooks > 0 || rounds < inTest) }
	for i := int64(0); i < rounds || i < rounds+extra && !shown(); i++ {
		r := rand.New(rand.NewPCG(uint64(seed), uint64(i)))
		if err := all.round(t, r, checkpoint.Alignment(i%3)); err != nil {
			t.Fatalf("seed %d, round %d (%v): %v", seed, i, checkpoint.Alignment(i%3), err)
		}
	}
	t.Logf("seed %d: %d rounds in %.0f s, %d counted; %d kills, %d of them at a point of a file, %d stops, %d connections harmed; %d records came again",
		seed, all.rounds, time.Since(began).Seconds(), all.counted, all.kills+all.hooks, all.hooks, all.stops, all.harms, all.replayed)
	if !shown() {
		t.Errorf("%d of %d rounds had a completed checkpoint, an uncommitted record at the kill, and a replay: too few to show anything", all.counted, all.rounds)
	}
}

// round runs a pipeline from its beginning to its end, with a few mishaps.
func (a *tally) round(t *testing.T, r *rand.Rand, mode checkpoint.Alignment) (err error) {
	c, err := newCrew(t.TempDir(), recordsPerSource, mode)
	if err != nil {
		return err
	}
	defer func() {
		for _, p := range c.proxies {
			p.close()
		}
		for _, free := range c.free {
			free()
		}
	}()
	var log strings.Builder
	names := append(members(), "coordinator")
	roles := map[string]role{}
	for _, n := range names {
		roles[n] = c.role(n)
	}
	if r.IntN(2) == 0 {
		p := points[r.IntN(len(points))]
		who := p.who
		if who == "sink" {
			who = fmt.Sprintf("sink%d", r.IntN(sinks))
		}
		ro := roles[who]
		ro.DieAt, ro.DieIn, ro.DieAfter = p.at, p.in, 1+int64(r.IntN(4))
		roles[who] = ro
		fmt.Fprintf(&log, "%s dies %s *%s (%d); ", who, p.at, p.in, ro.DieAfter)
	}
	c.mu.Lock()
	c.left = len(names)
	for _, n := range names {
		if err := c.start(roles[n]); err != nil {
			c.end(err)
			break
		}
	}
	c.mu.Unlock()
	hang := time.AfterFunc(roundLimit, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.end(errors.New("it hangs"))
	})
	defer hang.Stop()
	proven := a.mishaps(c, r, &log)
	<-c.over
	c.wg.Wait()
	if c.err == nil {
		c.err = c.check()
	}
	if c.err != nil {
		return fmt.Errorf("%s: %w%s", log.String(), c.err, c.logs())
	}
	again := c.seen() - int64(sources*recordsPerSource)
	a.rounds++
	a.replayed += again
	if (proven || c.proven) && again > 0 {
		a.counted++
	}
	a.hooks += max(0, c.restarts-strings.Count(log.String(), "SIGKILL"))
	return nil
}

// mishaps lets one to four things happen, each after another checkpoint: at least a member is killed. It reports whether a process was
// killed when there was a completed checkpoint, and records that were not committed.
func (a *tally) mishaps(c *crew, r *rand.Rand, log *strings.Builder) (proven bool) {
	names := append(members(), "coordinator")
	at := int64(0)
	n := 1 + r.IntN(4)
	kill := r.IntN(n)
	for i := range n {
		at += 1 + int64(r.IntN(4))
		if c.awaitCompleted(at) {
			return proven
		}
		select {
		case <-c.over:
			return proven
		case <-time.After(time.Duration(r.IntN(int(2 * interval)))):
		}
		c.mu.Lock()
		at = c.completed
		c.mu.Unlock()
		who := names[r.IntN(len(names))]
		k := r.IntN(10)
		if i == kill {
			who, k = names[r.IntN(len(names)-1)], 0
		}
		switch {
		case k < 4:
			uncommitted := c.seen() > c.committed()
			c.signal(who, syscall.SIGKILL)
			fmt.Fprintf(log, "SIGKILL %s after checkpoint %d; ", who, at)
			proven = proven || uncommitted
			a.kills++
		case k < 7:
			pause := time.Duration(r.IntN(int(2 * memberTimeout)))
			c.signal(who, syscall.SIGSTOP)
			select {
			case <-c.over:
			case <-time.After(pause):
			}
			c.signal(who, syscall.SIGCONT)
			fmt.Fprintf(log, "SIGSTOP %s for %v after checkpoint %d; ", who, pause, at)
			a.stops++
		default:
			if p := c.proxies[who]; p != nil {
				kind := harms[r.IntN(len(harms))]
				if p.harm(kind, r) {
					a.harms++
				}
				fmt.Fprintf(log, "%s of a connection to %s after checkpoint %d; ", kind, who, at)
			}
		}
	}
	return proven
}
