package s3store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/weirflow/weir/checkpoint"
)

const (
	bucket = "weir"
	limit  = 4 * time.Minute
)

// fake is an object store in memory. fail, if set, answers a request with a status instead; lose does it, and loses the answer.
type fake struct {
	url        string
	fail, lose atomic.Pointer[func(*http.Request) bool]
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{}
	backend := s3mem.New()
	handler := gofakes3.New(backend).Server()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fail := f.fail.Load(); fail != nil && (*fail)(r) {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		if lose := f.lose.Load(); lose != nil && (*lose)(r) {
			handler.ServeHTTP(httptest.NewRecorder(), r)
			http.Error(w, "lost", http.StatusForbidden)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	f.url = strings.TrimPrefix(server.URL, "http://")
	if err := f.client(t).MakeBucket(context.Background(), bucket, minio.MakeBucketOptions{}); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fake) client(t *testing.T) *minio.Client {
	t.Helper()
	client, err := minio.New(f.url, &minio.Options{Creds: credentials.NewStaticV4("key", "secret", ""), Region: "us-east-1", MaxRetries: 1})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func (f *fake) store(t *testing.T, prefix string) *Store {
	t.Helper()
	s, err := New(f.client(t), Options{Bucket: bucket, Prefix: prefix, PartSize: 5 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

func put(ctx context.Context, s *Store, id int64, part string, data []byte) error {
	b, err := s.Put(ctx, id, part)
	if err != nil {
		return err
	}
	defer b.Abort()
	if _, err := b.Write(data); err != nil {
		return err
	}
	return b.Commit()
}

// TestStore walks through all that a store promises.
func TestStore(t *testing.T) {
	for _, prefix := range []string{"", "some/pipeline"} {
		t.Run("prefix="+prefix, func(t *testing.T) {
			ctx := testContext(t)
			f := newFake(t)
			s := f.store(t, prefix)
			large := bytes.Repeat([]byte("0123456789abcdef"), 11<<16) // 11 MiB, three uploads
			for part, data := range map[string][]byte{"a/one": []byte("1"), "a/large": large, "b/two": []byte("22")} {
				if err := put(ctx, s, 12, part, data); err != nil {
					t.Fatal(part, err)
				}
			}
			parts, err := s.Parts(ctx, 12)
			if want := fmt.Sprint(map[string]int64{"a/one": 1, "a/large": int64(len(large)), "b/two": 2}); err != nil || fmt.Sprint(parts) != want {
				t.Errorf("parts: %v, %v, want %s", parts, err, want)
			}
			r, err := s.Get(ctx, 12, "a/large")
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(r)
			r.Close()
			if err != nil || !bytes.Equal(got, large) {
				t.Errorf("read %d bytes, %v", len(got), err)
			}
			if _, err := s.Get(ctx, 12, "a/none"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a part that is not there: %v", err)
			}
			if _, err := s.Metadata(ctx, 12); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("metadata before it is complete: %v", err)
			}
			if err := s.Complete(ctx, 12, []byte("meta")); err != nil {
				t.Fatal(err)
			}
			if err := put(ctx, s, 9, "a/one", []byte("1")); err != nil {
				t.Fatal(err)
			}
			if list, err := s.List(ctx); err != nil || fmt.Sprint(list) != "[{9 false} {12 true}]" {
				t.Errorf("list: %v, %v", list, err)
			}
			if m, err := s.Metadata(ctx, 12); err != nil || string(m) != "meta" {
				t.Errorf("metadata: %q, %v", m, err)
			}
			for _, id := range []int64{12, 12, 77} {
				if err := s.Delete(ctx, id); err != nil {
					t.Errorf("delete %d: %v", id, err)
				}
			}
			if list, err := s.List(ctx); err != nil || fmt.Sprint(list) != "[{9 false}]" {
				t.Errorf("list after delete: %v, %v", list, err)
			}
			b, err := s.Put(ctx, 13, "a/given-up")
			if err != nil {
				t.Fatal(err)
			}
			b.Write(large)
			b.Abort()
			if parts, err := s.Parts(ctx, 13); err != nil || len(parts) > 0 {
				t.Errorf("what was given up is there: %v, %v", parts, err)
			}
		})
	}
}

// TestState: of two stores that know the same state one can replace it; an answer that was lost locks nobody out.
func TestState(t *testing.T) {
	ctx := testContext(t)
	f := newFake(t)
	one, two := f.store(t, "p"), f.store(t, "p")
	if _, err := one.LoadState(ctx); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no state yet: %v", err)
	}
	if err := one.SaveState(ctx, []byte("1")); err != nil {
		t.Fatal(err)
	}
	if err := two.SaveState(ctx, []byte("2")); !errors.Is(err, checkpoint.ErrLocked) {
		t.Errorf("saving over a state that was never read: %v", err)
	}
	if st, err := two.LoadState(ctx); err != nil || string(st) != "1" {
		t.Errorf("loaded %q, %v", st, err)
	}
	if err := two.SaveState(ctx, []byte("2")); err != nil {
		t.Fatal(err)
	}
	if err := one.SaveState(ctx, []byte("1 again")); !errors.Is(err, checkpoint.ErrLocked) {
		t.Errorf("saving by who was overtaken: %v", err)
	}
	lost := 0
	lose := func(r *http.Request) bool {
		if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, stateName) {
			lost++
			return true
		}
		return false
	}
	f.lose.Store(&lose)
	if err := two.SaveState(ctx, []byte("3")); err == nil {
		t.Error("an answer was lost, and there is no error")
	}
	f.lose.Store(nil)
	if err := two.SaveState(ctx, []byte("4")); err != nil || lost == 0 {
		t.Errorf("saving after %d answers were lost: %v", lost, err)
	}
	if st, err := f.store(t, "p").LoadState(ctx); err != nil || string(st) != "4" {
		t.Errorf("the state is %q, %v", st, err)
	}
}

// TestErrors: a store that refuses is named with the object, and nothing half is visible.
func TestErrors(t *testing.T) {
	ctx := testContext(t)
	f := newFake(t)
	s := f.store(t, "p")
	if err := put(ctx, s, 1, "a/x", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := s.Complete(ctx, 1, []byte("meta")); err != nil {
		t.Fatal(err)
	}
	refuse := func(r *http.Request) bool { return r.Method == http.MethodPut || r.Method == http.MethodPost }
	f.fail.Store(&refuse)
	for what, err := range map[string]error{
		"p/chk-2/a/x": put(ctx, s, 2, "a/x", []byte("x")), "p/chk-2/_metadata": s.Complete(ctx, 2, nil), "p/_state": s.SaveState(ctx, nil),
	} {
		if err == nil || !strings.Contains(err.Error(), bucket+"/"+what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	f.fail.Store(nil)
	if list, err := s.List(ctx); err != nil || fmt.Sprint(list) != "[{1 true}]" {
		t.Errorf("list: %v, %v", list, err)
	}
	gone, err := New(f.client(t), Options{Bucket: "none"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gone.List(ctx); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a bucket that is not there: %v", err)
	}
}

// TestPipeline: a coordinator and a member whose checkpoints are in the bucket, the member's by a way of its own; both start again.
func TestPipeline(t *testing.T) {
	ctx := testContext(t)
	f := newFake(t)
	for round := int32(1); round <= 2; round++ {
		c, err := checkpoint.NewCoordinator(checkpoint.CoordinatorConfig{
			Members: []string{"a"}, Store: f.store(t, "p"), Listen: "127.0.0.1:0", Interval: 10 * time.Millisecond, MemberTimeout: 30 * time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		run, stop := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- c.Run(run) }()
		m, err := checkpoint.NewMember(checkpoint.MemberConfig{Name: "a", Coordinator: c.Addr().String(), Store: f.store(t, "p")})
		if err != nil {
			t.Fatal(err)
		}
		e, err := m.Join(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if e.Number() != round {
			t.Errorf("epoch %d, want %d", e.Number(), round)
		}
		if round == 2 {
			if got, err := e.Restored().Get(ctx, "state", 100); err != nil || string(got) != "round 1" {
				t.Errorf("restored %q, %v", got, err)
			}
		}
		for ev := (checkpoint.Event{}); ev.Kind != checkpoint.CompletedEvent; {
			if ev, err = e.Next(ctx); err != nil {
				t.Fatal(err)
			}
			if ev.Kind == checkpoint.AbortedEvent {
				t.Fatalf("checkpoint %d: %s", ev.ID, ev.Cause)
			}
			if ev.Kind == checkpoint.TriggerEvent {
				s := e.Snapshot(ev.ID)
				if err := s.Put(ctx, "state", fmt.Appendf(nil, "round %d", round)); err != nil {
					t.Fatal(err)
				}
				if err := s.Ack(); err != nil {
					t.Fatal(err)
				}
			}
		}
		m.Close()
		stop()
		<-done
	}
}
