package credit

import (
	"errors"
	"testing"
	"time"
)

// openRig is a gate with a local channel that has no view yet, and a registry with a clock.
type openRig struct {
	*rig
	s     *senderRig
	reg   *Registry
	clock time.Duration
	local *LocalChannel
}

func newOpenRig(t *testing.T) *openRig {
	r := &openRig{s: newSenderRig(t, PartitionConfig{Exclusive: 2}, 8, 32)}
	r.reg = NewRegistry(RegistryConfig{Timeout: time.Second, MaxWaiting: 1, Clock: func() time.Duration { return r.clock }})
	r.rig = newRig(t, rigConfig{channels: 0})
	r.gate = NewGate(GateConfig{Channels: 1})
	r.link = r.gate.NewLink(DefaultLocalWindow, nil)
	var err error
	if r.port, err = NewGatePort(GatePortConfig{Link: r.link, Pool: r.recv}); err != nil {
		t.Fatal(err)
	}
	if r.local, err = r.port.NewLocalChannel(LocalConfig{Partition: senderPartition, Range: One(0)}); err != nil {
		t.Fatal(err)
	}
	r.gate.SetUpstream(0, r.link)
	t.Cleanup(func() {
		r.gate.Close()
		r.rig.pump()
		r.s.close()
	})
	return r
}

// fails checks what the channel's task gets.
func (r *openRig) fails(want error) {
	r.t.Helper()
	r.rig.pump()
	var ce *ChannelError
	if _, _, err := r.gate.Poll(); !errors.Is(err, want) || !errors.As(err, &ce) || ce.Partition != senderPartition {
		r.t.Errorf("got %v, want %v", err, want)
	}
	if r.local.Waits() {
		r.t.Error("it still waits")
	}
}

// waits opens the channel, and checks that it waits as long as it takes, and does not count among those that have a deadline.
func (r *openRig) waits() {
	r.t.Helper()
	r.reg.OpenLocal(r.local)
	r.reg.OpenLocal(r.local) // again does nothing
	r.clock += time.Hour
	if _, more := r.reg.Expire(); more {
		r.t.Error("it has a deadline")
	}
	if _, n := r.reg.Len(); n != 0 || !r.local.Waits() || r.local.Err() != nil {
		r.t.Fatalf("%d requests with a deadline wait; the channel: %t, %v", n, r.local.Waits(), r.local.Err())
	}
}

func (r *openRig) register() {
	r.t.Helper()
	if err := r.reg.Register(r.s.part); err != nil {
		r.t.Fatal(err)
	}
}

// arrives registers the partition, and checks that the channel has a view of it.
func (r *openRig) arrives() {
	r.t.Helper()
	r.register()
	r.s.buffer(0, []byte("hello"), true)
	r.s.pump()
	r.rig.pump()
	if got := r.poll(); got == "" || r.local.Waits() || r.local.Err() != nil || len(r.reg.waiting) != 0 {
		r.t.Errorf("got %q; waits %t, %v; %d lists", got, r.local.Waits(), r.local.Err(), len(r.reg.waiting))
	}
}

func TestOpenLocal(t *testing.T) {
	for name, run := range map[string]func(r *openRig){
		"registered before": func(r *openRig) {
			r.register()
			r.reg.OpenLocal(r.local)
			if r.local.view == nil {
				r.t.Error("no view")
			}
			r.reg.OpenLocal(r.local) // again: the view stays, though there may be one only
			if r.local.Err() != nil {
				r.t.Error(r.local.Err())
			}
		},
		"registered after": func(r *openRig) {
			r.waits()
			r.arrives()
		},
		"among requests of peers": func(r *openRig) {
			var gone []string
			peer := func(name string) *waiter {
				w := &waiter{partition: senderPartition, found: func(Served) { r.t.Errorf("%s was found", name) }, gone: func(error) { gone = append(gone, name) }}
				r.reg.wait(w)
				return w
			}
			peer("first")
			r.reg.OpenLocal(r.local)
			last := peer("last")
			if _, n := r.reg.Len(); n != 2 {
				r.t.Errorf("%d wait", n)
			}
			r.clock += time.Second
			r.reg.drop(last)
			if _, more := r.reg.Expire(); more || len(gone) != 1 || gone[0] != "first" {
				r.t.Errorf("gone: %v", gone)
			}
			r.arrives()
		},
		"released before it was there": func(r *openRig) {
			r.waits()
			r.reg.Release(senderPartition, nil)
			r.fails(ErrPartitionNotFound)
		},
		"the registry closes": func(r *openRig) {
			r.waits()
			r.reg.Close()
			r.fails(ErrPartitionNotFound)
		},
		"the registry is closed": func(r *openRig) {
			r.reg.Close()
			r.reg.OpenLocal(r.local)
			r.fails(ErrPartitionNotFound)
		},
		"given up": func(r *openRig) {
			r.local.GiveUp() // it does not wait
			r.waits()
			r.local.GiveUp()
			r.fails(ErrPartitionNotFound)
			r.register() // nobody waits any more
			if r.local.view != nil {
				r.t.Error("it has a view all the same")
			}
		},
		"released while it waits": func(r *openRig) {
			r.waits()
			r.gate.Release(0)
			r.rig.pump()
			r.register()
			if !r.local.Released() || r.local.Waits() || r.s.part.Subpartition(0).HadView() {
				r.t.Error("it waited on")
			}
		},
		"no such subpartition": func(r *openRig) {
			r.local.cfg.Range = One(1)
			r.register()
			r.reg.OpenLocal(r.local)
			r.fails(errNoSubpartition)
		},
	} {
		t.Run(name, func(t *testing.T) { run(newOpenRig(t)) })
	}
}
