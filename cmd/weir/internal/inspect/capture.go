package inspect

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/weirflow/weir/credit"
)

const (
	// maxTracked bounds the connections of a capture that are followed at a time.
	maxTracked = 1 << 14
	// maxSaid is how many repetitions of a connection are noted one by one; the summary counts all.
	maxSaid = 16
)

// ErrNothing: a capture holds no connection that could be read.
var ErrNothing = errors.New("no connection of the data plane of weir and Flink was found")

// ReadCapture shows the frames of all connections in a capture of packets, pcap or pcapng, to the sink. With ports, only
// connections that have one of them at either end. An error of the file or of a connection's bytes is returned once
// everything else was shown.
func ReadCapture(r io.Reader, cfg Config, ports []uint, sink Sink) error {
	packets, err := newPacketReader(r)
	if err != nil {
		return err
	}
	c := &capture{cfg: cfg, ports: ports, sink: sink, conns: make(map[pair]*tracked)}
	defer c.release()
	for {
		p, err := packets.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			c.errs = append(c.errs, err)
			break
		}
		seg, why := parse(&p)
		if c.skipped[why]++; why != skipNone {
			continue
		}
		if err := c.segment(&seg, p.time); err != nil {
			return err
		}
	}
	return c.finish()
}

// pair identifies a connection: its two ends, the smaller first.
type pair struct{ a, b netip.AddrPort }

func pairOf(x, y netip.AddrPort) pair {
	if x.Compare(y) > 0 {
		x, y = y, x
	}
	return pair{x, y}
}

// capture is the reading of one capture.
type capture struct {
	cfg      Config
	ports    []uint
	sink     Sink
	conns    map[pair]*tracked
	order    []*tracked
	sessions int
	readable int // sessions with frames
	skipped  [numSkips]int
	ignored  int // packets of connections too many
	errs     []error
}

// tracked is a connection.
type tracked struct {
	c       *capture
	ends    [2]netip.AddrPort
	streams [2]stream // by who sends
	client  int       // index in ends; -1: not known yet
	whole   bool      // its beginning was seen
	session *Session  // once there are bytes, and it is known who is the client
	heads   [2][]byte // bytes before that
	dropped [2]int64
	now     time.Time
	said    int
	done    bool
}

// tap is one stream's consumer.
type tap struct {
	t *tracked
	i int
}

func (c *capture) wanted(p pair) bool {
	return len(c.ports) == 0 || slices.Contains(c.ports, uint(p.a.Port())) || slices.Contains(c.ports, uint(p.b.Port()))
}

// segment takes a segment to its connection.
func (c *capture) segment(seg *tcpSegment, at time.Time) error {
	key := pairOf(seg.src, seg.dst)
	if !c.wanted(key) {
		return nil
	}
	t := c.conns[key]
	if t != nil && seg.flags&(tcpSYN|tcpACK) == tcpSYN && !t.again(seg) { // the ports are used again
		if err := t.close(); err != nil {
			return err
		}
		t = nil
	}
	if t == nil {
		if seg.flags&tcpSYN == 0 && len(seg.data)+seg.cut == 0 {
			return nil // the end of something that was there before
		}
		if t = c.track(key, seg); t == nil {
			c.ignored++
			return nil
		}
	}
	t.now = at
	return t.segment(seg)
}

// track enters a new connection; nil: there are too many.
func (c *capture) track(key pair, seg *tcpSegment) *tracked {
	if len(c.conns) >= maxTracked {
		for k, t := range c.conns {
			if t.done {
				delete(c.conns, k)
			}
		}
		c.order = slices.DeleteFunc(c.order, func(t *tracked) bool { return t.done })
		if len(c.conns) >= maxTracked {
			return nil
		}
	}
	t := &tracked{c: c, ends: [2]netip.AddrPort{seg.src, seg.dst}, client: -1}
	for i := range t.streams {
		t.streams[i].consumer = tap{t, i}
	}
	c.conns[key] = t
	c.order = append(c.order, t)
	return t
}

// again reports whether a SYN is one that was there before.
func (t *tracked) again(seg *tcpSegment) bool {
	s := &t.streams[t.index(seg.src)]
	return !t.done && t.whole && s.begun && s.before(seg.seq) >= 0 && s.before(seg.seq) < 1<<16
}

func (t *tracked) index(src netip.AddrPort) int {
	if src == t.ends[0] {
		return 0
	}
	return 1
}

func (t *tracked) segment(seg *tcpSegment) error {
	if t.done {
		return nil
	}
	i := t.index(seg.src)
	s := &t.streams[i]
	if seg.flags&tcpSYN != 0 {
		if !s.begun {
			s.begun, s.next = true, seg.seq+1
			t.whole = true
			t.client = i
			if seg.flags&tcpACK != 0 {
				t.client = 1 - i
			}
		}
		seg.seq++
	}
	if seg.flags&tcpFIN != 0 && !s.fin {
		s.fin, s.finSeq = true, seg.seq+uint32(len(seg.data)+seg.cut)
	}
	if seg.flags&tcpRST == 0 { // else what follows is text for people, if anything
		if err := s.add(piece{seg.seq, seg.data, seg.cut}); err != nil {
			return err
		}
	}
	if other := &t.streams[1-i]; seg.flags&tcpACK != 0 {
		if err := other.ack(seg.ack); err != nil {
			return err
		}
	}
	if seg.flags&tcpRST != 0 || t.streams[0].ended() && t.streams[1].ended() {
		return t.close()
	}
	return nil
}

// open makes the session when the first bytes are there.
func (t *tracked) open(m mode) error {
	t.c.sessions++
	s := NewSession(t.c.cfg, t.c.sessions, t.c.sink)
	s.Name = fmt.Sprintf("%d (%s to %s)", t.c.sessions, t.ends[t.client], t.ends[1-t.client])
	s.now = t.now
	for i := range t.streams {
		d := t.dir(i)
		s.half[d].fed = t.dropped[i]
		s.restart(d, m)
	}
	t.session = s
	began := ""
	if m == seek {
		began = "; its beginning was not captured, offsets count from the first byte that was"
	}
	return s.note("connection %s begins%s", s.Name, began)
}

// dir is the direction of what end i sends.
func (t *tracked) dir(i int) Dir {
	if i == t.client {
		return ToServer
	}
	return ToClient
}

func (p tap) bytes(b []byte) error {
	t := p.t
	if t.session == nil && t.client >= 0 {
		if err := t.open(sniff); err != nil {
			return err
		}
	}
	if t.session == nil {
		return t.search(p.i, b)
	}
	return t.session.Feed(t.dir(p.i), b, t.now)
}

// search looks for the first frame of a connection whose beginning is not there, to learn who is the client.
func (t *tracked) search(i int, b []byte) error {
	t.heads[i] = append(t.heads[i], b...)
	at := find(t.heads[i], func(m credit.MessageID) bool { return m <= credit.MsgSegmentID })
	if at < 0 {
		n := max(0, len(t.heads[i])-credit.FrameHeaderLen+1)
		t.heads[i] = append(t.heads[i][:0], t.heads[i][n:]...)
		t.dropped[i] += int64(n)
		return nil
	}
	t.client = i
	if credit.MessageID(t.heads[i][at+8]).ToClient() {
		t.client = 1 - i
	}
	if err := t.open(seek); err != nil {
		return err
	}
	for j, head := range t.heads {
		t.heads[j] = nil
		if err := t.session.Feed(t.dir(j), head, t.now); err != nil {
			return err
		}
	}
	return nil
}

func (p tap) gap(n int64) error {
	t := p.t
	if t.session == nil {
		t.dropped[p.i] += n + int64(len(t.heads[p.i]))
		t.heads[p.i] = nil
		if t.client >= 0 && t.whole { // missing from the first byte on
			if err := t.open(sniff); err != nil {
				return err
			}
			s := t.session
			s.half[t.dir(p.i)].fed = 0
			return s.Gap(t.dir(p.i), n)
		}
		return nil
	}
	t.session.now = t.now
	return t.session.Gap(t.dir(p.i), n)
}

func (p tap) again(n int64) error {
	t := p.t
	if t.session == nil || t.session.Foreign() {
		return nil
	}
	d := t.dir(p.i)
	t.session.summary.Repeated[d] += n
	if t.said++; t.said > maxSaid {
		return nil
	}
	t.session.now = t.now
	last := ""
	if t.said == maxSaid {
		last = "; from now on such are only counted"
	}
	return t.session.note("%s: %d bytes before byte %d were sent or captured again%s", d, n, t.session.half[d].fed, last)
}

// close ends a connection.
func (t *tracked) close() error {
	if t.done {
		return nil
	}
	for i := range t.streams {
		if err := t.streams[i].finish(); err != nil {
			return err
		}
	}
	whole := t.whole && t.streams[0].ended() && t.streams[1].ended()
	t.done = true
	t.heads = [2][]byte{}
	s := t.session
	if s == nil {
		return nil
	}
	t.session = nil
	if err := s.Close(whole); err != nil {
		return err
	}
	if s.summary.Frames[ToServer]+s.summary.Frames[ToClient] > 0 {
		t.c.readable++
	}
	if err := s.Err(); err != nil {
		t.c.errs = append(t.c.errs, err)
	}
	return nil
}

// finish ends all connections and says what was left out.
func (c *capture) finish() error {
	for _, t := range c.order {
		if err := t.close(); err != nil {
			return err
		}
	}
	var left []string
	for why, n := range c.skipped {
		if why != int(skipNone) && n > 0 {
			left = append(left, fmt.Sprintf("%d %s", n, skipNames[why]))
		}
	}
	if c.ignored > 0 {
		left = append(left, fmt.Sprintf("%d of more than %d connections", c.ignored, maxTracked))
	}
	if len(left) > 0 {
		if err := c.sink.Note(&Note{Text: "packets left out: " + strings.Join(left, ", ")}); err != nil {
			return err
		}
	}
	if c.readable == 0 {
		c.errs = append(c.errs, ErrNothing)
	}
	return errors.Join(c.errs...)
}

// release frees what an error left.
func (c *capture) release() {
	for _, t := range c.order {
		if t.session != nil {
			t.session.release()
		}
	}
}
