package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"
)

// BenchmarkRestart is the time from a member's Join to the last byte of a snapshot of 100 MB, read back and checked, with the
// coordinator already there: an epoch is fenced and the next one opened in each turn. The coordinator reads all of it once, to see
// whether it is whole, and the member once.
func BenchmarkRestart(b *testing.B) {
	const size = 100_000_000
	for _, direct := range []bool{false, true} {
		b.Run(fmt.Sprintf("mb=%d/direct=%t", size/1_000_000, direct), func(b *testing.B) {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
			defer cancel()
			store := dirStore(b)
			c, _ := coordinatorOf(b, CoordinatorConfig{Members: []string{"a"}, Store: store, Interval: time.Millisecond, MemberTimeout: time.Minute})
			cfg := MemberConfig{Name: "a", Timeout: time.Minute}
			if direct {
				cfg.Store = store
			}
			m := memberOf(b, c, cfg)
			e, err := m.Join(ctx)
			if err != nil {
				b.Fatal(err)
			}
			s := e.Snapshot(next(ctx, b, e, TriggerEvent).ID)
			if err := s.Put(ctx, "state", noise(size)); err != nil {
				b.Fatal(err)
			}
			if err := s.Ack(); err != nil {
				b.Fatal(err)
			}
			next(ctx, b, e, CompletedEvent)
			buf := make([]byte, 256<<10)
			b.SetBytes(size)
			b.ResetTimer()
			for b.Loop() {
				e.Fail(errors.New("again"))
				for {
					if _, err = e.Next(ctx); err != nil {
						break
					}
				}
				if e, err = m.Join(ctx); err != nil {
					b.Fatal(err)
				}
				r, err := e.Restored().Open(ctx, "state")
				if err != nil {
					b.Fatal(err)
				}
				n, err := io.CopyBuffer(io.Discard, struct{ io.Reader }{r}, buf)
				if err != nil || n != size {
					b.Fatal(n, err)
				}
				r.Close()
			}
		})
	}
}

// BenchmarkSnapshot is the time from Create to the durable end of a part of 100 MB, and the small checkpoint's round: trigger,
// part, acknowledgement, metadata, completion.
func BenchmarkSnapshot(b *testing.B) {
	for _, size := range []int{100, 100_000_000} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
			defer cancel()
			c, _ := coordinatorOf(b, CoordinatorConfig{Members: []string{"a"}, Store: dirStore(b), Interval: time.Nanosecond, MemberTimeout: time.Minute, Retain: 1})
			m := memberOf(b, c, MemberConfig{Name: "a", Timeout: time.Minute})
			e, err := m.Join(ctx)
			if err != nil {
				b.Fatal(err)
			}
			data := noise(size)
			b.SetBytes(int64(size))
			b.ResetTimer()
			for b.Loop() {
				s := e.Snapshot(next(ctx, b, e, TriggerEvent).ID)
				if err := s.Put(ctx, "state", data); err != nil {
					b.Fatal(err)
				}
				if err := s.Ack(); err != nil {
					b.Fatal(err)
				}
				next(ctx, b, e, CompletedEvent)
			}
		})
	}
}

// BenchmarkPart is the price of the format: checksums and framing, without a disk.
func BenchmarkPart(b *testing.B) {
	data := noise(1 << 20)
	b.Run("op=encode", func(b *testing.B) {
		e := newEncoder(io.Discard)
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			if _, err := e.Write(data); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("op=decode", func(b *testing.B) {
		part := encoded(b, data)
		buf := make([]byte, 256<<10)
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			if _, err := io.CopyBuffer(io.Discard, struct{ io.Reader }{newDecoder(bytes.NewReader(part))}, buf); err != nil {
				b.Fatal(err)
			}
		}
	})
}
