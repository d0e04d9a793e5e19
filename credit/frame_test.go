package credit

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// golden reads the frames of testdata/golden_frames.txt by name.
func golden(t testing.TB) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile("testdata/golden_frames.txt")
	if err != nil {
		t.Fatal(err)
	}
	frames := map[string][]byte{}
	for _, line := range strings.Split(string(text), "\n") {
		name, digits, ok := strings.Cut(line, " ")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		b, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatal(err)
		}
		frames[name] = b
	}
	return frames
}

// seqID is the id first, first+1, ...
func seqID(first byte) (id ID) {
	for i := range id {
		id[i] = first + byte(i)
	}
	return id
}

var (
	goldenChannel   = ChannelID(seqID(0xa0))
	goldenPartition = MakePartitionID(seqID(0x10), 3, seqID(0x20), seqID(0x30), 5, 1)
)

// serverLog writes down what a ServerDecoder says.
type serverLog struct{ lines []string }

func (l *serverLog) add(format string, args ...any) error {
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
	return nil
}

func (l *serverLog) OnPartitionRequest(r *PartitionRequest) error {
	return l.add("request %s %s %s %d", r.Partition, r.Range, r.Receiver, r.Credit)
}
func (l *serverLog) OnTaskEvent(e *event.Event, p *PartitionID, id ChannelID) error {
	return l.add("event %s %x %s %s", e.Class, e.Payload, p, id)
}
func (l *serverLog) OnCancelPartitionRequest(id ChannelID) error { return l.add("cancel %s", id) }
func (l *serverLog) OnCloseRequest() error                       { return l.add("close") }
func (l *serverLog) OnAddCredit(id ChannelID, n int32) error     { return l.add("credit %s %d", id, n) }
func (l *serverLog) OnResumeConsumption(id ChannelID) error      { return l.add("resume %s", id) }
func (l *serverLog) OnAckAllUserRecordsProcessed(id ChannelID) error {
	return l.add("ack %s", id)
}
func (l *serverLog) OnNewBufferSize(id ChannelID, n int32) error { return l.add("size %s %d", id, n) }
func (l *serverLog) OnSegmentID(id ChannelID, sub, seg int32) error {
	return l.add("segment %s %d %d", id, sub, seg)
}

// clientLog writes down what a ClientDecoder says. With drain set it takes no payload.
type clientLog struct {
	lines []string
	buf   []byte
	drain bool
}

func (l *clientLog) OnBufferHeader(h *BufferHeader) ([]byte, bool) {
	if l.drain {
		return nil, false
	}
	l.buf = make([]byte, h.Size)
	return l.buf, true
}
func (l *clientLog) OnBufferDone(h *BufferHeader) error {
	l.lines = append(l.lines, fmt.Sprintf("%s sub=%d seq=%d backlog=%d %s %v %v %x", h.Receiver, h.Subpartition, h.Seq, h.Backlog, h.Type, h.Compressed, h.PartialSizes, l.buf))
	return nil
}
func (l *clientLog) OnBacklogAnnouncement(id ChannelID, n int32) error {
	l.lines = append(l.lines, fmt.Sprintf("backlog %s %d", id, n))
	return nil
}
func (l *clientLog) OnErrorResponse(e *ErrorResponse) error {
	l.lines = append(l.lines, fmt.Sprintf("error %v %s %v", e.Fatal, e.Receiver, e.Cause))
	return nil
}

const (
	testChannelText   = "a0a1a2a3a4a5a6a7a8a9aaabacadaeaf"
	testPartitionText = "101112131415161718191a1b1c1d1e1f#3@202122232425262728292a2b2c2d2e2f_303132333435363738393a3b3c3d3e3f_5_1"
)

// TestGoldenClientFrames: what a client sends is byte for byte what Flink's classes send, and is read back.
func TestGoldenClientFrames(t *testing.T) {
	g := golden(t)
	for _, tc := range []struct {
		name string
		got  []byte
		says string
	}{
		{"request", AppendPartitionRequest(nil, &PartitionRequest{goldenPartition, SubpartitionRange{2, 4}, goldenChannel, 2}), "request " + testPartitionText + " 2-4 " + testChannelText + " 2"},
		{"credit", AppendAddCredit(nil, goldenChannel, 3), "credit " + testChannelText + " 3"},
		{"cancel", AppendCancelPartitionRequest(nil, goldenChannel), "cancel " + testChannelText},
		{"close", AppendCloseRequest(nil), "close"},
		{"resume", AppendResumeConsumption(nil, goldenChannel), "resume " + testChannelText},
		{"ack", AppendAckAllUserRecordsProcessed(nil, goldenChannel), "ack " + testChannelText},
		{"newsize", AppendNewBufferSize(nil, goldenChannel, 1024), "size " + testChannelText + " 1024"},
		{"segmentid", AppendSegmentID(nil, goldenChannel, 4, 6), "segment " + testChannelText + " 4 6"},
	} {
		if !bytes.Equal(tc.got, g[tc.name]) {
			t.Errorf("%s:\n got  %x\n want %x", tc.name, tc.got, g[tc.name])
		}
		var d ServerDecoder
		var l serverLog
		if err := d.Feed(g[tc.name], &l); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		if want := []string{tc.says}; !reflect.DeepEqual(l.lines, want) {
			t.Errorf("%s: got %q, want %q", tc.name, l.lines, want)
		}
	}
}

// TestGoldenServerFrames: the same for a server, in both profiles.
func TestGoldenServerFrames(t *testing.T) {
	g := golden(t)
	five := []byte{1, 2, 3, 4, 5}
	eop := []byte{0, 0, 0, 0}
	data := BufferHeader{Receiver: goldenChannel, Subpartition: 4, Seq: 7, Backlog: 11, Type: segment.DataBuffer, Size: 5}
	partial := BufferHeader{Receiver: goldenChannel, Subpartition: -1, Seq: 7, Backlog: 11, Type: segment.DataBuffer, Size: 5, Partial: 2, PartialSizes: []int32{3, 2}}
	end := BufferHeader{Receiver: goldenChannel, Subpartition: 4, Seq: 8, Type: segment.EndOfPartition, Size: 4}
	dataSays := testChannelText + " sub=4 seq=7 backlog=11 DATA_BUFFER false [] 0102030405"
	endSays := testChannelText + " sub=4 seq=8 backlog=0 END_OF_PARTITION false [] 00000000"
	for _, tc := range []struct {
		name    string
		profile Profile
		got     []byte
		says    string
	}{
		{"data23", Flink23, AppendBufferResponse(nil, Flink23, &data, five), dataSays},
		{"data120", Flink120, AppendBufferResponse(nil, Flink120, &data, five), dataSays},
		{"partial23", Flink23, AppendBufferResponse(nil, Flink23, &partial, five), testChannelText + " sub=-1 seq=7 backlog=11 DATA_BUFFER false [3 2] 0102030405"},
		{"eop23", Flink23, AppendBufferResponse(nil, Flink23, &end, eop), endSays},
		{"eop120", Flink120, AppendBufferResponse(nil, Flink120, &end, eop), endSays},
		{"backlog", Flink23, AppendBacklogAnnouncement(nil, goldenChannel, 9), "backlog " + testChannelText + " 9"},
		{"io-hello", Flink23, AppendErrorResponse(nil, AppendThrowable(nil, ClassIOException, "hello"), ChannelID{}, true), "error true 00000000000000000000000000000000 java.io.IOException: hello"},
		{"pnf-hello", Flink23, AppendErrorResponse(nil, AppendThrowable(nil, ClassPartitionNotFound, "hello"), goldenChannel, false), "error false " + testChannelText + " " + ClassPartitionNotFound + ": hello"},
		{"pf-hello", Flink23, AppendErrorResponse(nil, AppendThrowable(nil, ClassProducerFailed, "hello"), goldenChannel, false), "error false " + testChannelText + " " + ClassProducerFailed + ": hello"},
	} {
		if !bytes.Equal(tc.got, g[tc.name]) {
			t.Errorf("%s:\n got  %x\n want %x", tc.name, tc.got, g[tc.name])
		}
		var l clientLog
		if err := NewClientDecoder(DecoderConfig{Profile: tc.profile}).Feed(g[tc.name], &l); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		if want := []string{tc.says}; !reflect.DeepEqual(l.lines, want) {
			t.Errorf("%s: got %q, want %q", tc.name, l.lines, want)
		}
	}
}

// serverStream is one stream of every frame of a server, clientStream one of every frame of a client.
func serverStream(g map[string][]byte) []byte {
	return bytes.Join([][]byte{g["data23"], g["backlog"], g["partial23"], g["pnf-stock"], g["eop23"], g["io-boom"], g["partial23"], g["data23"]}, nil)
}

func clientStream(g map[string][]byte) []byte {
	task := AppendTaskEventRequest(nil, event.Append(nil, &event.Event{Kind: event.Generic, Class: "x.Y", Payload: []byte{1, 2}}), &goldenPartition, goldenChannel)
	return bytes.Join([][]byte{g["request"], g["credit"], g["newsize"], task, g["resume"], g["ack"], g["segmentid"], g["cancel"], task, g["close"]}, nil)
}

// TestSplits: for any segmentation of the stream the decoded messages are the same (I27).
func TestSplits(t *testing.T) {
	g := golden(t)
	server, client := serverStream(g), clientStream(g)
	wholeClient := &clientLog{}
	if err := NewClientDecoder(DecoderConfig{}).Feed(server, wholeClient); err != nil {
		t.Fatal(err)
	}
	wholeServer := &serverLog{}
	if err := new(ServerDecoder).Feed(client, wholeServer); err != nil {
		t.Fatal(err)
	}
	if len(wholeClient.lines) != 8 || len(wholeServer.lines) != 10 {
		t.Fatalf("%d and %d frames", len(wholeClient.lines), len(wholeServer.lines))
	}
	pieces := func(b []byte, size func() int, feed func([]byte) error) {
		t.Helper()
		for len(b) > 0 {
			n := min(size(), len(b))
			if err := feed(bytes.Clone(b[:n])); err != nil {
				t.Fatal(err)
			}
			b = b[n:]
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	sizes := []func() int{}
	for n := 1; n < 60; n++ {
		sizes = append(sizes, func() int { return n })
	}
	for range 200 {
		most := 1 + rng.IntN(300)
		sizes = append(sizes, func() int { return 1 + rng.IntN(most) })
	}
	for _, size := range sizes {
		var cl clientLog
		cd := NewClientDecoder(DecoderConfig{})
		pieces(server, size, func(p []byte) error { return cd.Feed(p, &cl) })
		if !reflect.DeepEqual(cl.lines, wholeClient.lines) {
			t.Fatalf("client: got %q, want %q", cl.lines, wholeClient.lines)
		}
		if cd.InFrame() || cd.Offset() != int64(len(server)) {
			t.Fatalf("client: stands at %d in a frame: %v", cd.Offset(), cd.InFrame())
		}
		var sl serverLog
		var sd ServerDecoder
		pieces(client, size, func(p []byte) error { return sd.Feed(p, &sl) })
		if !reflect.DeepEqual(sl.lines, wholeServer.lines) {
			t.Fatalf("server: got %q, want %q", sl.lines, wholeServer.lines)
		}
		if sd.InFrame() || sd.Offset() != int64(len(client)) {
			t.Fatalf("server: stands at %d in a frame: %v", sd.Offset(), sd.InFrame())
		}
	}
}

// TestFilled: a driver that reads payloads straight into the destination gets the same result.
func TestFilled(t *testing.T) {
	g := golden(t)
	stream := bytes.Join([][]byte{g["data23"], g["partial23"], g["eop23"]}, nil)
	var want clientLog
	if err := NewClientDecoder(DecoderConfig{}).Feed(stream, &want); err != nil {
		t.Fatal(err)
	}
	var l clientLog
	d := NewClientDecoder(DecoderConfig{})
	direct := 0
	for len(stream) > 0 {
		if dst, missing := d.Payload(); missing > 0 {
			if d.Receiving() == nil {
				t.Fatal("payload without a header")
			}
			n := min(2, missing)
			copy(dst, stream[:n])
			if err := d.Filled(n, &l); err != nil {
				t.Fatal(err)
			}
			direct += n
			stream = stream[n:]
			continue
		}
		if err := d.Feed(stream[:1], &l); err != nil {
			t.Fatal(err)
		}
		stream = stream[1:]
	}
	if !reflect.DeepEqual(l.lines, want.lines) || direct != 14 {
		t.Errorf("got %q after %d bytes, want %q", l.lines, direct, want.lines)
	}
}

// TestDrain: payloads that nobody wants are skipped exactly (CRD-31's framing half).
func TestDrain(t *testing.T) {
	g := golden(t)
	d := NewClientDecoder(DecoderConfig{})
	l := clientLog{drain: true}
	for _, b := range serverStream(g) {
		if err := d.Feed([]byte{b}, &l); err != nil {
			t.Fatal(err)
		}
	}
	if len(l.lines) != 8 || d.InFrame() {
		t.Errorf("got %q", l.lines)
	}
}

// patch returns a copy of b with a big-endian number at off.
func patch(b []byte, off int, v uint32) []byte {
	b = bytes.Clone(b)
	binary.BigEndian.PutUint32(b[off:], v)
	return b
}

// put returns a copy of b with one byte changed.
func put(b []byte, off int, v byte) []byte {
	b = bytes.Clone(b)
	b[off] = v
	return b
}

// grow returns the frame with n more bytes, and its length field with them.
func grow(b []byte, n int) []byte {
	return append(patch(b, 0, uint32(len(b)+n)), make([]byte, n)...)
}

// TestServerRefuses: each malformed frame ends the connection with its sentinel, in one piece and byte by byte.
func TestServerRefuses(t *testing.T) {
	g := golden(t)
	task := AppendTaskEventRequest(nil, event.Append(nil, &event.Event{Kind: event.Generic, Class: "x.Y"}), &goldenPartition, goldenChannel)
	barrier := AppendTaskEventRequest(nil, event.Append(nil, &event.Event{Kind: event.EndOfPartition}), &goldenPartition, goldenChannel)
	for _, tc := range []struct {
		name string
		in   []byte
		want error
	}{
		{"magic", put(g["credit"], 4, 0xBB), ErrBadMagic},
		{"magic's end", put(g["credit"], 7, 0), ErrBadMagic},
		{"length 0", patch(g["credit"], 0, 0), ErrFrameLength},
		{"length 3", patch(g["credit"], 0, 3), ErrFrameLength},
		{"length 8", patch(g["close"], 0, 8), ErrFrameLength},
		{"length negative", patch(g["credit"], 0, 0x8000001d), ErrFrameLength},
		{"id 0", put(g["credit"], 8, 0), ErrUnknownMessage},
		{"id 1", put(g["credit"], 8, 1), ErrUnknownMessage},
		{"id 9", put(g["credit"], 8, 9), ErrUnknownMessage},
		{"id 12", put(g["credit"], 8, 12), ErrUnknownMessage},
		{"id 255", put(g["credit"], 8, 255), ErrUnknownMessage},
		{"credit 0", patch(g["credit"], 9, 0), ErrBadValue},
		{"credit -1", patch(g["credit"], 9, 0xffffffff), ErrBadValue},
		{"size 0", patch(g["newsize"], 9, 0), ErrBadValue},
		{"size -1", patch(g["newsize"], 9, 0xffffffff), ErrBadValue},
		{"segment 0", patch(g["segmentid"], 13, 0), ErrBadValue},
		{"range backwards", patch(g["request"], 69, 5), ErrBadValue},
		{"range negative", patch(g["request"], 69, 0xffffffff), ErrBadValue},
		{"subtask negative", patch(g["request"], 61, 0xffffffff), ErrBadValue},
		{"attempt negative", patch(g["request"], 65, 0xffffffff), ErrBadValue},
		{"request too long", grow(g["request"], 1), ErrFrameLength},
		{"request too short", patch(g["request"][:96], 0, 96), ErrFrameLength},
		{"credit too long", grow(g["credit"], 4), ErrFrameLength},
		{"close with body", grow(g["close"], 1), ErrFrameLength},
		{"task event too short", patch(task[:60], 0, 60), ErrFrameLength},
		{"task event length", patch(task, 9, 1000), ErrFrameLength},
		{"task event length negative", patch(task, 9, 0xffffffff), ErrFrameLength},
		{"task event too large", patch(task, 0, 2<<20), ErrTooLarge},
		{"task event code", patch(task, 13, 77), ErrBadValue},
		{"task event not generic", barrier, ErrBadValue},
	} {
		for _, step := range []int{len(tc.in), 1} {
			var d ServerDecoder
			var l serverLog
			var err error
			for b := tc.in; len(b) > 0 && err == nil; b = b[min(step, len(b)):] {
				err = d.Feed(b[:min(step, len(b))], &l)
			}
			var fe *FrameError
			if !errors.Is(err, tc.want) || !errors.As(err, &fe) {
				t.Errorf("%s by %d: got %v, want %v", tc.name, step, err, tc.want)
			}
			if len(l.lines) > 0 {
				t.Errorf("%s by %d: handled %q", tc.name, step, l.lines)
			}
			if again := d.Feed(g["credit"], &l); again != err || len(l.lines) > 0 {
				t.Errorf("%s by %d: the decoder went on: %v", tc.name, step, again)
			}
		}
	}
	// Negative credit is legal framing: the handler answers it.
	var d ServerDecoder
	var l serverLog
	if err := d.Feed(patch(g["request"], 93, 0xffffffff), &l); err != nil || len(l.lines) != 1 {
		t.Errorf("negative credit: %v, %q", err, l.lines)
	}
}

// TestClientRefuses: the same for the client's end.
func TestClientRefuses(t *testing.T) {
	g := golden(t)
	data, part, end := g["data23"], g["partial23"], g["eop23"]
	empty := AppendBufferResponse(nil, Flink23, &BufferHeader{Receiver: goldenChannel, Type: segment.DataBuffer}, nil)
	for _, tc := range []struct {
		name string
		in   []byte
		want error
	}{
		{"magic", put(data, 4, 0xBB), ErrBadMagic},
		{"magic's end", put(data, 7, 0), ErrBadMagic},
		{"length 8", patch(data, 0, 8), ErrFrameLength},
		{"length negative", patch(data, 0, 0x80000034), ErrFrameLength},
		{"id 2", put(data, 8, 2), ErrUnknownMessage},
		{"id 10", put(data, 8, 10), ErrUnknownMessage},
		{"type none", put(data, 41, 0), ErrDataType},
		{"type 14", put(data, 41, 14), ErrDataType},
		{"type 255", put(data, 41, 255), ErrDataType},
		{"length too large", patch(data, 0, 0x35), ErrFrameLength},
		{"length too small", patch(data, 0, 0x33), ErrFrameLength},
		{"length below header", patch(data, 0, 46), ErrFrameLength},
		{"length huge", patch(data, 0, 1<<30), ErrTooLarge},
		{"size negative", patch(data, 43, 0xffffffff), ErrPayloadSize},
		{"size above buffer", patch(patch(data, 43, 32769), 0, 32769+47), ErrPayloadSize},
		{"event empty", patch(patch(end, 43, 0), 0, 47), ErrPayloadSize},
		{"event huge", patch(patch(end, 43, 1<<21), 0, 1<<21+47), ErrTooLarge},
		{"backlog negative", patch(data, 37, 0xffffffff), ErrBadValue},
		{"partials negative", patch(data, 29, 0xffffffff), ErrPartialSizes},
		{"partials many", patch(data, 29, 6), ErrPartialSizes},
		{"partials very many", patch(data, 29, 1<<30), ErrPartialSizes},
		{"partial sum small", patch(part, 47, 2), ErrPartialSizes},
		{"partial sum large", patch(part, 47, 4), ErrPartialSizes},
		{"partial negative", patch(patch(part, 47, 0xfffffff0), 51, 0x15), ErrPartialSizes},
		{"partial count and length", patch(part, 0, uint32(len(part)-4)), ErrFrameLength},
		{"backlog 0", patch(g["backlog"], 9, 0), ErrBadValue},
		{"backlog -1", patch(g["backlog"], 9, 0xffffffff), ErrBadValue},
		{"backlog long", grow(g["backlog"], 1), ErrFrameLength},
		{"error huge", patch(g["io-boom"], 0, 64<<20), ErrTooLarge},
		{"error cut", patch(g["io-boom"][:100], 0, 100), ErrUnreadableError},
		{"error surplus", grow(g["io-boom"], 1), ErrUnreadableError},
		{"error flag", put(g["io-hello"], len(g["io-hello"])-1, 1), ErrUnreadableError},
		{"error length 8", patch(g["io-boom"], 0, 8), ErrFrameLength},
		{"error length 0", patch(g["io-boom"], 0, 0), ErrFrameLength},
		{"error empty", patch(g["io-boom"][:9], 0, 9), ErrUnreadableError},
	} {
		for _, step := range []int{len(tc.in), 1} {
			d := NewClientDecoder(DecoderConfig{})
			var l clientLog
			var err error
			// The second frame makes a body of no bytes end.
			for b := append(bytes.Clone(tc.in), empty...); len(b) > 0 && err == nil; b = b[min(step, len(b)):] {
				err = d.Feed(b[:min(step, len(b))], &l)
			}
			var fe *FrameError
			if !errors.Is(err, tc.want) || !errors.As(err, &fe) {
				t.Errorf("%s by %d: got %v, want %v", tc.name, step, err, tc.want)
			}
			if len(l.lines) > 0 {
				t.Errorf("%s by %d: handled %q", tc.name, step, l.lines)
			}
			if again := d.Feed(empty, &l); again != err || len(l.lines) > 0 {
				t.Errorf("%s by %d: the decoder went on: %v", tc.name, step, again)
			}
		}
	}
}

// TestClaimedLengthCostsNothing: memory for a body comes with its bytes, not with the length that its header claims.
func TestClaimedLengthCostsNothing(t *testing.T) {
	for name, feed := range map[string]func(p []byte) error{
		"error": func(p []byte) error {
			return NewClientDecoder(DecoderConfig{}).Feed(append(appendFrame(nil, MsgErrorResponse, DefaultMaxError), p...), new(clientLog))
		},
		"task event": func(p []byte) error {
			return new(ServerDecoder).Feed(append(appendFrame(nil, MsgTaskEventRequest, DefaultMaxTaskEvent), p...), new(serverLog))
		},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := feed(make([]byte, 100))
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; err != nil || used > 64<<10 {
			t.Errorf("%s: 100 bytes of a long body took %d bytes, %v", name, used, err)
		}
	}
}

// TestOtherProfile: a server of the other release line is refused with words that say so.
func TestOtherProfile(t *testing.T) {
	g := golden(t)
	for _, tc := range []struct {
		name  string
		local Profile
	}{{"data23", Flink120}, {"eop23", Flink120}, {"data120", Flink23}, {"eop120", Flink23}} {
		in := bytes.Repeat(g[tc.name], 2)
		err := NewClientDecoder(DecoderConfig{Profile: tc.local}).Feed(in, &clientLog{})
		if err == nil || !strings.Contains(err.Error(), "release line") {
			t.Errorf("%s read as %s: %v", tc.name, tc.local, err)
		}
	}
	in := AppendBufferResponse(nil, Flink120, &BufferHeader{Type: segment.AlignedWatermark, Size: 4}, make([]byte, 4))
	if err := NewClientDecoder(DecoderConfig{Profile: Flink120}).Feed(in, &clientLog{}); !errors.Is(err, ErrDataType) {
		t.Errorf("a data type of 2.3 with 1.20: %v", err)
	}
}

// TestHandlerErrors: what a handler returns comes out of Feed as it is.
func TestHandlerErrors(t *testing.T) {
	g := golden(t)
	boom := errors.New("boom")
	d := NewClientDecoder(DecoderConfig{})
	if err := d.Feed(g["data23"], &failingClient{err: boom}); err != boom {
		t.Errorf("got %v", err)
	}
	d = NewClientDecoder(DecoderConfig{})
	if err := d.Feed(g["data23"], &failingClient{short: true}); !errors.Is(err, ErrHandlerMemory) {
		t.Errorf("got %v", err)
	}
}

type failingClient struct {
	clientLog
	err   error
	short bool
}

func (c *failingClient) OnBufferHeader(h *BufferHeader) ([]byte, bool) {
	if c.short {
		return make([]byte, 2), true
	}
	return c.clientLog.OnBufferHeader(h)
}
func (c *failingClient) OnBufferDone(*BufferHeader) error { return c.err }

// TestIDs: the text forms are Flink's, both ways.
func TestIDs(t *testing.T) {
	if got := goldenPartition.String(); got != testPartitionText {
		t.Errorf("got %s", got)
	}
	p, err := ParsePartitionID(testPartitionText)
	if err != nil || p != goldenPartition {
		t.Errorf("got %s, %v", p, err)
	}
	if p.Partition() != 3 || p.Subtask() != 5 || p.Attempt() != 1 || p.DataSet() != seqID(0x10) || p.Graph() != seqID(0x20) || p.Vertex() != seqID(0x30) {
		t.Error("parts differ")
	}
	for _, bad := range []string{"", "x", "a#1@b", testPartitionText + "_", strings.Replace(testPartitionText, "#", "", 1),
		strings.Replace(testPartitionText, "10", "zz", 1), testPartitionText[:len(testPartitionText)-1] + "x"} {
		if _, err := ParsePartitionID(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	if NewChannelID() == NewChannelID() {
		t.Error("two random ids are the same")
	}
	if One(3).String() != "3" || (SubpartitionRange{0, 1<<31 - 1}).Len() != 1<<31 || (SubpartitionRange{3, 2}).Valid() {
		t.Error("ranges")
	}
}
