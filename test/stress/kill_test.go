package stress

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirflow/weir"
)

const (
	// soon is how long a survivor may take to say who is gone, and to be as it was before, until it counts as hanging.
	soon = time.Minute
	// longest is how long after the start of an exchange its end is killed at the latest; where that is too early, more and more.
	longest = 60 * time.Millisecond
	// extra kills are tried, at most, when none hit data in flight.
	extra = 20
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

// Senders and receivers are killed in turn; this process survives all of it and exchanges records with two others throughout.
// KILLS is the number of kills, SEED repeats a run's choices.
func TestKillEitherEnd(t *testing.T) {
	kills := int(setting(t, "KILLS", 8))
	seed := setting(t, "SEED", time.Now().UnixNano())
	r := rand.New(rand.NewPCG(uint64(seed), 1))
	s := newSurvivor(t)
	began := time.Now()
	done := 0
	for i := 0; i < kills || i < kills+extra && slices.Contains(s.inFlight[:], 0); i++ {
		done = i + 1
		s.longest = longest << min(max(0, i-kills)/2, 6)
		what, f := "a sender", s.senderIsKilled
		if i%2 == 1 {
			what, f = "a receiver", s.receiverIsKilled
		}
		steadyIn, steadyOut := s.steadyIn.Load(), s.taker.n.Load()
		if err := f(i, r); err != nil {
			t.Fatalf("seed %d, kill %d of %s: %v", seed, i, what, err)
		}
		if err := s.asBefore(); err != nil {
			t.Fatalf("seed %d, kill %d of %s: %v", seed, i, what, err)
		}
		if err := s.serves(steadyIn, steadyOut); err != nil {
			t.Fatalf("seed %d, kill %d of %s: %v", seed, i, what, err)
		}
	}
	s.end()
	t.Logf("seed %d: %d kills in %.1f s; %d of senders and %d of receivers hit data in flight, %d came before there was a connection; slowest report %v",
		seed, done, time.Since(began).Seconds(), s.inFlight[0], s.inFlight[1], s.early, s.slowest.Round(time.Millisecond))
	if slices.Contains(s.inFlight[:], 0) {
		t.Errorf("kills with data in flight: %d of senders, %d of receivers: nothing is shown", s.inFlight[0], s.inFlight[1])
	}
}

// survivor is this process: a node that reads from a steady sender and writes to a steady receiver, and exchanges with those that
// are killed.
type survivor struct {
	t     *testing.T
	ctx   context.Context
	node  *weir.Node // what is judged
	third *weir.Node // reads beside those that are killed

	feeder, taker *child
	steadyIn      atomic.Int64
	steadyOut     *weir.Output
	enough        atomic.Bool
	steady        sync.WaitGroup
	steadyErr     [2]error
	written       int64 // to steadyOut; once steady is done
	base          state

	longest  time.Duration
	inFlight [2]int // kills that hit data in flight, of senders and of receivers
	early    int    // kills before the connection was there
	slowest  time.Duration
}

// state is what must not grow.
type state struct {
	guaranteed, pools, closing, thirds int
	goroutines, files                  int
}

func (s *survivor) state() state {
	u, v := s.node.Usage(), s.third.Usage()
	st := state{guaranteed: u.Guaranteed, pools: u.LocalPools, closing: u.Closing + v.Closing, thirds: v.Guaranteed, goroutines: runtime.NumGoroutine()}
	if entries, err := os.ReadDir("/proc/self/fd"); err == nil {
		st.files = len(entries)
	}
	return st
}

func (a state) within(b state) bool {
	return a.guaranteed == b.guaranteed && a.pools == b.pools && a.closing == b.closing && a.thirds == b.thirds && a.goroutines <= b.goroutines &&
		a.files <= b.files
}

func newSurvivor(t *testing.T) *survivor {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	s := &survivor{t: t, ctx: ctx}
	open := func(cfg weir.Config) *weir.Node {
		n, err := weir.Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := n.Close(); err != nil {
				t.Errorf("closing the survivor: %v", err)
			}
		})
		return n
	}
	s.node = open(weir.Config{Listen: "127.0.0.1:0", Memory: 32 << 20, Poll: -1})
	s.third = open(weir.Config{Memory: 8 << 20, Poll: -1})
	const pause = 500 * time.Microsecond
	var err error
	s.steadyOut, err = s.node.NewOutput(weir.OutputConfig{Name: "steady out", FlushEach: true})
	if err != nil {
		t.Fatal(err)
	}
	s.taker = spawn(t, role{Addr: s.node.Addr().String(), Name: "steady out", Subs: 1})
	t.Cleanup(s.taker.kill)
	s.feeder = spawn(t, role{Name: "steady in", Subs: 1, Pause: pause})
	t.Cleanup(s.feeder.kill)
	in, err := s.node.NewInput(weir.InputConfig{Sources: []weir.Source{{Addr: <-s.feeder.addr, Name: "steady in"}}})
	if err != nil {
		t.Fatal(err)
	}
	s.steady.Go(func() {
		s.steadyErr[0] = errors.Join(count(s.ctx, in, 0, 1, 0, &s.steadyIn), in.Close())
	})
	s.steady.Go(func() { s.steadyErr[1] = s.writeSteadily(pause) })
	if err := s.serves(0, 0); err != nil {
		t.Fatal(err)
	}
	s.base = s.state()
	return s
}

func (s *survivor) writeSteadily(pause time.Duration) error {
	var rec []byte
	for ; !s.enough.Load(); s.written++ {
		rec = appendRecord(rec[:0], uint64(s.written))
		if err := s.steadyOut.Write(s.ctx, nil, rec); err != nil {
			return err
		}
		time.Sleep(pause)
	}
	return errors.Join(s.steadyOut.Finish(s.ctx), s.steadyOut.Close())
}

// count reads until the end, or an error, and checks every record: the channels are subpartitions, from first on, of subs.
func count(ctx context.Context, in *weir.Input, first, subs int, pause time.Duration, n *atomic.Int64) error {
	next := make([]uint64, in.Channels())
	for e, err := range in.All(ctx) {
		if err != nil {
			return err
		}
		if e.Kind != weir.Record {
			continue
		}
		c := e.Channel
		if err := checkRecord(e.Value, uint64(first+c)+next[c]*uint64(subs)); err != nil {
			return fmt.Errorf("channel %d: %w", c, err)
		}
		next[c]++
		n.Add(1)
		time.Sleep(pause)
	}
	return nil
}

// serves waits until both steady exchanges have gone on from where they were.
func (s *survivor) serves(in, out int64) error {
	return await("the steady exchanges go on", func() bool { return s.steadyIn.Load() > in && s.taker.n.Load() > out })
}

// asBefore waits until the survivor has no more of anything than at the start.
func (s *survivor) asBefore() error {
	var now state
	if err := await("", func() bool { now = s.state(); return now.within(s.base) }); err != nil {
		stacks := make([]byte, 1<<16)
		return fmt.Errorf("left behind: %+v, before %+v\n%s", now, s.base, stacks[:runtime.Stack(stacks, true)])
	}
	return nil
}

var errHangs = errors.New("it still waits")

// within returns what comes from done, or errHangs.
func within(done <-chan error) error {
	select {
	case err := <-done:
		return err
	case <-time.After(2 * soon):
		return errHangs
	}
}

func await(what string, f func() bool) error {
	for begin := time.Now(); !f(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > soon {
			return fmt.Errorf("not within %v: %s", soon, what)
		}
	}
	return nil
}

// end lets the steady exchanges come to their ends: nothing may be missing.
func (s *survivor) end() {
	s.enough.Store(true)
	fed, err := s.feeder.finish(2 * soon)
	if err != nil {
		s.t.Errorf("the steady sender: %v", err)
	}
	s.steady.Wait()
	took, err := s.taker.finish(2 * soon)
	if err := errors.Join(err, s.steadyErr[0], s.steadyErr[1]); err != nil {
		s.t.Errorf("the steady exchanges: %v", err)
	}
	if fed != s.steadyIn.Load() || took != s.written {
		s.t.Errorf("read %d of %d, another read %d of %d", s.steadyIn.Load(), fed, took, s.written)
	}
}

// report judges what a survivor said after a kill.
func (s *survivor) report(killed time.Time, err error, names ...string) error {
	d := time.Since(killed)
	s.slowest = max(s.slowest, d)
	if err == nil {
		return errors.New("no error")
	}
	for _, name := range names {
		if !strings.Contains(err.Error(), name) {
			return fmt.Errorf("the error does not name %q: %w", name, err)
		}
	}
	if d > soon {
		return fmt.Errorf("it took %v: %w", d, err)
	}
	return nil
}

// senderIsKilled reads from a sender, through up to three channels, that is killed.
func (s *survivor) senderIsKilled(i int, r *rand.Rand) error {
	name, subs := fmt.Sprintf("from victim %d", i), 1+r.IntN(3)
	victim := spawn(s.t, role{Name: name, Subs: subs})
	defer victim.kill()
	var addr string
	select {
	case addr = <-victim.addr:
	case <-victim.done:
		return errors.New("the sender did not start")
	}
	in, err := s.node.NewInput(weir.InputConfig{Sources: []weir.Source{{Addr: addr, Name: name, Last: subs - 1}}, Wait: time.Second})
	if err != nil {
		return err
	}
	pause := time.Duration(r.IntN(3)) * 500 * time.Microsecond
	var n atomic.Int64
	got := make(chan error, 1)
	go func() { got <- count(s.ctx, in, 0, subs, pause, &n) }()
	time.Sleep(time.Duration(r.Int64N(int64(s.longest)))) // the random moment
	before := n.Load()
	victim.kill()
	killed := time.Now()
	select {
	case err = <-got:
	case <-time.After(2 * soon):
		err = fmt.Errorf("the reader still waits; read %d", n.Load())
	}
	err = s.report(killed, err, addr, weir.NameID(name).String(), "channel ")
	if n.Load() > before {
		s.inFlight[0]++
	}
	if n.Load() == 0 {
		s.early++
	}
	return errors.Join(err, in.Close())
}

var peer = regexp.MustCompile(`subpartition 0: .*connection to 127\.0\.0\.1:\d+: `)

// receiverIsKilled writes to a receiver that is killed, in every other round with another one that reads a subpartition of the
// same output, and gets everything.
func (s *survivor) receiverIsKilled(i int, r *rand.Rand) (err error) {
	name, subs := fmt.Sprintf("to victim %d", i), 1+i/2%2
	out, err := s.node.NewOutput(weir.OutputConfig{Name: name, Subpartitions: subs, Partition: weir.RoundRobin, BufferTimeout: 5 * time.Millisecond})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	var other atomic.Int64
	otherErr := make(chan error, 1)
	if subs == 2 {
		in, err := s.third.NewInput(weir.InputConfig{Sources: []weir.Source{{Addr: s.node.Addr().String(), Name: name, Subpartition: 1}}})
		if err != nil {
			return err
		}
		go func() { otherErr <- errors.Join(count(s.ctx, in, 1, 2, 0, &other), in.Close()) }()
	}
	victim := spawn(s.t, role{Addr: s.node.Addr().String(), Name: name, Subs: subs, Pause: time.Duration(r.IntN(2)) * time.Millisecond, Stall: r.IntN(2) * 5})
	defer victim.kill()
	select {
	case <-victim.ready:
	case <-victim.done:
		return errors.New("the receiver did not start")
	}
	var dead atomic.Bool
	var written int64
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	said := make(chan error, 1)
	go func() {
		var err error
		written, err = writeUntil(ctx, out, &dead)
		said <- err
	}()
	time.Sleep(time.Duration(r.Int64N(int64(s.longest)))) // the random moment
	st := out.Stats(weir.OutputStats{})
	victim.kill()
	killed := time.Now()
	dead.Store(true)
	var none error
	for end := killed.Add(soon); ; {
		await, stop := context.WithTimeout(ctx, time.Second)
		none = out.AwaitConsumers(await)
		stop()
		if none == nil || strings.Contains(none.Error(), "[0]") || time.Now().After(end) { // the other one may not be there yet
			break
		}
	}
	if none != nil { // killed before it had asked for anything: nobody is gone, but one is missing
		s.early++
		cancel()
		<-said
		err = s.report(killed, none, "[0]", weir.NameID(name).String())
		if subs == 2 {
			err = errors.Join(err, out.Close())
			if other := within(otherErr); other == nil || errors.Is(other, errHangs) {
				err = errors.Join(err, fmt.Errorf("the one that stayed, whose output was closed: %w", other))
			}
		}
		return err
	}
	select {
	case err = <-said:
	case <-time.After(2 * soon):
		cancel()
		return fmt.Errorf("the writer still waits: %w; %+v", <-said, out.Stats(weir.OutputStats{}))
	}
	if !peer.MatchString(err.Error()) {
		return fmt.Errorf("the error does not name the peer: %w", err)
	}
	if err := s.report(killed, err, weir.NameID(name).String()); err != nil {
		return err
	}
	if st.Subpartitions[0].Queued > 0 {
		s.inFlight[1]++
	}
	if subs == 1 {
		return nil
	}
	if err := within(otherErr); err != nil {
		return fmt.Errorf("the one that stayed: %w", err)
	}
	if got := other.Load(); got != written/2 {
		return fmt.Errorf("the one that stayed got %d of %d", got, written/2)
	}
	return nil
}

// writeUntil writes records until there is an error, or a few hundred more once the victim is dead. The last word must be an
// error in any case.
func writeUntil(ctx context.Context, out *weir.Output, dead *atomic.Bool) (n int64, err error) {
	var rec []byte
	for more := 400; more > 0; n++ {
		rec = appendRecord(rec[:0], uint64(n))
		if err := out.Write(ctx, nil, rec); err != nil {
			return n, err
		}
		if dead.Load() && n%2 == 1 {
			more -= 2
		}
	}
	if err := out.Finish(ctx); err != nil {
		return n, err
	}
	return n, errors.New("the output finished as if nothing had happened")
}
