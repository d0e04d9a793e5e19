package credit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// rigConfig describes a receiver under test: one gate, one connection.
type rigConfig struct {
	channels, exclusive, floating int
	segment                       int // bytes of a segment; 0: 64
	noReuse                       bool
	client                        ClientConfig
	gate                          GateConfig
	port                          GatePortConfig
	leaky                         bool // the test looks for leaks itself
	packs                         bool // a pair's sender packs
	partition                     func(ch int) (PartitionID, SubpartitionRange)
}

// rig is a receiver with the test as its sender, its loop and its task, on one goroutine. What it writes is decoded.
type rig struct {
	t     testing.TB
	pool  *segment.Pool
	recv  *ReceivePool
	gate  *Gate
	link  *GateLink
	port  *GatePort
	core  *ClientCore
	ch    []*RemoteChannel
	wire  rigWire
	seq   []int32 // next sequence number of each channel
	lines []string
}

// rigWire is a ClientOut that keeps what is written.
type rigWire struct {
	buf     []byte
	full    bool
	flushes int
}

func (w *rigWire) Stage(n int) []byte {
	at := len(w.buf)
	w.buf = slices.Grow(w.buf, n)[:at+n]
	return w.buf[at : at+n : at+n]
}
func (w *rigWire) Full() bool { return w.full }
func (w *rigWire) WantFlush() { w.flushes++ }

func rigID(ch int) (id ChannelID) {
	binary.BigEndian.PutUint32(id[12:], uint32(ch)+1)
	return id
}

func newRig(t testing.TB, cfg rigConfig) *rig {
	t.Helper()
	if cfg.segment == 0 {
		cfg.segment = 64
	}
	r := &rig{t: t, seq: make([]int32, cfg.channels)}
	total := cfg.channels*cfg.exclusive + cfg.floating
	var err error
	if r.pool, err = segment.NewPool(segment.Config{SegmentSize: cfg.segment, Segments: max(total, 1)}); err != nil {
		t.Fatal(err)
	}
	if r.recv, err = NewReceivePool(r.pool, ReceivePoolConfig{Name: "test", Segments: total}); err != nil {
		t.Fatal(err)
	}
	gc := cfg.gate
	gc.Channels = cfg.channels
	r.gate = NewGate(gc)
	r.link = r.gate.NewLink(max(total, 1), nil)
	pc := cfg.port
	pc.Link, pc.Pool, pc.Floating = r.link, r.recv, cfg.floating
	if r.port, err = NewGatePort(pc); err != nil {
		t.Fatal(err)
	}
	cc := cfg.client
	cc.Peer, cc.Out, cc.Pool, cc.Reuse = "10.0.0.1:6121", &r.wire, r.recv, !cfg.noReuse
	cc.Decoder.MaxBuffer = cfg.segment
	r.core = NewClientCore(cc)
	if cfg.partition == nil {
		cfg.partition = func(ch int) (PartitionID, SubpartitionRange) { return rigPartition(ch), SubpartitionRange{} }
	}
	for i := range cfg.channels {
		id, subs := cfg.partition(i)
		c, err := r.port.NewChannel(RemoteConfig{Index: i, ID: rigID(i), Partition: id, Range: subs, Exclusive: cfg.exclusive})
		if err != nil {
			t.Fatal(err)
		}
		r.gate.SetUpstream(i, r.link)
		r.gate.Describe(i, cc.Peer, c.Partition(), c.ID())
		r.ch = append(r.ch, c)
		if err := r.core.Request(c); err != nil {
			t.Fatal(err)
		}
	}
	if !cfg.leaky {
		t.Cleanup(r.close)
	}
	r.pump()
	return r
}

func rigPartition(ch int) PartitionID {
	return MakePartitionID(ID{1}, int32(ch), ID{2}, ID{3}, int32(ch), 0)
}

// close ends the receiver and checks that everything comes home.
func (r *rig) close() {
	r.t.Helper()
	r.gate.Close()
	r.pump()
	r.core.Fail(errors.New("end of test"))
	r.port.Close()
	r.pump()
	if n := r.port.Budget().Out(); n != 0 {
		r.t.Errorf("%d floating buffers did not come back", n)
	}
	if n := r.recv.Reserved(); n != 0 {
		r.t.Errorf("%d segments are still reserved", n)
	}
	if n := r.core.CreditOutstanding(); n != 0 {
		r.t.Errorf("%d units of credit outstanding at a connection without channels", n)
	}
	if n := r.link.eventBytes.Load(); n != 0 {
		r.t.Errorf("events of cost %d under way in a closed gate", n)
	}
	r.recv.Close()
	if err := r.pool.Close(); err != nil {
		r.t.Error(err)
	}
}

// pump runs the loop until nothing moves.
func (r *rig) pump() {
	for {
		worked := r.port.Poll()
		r.core.EndBatch()
		r.core.WriteIntents()
		if r.gate.Fill() == 0 && !worked {
			return
		}
	}
}

// feed lets bytes arrive and fails the test on an error of the connection.
func (r *rig) feed(p []byte) {
	r.t.Helper()
	if err := r.core.Feed(p); err != nil {
		r.t.Fatal(err)
	}
	r.pump()
}

// next is the sequence number of a channel's next message.
func (r *rig) next(ch int) int32 {
	r.seq[ch]++
	return r.seq[ch] - 1
}

// frame makes a message with the next sequence number of the channel.
func (r *rig) frame(ch int, t segment.DataType, backlog int32, payload []byte) []byte {
	h := BufferHeader{Receiver: rigID(ch), Seq: r.next(ch), Backlog: backlog, Type: t, Size: int32(len(payload))}
	return AppendBufferResponse(nil, Flink23, &h, payload)
}

// data lets a data message with n bytes arrive.
func (r *rig) data(ch int, backlog int32, n int) {
	r.t.Helper()
	r.feed(r.frame(ch, segment.DataBuffer, backlog, make([]byte, n)))
}

// text lets a data message with these bytes arrive.
func (r *rig) text(ch int, s string) {
	r.t.Helper()
	r.feed(r.frame(ch, segment.DataBuffer, 0, []byte(s)))
}

// event lets an event arrive.
func (r *rig) event(ch int, e event.Event) {
	r.t.Helper()
	t := event.DataTypeOf(&e, e.Kind == event.CheckpointBarrier && e.Barrier.Options.IsUnaligned())
	r.feed(r.frame(ch, t, 0, event.AppendPadded(nil, &e)))
}

func barrier(id int64, a event.Alignment, timeout int64) event.Event {
	return event.Event{Kind: event.CheckpointBarrier, Barrier: event.Barrier{ID: id, Options: event.Options{Alignment: a, Timeout: timeout}}}
}

func aligned(id int64) event.Event     { return barrier(id, event.Aligned, event.NoTimeout) }
func unaligned(id int64) event.Event   { return barrier(id, event.Unaligned, event.NoTimeout) }
func timeoutable(id int64) event.Event { return barrier(id, event.Aligned, 100) }

var (
	endOfData  = event.Event{Kind: event.EndOfData}
	endOfInput = event.Event{Kind: event.EndOfPartition}
)

// poll polls once and describes what came: "0:text", "0:CheckpointBarrier 3", "none", "end", "error …". Data is released.
func (r *rig) poll() string {
	it, st, err := r.gate.Poll()
	s := describe(it, st, err)
	if st == Ready && it.Event == nil {
		it.Buf.Release()
	}
	r.pump()
	return s
}

func describe(it Item, st Status, err error) string {
	switch {
	case err != nil:
		return "error " + err.Error()
	case st != Ready:
		return st.String()
	case it.Event == nil:
		return fmt.Sprintf("%d:%s", it.Channel, it.Buf.Bytes())
	}
	s := fmt.Sprintf("%d:%v", it.Channel, it.Event.Kind)
	switch it.Event.Kind {
	case event.CheckpointBarrier:
		s += fmt.Sprint(" ", it.Event.Barrier.ID)
	case event.Announcement:
		s += fmt.Sprintf(" %d seq %d", it.Event.Announced.Barrier.ID, it.Event.Seq)
	}
	return s
}

// polls checks what the next polls give.
func (r *rig) polls(want ...string) {
	r.t.Helper()
	for i, w := range want {
		if got := r.poll(); got != w && !(strings.HasPrefix(w, "error ") && strings.HasPrefix(got, "error ") && strings.Contains(got, w[6:])) {
			r.t.Fatalf("poll %d: %q, want %q", i, got, w)
		}
	}
}

// take polls and keeps the data.
func (r *rig) take() segment.Buffer {
	r.t.Helper()
	it, st, err := r.gate.Poll()
	if err != nil || st != Ready || it.Event != nil {
		r.t.Fatalf("poll: %s, want data", describe(it, st, err))
	}
	return it.Buf
}

// wrote checks what was written since the last call: "request 0 2", "credit 0 1", "cancel 0", …
func (r *rig) wrote(want ...string) {
	r.t.Helper()
	got := r.written()
	if !slices.Equal(got, want) {
		r.t.Fatalf("wrote %q, want %q", got, want)
	}
}

func (r *rig) written() []string {
	r.t.Helper()
	var d ServerDecoder
	p := r.wire.buf
	r.wire.buf = nil
	r.lines = nil
	if err := d.Feed(p, (*rigWritten)(r)); err != nil || d.InFrame() {
		r.t.Fatalf("unreadable: %v", err)
	}
	return r.lines
}

// rigWritten decodes what the rig wrote.
type rigWritten rig

func (w *rigWritten) line(what string, id ChannelID, n ...int32) error {
	s := fmt.Sprint(what, " ", int(binary.BigEndian.Uint32(id[12:]))-1)
	for _, v := range n {
		s += fmt.Sprint(" ", v)
	}
	w.lines = append(w.lines, s)
	return nil
}

func (w *rigWritten) OnPartitionRequest(q *PartitionRequest) error {
	return w.line("request", q.Receiver, q.Credit)
}
func (w *rigWritten) OnTaskEvent(e *event.Event, _ *PartitionID, id ChannelID) error {
	return w.line("event "+e.Class, id)
}
func (w *rigWritten) OnCancelPartitionRequest(id ChannelID) error { return w.line("cancel", id) }
func (w *rigWritten) OnCloseRequest() error {
	w.lines = append(w.lines, "close")
	return nil
}
func (w *rigWritten) OnAddCredit(id ChannelID, n int32) error         { return w.line("credit", id, n) }
func (w *rigWritten) OnResumeConsumption(id ChannelID) error          { return w.line("resume", id) }
func (w *rigWritten) OnNewBufferSize(id ChannelID, n int32) error     { return w.line("size", id, n) }
func (w *rigWritten) OnSegmentID(id ChannelID, s, n int32) error      { return w.line("segment", id, s, n) }
func (w *rigWritten) OnAckAllUserRecordsProcessed(id ChannelID) error { return w.line("ack", id) }

// sunk is an InputSink that keeps what it is given as text.
type sunk struct{ got []string }

func (s *sunk) InputData(checkpoint int64, ch int, seq int32, b segment.Buffer) {
	if b.Type() == segment.RecoveryMetadata {
		s.got = append(s.got, fmt.Sprintf("%d/%d metadata %d", checkpoint, ch, binary.BigEndian.Uint32(b.Bytes()[4:])))
		return
	}
	s.got = append(s.got, fmt.Sprintf("%d/%d %s", checkpoint, ch, b.Bytes()))
}

func (s *sunk) is(t testing.TB, want ...string) {
	t.Helper()
	if !slices.Equal(s.got, want) {
		t.Fatalf("persisted %q, want %q", s.got, want)
	}
	s.got = nil
}
