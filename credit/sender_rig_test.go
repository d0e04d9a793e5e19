package credit

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
)

// sentMessage is a BufferResponse that went out.
type sentMessage struct {
	BufferHeader
	payload []byte
}

// senderRig is one partition, the server's end of one connection, and a recorder in place of the socket, all on one
// goroutine.
type senderRig struct {
	t     testing.TB
	pool  *segment.Pool
	local *segment.LocalPool
	part  *Partition
	w     *PartitionWriter
	reg   *Registry
	core  *ServerCore
	clock time.Duration

	room   int // messages that the connection takes; negative: any number
	wanted bool
	sent   []sentMessage
	// What was sent besides: backlog announcements and errors.
	backlogs  []int32
	errors    []*ErrorResponse
	onSend    func(m *sentMessage) // called for each message, if set
	drop      bool                 // keep nothing of what is sent
	onlyCount bool                 // of what is sent, only how much it is
	counted   int
	files     bool         // parts of files are taken, like a plain socket does
	fromFile  int          // messages that were
	packs     bool         // several buffers in one message are taken, like Flink 2.3 does
	begun     *sentMessage // its payload has not all come
}

var senderPartition = MakePartitionID(ID{1}, 0, ID{2}, ID{3}, 0, 0)

// newSenderRig makes a rig; segments and sizes have defaults, everything else is as cfg says.
func newSenderRig(t testing.TB, cfg PartitionConfig, segments, size int) *senderRig {
	t.Helper()
	r := &senderRig{t: t, room: -1}
	var err error
	if r.pool, err = segment.NewPool(segment.Config{SegmentSize: size, Segments: segments + 16}); err != nil { // 16 for another partition
		t.Fatal(err)
	}
	r.reg = NewRegistry(RegistryConfig{Timeout: time.Second, Clock: func() time.Duration { return r.clock }})
	r.core = NewServerCore(r.reg, r)
	r.part, r.w, r.local = r.newPartition(cfg, senderPartition, segments)
	if err := r.reg.Register(r.part); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *senderRig) newPartition(cfg PartitionConfig, id PartitionID, segments int) (*Partition, *PartitionWriter, *segment.LocalPool) {
	r.t.Helper()
	if cfg.Subpartitions == 0 {
		cfg.Subpartitions = 1
	}
	local, err := r.pool.NewLocal(segment.LocalConfig{Name: "writer", Required: segments, Subpartitions: cfg.Subpartitions})
	if err != nil {
		r.t.Fatal(err)
	}
	cfg.ID, cfg.Pool, cfg.Segments = id, local, segments
	p, w, err := NewPartition(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	return p, w, local
}

// close ends everything; memory that does not come home fails the test.
func (r *senderRig) close() {
	r.t.Helper()
	r.core.Disconnected()
	r.w.Close()
	r.part.Release()
	for r.part.Poll() {
	}
	r.local.Close()
	if err := r.pool.Close(); err != nil {
		r.t.Error(err)
	}
}

func (r *senderRig) SendsFiles() bool { return r.files }

func (r *senderRig) Writable() bool { return r.room != 0 }

func (r *senderRig) WantFlush() { r.wanted = true }

func (r *senderRig) WriteBuffer(h *BufferHeader, b segment.Buffer) {
	if r.room > 0 {
		r.room--
	}
	if r.drop {
		b.Release()
		return
	}
	if r.onlyCount {
		r.counted++
		b.Release()
		return
	}
	if b.IsFile() {
		in, err := b.ReadInto(segment.Wrap(make([]byte, b.Len()), b.Type()))
		if err != nil {
			r.t.Fatal(err)
		}
		b.Release()
		b = in
		r.fromFile++
	}
	m := sentMessage{BufferHeader: *h, payload: bytes.Clone(b.Bytes())}
	m.PartialSizes = slices.Clone(h.PartialSizes)
	b.Release()
	if r.packs && len(m.PartialSizes) > 1 && len(m.payload) < int(m.Size) {
		r.begun = &m
		return
	}
	r.complete(&m)
}

// Packs is part of packer, as is WriteMore.
func (r *senderRig) Packs() bool { return r.packs }

func (r *senderRig) WriteMore(bufs []segment.Buffer, n int) {
	if r.drop || r.onlyCount {
		segment.ReleaseAll(bufs)
		return
	}
	m := r.begun
	r.begun = nil
	before := len(m.payload)
	for _, b := range bufs {
		m.payload = append(m.payload, b.Bytes()...)
		b.Release()
	}
	if got := len(m.payload) - before; got != n {
		r.t.Fatalf("%d bytes more, %d were announced", got, n)
	}
	r.complete(m)
}

func (r *senderRig) complete(m *sentMessage) {
	if len(m.payload) != int(m.Size) {
		r.t.Fatalf("a header says %d bytes, there are %d", m.Size, len(m.payload))
	}
	r.sent = append(r.sent, *m)
	if r.onSend != nil {
		r.onSend(m)
	}
}

func (r *senderRig) WriteFrame(frame []byte) {
	if err := NewClientDecoder(DecoderConfig{}).Feed(frame, (*senderFrames)(r)); err != nil {
		r.t.Fatalf("a frame that we wrote: %v", err)
	}
}

// senderFrames reads the frames that are not BufferResponses.
type senderFrames senderRig

func (r *senderFrames) OnBufferHeader(*BufferHeader) ([]byte, bool) { return nil, false }
func (r *senderFrames) OnBufferDone(*BufferHeader) error            { return nil }
func (r *senderFrames) OnBacklogAnnouncement(id ChannelID, n int32) error {
	r.backlogs = append(r.backlogs, n)
	return nil
}
func (r *senderFrames) OnErrorResponse(e *ErrorResponse) error {
	r.errors = append(r.errors, e)
	return nil
}

// pump takes in what the writer handed over and sends what may be sent.
func (r *senderRig) pump() {
	r.t.Helper()
	for r.part.Poll() || r.wanted {
		r.wanted = false
		if _, err := r.core.Run(); err != nil {
			r.t.Fatal(err)
		}
		if r.begun != nil {
			r.t.Fatal("half a message was sent")
		}
	}
}

// take pumps and returns what was sent since the last call.
func (r *senderRig) take() []sentMessage {
	r.t.Helper()
	r.pump()
	s := r.sent
	r.sent = nil
	return s
}

func senderChannel(sub int) ChannelID { return ChannelID{0: byte(sub), 1: byte(sub >> 8), 15: 7} }

// feed gives the core frames, in bytes.
func (r *senderRig) feed(frames ...[]byte) {
	r.t.Helper()
	var d ServerDecoder
	for _, f := range frames {
		if err := d.Feed(f, r.core); err != nil {
			r.t.Fatal(err)
		}
	}
}

// request asks for one subpartition.
func (r *senderRig) request(sub int, credit int32) {
	r.t.Helper()
	r.requestOf(senderPartition, One(int32(sub)), senderChannel(sub), credit)
}

func (r *senderRig) requestOf(p PartitionID, subs SubpartitionRange, id ChannelID, credit int32) {
	r.t.Helper()
	r.feed(AppendPartitionRequest(nil, &PartitionRequest{Partition: p, Range: subs, Receiver: id, Credit: credit}))
}

// buffer hands over a buffer with the bytes, and closes it if finished. It returns the builder if not.
func (r *senderRig) buffer(sub int, p []byte, finished bool) *segment.Builder {
	r.t.Helper()
	b, ok := r.w.Take(sub)
	if !ok {
		r.t.Fatal("the pool is empty")
	}
	w := segment.MakeBuilder(b)
	if w.Append(p) != len(p) {
		r.t.Fatal("the buffer is too small")
	}
	w.Commit()
	if finished {
		w.Finish()
	}
	r.w.Add(sub, w.NewReader(), 0)
	if finished {
		w.Close()
		return nil
	}
	return &w
}

// write appends to an unfinished buffer.
func write(w *segment.Builder, p string) {
	w.Append([]byte(p))
	w.Commit()
}

// finish finishes and closes a buffer.
func finish(w *segment.Builder) {
	w.Finish()
	w.Close()
}

// barrier is a checkpoint barrier and the data type that it is sent with.
func senderBarrier(id int64, a event.Alignment, timeout int64) segment.Buffer {
	ev := event.Event{Kind: event.CheckpointBarrier, Barrier: event.Barrier{ID: id, Options: event.Options{Alignment: a, Timeout: timeout}}}
	return segment.Wrap(event.AppendPadded(nil, &ev), event.DataTypeOf(&ev, a == event.Unaligned))
}

func alignedBarrier(id int64) segment.Buffer {
	return senderBarrier(id, event.Aligned, event.NoTimeout)
}

func unalignedBarrier(id int64) segment.Buffer {
	return senderBarrier(id, event.Unaligned, event.NoTimeout)
}

func timeoutableBarrier(id int64) segment.Buffer { return senderBarrier(id, event.Aligned, 1000) }

// someEvent is an event without special treatment.
func someEvent() segment.Buffer {
	ev := event.Event{Kind: event.CancelCheckpoint, CheckpointID: 1}
	return segment.Wrap(event.Append(nil, &ev), segment.EventBuffer)
}
