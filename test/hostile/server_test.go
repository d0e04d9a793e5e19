package hostile

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"strings"
	"time"

	"github.com/weirflow/weir"
	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// bad is the partition that hostile servers serve.
var bad = weir.NameID("bad")

// session is an input of the victim at a hostile server.
type session struct {
	net.Conn
	v    *victim
	in   *weir.Input
	name string // the server's address
	id   credit.ChannelID
}

// serve opens an input of the victim at a hostile server, and returns once its request has come.
func (v *victim) serve() *session {
	v.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		v.t.Fatal(err)
	}
	defer l.Close()
	s := &session{v: v, name: l.Addr().String()}
	if s.in, err = v.node.NewInput(weir.InputConfig{Sources: []weir.Source{{Addr: s.name, Name: "bad"}}, Wait: time.Second}); err != nil {
		v.t.Fatal(err)
	}
	if err := l.(*net.TCPListener).SetDeadline(time.Now().Add(hang)); err != nil {
		v.t.Fatal(err)
	}
	if s.Conn, err = l.Accept(); err != nil {
		v.t.Fatal(err)
	}
	v.t.Cleanup(func() {
		_ = s.Close()
		_ = s.in.Close()
	})
	p := make([]byte, 97)
	if _, err := io.ReadFull(s, p); err != nil {
		v.t.Fatal(err)
	}
	copy(s.id[:], p[9+68:])
	return s
}

func (s *session) send(p []byte) {
	s.v.t.Helper()
	_ = s.SetWriteDeadline(time.Now().Add(hang))
	if _, err := s.Write(p); err != nil && !errors.Is(err, net.ErrClosed) && !strings.Contains(err.Error(), "reset") && !strings.Contains(err.Error(), "pipe") {
		s.v.t.Fatal(err)
	}
}

// fails waits for the input's error, which must name the server and the partition.
func (s *session) fails(what string) error {
	s.v.t.Helper()
	for {
		_, err := s.in.Next(limited(s.v.t))
		if err == nil {
			continue
		}
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF) {
			s.v.t.Fatalf("%s: %v", what, err)
		}
		if !strings.Contains(err.Error(), s.name) {
			s.v.t.Errorf("%s: the error does not name %s: %v", what, s.name, err)
		}
		return err
	}
}

// end closes the session's both ends.
func (s *session) end() {
	_ = s.Close()
	if err := s.in.Close(); err != nil {
		s.v.t.Error(err)
	}
}

// buffer is a BufferResponse.
func (s *session) buffer(change func(h *credit.BufferHeader), payload []byte) []byte {
	h := &credit.BufferHeader{Receiver: s.id, Type: segment.DataBuffer, Size: int32(len(payload))}
	if change != nil {
		change(h)
	}
	return credit.AppendBufferResponse(nil, credit.Flink23, h, payload)
}

// raw is a BufferResponse whose header says what it likes about sizes.
func (s *session) raw(length uint32, change func(h *credit.BufferHeader)) []byte {
	h := &credit.BufferHeader{Receiver: s.id, Type: segment.DataBuffer}
	change(h)
	p := credit.AppendBufferHeader(nil, credit.Flink23, h)
	binary.BigEndian.PutUint32(p, length)
	binary.BigEndian.PutUint32(p[9+16+4:], uint32(h.Partial))
	return p
}

// serverAttacks are those of servers on a node that reads.
func serverAttacks() []attack {
	return []attack{
		{name: "servers' frames that lie about lengths, kinds, sizes", reads: true, bound: usage{mib, 8, 80, held}, run: badFrames},
		{name: "data without credit, out of order, in wrong parts", reads: true, bound: usage{mib, 8, 80, held}, run: badOrder},
		{name: "a stall at each byte of a buffer", reads: true, bound: usage{2 * mib, 8, 20, held}, run: bufferStalls},
		{name: "buffers of channels that nobody has", reads: true, bound: usage{4 * mib, 8, 8, held}, run: strangers},
		{name: "storms of backlog", reads: true, bound: usage{4 * mib, 8, 8, held}, run: backlogStorm},
		{name: "storms of partitions not found", reads: true, bound: usage{8 * mib, 8, 8, held}, run: notFoundStorm},
		{name: "events without end", mass: true, reads: true, bound: usage{64 * mib, 8, 8, held}, run: eventFlood},
		{name: "Java errors: deep, endless, huge", mass: true, reads: true, bound: usage{64 * mib, 8, 80, held}, run: javaErrors},
		{name: "records that say they are huge", reads: true, bound: usage{2 * mib, 8, 20, held}, run: hugeRecords},
		{name: "compressed buffers that are none, or bombs", reads: true, bound: usage{2 * mib, 8, 40, held}, run: bombs},
	}
}

func badFrames(v *victim) {
	cases := map[string]func(s *session) []byte{
		"magic":            func(s *session) []byte { p := s.buffer(nil, []byte("x")); p[5] ^= 1; return p },
		"length 0":         func(*session) []byte { return frame(0, 0, nil) },
		"length 2^31":      func(*session) []byte { return frame(1<<31, 0, nil) },
		"a client's frame": func(*session) []byte { return request(bad, 0, 0, credit.NewChannelID(), 1) },
		"unknown kind":     func(*session) []byte { return frame(9, 77, nil) },
		"size -1":          func(s *session) []byte { return s.raw(47, func(h *credit.BufferHeader) { h.Size = -1 }) },
		"size 1 GiB":       func(s *session) []byte { return s.raw(47+1<<30, func(h *credit.BufferHeader) { h.Size = 1 << 30 }) },
		"size of a segment and one": func(s *session) []byte {
			return s.raw(47+32<<10+1, func(h *credit.BufferHeader) { h.Size = 32<<10 + 1 })
		},
		"size and length": func(s *session) []byte { return s.raw(47+5, func(h *credit.BufferHeader) { h.Size = 7 }) },
		"backlog -1":      func(s *session) []byte { return s.buffer(func(h *credit.BufferHeader) { h.Backlog = -1 }, []byte("x")) },
		"type 0":          func(s *session) []byte { return s.buffer(func(h *credit.BufferHeader) { h.Type = 0 }, []byte("x")) },
		"type 200":        func(s *session) []byte { return s.buffer(func(h *credit.BufferHeader) { h.Type = 200 }, []byte("x")) },
		"empty event": func(s *session) []byte {
			return s.buffer(func(h *credit.BufferHeader) { h.Type = segment.EventBuffer }, nil)
		},
		"event of 2 MiB": func(s *session) []byte {
			return s.raw(47+2<<20, func(h *credit.BufferHeader) { h.Type, h.Size = segment.EventBuffer, 2<<20 })
		},
		"parts -1": func(s *session) []byte {
			return s.raw(47+1, func(h *credit.BufferHeader) { h.Partial, h.Size = -1, 1 })
		},
		"parts 2^31-1": func(s *session) []byte {
			return s.raw(47+1, func(h *credit.BufferHeader) { h.Partial, h.Size = math.MaxInt32, 1 })
		},
		"parts of 9 in 4": func(s *session) []byte {
			return s.buffer(func(h *credit.BufferHeader) { h.Partial, h.PartialSizes = 2, []int32{4, 5} }, []byte("four"))
		},
		"parts of 3 in 4": func(s *session) []byte {
			return s.buffer(func(h *credit.BufferHeader) { h.Partial, h.PartialSizes = 2, []int32{1, 2} }, []byte("four"))
		},
		"parts that wrap": func(s *session) []byte {
			return s.buffer(func(h *credit.BufferHeader) { h.Partial, h.PartialSizes = 2, []int32{math.MaxInt32, 5} }, []byte("four"))
		},
		"backlog 0 told":    func(s *session) []byte { return credit.AppendBacklogAnnouncement(nil, s.id, 0) },
		"error of 1 GiB":    func(*session) []byte { return frame(1<<30, 1, nil) },
		"error of no bytes": func(*session) []byte { return frame(9, 1, nil) },
	}
	for name, make := range cases {
		s := v.serve()
		s.send(make(s))
		s.fails(name)
		v.measure()
		s.end()
	}
	v.exposure("%d kinds, each error names the server", len(cases))
}

func badOrder(v *victim) {
	n := 0
	try := func(what, want string, send func(s *session)) {
		s := v.serve()
		send(s)
		if err := s.fails(what); !strings.Contains(err.Error(), want) {
			v.t.Errorf("%s: %v", what, err)
		} else if !strings.Contains(err.Error(), bad.String()) {
			v.t.Errorf("%s: the error does not name the partition: %v", what, err)
		}
		v.measure()
		s.end()
		n++
	}
	seq := func(n int32) func(*credit.BufferHeader) { return func(h *credit.BufferHeader) { h.Seq = n } }
	for _, first := range []int32{1, -1, math.MaxInt32, math.MinInt32} {
		try("first message", "out of order", func(s *session) { s.send(s.buffer(seq(first), []byte("x"))) })
	}
	try("a gap", "out of order", func(s *session) {
		s.send(s.buffer(seq(0), []byte{0, 0, 0}))
		s.send(s.buffer(seq(2), []byte("x")))
	})
	try("twice", "out of order", func(s *session) {
		s.send(s.buffer(seq(0), []byte{0, 0, 0}))
		s.send(s.buffer(seq(0), []byte{0, 0, 0}))
	})
	try("more than credit", "without credit", func(s *session) {
		var p []byte
		for i := range int32(100) { // 32 exclusive ones and 8 floating
			p = append(p, s.buffer(seq(i), []byte{0})...)
		}
		s.send(p)
	})
	try("a record of no kind", "", func(s *session) { s.send(s.buffer(seq(0), []byte{0, 0, 0, 1, 99})) })
	try("an event of no kind", "", func(s *session) {
		s.send(s.buffer(func(h *credit.BufferHeader) { h.Type = segment.EventBuffer }, []byte{0, 0, 0, 99}))
	})
	v.exposure("%d ways, each ends its channel alone, and the error names server and partition", n)
}

func bufferStalls(v *victim) {
	n := 0
	for range 3 {
		s := v.serve()
		p := s.buffer(nil, append([]byte{0, 0, 1, 0}, make([]byte, 16)...)) // the first bytes of a record of 256
		for i := range p {
			s.send(p[i : i+1]) // the socket has each byte by itself
			if i%16 == 0 {
				v.measure()
			}
			n++
			ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
			if e, err := s.in.Next(ctx); i < len(p)-1 && !errors.Is(err, context.DeadlineExceeded) {
				v.t.Fatalf("after %d bytes of %d: %v, %v", i+1, len(p), e, err)
			}
			cancel()
		}
		s.send(p[:len(p)/2])
		_ = s.Conn.(*net.TCPConn).CloseWrite()
		if err := s.fails("half a message"); !strings.Contains(err.Error(), "middle of a message") {
			v.t.Error(err)
		}
		s.end()
	}
	v.exposure("%d stalls, then the end within a message, which the error says", n)
}

// storm sends p again and again without reading, n bytes in all.
func (s *session) storm(p []byte, n int) {
	s.v.t.Helper()
	p = bytes.Repeat(p, max(1, 64<<10/len(p)))
	for sent := 0; sent < n; sent += len(p) {
		s.send(p)
		if sent%(8*mib) < len(p) {
			s.v.measure()
		}
	}
	s.v.measure()
}

func strangers(v *victim) {
	s := v.serve()
	p := s.buffer(func(h *credit.BufferHeader) { h.Receiver = credit.NewChannelID() }, []byte("x"))
	s.storm(p, 48*mib)
	v.exposure("1 000 000 buffers; no more than a batch of cancels waits")
}

func backlogStorm(v *victim) {
	s := v.serve()
	s.storm(credit.AppendBacklogAnnouncement(nil, s.id, math.MaxInt32), 24*mib)
	s.storm(credit.AppendBacklogAnnouncement(nil, credit.NewChannelID(), math.MaxInt32), 24*mib)
	v.exposure("800 000 of a channel, and 800 000 of nobody's")
}

func notFoundStorm(v *victim) {
	s := v.serve()
	s.storm(credit.AppendErrorResponse(nil, credit.AppendThrowable(nil, credit.ClassPartitionNotFound, "not here"), s.id, false), 24*mib)
	v.exposure("24 MiB of them; the client asks again once at a time")
}

func eventFlood(v *victim) {
	s := v.serve()
	ev := event.AppendPadded(nil, &event.Event{Kind: event.CancelCheckpoint, CheckpointID: 1})
	h := credit.BufferHeader{Receiver: s.id, Type: segment.EventBuffer, Size: int32(len(ev))}
	var p []byte
	for h.Seq < 500_000 {
		p = credit.AppendBufferResponse(p[:0], credit.Flink23, &h, ev)
		h.Seq++
		for len(p) < 64<<10 {
			p = credit.AppendBufferResponse(p, credit.Flink23, &h, ev)
			h.Seq++
		}
		s.send(p)
		if h.Seq%10_000 < 1000 {
			v.measure()
		}
	}
	v.measure()
	err := s.fails("events")
	v.exposure("%d that nobody takes; then: %s", h.Seq, short(err))
}

// short is the end of an error.
func short(err error) string {
	s := err.Error()
	return s[max(0, strings.LastIndex(s, ": ")+2):]
}

func javaErrors(v *victim) {
	cases := map[string][]byte{
		"nesting of 1 000 000":                javaDeep(1_000_000),
		"100 000 super classes":               javaChain(100_000),
		"array of 2^31-1":                     javaArray(math.MaxInt32),
		"array of -1":                         javaArray(math.MaxUint32),
		"string of 2^63-1":                    javaString(math.MaxInt64),
		"string of -1":                        javaString(math.MaxUint64),
		"65535 fields":                        javaFields(),
		"4 000 000 strings":                   javaMany(4_000_000 - 100),
		"an array of itself, 3 000 000 times": javaSelf(3_000_000),
		"nothing":                             nil,
		"16 MiB of zeros":                     make([]byte, 15*mib),
	}
	for name, stream := range cases {
		for _, fatal := range []bool{false, true} {
			s := v.serve()
			go func() { _, _ = s.Write(credit.AppendErrorResponse(nil, stream, s.id, fatal)) }()
			s.fails(name)
			v.measure()
			s.end()
		}
	}
	v.exposure("%d streams of up to 16 MiB, each as a channel's error and as the connection's", len(cases))
}

func hugeRecords(v *victim) {
	n := 0
	for _, length := range []uint32{64<<20 + 1, 1 << 30, math.MaxInt32, 1 << 31, math.MaxUint32} {
		s := v.serve()
		s.send(s.buffer(nil, binary.BigEndian.AppendUint32(nil, length)))
		s.send(s.buffer(func(h *credit.BufferHeader) { h.Seq = 1 }, []byte("the beginning")))
		s.fails("a huge record")
		v.measure()
		s.end()
		n++
	}
	// As large as may be, and then nothing comes.
	s := v.serve()
	s.send(s.buffer(nil, append(binary.BigEndian.AppendUint32(nil, 64<<20), make([]byte, 1000)...)))
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.in.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		v.t.Error(err)
	}
	v.measure()
	s.end()
	v.exposure("%d lengths above the limit, and 64 MiB of which 1000 bytes come", n)
}

func bombs(v *victim) {
	zip := func(h *credit.BufferHeader) { h.Compressed = true }
	bomb := binary.LittleEndian.AppendUint32(nil, math.MaxInt32)
	cases := [][]byte{
		[]byte("garbage"), bomb, append(bomb, make([]byte, 1000)...),
		{0x28, 0xB5, 0x2F, 0xFD, 0xE0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F}, // zstd: a frame of 2^63-1 bytes
		{0x28, 0xB5, 0x2F, 0xFD, 0x00, 0xFF},                                           // zstd: a window of terabytes
	}
	for _, p := range cases {
		s := v.serve()
		s.send(s.buffer(zip, p))
		s.fails("compressed")
		v.measure()
		s.end()
	}
	v.exposure("%d kinds, each error names the server", len(cases))
}
