package inspect

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"
	"time"

	"github.com/weirflow/weir/credit"
)

// FuzzCapture: no file makes the reader panic, loop, or take much more memory than it is long; and what it says of offsets is
// consistent.
func FuzzCapture(f *testing.F) {
	files, _, _ := load(f, "flink120-aligned-barriers")
	for _, link := range []uint32{linkEthernet, linkNull, linkCooked, linkCooked2, linkRaw} {
		w := newWire(link, link == linkCooked2)
		w.handshake()
		w.play(f, files, 900)
		w.fin()
		w.packets = w.packets[:12]
		f.Add(pcap(link, binary.LittleEndian, link == linkRaw, w.packets), false)
		f.Add(pcapng(link, binary.BigEndian, w.packets), true)
		f.Add(pcapng(link, binary.LittleEndian, w.packets[5:]), true)
	}
	f.Fuzz(func(t *testing.T, b []byte, old bool) {
		cfg := Config{Elements: true, Codec: credit.LZ4, MaxBuffer: 64 << 10, MaxRecord: 1 << 20}
		if old {
			cfg.Profile = credit.Flink120
		}
		s := &fuzzSink{t: t, text: Text{W: io.Discard, Conns: true}, json: JSON{W: io.Discard}, end: make(map[fuzzEnd]int64)}
		_ = ReadCapture(bytes.NewReader(b), cfg, nil, s)
	})
}

// FuzzSession: the same for streams that lose bytes.
func FuzzSession(f *testing.F) {
	id := credit.ChannelID{1}
	request := credit.AppendPartitionRequest(nil, &credit.PartitionRequest{Receiver: id, Credit: 2})
	h := credit.BufferHeader{Receiver: id, Type: 1, Size: 5}
	data := credit.AppendBufferResponse(nil, credit.Flink23, &h, []byte{0, 0, 0, 1, 1})
	f.Add(request, data, uint16(0), uint16(9))
	f.Add(request, append(data[20:], data...), uint16(5), uint16(0))
	f.Fuzz(func(t *testing.T, toServer, toClient []byte, gap, cut uint16) {
		s := &fuzzSink{t: t, text: Text{W: io.Discard}, json: JSON{W: io.Discard}, end: make(map[fuzzEnd]int64)}
		session := NewSession(Config{Elements: true, MaxBuffer: 64 << 10, MaxRecord: 1 << 20}, 1, s)
		now := time.Unix(1, 0)
		n := min(int(cut), len(toClient))
		_ = session.Feed(ToServer, toServer, now)
		_ = session.Feed(ToClient, toClient[:n], now)
		if gap > 0 {
			_ = session.Gap(ToClient, int64(gap))
		}
		_ = session.Feed(ToClient, toClient[n:], now.Add(time.Second))
		_ = session.Close(gap%2 == 0)
		if got := session.half[ToClient].fed; got != int64(len(toClient))+int64(gap) {
			t.Fatalf("%d bytes were counted, not %d and %d", got, len(toClient), gap)
		}
	})
}

type fuzzEnd struct {
	conn int
	dir  Dir
}

// fuzzSink prints everything, and checks that frames never overlap.
type fuzzSink struct {
	t    *testing.T
	text Text
	json JSON
	end  map[fuzzEnd]int64
}

func (s *fuzzSink) Frame(f *Frame) error {
	at := fuzzEnd{f.Conn, f.Dir}
	if f.Offset < s.end[at] || f.Length < credit.FrameHeaderLen {
		s.t.Fatalf("%s at %d with %d bytes, the last one ended at %d", Describe(f), f.Offset, f.Length, s.end[at])
	}
	s.end[at] = f.Offset + f.Length
	_ = s.text.Frame(f)
	return s.json.Frame(f)
}

func (s *fuzzSink) Element(e *Element) error { _ = s.text.Element(e); return s.json.Element(e) }
func (s *fuzzSink) Note(n *Note) error       { _ = s.text.Note(n); return s.json.Note(n) }
func (s *fuzzSink) Summary(m *Summary) error { _ = s.text.Summary(m); return s.json.Summary(m) }
