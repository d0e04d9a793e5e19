package checkpoint

import (
	"context"
	"testing"
	"time"
)

// TestJoinOutlivesAnEpoch: an epoch that is fenced before the goroutine in Join runs is passed over, and the next one is wanted.
func TestJoinOutlivesAnEpoch(t *testing.T) {
	m, err := NewMember(MemberConfig{Name: "a", Coordinator: "127.0.0.1:1", Reconnect: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got := make(chan int32, 1)
	go func() {
		e, err := m.Join(ctx)
		if err != nil {
			t.Error(err)
			got <- 0
			return
		}
		got <- e.Number()
	}()
	// awaitJoining takes the lock when the member wants an epoch.
	awaitJoining := func() {
		t.Helper()
		for {
			m.mu.Lock()
			if m.side.state == sideJoining {
				return
			}
			changed := m.changed
			m.mu.Unlock()
			select {
			case <-changed:
			case <-time.After(time.Millisecond): // Join says nothing to others when it begins
			case <-ctx.Done():
				t.Fatal("the member wants no epoch any more")
			}
		}
	}
	for epoch := int32(1); epoch <= 3; epoch++ {
		awaitJoining()
		m.take(&message{Kind: msgWelcome, Epoch: epoch})
		m.take(&message{Kind: msgFenced, Epoch: epoch, Cause: "somebody was lost"})
		m.mu.Unlock()
	}
	awaitJoining()
	m.take(&message{Kind: msgWelcome, Epoch: 4})
	m.mu.Unlock()
	if n := <-got; n != 4 {
		t.Fatalf("epoch %d, want 4", n)
	}
}
