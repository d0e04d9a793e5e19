package checkpoint

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/weirflow/weir/internal/testcert"
)

// oneCheckpoint lets the members acknowledge what they are asked for until they all have heard of the same completed checkpoint, or
// a newer one, and returns its id.
func oneCheckpoint(ctx context.Context, t *testing.T, epochs ...*Epoch) int64 {
	t.Helper()
	type heard struct {
		id  int64
		err error
	}
	// until answers triggers until a checkpoint is completed that is not older than least.
	until := func(e *Epoch, least int64) (h heard) {
		for h.err == nil && (h.id == 0 || h.id < least) {
			var ev Event
			if ev, h.err = e.Next(ctx); h.err != nil {
				return h
			}
			switch ev.Kind {
			case TriggerEvent:
				s := e.Snapshot(ev.ID)
				_ = s.Put(ctx, "state", []byte("x")) // it may be settled meanwhile
				_ = s.Ack()
			case CompletedEvent:
				h.id = ev.ID
			}
		}
		return h
	}
	var newest int64
	for range 2 { // the second time for those that have heard of an older one
		all := make(chan heard, len(epochs))
		least := newest
		for _, e := range epochs {
			go func() {
				if h := (heard{id: least}); least > 0 && e.m.sideCompleted() >= least {
					all <- h
					return
				}
				all <- until(e, least)
			}()
		}
		for range epochs {
			h := <-all
			if h.err != nil {
				t.Fatalf("waiting for a checkpoint: %v", h.err)
			}
			newest = max(newest, h.id)
		}
	}
	return newest
}

// sideCompleted is the newest checkpoint that the member has heard of.
func (m *Member) sideCompleted() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.side.completed
}

// TestCoordinatorRestarts: the coordinator dies, data goes on flowing, no checkpoint completes; started again with the same folder it
// goes on in the same epoch, with ids that were not used; when a member is lost the next epoch begins from what it found.
func TestCoordinatorRestarts(t *testing.T) {
	ctx := testContext(t)
	store := dirStore(t)
	cfg := CoordinatorConfig{Members: []string{"a", "b"}, Store: store, Interval: 20 * time.Millisecond, MemberTimeout: 30 * time.Second}
	c, stop := coordinatorOf(t, cfg)
	p := proxyTo(t, c.Addr().String())
	a := memberOf(t, nil, MemberConfig{Name: "a", Coordinator: p.addr()})
	b := memberOf(t, nil, MemberConfig{Name: "b", Coordinator: p.addr()})
	epochs := joinAll(ctx, t, a, b)
	id := oneCheckpoint(ctx, t, epochs...)
	open := next(ctx, t, epochs[0], TriggerEvent).ID // and nobody acknowledges it in time
	stop()
	select {
	case <-epochs[0].Context().Done():
		t.Fatalf("the epoch ended with the coordinator: %v", context.Cause(epochs[0].Context()))
	default:
	}
	if err := epochs[0].Snapshot(open).Put(ctx, "state", nil); err == nil {
		t.Error("a part was put through a coordinator that is dead")
	}
	c, stop = coordinatorOf(t, cfg)
	p.block(false, c.Addr().String())
	if ev := next(ctx, t, epochs[0], AbortedEvent); ev.ID != open {
		t.Errorf("aborted is %d, want %d", ev.ID, open)
	}
	later := oneCheckpoint(ctx, t, epochs...)
	if later <= open+idBlock/2 {
		t.Errorf("checkpoint %d follows %d: its id may have been used", later, open)
	}
	if st := c.Status(); st.Epoch != 1 || st.Counts.Fenced != 0 {
		t.Errorf("status after the restart: %+v", st)
	}
	stop()
	b.Close()
	c, _ = coordinatorOf(t, cfg)
	p.block(false, c.Addr().String())
	b = memberOf(t, nil, MemberConfig{Name: "b", Coordinator: p.addr()})
	joined := make(chan *Epoch, 1)
	go func() {
		e, err := b.Join(ctx)
		if err != nil {
			t.Error(err)
		}
		joined <- e
	}()
	if err := untilOver(ctx, t, epochs[0]); !errors.Is(err, ErrFenced) {
		t.Errorf("the epoch ended with %v", err)
	}
	e, err := a.Join(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if other := <-joined; e.Number() != 2 || other.Number() != 2 || e.Restored().ID() != later {
		t.Errorf("epoch %d from checkpoint %d, want 2 from %d (an older one was %d)", e.Number(), e.Restored().ID(), later, id)
	}
}

// TestConnectionsCut: connections of control are cut again and again. The epoch and the checkpoints go on.
func TestConnectionsCut(t *testing.T) {
	ctx := testContext(t)
	c, _ := coordinatorOf(t, CoordinatorConfig{
		Members: []string{"a", "b"}, Store: dirStore(t), Interval: 10 * time.Millisecond, Timeout: 500 * time.Millisecond, MemberTimeout: 30 * time.Second,
	})
	p := proxyTo(t, c.Addr().String())
	epochs := joinAll(ctx, t, memberOf(t, nil, MemberConfig{Name: "a", Coordinator: p.addr()}), memberOf(t, c, MemberConfig{Name: "b"}))
	for range 5 {
		p.cut()
		oneCheckpoint(ctx, t, epochs...)
	}
	if st := c.Status(); st.Epoch != 1 || st.Counts.Fenced != 0 || st.Counts.Completed < 5 {
		t.Errorf("status: %+v", st)
	}
}

// TestSilentMember: a member that stands still is lost when its time is up, and learns when it wakes that its epoch is over.
func TestSilentMember(t *testing.T) {
	ctx := testContext(t)
	c, _ := coordinatorOf(t, CoordinatorConfig{
		Members: []string{"a", "b"}, Store: dirStore(t), Interval: time.Hour, MemberTimeout: 4 * time.Second, // longer than one that is not silent may be kept from running
	})
	p := proxyTo(t, c.Addr().String())
	a := memberOf(t, nil, MemberConfig{Name: "a", Coordinator: p.addr()})
	epochs := joinAll(ctx, t, a, memberOf(t, c, MemberConfig{Name: "b"}))
	p.stand(true)
	if err := untilOver(ctx, t, epochs[1]); !errors.Is(err, ErrFenced) {
		t.Errorf("the epoch of b ended with %v", err)
	}
	select {
	case <-epochs[0].Context().Done():
		t.Error("the silent member knows")
	default:
	}
	if err := epochs[0].Snapshot(1).Ack(); err != nil { // its trigger may be on the way, for all that the member knows
		t.Error(err)
	}
	p.stand(false)
	if err := untilOver(ctx, t, epochs[0]); !errors.Is(err, ErrFenced) {
		t.Errorf("the epoch of a ended with %v", err)
	}
	if err := epochs[0].Snapshot(1).Ack(); !errors.Is(err, ErrSettled) {
		t.Errorf("a checkpoint of an epoch that is over is acknowledged: %v", err)
	}
}

// TestSameName: two processes have the same name: the older one is out for good, the newer one is in the next epoch.
func TestSameName(t *testing.T) {
	ctx := testContext(t)
	store := dirStore(t)
	c, _ := coordinatorOf(t, CoordinatorConfig{Members: []string{"a", "b"}, Store: store, Interval: time.Millisecond})
	older, b := memberOf(t, c, MemberConfig{Name: "a"}), memberOf(t, c, MemberConfig{Name: "b"})
	epochs := joinAll(ctx, t, older, b)
	id := next(ctx, t, epochs[0], TriggerEvent).ID
	late := epochs[0].Snapshot(id)
	if err := late.Put(ctx, "state", []byte("older")); err != nil {
		t.Fatal(err)
	}
	newer := memberOf(t, c, MemberConfig{Name: "a"})
	done := make(chan *Epoch, 1)
	go func() {
		e, err := newer.Join(ctx)
		if err != nil {
			t.Error(err)
		}
		done <- e
	}()
	if err := untilOver(ctx, t, epochs[0]); !errors.Is(err, ErrReplaced) {
		t.Errorf("the older process: %v", err)
	}
	if err := late.Ack(); !errors.Is(err, ErrSettled) {
		t.Errorf("the older process acknowledges: %v", err)
	}
	if err := epochs[0].Snapshot(id).Put(ctx, "more", nil); err == nil {
		t.Error("the older process puts a part")
	}
	if _, err := older.Join(ctx); !errors.Is(err, ErrReplaced) {
		t.Errorf("the older process joins: %v", err)
	}
	eb, err := b.Join(ctx)
	if err != nil {
		t.Fatal(err)
	}
	ea := <-done
	if ea.Number() != 2 || eb.Number() != 2 || ea.Restored() != nil {
		t.Errorf("epochs %d and %d, from %v", ea.Number(), eb.Number(), ea.Restored())
	}
	oneCheckpoint(ctx, t, ea, eb)
}

// TestStoredBeforeFence: the metadata is written and nobody was told, since the coordinator died: it counts.
func TestStoredBeforeFence(t *testing.T) {
	ctx := testContext(t)
	dir := t.TempDir()
	crashed := make(chan struct{})
	store, err := OpenDir(dir, DirOptions{Hook: func(p Point, path string) error {
		select {
		case <-crashed:
			return errCrash // nothing happens any more in this process
		default:
		}
		if p == AfterRename && strings.HasSuffix(path, metadataName) {
			close(crashed)
			return errCrash
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	cfg := CoordinatorConfig{Members: []string{"a"}, Store: store, Interval: time.Millisecond, MemberTimeout: 30 * time.Second}
	c, stop := coordinatorOf(t, cfg)
	a := memberOf(t, c, MemberConfig{Name: "a"})
	e := joinAll(ctx, t, a)[0]
	id := next(ctx, t, e, TriggerEvent).ID
	ack(ctx, t, e, id, "state")
	<-crashed
	stop()
	a.Close()
	if cfg.Store, err = OpenDir(dir, DirOptions{}); err != nil {
		t.Fatal(err)
	}
	c, _ = coordinatorOf(t, cfg)
	e = joinAll(ctx, t, memberOf(t, c, MemberConfig{Name: "a"}))[0]
	if got := e.Restored().ID(); got != id {
		t.Errorf("the next epoch begins from checkpoint %d, want %d", got, id)
	}
}

// TestUploadCut: the connection breaks in the middle of a part: the checkpoint is declined, and nothing is left of it.
func TestUploadCut(t *testing.T) {
	ctx := testContext(t)
	store := dirStore(t)
	c, _ := coordinatorOf(t, CoordinatorConfig{Members: []string{"a"}, Store: store, Interval: 10 * time.Millisecond})
	p := proxyTo(t, c.Addr().String())
	e := joinAll(ctx, t, memberOf(t, nil, MemberConfig{Name: "a", Coordinator: p.addr()}))[0]
	id := next(ctx, t, e, TriggerEvent).ID
	s := e.Snapshot(id)
	w, err := s.Create(ctx, "big")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Ack(); err == nil {
		t.Error("a snapshot is acknowledged while a part is open")
	}
	data := noise(4 << 20)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	p.cut()
	err = nil
	for range 100 {
		if _, err = w.Write(data); err != nil {
			break
		}
	}
	if err == nil {
		err = w.Close()
	}
	if err == nil {
		t.Fatal("a part was put over a connection that is cut")
	}
	if err := s.Ack(); err == nil || errors.Is(err, ErrSettled) {
		t.Errorf("acknowledged without the part: %v", err)
	}
	if ev := next(ctx, t, e, AbortedEvent); ev.ID != id || !strings.Contains(ev.Cause, "part big") {
		t.Errorf("aborted: %+v", ev)
	}
	newer := oneCheckpoint(ctx, t, e)
	if m, err := NewArchive(store).Metadata(ctx, newer); err != nil || len(m.Members[0].Parts) != 1 {
		t.Errorf("the next checkpoint: %+v, %v", m, err)
	}
}

// TestManyParts: several parts at a time, one of them large, come back as they were.
func TestManyParts(t *testing.T) {
	ctx := testContext(t)
	c, _ := coordinatorOf(t, CoordinatorConfig{Members: []string{"a"}, Store: dirStore(t), Interval: time.Millisecond})
	m := memberOf(t, c, MemberConfig{Name: "a"})
	e := joinAll(ctx, t, m)[0]
	s := e.Snapshot(next(ctx, t, e, TriggerEvent).ID)
	data := noise(5<<20 + 17)
	errs := make(chan error, 3)
	for _, part := range []string{"one", "two", "three"} {
		go func() {
			w, err := s.Create(ctx, part)
			for rest := data; err == nil && len(rest) > 0; {
				n := min(len(rest), 100_003)
				_, err = w.Write(rest[:n])
				rest = rest[n:]
			}
			if err == nil {
				err = w.Close()
			}
			errs <- err
		}()
	}
	for range 3 {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Put(ctx, "one", nil); err == nil {
		t.Error("a part is put twice")
	}
	if err := s.Put(ctx, "../x", nil); !errors.Is(err, ErrName) {
		t.Errorf("a bad name: %v", err)
	}
	if err := s.Ack(); err != nil {
		t.Fatal(err)
	}
	next(ctx, t, e, CompletedEvent)
	e.Fail(errors.New("again"))
	untilOver(ctx, t, e)
	e = joinAll(ctx, t, m)[0]
	for _, part := range e.Restored().Parts() {
		r, err := e.Restored().Open(ctx, part)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("part %s: %d bytes, %v", part, len(got), err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := e.Restored().Get(ctx, "one", 1000); err == nil {
		t.Error("a part is longer than its limit")
	}
	if n := len(e.Restored().Parts()); n != 3 {
		t.Errorf("%d parts", n)
	}
}

// TestCoordinatorAway: a member does not wait for ever: not for a coordinator that is not there, nor with a context that ends.
func TestCoordinatorAway(t *testing.T) {
	ctx := testContext(t)
	c, stop := coordinatorOf(t, CoordinatorConfig{Members: []string{"a", "b"}, Store: dirStore(t)})
	a := memberOf(t, c, MemberConfig{Name: "a", Reconnect: 3 * time.Second})
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := a.Join(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("joining alone: %v", err)
	}
	b := memberOf(t, c, MemberConfig{Name: "b", Reconnect: -1})
	epochs := joinAll(ctx, t, a, b)
	stop()
	if err := untilOver(ctx, t, epochs[0]); !errors.Is(err, ErrCoordinatorAway) || !errors.Is(context.Cause(epochs[0].Context()), ErrCoordinatorAway) {
		t.Errorf("the epoch of a ended with %v", err)
	}
	if err := epochs[0].Finish(ctx); !errors.Is(err, ErrCoordinatorAway) {
		t.Errorf("finish: %v", err)
	}
	if _, err := a.Join(ctx); !errors.Is(err, ErrCoordinatorAway) {
		t.Errorf("join: %v", err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := epochs[1].Next(ctx)
		done <- err
	}()
	b.Close()
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Errorf("the epoch of b ended with %v", err)
	}
	if _, err := b.Join(ctx); !errors.Is(err, ErrClosed) {
		t.Errorf("join after close: %v", err)
	}
}

// TestTLS: both sides show a certificate, and one without is refused.
func TestTLS(t *testing.T) {
	ctx := testContext(t)
	ca := testcert.New(t, "authority")
	server := &tls.Config{Certificates: []tls.Certificate{ca.Issue(t, "coordinator", nil)}, ClientCAs: ca.Pool(), ClientAuth: tls.RequireAndVerifyClientCert}
	c, _ := coordinatorOf(t, CoordinatorConfig{Members: []string{"a"}, Store: dirStore(t), Interval: time.Millisecond, TLS: server})
	client := &tls.Config{Certificates: []tls.Certificate{ca.Issue(t, "a", nil)}, RootCAs: ca.Pool()}
	for name, cfg := range map[string]*tls.Config{"plain": nil, "no certificate": {RootCAs: ca.Pool()}, "unknown authority": {Certificates: client.Certificates}} {
		m := memberOf(t, c, MemberConfig{Name: "a", TLS: cfg, Reconnect: 50 * time.Millisecond, Timeout: 2 * time.Second})
		if _, err := m.Join(ctx); !errors.Is(err, ErrCoordinatorAway) {
			t.Errorf("%s: %v", name, err)
		}
	}
	m := memberOf(t, c, MemberConfig{Name: "a", TLS: client})
	e := joinAll(ctx, t, m)[0]
	oneCheckpoint(ctx, t, e)
	e.Fail(errors.New("again"))
	untilOver(ctx, t, e)
	e = joinAll(ctx, t, m)[0]
	if got, err := e.Restored().Get(ctx, "state", 10); err != nil || string(got) != "x" {
		t.Errorf("restored %q, %v", got, err)
	}
}
