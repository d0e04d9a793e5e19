package credit

import "github.com/weirflow/weir/segment"

// What is read straight into segments: payloads of at least landLeast bytes, as a copy of less costs less than a piece does; at
// most landMost of a read. After a read that brought something else the next ones do without, twice as many each time up to
// landPause.
const (
	landLeast = 8 << 10
	landMost  = 16
	landPause = 64
)

// landing is where the messages lie that a read is expected to bring: as long as they are data messages of the same size as the
// one before, their headers and payloads come by turns, and each payload can be read into the segment that its channel gets. What
// the bytes are the decoder finds out all the same, header by header; where they are something else they are copied, and
// decoded as if they had come that way.
type landing struct {
	last   int // bytes of the payload of the last data message
	size   int // of each payload that is expected
	pause  int // reads that still do without
	misses int // pause after the next miss, as a power of 2

	pieces [][]byte
	tail   bool // the first piece is the rest of the payload that is arriving
	lent   [landMost]segment.Buffer
	n      int
	offer  segment.Buffer // for the payload behind the header that is being decoded
	fits   bool           // it was taken, for a payload of the expected size
	heads  [landMost][FrameHeaderLen + 38]byte
}

// Land says where the next bytes from the server should be put: pieces that are filled in order, of at most room bytes in all.
// None: anywhere, for Feed. Otherwise Landed follows, before anything else.
func (c *ClientCore) Land(room int) [][]byte {
	l := &c.landing
	if l.size = l.last; c.err != nil || l.size < landLeast || l.size > c.cfg.Pool.local.SegmentSize() {
		return nil // a larger one was of a channel that nobody has, or will not be taken
	}
	if l.pause > 0 {
		l.pause--
		return nil
	}
	have, ok := c.decoder.headSoFar()
	if !ok {
		return nil
	}
	l.pieces, l.tail = l.pieces[:0], false
	if dst, missing := c.decoder.Payload(); missing > 0 {
		if dst == nil || missing > room {
			return nil
		}
		l.pieces, l.tail = append(l.pieces, dst[:missing]), true
		room -= missing
	}
	for most := min(landMost, c.outstanding); l.n < most; l.n++ {
		head := l.heads[l.n][:c.decoder.headLen()-have]
		if room -= len(head) + l.size; room < 0 {
			break
		}
		b, ok := c.cfg.Pool.lend()
		if !ok {
			break
		}
		l.lent[l.n] = b
		l.pieces = append(l.pieces, head, b.Memory()[:l.size])
		have = 0
	}
	return l.pieces
}

// Landed is Feed for n bytes that lie in the pieces that Land gave. spill is memory for as many. What was lent is given back.
func (c *ClientCore) Landed(n int, spill []byte) error {
	err := c.err
	if err == nil && n > 0 {
		if err = c.landed(n, spill); err != nil {
			c.Fail(err)
			err = c.err
		}
		c.EndBatch()
	}
	c.giveBack()
	return err
}

// giveBack ends the loan of what was not taken.
func (c *ClientCore) giveBack() {
	l := &c.landing
	for i := l.n - 1; i >= 0; i-- { // so that the next read gets them in the same order
		if b := l.lent[i]; !b.IsZero() {
			c.cfg.Pool.giveBack(b)
		}
		l.lent[i] = segment.Buffer{}
	}
	clear(l.pieces)
	l.n = 0
}

func (c *ClientCore) landed(n int, spill []byte) error {
	l, d := &c.landing, c.decoder
	p := l.pieces
	if l.tail {
		k := min(n, len(p[0]))
		if err := d.Filled(k, c); err != nil {
			return err
		}
		n -= k
		p = p[1:]
	}
	for i := 0; n > 0 && i < l.n; i++ {
		head := p[0][:min(n, len(p[0]))]
		l.offer, l.fits, l.lent[i] = l.lent[i], false, segment.Buffer{}
		err := d.Feed(head, c)
		l.lent[i], l.offer = l.offer, segment.Buffer{} // if nobody took it
		if err != nil {
			return err
		}
		n -= len(head)
		p = p[1:]
		if !l.fits {
			return c.missed(n, p, spill)
		}
		k := min(n, l.size)
		if err = d.Filled(k, c); err != nil {
			return err
		}
		n -= k
		p = p[1:]
		l.misses = 0
	}
	return nil
}

// missed decodes n bytes that are not what they were expected to be.
func (c *ClientCore) missed(n int, pieces [][]byte, spill []byte) error {
	l := &c.landing
	if n == 0 {
		return nil
	}
	l.pause = 1 << l.misses
	if l.pause < landPause {
		l.misses++
	}
	at := 0
	for _, p := range pieces {
		at += copy(spill[at:n], p)
	}
	c.giveBack() // for what the messages need
	return c.decoder.Feed(spill[:n], c)
}

// accept gives the segment that the payload lies in, if it has the expected size, or that it may have anyway. There is none if no
// payload was expected now.
func (l *landing) accept(size int) (b segment.Buffer, ok bool) {
	b, l.offer = l.offer, segment.Buffer{}
	l.fits = size == l.size
	return b, !b.IsZero()
}
