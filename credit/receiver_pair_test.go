package credit

import (
	"encoding/binary"
	"testing"

	"github.com/weirflow/weir/segment"
)

// pair is a sender and a receiver with two streams of bytes between them that the test moves on, on one goroutine: both
// are the real state machines, and channel i of the receiver consumes subpartition i of the sender.
type pair struct {
	t      testing.TB
	s      *senderRig
	r      *rig
	down   pipe         // from the sender
	up     pipe         // from the receiver
	full   bool         // the sender's connection takes nothing
	pack   bool         // it takes several buffers in one message
	head   BufferHeader // of one whose payload has not all come
	part   []byte
	packed int // messages of several buffers
	in     ServerDecoder
}

// pipe is bytes under way in one direction, cut into frames.
type pipe struct {
	frames []pipeFrame
	off    int // bytes of the first frame that have been taken
}

type pipeFrame struct {
	b    []byte
	id   ChannelID
	msg  MessageID
	data bool // costs credit
	n    int32
}

func newPair(t testing.TB, subs, exclusive, floating int, cfg rigConfig) *pair {
	t.Helper()
	const size = 32
	p := &pair{t: t, pack: cfg.packs}
	p.s = newSenderRig(t, PartitionConfig{Subpartitions: subs, Exclusive: exclusive}, 4096, size)
	p.s.core = NewServerCore(p.s.reg, p)
	cfg.channels, cfg.exclusive, cfg.floating, cfg.segment, cfg.leaky = subs, exclusive, floating, size, true
	cfg.partition = func(ch int) (PartitionID, SubpartitionRange) { return senderPartition, One(int32(ch)) }
	p.r = newRig(t, cfg)
	p.pump()
	return p
}

// close ends both ends and checks that all memory comes home.
func (p *pair) close() {
	p.t.Helper()
	p.r.close()
	p.s.close()
}

func (p *pair) Writable() bool { return !p.full }

func (p *pair) WantFlush() { p.s.wanted = true }

func (p *pair) WriteBuffer(h *BufferHeader, b segment.Buffer) {
	p.head, p.part = *h, append([]byte(nil), b.Bytes()...)
	b.Release()
	if len(p.part) == int(h.Size) {
		p.send()
	}
}

func (p *pair) Packs() bool { return p.pack }

func (p *pair) WriteMore(bufs []segment.Buffer, n int) {
	for _, b := range bufs {
		p.part = append(p.part, b.Bytes()...)
	}
	segment.ReleaseAll(bufs)
	p.packed++
	p.send()
}

func (p *pair) send() {
	p.down.frames = append(p.down.frames, pipeFrame{b: AppendBufferResponse(nil, Flink23, &p.head, p.part), id: p.head.Receiver,
		data: p.head.Type.IsBuffer()})
}

func (p *pair) WriteFrame(frame []byte) {
	p.down.frames = append(p.down.frames, pipeFrame{b: append([]byte(nil), frame...), msg: MessageID(frame[8])})
}

// pump lets both ends work with what they have; nothing is delivered.
func (p *pair) pump() {
	p.s.pump()
	p.r.pump()
	p.moveUp()
}

// moveUp puts what the receiver wrote on its way.
func (p *pair) moveUp() {
	for w := &p.r.wire; len(w.buf) > 0; {
		n := int(binary.BigEndian.Uint32(w.buf))
		f := pipeFrame{b: append([]byte(nil), w.buf[:n]...), msg: MessageID(w.buf[8])}
		if f.msg == MsgAddCredit {
			f.n = getI32(f.b[9:])
			f.id = channelAt(f.b[13:])
		}
		p.up.frames = append(p.up.frames, f)
		w.buf = w.buf[n:]
	}
}

// take takes up to n bytes out of a pipe.
func (q *pipe) take(n int) (out []byte) {
	for n > 0 && len(q.frames) > 0 {
		f := &q.frames[0]
		k := min(n, len(f.b)-q.off)
		out = append(out, f.b[q.off:q.off+k]...)
		n -= k
		if q.off += k; q.off == len(f.b) {
			q.frames, q.off = q.frames[1:], 0
		}
	}
	return out
}

// deliver lets bytes arrive at the receiver, and at the sender. The errors are those of the connection.
func (p *pair) deliver(down, up int) error {
	if b := p.down.take(down); len(b) > 0 {
		if err := p.r.core.Feed(b); err != nil {
			return err
		}
	}
	if b := p.up.take(up); len(b) > 0 {
		if err := p.in.Feed(b, p.s.core); err != nil {
			return err
		}
	}
	p.pump()
	return nil
}

// settle delivers everything until nothing moves.
func (p *pair) settle() error {
	p.pump()
	for len(p.down.frames)+len(p.up.frames) > 0 {
		if err := p.deliver(1<<30, 1<<30); err != nil {
			return err
		}
	}
	return nil
}

// flushOut settles and fails the test on an error.
func (p *pair) flushOut() {
	p.t.Helper()
	if err := p.settle(); err != nil {
		p.t.Fatal(err)
	}
}

// underway counts what the invariant of credit is about, for one channel: credit in AddCredit messages, and data
// messages whose header has not been decoded.
func (p *pair) underway(id ChannelID) (credit, data int32) {
	for i := range p.up.frames {
		if f := &p.up.frames[i]; f.msg == MsgAddCredit && f.id == id {
			credit += f.n
		}
	}
	for i := range p.down.frames {
		if f := &p.down.frames[i]; f.data && f.id == id && (i > 0 || p.down.off < FrameHeaderLen+38+4*int(getI32(f.b[29:]))) {
			data++
		}
	}
	return credit, data
}
