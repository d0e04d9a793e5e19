package inspect

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// joined takes a stream; what is missing is zero bytes.
type joined struct {
	all      []byte
	missing  int64
	repeated int64
}

func (j *joined) bytes(p []byte) error { j.all = append(j.all, p...); return nil }
func (j *joined) gap(n int64) error {
	j.missing += n
	j.all = append(j.all, make([]byte, n)...)
	return nil
}
func (j *joined) again(n int64) error { j.repeated += n; return nil }

// Whatever is cut, swapped, repeated and lost: what comes out is the stream, but for what never came.
func TestStreamModel(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 7))
		content := make([]byte, 200+r.IntN(4000))
		for i := range content {
			content[i] = byte(1 + r.IntN(255))
		}
		isn := r.Uint32() | 0xfffff000*uint32(r.IntN(2)) // half of them wrap around
		var segments []piece
		add := func(from, to, cut int) {
			segments = append(segments, piece{isn + uint32(from), content[from : to-cut], cut})
		}
		for at := 0; at < len(content); {
			n := min(1+r.IntN(300), len(content)-at)
			cut := 0
			if r.IntN(20) == 0 {
				cut = r.IntN(n + 1)
			}
			add(at, at+n, cut)
			at += n
			if r.IntN(4) == 0 { // a part of what was there, in other pieces
				from := r.IntN(at)
				add(from, from+1+r.IntN(at-from), 0)
			}
		}
		segments = slices.DeleteFunc(segments, func(piece) bool { return r.IntN(15) == 0 })
		for range len(segments) / 3 {
			i := r.IntN(len(segments))
			k := min(i+r.IntN(5), len(segments)-1)
			segments[i], segments[k] = segments[k], segments[i]
		}
		var j joined
		s := stream{begun: true, next: isn, consumer: &j}
		acked := isn
		there := make([]bool, len(content))
		total := 0
		for _, p := range segments {
			off := int(p.seq - isn)
			for i := range p.data {
				there[off+i] = true
			}
			total += len(p.data) + p.cut
			if err := s.add(p); err != nil {
				t.Fatal(err)
			}
			if end := p.seq + p.len(); int32(end-acked) > 0 {
				acked = end
			}
			if r.IntN(3) == 0 {
				if err := s.ack(acked); err != nil {
					t.Fatal(err)
				}
			}
		}
		s.fin, s.finSeq = true, isn+uint32(len(content))
		if err := s.finish(); err != nil {
			t.Fatal(err)
		}
		if n := len(content) - len(j.all); n != 0 && n != 1 { // a last byte that is missing may be the end itself
			t.Fatalf("seed %d: %d bytes of %d", seed, len(j.all), len(content))
		}
		for i, b := range j.all {
			if b != content[i] && b != 0 {
				t.Fatalf("seed %d: byte %d is %d, not %d", seed, i, b, content[i])
			}
		}
		lost := 0
		for _, ok := range there {
			if !ok {
				lost++
			}
		}
		if j.missing < int64(lost)-1 {
			t.Fatalf("seed %d: %d bytes are missing, %d never came", seed, j.missing, lost)
		}
		if !s.ended() || len(s.held) != 0 || s.bytes != 0 {
			t.Fatalf("seed %d: ended %v, %d pieces with %d bytes are held", seed, s.ended() || len(j.all) < len(content), len(s.held), s.bytes)
		}
	}
}

// Bytes that the other end has and the capture has not are given up after a while, not only at the end.
func TestStreamGivesUp(t *testing.T) {
	var j joined
	s := stream{begun: true, next: 100, consumer: &j}
	if err := s.add(piece{110, []byte("after"), 0}); err != nil {
		t.Fatal(err)
	}
	for i := range patience + 1 {
		if j.missing > 0 {
			t.Fatalf("given up after %d packets", i)
		}
		if err := s.ack(115); err != nil {
			t.Fatal(err)
		}
	}
	if j.missing != 10 || !bytes.HasSuffix(j.all, []byte("after")) {
		t.Errorf("%d missing, %q", j.missing, j.all)
	}
	// What waits is bounded, acknowledged or not.
	s.consumer = nothing{}
	big := make([]byte, 1<<20)
	for i := range 8 {
		if err := s.add(piece{1000 + uint32(i)<<20, big, 0}); err != nil {
			t.Fatal(err)
		}
		if s.bytes > maxHeld {
			t.Fatalf("%d bytes are held", s.bytes)
		}
	}
	for i := range 2 * maxPieces {
		if err := s.add(piece{1<<30 + 2*uint32(i), []byte{1}, 0}); err != nil {
			t.Fatal(err)
		}
		if len(s.held) > maxPieces {
			t.Fatalf("%d pieces are held", len(s.held))
		}
	}
}

// nothing takes a stream and forgets it.
type nothing struct{}

func (nothing) bytes([]byte) error { return nil }
func (nothing) gap(int64) error    { return nil }
func (nothing) again(int64) error  { return nil }

// Errors of the consumer come out wherever they arise.
func TestStreamConsumerFails(t *testing.T) {
	for i, f := range []func(s *stream) error{
		func(s *stream) error { return s.add(piece{0, []byte("x"), 0}) },
		func(s *stream) error { return s.add(piece{0, nil, 3}) },
		func(s *stream) error { return s.add(piece{^uint32(2), []byte("xyz"), 0}) },
		func(s *stream) error { _ = s.add(piece{5, []byte("x"), 0}); return s.finish() },
		func(s *stream) error { s.fin, s.finSeq = true, 9; return s.finish() },
	} {
		s := stream{begun: true, consumer: broken{}}
		if err := f(&s); err != errFull {
			t.Errorf("case %d: %v", i, err)
		}
	}
}

type broken struct{}

func (broken) bytes([]byte) error { return errFull }
func (broken) gap(int64) error    { return errFull }
func (broken) again(int64) error  { return errFull }

// Ports that are used again are another connection, and a capture that lacks the first bytes is read all the same.
func TestConnectionsInARow(t *testing.T) {
	f, cfg, size := load(t, "basic")
	w := newWire(linkEthernet, true)
	for i := range 2 {
		w.handshake()
		w.play(t, f, 1400)
		w.fin()
		w.raw(ToServer, w.seq[ToServer], tcpACK, nil) // late
		w.seq = [2]uint32{uint32(77 + i), 1 << 31}
	}
	r, err := readPackets(t, capturedBytes(w), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.summaries) != 2 || r.summaries[0].Bytes != size || r.summaries[1].Bytes != size || r.frames[len(r.frames)-1].Conn != 2 {
		t.Errorf("%d summaries, notes %q", len(r.summaries), r.notes)
	}
	w = newWire(linkEthernet, false)
	w.handshake()
	w.handshake() // sent again
	begin := len(w.packets)
	w.play(t, f, 500)
	w.packets = slices.Delete(w.packets, begin, begin+1) // the request
	w.fin()
	r, err = readPackets(t, capturedBytes(w), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if s := r.summaries[0]; len(r.summaries) != 1 || s.Missing[ToServer] != 97 || s.Bytes[ToClient] != size[ToClient] || s.Bytes[ToServer] != size[ToServer]-97 {
		t.Errorf("%+v, notes %q", s, r.notes)
	}
	if got := fmt.Sprint(r.frames[0].State.CreditKnown); got != "false" {
		t.Error("credit is known without the request")
	}
}
