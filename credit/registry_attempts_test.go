package credit

import (
	"errors"
	"strings"
	"testing"

	"github.com/weirflow/weir/segment"
)

// A producer that starts again is another partition, and from then on nobody gets, or offers, the one before.
func TestOldAttemptsAreRefused(t *testing.T) {
	r := newSenderRig(t, PartitionConfig{Exclusive: 2}, 4, 64)
	defer r.close()
	newer, w, local := r.newPartition(PartitionConfig{Exclusive: 2}, senderPartition.WithAttempt(2), 4)
	register := func() error { return r.reg.Register(newer) }
	if err := register(); err != nil {
		t.Fatal(err)
	}
	refused := func(id PartitionID) {
		t.Helper()
		r.requestOf(id, One(0), senderChannel(7), 1)
		if len(r.errors) != 1 {
			t.Fatalf("%d errors were sent", len(r.errors))
		}
		e := r.errors[0]
		r.errors = nil
		if e.Fatal || e.Receiver != senderChannel(7) || !strings.Contains(e.Cause.Message, ErrOldAttempt.Error()) ||
			!strings.Contains(e.Cause.Message, id.String()) {
			t.Errorf("got %+v", e)
		}
	}
	refused(senderPartition) // it is still there
	refused(senderPartition.WithAttempt(1))
	r.requestOf(senderPartition.WithAttempt(3), One(0), senderChannel(8), 1) // that is yet to come
	r.noError()
	if _, waiting := r.core.Readers(); waiting != 1 {
		t.Errorf("%d requests wait", waiting)
	}
	between, w1, local1 := r.newPartition(PartitionConfig{Exclusive: 2}, senderPartition.WithAttempt(1), 4)
	if err := r.reg.Register(between); !errors.Is(err, ErrOldAttempt) {
		t.Errorf("attempt 1 was taken: %v", err)
	}
	for _, end := range []func(){between.Release, newer.Release, w1.Close, w.Close} {
		end()
	}
	refused(senderPartition.WithAttempt(1)) // also once the newer one is over
	local.Close()
	local1.Close()
}

// What is remembered of the past is bounded.
func TestAttemptsAreForgotten(t *testing.T) {
	var a attempts
	id := func(i int32) PartitionID { return MakePartitionID(ID{9}, i, ID{}, ID{}, 0, 1) }
	for i := range int32(2 * maxRemembered) {
		a.add(id(i))
		a.remove(id(i))
	}
	if n := len(a.byPartition); n != maxRemembered || len(a.over) != maxRemembered {
		t.Errorf("%d are remembered in a line of %d", n, len(a.over))
	}
	if a.outdated(id(2*maxRemembered-1).WithAttempt(0)) == nil || a.outdated(id(0).WithAttempt(0)) != nil {
		t.Error("the wrong ones were forgotten")
	}
	a.add(id(0).WithAttempt(0))
	a.remove(id(0).WithAttempt(0))
	if len(a.byPartition) != maxRemembered {
		t.Error("the first attempt has none before it, and is remembered")
	}
}

// What is to come after events comes after the loop has them, also when the ring has no room for a while, and when the partition is
// released meanwhile.
func TestThen(t *testing.T) {
	r := newSenderRig(t, PartitionConfig{Exclusive: 2, Subpartitions: 3, Events: 1}, 1, 64)
	defer r.close()
	called := 0
	for range 40 {
		for sub := range 3 {
			r.w.AddEvent(sub, segment.Wrap(endOfPartition[:], segment.EventBuffer))
		}
	}
	if !r.w.Then(func() { called++ }) {
		t.Fatal("refused")
	}
	for turns := 0; called == 0; turns++ {
		if turns > 1000 {
			t.Fatal("never called")
		}
		r.part.Poll()
		r.w.Publish()
		if called > 0 && r.part.Subpartition(2).Queued() != 40 {
			t.Errorf("called when %d of 40 events were there", r.part.Subpartition(2).Queued())
		}
	}
	r.w.Then(func() { called++ })
	r.part.Release()
	r.part.Poll()
	if called != 2 {
		t.Error("not called after the release")
	}
	if r.w.Then(func() {}) {
		t.Error("taken after the release")
	}
}
