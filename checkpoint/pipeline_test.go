package checkpoint

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

var abc = []string{"a", "b", "c"}

func membersOf(t testing.TB, c *Coordinator, names ...string) (members []*Member) {
	for _, name := range names {
		members = append(members, memberOf(t, c, MemberConfig{Name: name}))
	}
	return members
}

// TestCheckpointIsRestored: a checkpoint completes, a member is started again, and all go on from the checkpoint in the next epoch.
func TestCheckpointIsRestored(t *testing.T) {
	for _, direct := range []bool{false, true} {
		t.Run(fmt.Sprintf("direct=%t", direct), func(t *testing.T) {
			ctx := testContext(t)
			store := dirStore(t)
			c, _ := coordinatorOf(t, CoordinatorConfig{Members: abc, Store: store, Interval: 10 * time.Millisecond})
			member := func(name string) *Member {
				cfg := MemberConfig{Name: name}
				if direct {
					cfg.Store = store
				}
				return memberOf(t, c, cfg)
			}
			members := []*Member{member("a"), member("b"), member("c")}
			epochs := joinAll(ctx, t, members...)
			if epochs[0].Number() != 1 || epochs[0].Restored() != nil {
				t.Fatalf("the first epoch is %d, from %v", epochs[0].Number(), epochs[0].Restored())
			}
			var id int64
			for i, e := range epochs {
				id = next(ctx, t, e, TriggerEvent).ID
				ack(ctx, t, e, id, fmt.Sprintf("state of %s", abc[i]))
			}
			for _, e := range epochs {
				if ev := next(ctx, t, e, CompletedEvent); ev.ID != id || ev.Last {
					t.Errorf("completed: %+v", ev)
				}
			}
			members[1].Close()
			members[1] = member("b")
			again := make(chan []*Epoch, 1)
			go func() { again <- joinAll(ctx, t, members[1]) }()
			for _, i := range []int{0, 2} {
				if err := untilOver(ctx, t, epochs[i]); !errors.Is(err, ErrFenced) {
					t.Errorf("member %s: the epoch ended with %v", abc[i], err)
				}
			}
			two := joinAll(ctx, t, members[0], members[2])
			two = []*Epoch{two[0], (<-again)[0], two[1]}
			for i, e := range two {
				if e.Number() != 2 || e.Restored().ID() != id {
					t.Fatalf("epoch %d from checkpoint %d, want 2 from %d", e.Number(), e.Restored().ID(), id)
				}
				got, err := e.Restored().Get(ctx, "state", 1000)
				if want := fmt.Sprintf("state of %s", abc[i]); err != nil || string(got) != want {
					t.Errorf("restored %q, %v, want %q", got, err, want)
				}
			}
		})
	}
}

// TestLastCheckpoint: when all have reached the end of their data, one last checkpoint follows at once, and the coordinator ends.
func TestLastCheckpoint(t *testing.T) {
	ctx := testContext(t)
	store := dirStore(t)
	c, err := NewCoordinator(CoordinatorConfig{Members: abc, Store: store, Interval: time.Hour, Listen: "127.0.0.1:0", Logger: testLogger(t)})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	members := membersOf(t, c, abc...)
	epochs := joinAll(ctx, t, members...)
	for _, e := range epochs {
		e.EndOfData()
	}
	for _, e := range epochs {
		ev := next(ctx, t, e, TriggerEvent)
		if !ev.Trigger.Final {
			t.Errorf("trigger %+v is not the final one", ev.Trigger)
		}
		ack(ctx, t, e, ev.ID, "end")
	}
	for i, e := range epochs {
		if ev := next(ctx, t, e, CompletedEvent); !ev.Last {
			t.Errorf("completed %+v is not the last one", ev)
		}
		if err := e.Finish(ctx); err != nil {
			t.Error(err)
		}
		members[i].Close()
	}
	if err := <-done; err != nil {
		t.Errorf("the coordinator ended with %v", err)
	}
}
