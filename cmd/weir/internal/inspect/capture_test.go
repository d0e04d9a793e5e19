package inspect

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirflow/weir/credit"
)

// readPackets reads a capture as a recording.
func readPackets(t testing.TB, b []byte, cfg Config, ports ...uint) (*recording, error) {
	t.Helper()
	var r recording
	err := ReadCapture(bytes.NewReader(b), cfg, ports, &r)
	return &r, err
}

// Every link and format gives the frames that the files give.
func TestCaptureFormats(t *testing.T) {
	f, cfg, size := load(t, "aligned-barriers")
	var want recording
	if err := ReadFiles(f, cfg, &want); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		link uint32
		six  bool
		file func(w *wire) []byte
	}{
		"ethernet":         {linkEthernet, false, func(w *wire) []byte { return pcap(w.link, binary.LittleEndian, false, w.packets) }},
		"ethernet six":     {linkEthernet, true, func(w *wire) []byte { return pcap(w.link, binary.BigEndian, true, w.packets) }},
		"loopback":         {linkNull, false, func(w *wire) []byte { return pcap(w.link, binary.BigEndian, false, w.packets) }},
		"cooked":           {linkCooked, false, func(w *wire) []byte { return pcap(w.link, binary.LittleEndian, true, w.packets) }},
		"cooked 2 six":     {linkCooked2, true, func(w *wire) []byte { return pcap(w.link, binary.LittleEndian, false, w.packets) }},
		"raw":              {linkRaw, false, func(w *wire) []byte { return pcap(w.link, binary.LittleEndian, false, w.packets) }},
		"ng little-endian": {linkEthernet, false, func(w *wire) []byte { return pcapng(w.link, binary.LittleEndian, w.packets) }},
		"ng big-endian":    {linkRaw, true, func(w *wire) []byte { return pcapng(w.link, binary.BigEndian, w.packets) }},
		"ng two sections": {linkRaw, false, func(w *wire) []byte {
			return slices.Concat(pcapng(99, binary.BigEndian, nil), pcapng(w.link, binary.BigEndian, w.packets[:20]), pcapng(w.link, binary.LittleEndian, w.packets[20:]))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWire(c.link, c.six)
			w.handshake()
			w.play(t, f, 1000)
			w.fin()
			b := c.file(w)
			path := filepath.Join(t.TempDir(), "x")
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			if yes, err := IsCapture(path); !yes || err != nil {
				t.Errorf("not taken for a capture: %v", err)
			}
			r, err := readPackets(t, b, cfg)
			if err != nil {
				t.Fatal(err)
			}
			check(t, r, size)
			if !slices.Equal(r.texts, want.texts) || !slices.Equal(r.elements, want.elements) {
				t.Errorf("%d frames and %d elements, or others, instead of %d and %d", len(r.texts), len(r.elements), len(want.texts), len(want.elements))
			}
			begin := w.packets[3].at
			if got := r.frames[0].Time; got.Sub(begin).Abs() > time.Microsecond {
				t.Errorf("the first frame is at %v, want %v", got, begin)
			}
			if len(r.notes) != 1 || !strings.Contains(r.notes[0], w.client.String()+" to "+w.server.String()) {
				t.Errorf("notes: %q", r.notes)
			}
		})
	}
}

func capturedBytes(w *wire) []byte { return pcap(w.link, binary.LittleEndian, false, w.packets) }

// Segments that come out of order, twice, or overlap give the same stream.
func TestCaptureReordered(t *testing.T) {
	f, cfg, size := load(t, "spanning-strings")
	w := newWire(linkEthernet, false)
	w.handshake()
	w.play(t, f, 300)
	for i := 5; i+3 < len(w.packets); i += 4 {
		w.packets[i], w.packets[i+1] = w.packets[i+1], w.packets[i]
		if i%8 == 5 {
			w.packets = slices.Insert(w.packets, i+3, w.packets[i])
		}
	}
	// The last 500 bytes again, in one segment that nobody sent like that before.
	toClient, err := os.ReadFile(f.ToClient)
	if err != nil {
		t.Fatal(err)
	}
	w.raw(ToClient, w.seq[ToClient]-500, tcpACK, toClient[len(toClient)-500:])
	w.fin()
	r, err := readPackets(t, capturedBytes(w), cfg)
	if err != nil {
		t.Fatal(err)
	}
	check(t, r, size)
	if s := r.summaries[0]; s.Missing != [2]int64{} || s.Repeated[ToClient] < 500 {
		t.Errorf("missing %v, repeated %v", s.Missing, s.Repeated)
	}
	if !strings.Contains(strings.Join(r.notes, "\n"), "captured again") {
		t.Errorf("notes: %q", r.notes)
	}
}

// A packet that was not captured is a gap, behind which reading goes on at the next frame.
func TestCaptureGap(t *testing.T) {
	f, cfg, size := load(t, "spanning-strings")
	for _, tail := range []bool{false, true} {
		w := newWire(linkEthernet, false)
		w.handshake()
		w.play(t, f, 600)
		lost := len(w.packets) / 2 // a data packet of the server, by far the most are
		if tail {
			for lost = len(w.packets) - 1; len(w.packets[lost].data) < 120; lost-- {
			}
		}
		n := int64(len(w.packets[lost].data) - 18 - 40)
		w.packets = slices.Delete(w.packets, lost, lost+1)
		w.fin()
		r, err := readPackets(t, capturedBytes(w), cfg)
		if err != nil {
			t.Fatalf("%v %q", err, r.notes)
		}
		s := r.summaries[0]
		if s.Missing[ToClient] != n || s.Missing[ToServer] != 0 {
			t.Errorf("missing %v, want %d", s.Missing, n)
		}
		if shown := s.Bytes[ToClient]; shown >= size[ToClient] || shown < size[ToClient]-3000 {
			t.Errorf("%d of %d bytes were shown", shown, size[ToClient])
		}
		if !strings.Contains(strings.Join(r.notes, "\n"), "bytes are missing at byte") {
			t.Errorf("notes: %q", r.notes)
		}
		last := r.frames[len(r.frames)-1]
		if !tail && (last.Buffer == nil && last.Message != credit.MsgCancelPartitionRequest || last.State.CreditKnown) {
			t.Errorf("the last frame is %s with %s", Describe(&last), last.State.Text())
		}
		if end := last.Offset + last.Length; end != size[last.Dir] {
			t.Errorf("the last frame ends at %d of %d", end, size[last.Dir])
		}
		for _, f := range r.frames {
			if len(f.Odd) > 0 {
				t.Errorf("%s: %q", Describe(&f), f.Odd)
			}
		}
	}
}

// A capture that begins in the middle of a connection is read from the next frame on, and the ends are told apart by
// what they send.
func TestCaptureBeginsLate(t *testing.T) {
	f, cfg, _ := load(t, "backpressure")
	w := newWire(linkEthernet, false)
	w.handshake()
	w.play(t, f, 700)
	w.packets = w.packets[50:]
	w.fin()
	r, err := readPackets(t, capturedBytes(w), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.frames) < 500 || len(r.elements) != 2 { // one for each channel: it cannot be read
		t.Errorf("%d frames, elements %q", len(r.frames), r.elements)
	}
	if notes := strings.Join(r.notes, "\n"); !strings.Contains(notes, "beginning was not captured") || !strings.Contains(notes, "a frame was found") ||
		!strings.Contains(notes, w.client.String()+" to "+w.server.String()) {
		t.Errorf("notes: %q", r.notes)
	}
	for _, f := range r.frames {
		if f.State.CreditKnown || len(f.Odd) > 0 {
			t.Fatalf("%s: %s %q", Describe(&f), f.State.Text(), f.Odd)
		}
	}
}

// A channel that is opened after a gap is known like any other.
func TestChannelAfterGap(t *testing.T) {
	var r recording
	s := NewSession(Config{Elements: true}, 1, &r)
	id := credit.ChannelID{1}
	h := credit.BufferHeader{Receiver: id, Type: 1, Size: 7}
	data := credit.AppendBufferResponse(nil, credit.Flink23, &h, []byte("\x00\x00\x00\x03\x01ab"))
	err := errors.Join(s.Feed(ToClient, data, time.Time{}), s.Gap(ToClient, 100),
		s.Feed(ToServer, credit.AppendPartitionRequest(nil, &credit.PartitionRequest{Receiver: credit.ChannelID{2}, Credit: 2}), time.Time{}))
	h.Seq++
	err = errors.Join(err, s.Feed(ToClient, credit.AppendBufferResponse(nil, credit.Flink23, &h, []byte("\x00\x00\x00\x03\x01cd")), time.Time{}))
	h.Receiver, h.Seq = credit.ChannelID{2}, 0
	err = errors.Join(err, s.Feed(ToClient, credit.AppendBufferResponse(nil, credit.Flink23, &h, []byte("\x00\x00\x00\x03\x01ef")), time.Time{}), s.Close(true), s.Err())
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{`Record(2 bytes) "ab"`, "records cannot be read: bytes before are missing", `Record(2 bytes) "ef"`}; !slices.Equal(r.elements, want) {
		t.Errorf("%q", r.elements)
	}
	if last := r.frames[len(r.frames)-1]; last.State.Text() != "credit 1, backlog 0" || r.frames[len(r.frames)-2].State.CreditKnown {
		t.Errorf("%s", last.State.Text())
	}
}

// What looks like a frame behind a gap and is none does not end the search.
func TestFalseFrame(t *testing.T) {
	var r recording
	s := NewSession(Config{}, 1, &r)
	add := credit.AppendAddCredit(nil, credit.ChannelID{1}, 1)
	false1 := bytes.Clone(add)
	false1[3] = 77 // no AddCredit is that long
	err := errors.Join(s.Gap(ToServer, 10), s.Feed(ToServer, append([]byte("rest of a payload"), false1...), time.Time{}),
		s.Feed(ToServer, bytes.Repeat(add, 3), time.Time{}), s.Close(true), s.Err())
	if err != nil {
		t.Fatal(err)
	}
	if len(r.frames) != 3 || r.frames[0].Offset != int64(10+17+len(add)) {
		t.Errorf("%q at %d, notes %q", r.texts, r.frames[0].Offset, r.notes)
	}
}

// The receiver of a channel without credit of its own has returned all it was lent when it resumes: the sender begins at 0 again.
func TestResumeWithoutExclusive(t *testing.T) {
	id := credit.ChannelID{1}
	for _, initial := range []int32{0, 2} {
		var r recording
		s := NewSession(Config{}, 1, &r)
		h := credit.BufferHeader{Receiver: id, Type: 4, Size: 4}
		err := errors.Join(s.Feed(ToServer, credit.AppendPartitionRequest(nil, &credit.PartitionRequest{Receiver: id, Credit: initial}), time.Time{}),
			s.Feed(ToServer, credit.AppendAddCredit(nil, id, 3), time.Time{}),
			s.Feed(ToClient, credit.AppendBufferResponse(nil, credit.Flink23, &h, make([]byte, 4)), time.Time{}),
			s.Feed(ToServer, credit.AppendResumeConsumption(nil, id), time.Time{}), s.Close(true), s.Err())
		if err != nil {
			t.Fatal(err)
		}
		want := int64(0)
		if initial > 0 {
			want = int64(initial) + 3
		}
		if got := r.frames[3].State; got.Credit != want || got.Blocked {
			t.Errorf("opened with %d: %s, want credit %d", initial, got.Text(), want)
		}
	}
}

// Half a handshake is enough to know the client; what keeps a connection alive is no repetition; padding is no content.
func TestSmallPackets(t *testing.T) {
	f, cfg, size := load(t, "basic")
	w := newWire(linkEthernet, false)
	w.handshake()
	w.packets = w.packets[1:] // begins with the server's answer
	w.play(t, f, 1)
	for i := range w.packets {
		w.packets[i].data = append(w.packets[i].data, 1, 2, 3, 4, 5)
		w.packets[i].length += 5
	}
	w.raw(ToClient, w.seq[ToClient]-1, tcpACK, []byte{0})
	w.fin()
	r, err := readPackets(t, capturedBytes(w), cfg)
	if err != nil {
		t.Fatal(err)
	}
	check(t, r, size)
	if s := r.summaries[0]; s.Repeated != [2]int64{} || s.Missing != [2]int64{} || len(r.notes) != 1 {
		t.Errorf("%+v, notes %q", s, r.notes)
	}
}

// A capture of the first bytes of each packet has gaps everywhere.
func TestCaptureCutPackets(t *testing.T) {
	f, cfg, size := load(t, "basic")
	w := newWire(linkEthernet, false)
	w.snap = 14 + 4 + 40 + 97 // all of the client's
	w.handshake()
	w.play(t, f, 600)
	w.fin()
	r, err := readPackets(t, capturedBytes(w), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if s := r.summaries[0]; s.Missing[ToClient] == 0 || s.Missing[ToServer] != 0 || s.Bytes[ToServer] != size[ToServer] || s.Frames[ToClient] == 0 {
		t.Errorf("missing %v, shown %v", s.Missing, s.Bytes)
	}
}

// Who waits for whom, by the times of packets.
func TestWaits(t *testing.T) {
	w := newWire(linkRaw, false)
	w.step = 0
	w.handshake()
	id := credit.ChannelID{1}
	after := func(ms int) { w.now = w.now.Add(time.Duration(ms) * time.Millisecond) }
	to := func(dir Dir, b []byte) { w.send(dir, b, 1400) }
	seq := int32(0)
	data := func(backlog int32) {
		h := credit.BufferHeader{Receiver: id, Seq: seq, Backlog: backlog, Type: 1, Size: 3}
		seq++
		to(ToClient, credit.AppendBufferResponse(nil, credit.Flink23, &h, []byte("abc")))
	}
	to(ToServer, credit.AppendPartitionRequest(nil, &credit.PartitionRequest{Receiver: id, Credit: 1}))
	after(100) // no data: credit 1, backlog 0
	data(4)
	after(20) // no credit
	to(ToServer, credit.AppendAddCredit(nil, id, 1))
	after(3) // moving
	data(3)
	after(50) // no credit again
	to(ToServer, credit.AppendAddCredit(nil, id, 3))
	data(2)
	data(1)
	data(0)
	after(7) // neither
	to(ToServer, credit.AppendAddCredit(nil, id, 9))
	h := credit.BufferHeader{Receiver: id, Seq: seq, Type: 4, Size: 4} // what is in the barrier cannot be decoded
	to(ToClient, credit.AppendBufferResponse(nil, credit.Flink23, &h, []byte{0, 0, 0, 99}))
	after(30) // blocked
	to(ToServer, credit.AppendResumeConsumption(nil, id))
	after(11) // no data
	h = credit.BufferHeader{Receiver: id, Seq: seq + 1, Type: 9, Size: 5}
	to(ToClient, credit.AppendBufferResponse(nil, credit.Flink23, &h, []byte{0, 0, 0, 8, 0}))
	after(40) // not acknowledged
	to(ToServer, credit.AppendAckAllUserRecordsProcessed(nil, id))
	after(5) // no data
	h = credit.BufferHeader{Receiver: id, Seq: seq + 2, Type: 10, Size: 4}
	to(ToClient, credit.AppendBufferResponse(nil, credit.Flink23, &h, []byte{0, 0, 0, 0}))
	after(1000) // closed
	w.fin()
	b := capturedBytes(w)
	r, err := readPackets(t, b, Config{})
	if err != nil {
		t.Fatal(err)
	}
	c := r.summaries[0].Channels[0]
	for reason, want := range map[Reason]Wait{
		NoData:          {Total: 116 * time.Millisecond, Longest: 100 * time.Millisecond, Times: 3},
		NoCredit:        {Total: 70 * time.Millisecond, Longest: 50 * time.Millisecond, Times: 2},
		Blocked:         {Total: 30 * time.Millisecond, Longest: 30 * time.Millisecond, Times: 1},
		NotAcknowledged: {Total: 40 * time.Millisecond, Longest: 40 * time.Millisecond, Times: 1},
		Neither:         {Total: 7 * time.Millisecond, Longest: 7 * time.Millisecond, Times: 1},
	} {
		got := c.Waits[reason]
		got.LongestAt = time.Time{}
		if reason == NoData {
			got.Times = min(got.Times, 3) // and some of no length
		}
		if got != want {
			t.Errorf("%s: %+v, want %+v", reason, got, want)
		}
	}
	if c.Credit != 9 || c.Granted != 13 || c.Data != 5 || c.MaxBacklog != 4 {
		t.Errorf("%+v", c)
	}
	var text bytes.Buffer
	if err := ReadCapture(bytes.NewReader(b), Config{}, nil, &Text{W: &text, Conns: true}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"not an event", "times are seconds after 2026-01-02T03:04:05.000006Z",
		"sender    waited for the receiver 0.030000 s: blocked by ALIGNED_CHECKPOINT_BARRIER (1 times",
		"sender    waited for the receiver 0.070000 s: no credit (2 times, longest 0.050000 s at 0.123000)",
		"receiver  waited for the sender 0.116000 s: no data"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, &text)
		}
	}
}

// What is against the protocol is marked.
func TestOdd(t *testing.T) {
	w := newWire(linkRaw, false)
	w.handshake()
	id := credit.ChannelID{1}
	data := func(seq int32) {
		h := credit.BufferHeader{Receiver: id, Seq: seq, Type: 1}
		w.send(ToClient, credit.AppendBufferResponse(nil, credit.Flink23, &h, nil), 1400)
	}
	w.send(ToServer, credit.AppendPartitionRequest(nil, &credit.PartitionRequest{Receiver: id, Credit: 1}), 1400)
	data(0)
	data(1)
	w.send(ToServer, credit.AppendAddCredit(nil, id, 5), 1400)
	data(7)
	w.send(ToServer, credit.AppendResumeConsumption(nil, id), 1400)
	r, err := readPackets(t, capturedBytes(w), Config{})
	if err != nil {
		t.Fatal(err)
	}
	var odd []string
	for _, f := range r.frames {
		odd = append(odd, strings.Join(f.Odd, "; "))
	}
	if want := []string{"", "", "sent without credit", "", "sequence number 7, expected 2", "was not blocked"}; !slices.Equal(odd, want) {
		t.Errorf("%q, want %q", odd, want)
	}
}

// Connections of other protocols are named and left out; ports choose.
func TestOtherConnections(t *testing.T) {
	f, cfg, size := load(t, "basic")
	w := newWire(linkRaw, false)
	w.handshake()
	w.play(t, f, 1400)
	w.fin()
	for _, first := range []string{"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc"} {
		o := newWire(linkRaw, false)
		o.client = netipPort(o.client, 40001)
		o.handshake()
		o.send(ToServer, []byte(first), 5)
		o.fin()
		w.packets = append(w.packets, o.packets...)
	}
	w.packets = append(w.packets, stamped{data: []byte{0x45}, length: 1})
	r, err := readPackets(t, capturedBytes(w), cfg)
	if err != nil {
		t.Fatal(err)
	}
	check(t, r, size)
	notes := strings.Join(r.notes, "\n")
	for _, want := range []string{"begins with 474554202f204854", "TLS", "packets left out: 1 cut too short"} {
		if !strings.Contains(notes, want) {
			t.Errorf("%q is not in %s", want, notes)
		}
	}
	if r, err = readPackets(t, capturedBytes(w), cfg, 40000); err != nil || strings.Contains(strings.Join(r.notes, "\n"), "TLS") {
		t.Errorf("%v, %q", err, r.notes)
	}
	if _, err = readPackets(t, capturedBytes(w), cfg, 40001); !errors.Is(err, ErrNothing) {
		t.Error(err)
	}
}

// A damaged file is an error with its offset, after everything before it.
func TestCaptureDamaged(t *testing.T) {
	f, cfg, size := load(t, "basic")
	w := newWire(linkEthernet, false)
	w.handshake()
	w.play(t, f, 1400)
	whole, ng := capturedBytes(w), pcapng(linkEthernet, binary.LittleEndian, w.packets)
	for name, c := range map[string]struct {
		b    []byte
		want string
	}{
		"cut packet": {append(bytes.Clone(whole), whole[24:50]...), "pcap: packet at byte"},
		"cut head":   {append(bytes.Clone(whole), 1, 2, 3), "pcap: packet at byte"},
		"huge":       {append(bytes.Clone(whole), bytes.Repeat([]byte{255}, 16)...), "more than"},
		"ng cut":     {append(bytes.Clone(ng), 6, 0, 0, 0, 255, 0, 0), "pcapng: block at byte"},
		"ng length":  {append(bytes.Clone(ng), 6, 0, 0, 0, 3, 0, 0, 0), "impossible length"},
		"ng link":    {block(bytes.Clone(ng), binary.LittleEndian, ngEnhanced, bytes.Repeat([]byte{9}, 20)), "not described"},
		"ng short":   {block(bytes.Clone(ng), binary.LittleEndian, ngInterface, []byte{1, 0, 0, 0}), "too short"},
		"ng order":   {append(bytes.Clone(ng), ng[:8]...), "pcapng: block at byte"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := readPackets(t, c.b, cfg)
			if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			check(t, r, size)
		})
	}
	for _, b := range [][]byte{nil, {1, 2}, []byte("neither of them"), whole[:10], ng[:10]} {
		if _, err := readPackets(t, b, cfg); err == nil {
			t.Errorf("%x was accepted", b)
		}
	}
	if _, err := readPackets(t, whole[:24], cfg); !errors.Is(err, ErrNothing) {
		t.Error(err)
	}
}
