package checkpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
)

func frameOf(t testing.TB, m *message) []byte {
	t.Helper()
	b, err := appendFrame(nil, m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// rawFrame is a frame with a right checksum and any content.
func rawFrame(k kind, body []byte) []byte {
	content := append([]byte{byte(k)}, body...)
	b := binary.BigEndian.AppendUint32(nil, uint32(len(content)))
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(content, castagnoli))
	return append(b, content...)
}

func someMessages() []*message {
	t := Trigger{ID: 7, Time: time.UnixMilli(1700000000123).UTC(), Alignment: Timed, AlignmentTimeout: time.Second, Final: true}
	return []*message{
		{Kind: msgHello, Version: 1, Purpose: forPut, Member: "a", Nonce: "n", Part: "p", Epoch: 3, ID: 9},
		{Kind: msgPing},
		{Kind: msgAck, Epoch: 2, ID: 7, Final: true, Parts: []Part{{"p", 1 << 40, 1<<32 - 1}, {"q", 0, 0}}},
		{Kind: msgFail, Epoch: 1, Cause: "why \"not\"\n"},
		{Kind: msgWelcome, Epoch: 2, Finished: true, Restored: &restoredState{ID: 7, Epoch: 1, State: MemberState{Name: "a", Final: true, Parts: []Part{{"p", 5, 6}}}}},
		{Kind: msgResumed, Epoch: 2, Completed: 8, Last: true, Triggers: []Trigger{t, {ID: 8, Time: t.Time}}},
		{Kind: msgChunk, chunk: noise(maxChunk)},
	}
}

func TestFrames(t *testing.T) {
	var all []byte
	for _, m := range someMessages() {
		all = append(all, frameOf(t, m)...)
	}
	r := newFrameReader(bytes.NewReader(all))
	for _, want := range someMessages() {
		got, err := r.read()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
	if _, err := r.read(); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
}

// TestFrameDamage: a frame with any bit changed, or cut anywhere, is refused.
func TestFrameDamage(t *testing.T) {
	frame := frameOf(t, someMessages()[2])
	for n := range frame {
		if _, err := newFrameReader(bytes.NewReader(frame[:n])).read(); err == nil || n > 0 && err == io.EOF {
			t.Fatalf("cut at %d: %v", n, err)
		}
		for bit := range 8 {
			b := bytes.Clone(frame)
			b[n] ^= 1 << bit
			if m, err := newFrameReader(bytes.NewReader(b)).read(); err == nil {
				t.Fatalf("bit %d of byte %d: %+v", bit, n, m)
			}
		}
	}
}

// TestFrameLimits: what is too long is refused before memory is taken for it, and so is what no peer sends.
func TestFrameLimits(t *testing.T) {
	for name, b := range map[string][]byte{
		"huge":             {0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, byte(msgAck)},
		"empty":            {0, 0, 0, 0, 0, 0, 0, 0},
		"chunk too long":   binary.BigEndian.AppendUint32(nil, maxChunk+2),
		"no JSON":          rawFrame(msgAck, []byte("{")),
		"wrong type":       rawFrame(msgAck, []byte(`{"id":"x"}`)),
		"negative id":      rawFrame(msgAck, []byte(`{"id":-1}`)),
		"epoch too large":  rawFrame(msgAck, []byte(`{"epoch":4294967296}`)),
		"part twice":       rawFrame(msgAck, []byte(`{"parts":[{"name":"p"},{"name":"p"}]}`)),
		"part's size":      rawFrame(msgAck, []byte(`{"parts":[{"name":"p","size":-5}]}`)),
		"part's name":      rawFrame(msgAck, []byte(`{"parts":[{"name":"../../etc/passwd"}]}`)),
		"part's long name": rawFrame(msgAck, fmt.Appendf(nil, `{"parts":[{"name":"%s"}]}`, strings.Repeat("x", maxName+1))),
		"too many parts":   rawFrame(msgAck, []byte(`{"parts":[`+strings.Repeat(`{"name":"p"},`, maxParts)+`{"name":"p"}]}`)),
	} {
		if name == "chunk too long" {
			b = append(b, 0, 0, 0, 0, byte(msgChunk))
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		m, err := newFrameReader(bytes.NewReader(b)).read()
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 8*maxControl {
			t.Errorf("%s took %d bytes", name, took)
		}
	}
	if _, err := appendFrame(nil, &message{Kind: msgAck, Member: strings.Repeat("x", maxControl)}); !errors.Is(err, ErrProtocol) {
		t.Errorf("a message that is too long is sent: %v", err)
	}
}

// FuzzFrames: no bytes make the decoder panic or take more memory than a frame may have, and what it reads can be written and read
// again.
func FuzzFrames(f *testing.F) {
	for _, m := range someMessages()[:6] {
		f.Add(frameOf(f, m))
	}
	f.Add(rawFrame(msgChunk, []byte("bytes")))
	f.Add(rawFrame(msgAck, []byte(`{"parts":[{"name":"p","size":-5}]}`)))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := newFrameReader(bytes.NewReader(b))
		for {
			m, err := r.read()
			if cap(r.buf) > 1+maxControl {
				t.Fatalf("a buffer of %d bytes", cap(r.buf))
			}
			if err != nil {
				return
			}
			again, err := newFrameReader(bytes.NewReader(frameOf(t, m))).read()
			if err != nil || !reflect.DeepEqual(again, m) {
				t.Fatalf("%+v becomes %+v, %v", m, again, err)
			}
			// What both state machines do with it must not panic, whatever it is.
			c := newCore(coreConfig{members: []string{"a"}, maxInFlight: 1})
			c.loaded(0, nil, nil)
			c.hello(1, "a", "n")
			c.receive(0, 1, &message{Kind: msgJoin})
			c.receive(0, 1, m)
			s := newSide("a", "n")
			s.join()
			s.receive(&message{Kind: msgWelcome, Epoch: 1})
			s.receive(m)
		}
	})
}

// FuzzPart: no bytes make the decoder of parts panic, or hand out what was not written.
func FuzzPart(f *testing.F) {
	f.Add(encoded(f, nil))
	f.Add(encoded(f, []byte("some state")))
	f.Add(encoded(f, noise(1000))[:500])
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := io.ReadAll(newDecoder(bytes.NewReader(b)))
		if err == nil && len(got) <= maxChunk && !bytes.Equal(encoded(t, got), b) {
			t.Fatalf("%d bytes are read as a part of %d bytes that is written otherwise", len(b), len(got))
		}
	})
}

// TestHostilePeers: whoever talks nonsense to the coordinator is cut off, and the members go on.
func TestHostilePeers(t *testing.T) {
	ctx := testContext(t)
	c, _ := coordinatorOf(t, CoordinatorConfig{
		Members: []string{"a"}, Store: dirStore(t), Interval: time.Millisecond, MemberTimeout: 30 * time.Second,
	})
	e := joinAll(ctx, t, memberOf(t, c, MemberConfig{Name: "a"}))[0]
	hello := func(m message) []byte {
		m.Kind, m.Version = msgHello, protocolVersion
		if m.Nonce == "" {
			m.Nonce = "evil"
		}
		return frameOf(t, &m)
	}
	join := func(frames ...[]byte) []byte { return bytes.Join(frames, nil) }
	for name, c1 := range map[string]struct {
		send []byte
		want string // in the refusal, if there is one
	}{
		"another protocol":  {[]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "protocol error"},
		"no hello":          {frameOf(t, &message{Kind: msgAck}), "begins with ack"},
		"another version":   {frameOf(t, &message{Kind: msgHello, Version: 9, Member: "a", Nonce: "n"}), "version 9"},
		"no name":           {hello(message{Purpose: forMember}), "bad name"},
		"unknown name":      {hello(message{Purpose: forMember, Member: "x"}), "no member"},
		"unknown purpose":   {hello(message{Purpose: "fun", Member: "a"}), "fun"},
		"put as another":    {hello(message{Purpose: forPut, Member: "a", Part: "p", ID: 1, Epoch: 1}), ErrReplaced.Error()},
		"put outside":       {hello(message{Purpose: forPut, Member: "a", Part: "../p", ID: 1, Epoch: 1}), "bad name"},
		"get as another":    {hello(message{Purpose: forGet, Member: "a", Part: "p", ID: 1, Epoch: 1}), ErrReplaced.Error()},
		"coordinator's":     {join(hello(message{Purpose: forMember, Member: "a"}), frameOf(t, &message{Kind: msgCompleted, ID: 5})), ""},
		"nonsense after it": {join(hello(message{Purpose: forMember, Member: "a"}), []byte("nonsense, and a lot of it")), ""},
		"resume as another": {join(hello(message{Purpose: forMember, Member: "a"}), frameOf(t, &message{Kind: msgResume, Epoch: 1})), ""},
		"nothing":           {nil, ""},
		"half a frame":      {hello(message{Purpose: forMember, Member: "a"})[:10], ""},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", c.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conn.Write(c1.send)
			conn.(*net.TCPConn).CloseWrite()
			conn.SetReadDeadline(time.Now().Add(limit))
			var last *message
			r := newFrameReader(conn)
			for {
				m, err := r.read()
				if err != nil {
					if isTimeout(err) {
						t.Error("it is not cut off")
					}
					break
				}
				last = m
			}
			if c1.want != "" && (last == nil || last.Kind != msgRefused || !strings.Contains(last.Cause, c1.want)) {
				t.Errorf("the answer is %+v, want a refusal with %q", last, c1.want)
			}
		})
	}
	for range 2 {
		id := next(ctx, t, e, TriggerEvent).ID
		ack(ctx, t, e, id, "x")
		next(ctx, t, e, CompletedEvent)
	}
	if st := c.Status(); st.Epoch != 1 || st.Counts.Fenced != 0 {
		t.Errorf("status: %+v", st)
	}
}

// TestFlood: connections that say nothing do not keep members out for longer than it takes to give them up.
func TestFlood(t *testing.T) {
	ctx := testContext(t)
	c, _ := coordinatorOf(t, CoordinatorConfig{
		Members: []string{"a"}, Store: dirStore(t), Interval: time.Millisecond, MemberTimeout: 200 * time.Millisecond,
	})
	for range cap(c.slots) + 10 {
		conn, err := net.Dial("tcp", c.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	joinAll(ctx, t, memberOf(t, c, MemberConfig{Name: "a", Timeout: 2 * time.Second}))
}
