package spool

import "fmt"

// MaxGroup is the most buffers that a Cursor puts into one group.
const MaxGroup = 256

// windowLen is how many entries a Cursor has at a time: enough for the largest group.
const windowLen = MaxGroup

// Span is a part of the file.
type Span struct {
	At  int64
	Len int
}

// MaxSpan is the longest part that a Cursor asks for.
const MaxSpan = windowLen * EntryLen

// CursorConfig says what a Cursor reads.
type CursorConfig struct {
	Layout Layout
	// First and Last are the subpartitions, both included.
	First, Last int32
	// Merge is how many bytes a group may have: buffers that lie one behind the other, of equal type and flag, are put together up
	// to it. 0: each buffer is a group of its own.
	Merge int
}

// Cursor finds the buffers of a subpartition, or of a range of them, in order: region by region, and in a region
// subpartition by subpartition. It does no I/O:
//
//	for {
//		if span, need := c.Need(); need {
//			// read span from the file
//			err = c.Feed(p)
//			continue
//		}
//		group := c.Group() // empty: the end
//		c.Advance()
//	}
//
// It belongs to one goroutine, and allocates nothing after NewCursor.
type Cursor struct {
	cfg    CursorConfig
	region int32
	sub    int32
	runs   int64 // where the runs of the region are; 0: not known
	run    run   // of sub, as far as its entries were not fetched
	have   bool  // run is known
	n      uint32
	span   Span
	window [windowLen]Entry
	head   int
	tail   int
	group  int // entries from head that are the next group; 0: not decided
}

// NewCursor returns a Cursor at the beginning. It fails if there are no such subpartitions.
func NewCursor(cfg CursorConfig) (*Cursor, error) {
	if cfg.First < 0 || cfg.Last < cfg.First || cfg.Last >= cfg.Layout.Subpartitions {
		return nil, fmt.Errorf("spool: subpartitions %d to %d of %d", cfg.First, cfg.Last, cfg.Layout.Subpartitions)
	}
	return &Cursor{cfg: cfg, sub: cfg.First}, nil
}

// exhausted reports whether all entries were fetched.
func (c *Cursor) exhausted() bool { return c.region >= c.cfg.Layout.Regions }

// Need returns the part of the file that must be fed before the next group is known; false: it is, or there is none.
func (c *Cursor) Need() (Span, bool) {
	for !c.decide() {
		switch {
		case c.runs == 0:
			c.span = Span{c.cfg.Layout.Index + int64(c.region)*RegionLen, RegionLen}
			return c.span, true
		case !c.have:
			c.span = Span{c.runs + int64(c.sub)*RunLen, RunLen}
			return c.span, true
		case c.run.n == 0:
			c.nextRun()
		default:
			c.compact()
			c.span = Span{c.run.at, int(min(c.run.n, uint32(windowLen-c.tail))) * EntryLen}
			return c.span, true
		}
	}
	return Span{}, false
}

// nextRun goes to the next subpartition, or region.
func (c *Cursor) nextRun() {
	c.have, c.n = false, 0
	if c.sub++; c.sub > c.cfg.Last {
		c.sub, c.runs = c.cfg.First, 0
		c.region++
	}
}

// compact makes room in the window.
func (c *Cursor) compact() {
	if c.head > 0 {
		copy(c.window[:], c.window[c.head:c.tail])
		c.head, c.tail = 0, c.tail-c.head
	}
}

// Feed takes the bytes that Need asked for. Errors wrap ErrCorrupt and end the cursor.
func (c *Cursor) Feed(p []byte) (err error) {
	l := &c.cfg.Layout
	switch {
	case len(p) != c.span.Len:
		return fmt.Errorf("%w: %d bytes at %d, want %d", ErrCorrupt, len(p), c.span.At, c.span.Len)
	case c.runs == 0:
		c.runs, err = parseRegion(p, c.region, l)
	case !c.have:
		if err = c.run.parse(p, place{c.region, c.sub, runPlace}, l); err == nil {
			c.have = true
		}
	default:
		for ; len(p) > 0 && err == nil; p = p[EntryLen:] {
			err = c.window[c.tail].parse(p[:EntryLen], place{c.region, c.sub, c.n}, l)
			c.tail++
			c.n++
			c.run.n--
			c.run.at += EntryLen
		}
	}
	if err != nil {
		c.region, c.head, c.tail, c.group = l.Regions, 0, 0, 0 // the end
	}
	return err
}

// decide finds out how many entries make the next group, and reports whether that is known.
func (c *Cursor) decide() bool {
	if c.group > 0 {
		return true
	}
	if c.head == c.tail {
		return c.exhausted()
	}
	first := &c.window[c.head]
	if c.cfg.Merge == 0 {
		c.group = 1
		return true
	}
	n := 1
	for total := int(first.Len); n < MaxGroup; n++ {
		if c.head+n == c.tail {
			if !c.exhausted() {
				return false
			}
			break
		}
		e, before := &c.window[c.head+n], &c.window[c.head+n-1]
		if total += int(e.Len); total > c.cfg.Merge || e.At != before.At+int64(before.Len) ||
			e.Type != first.Type || e.Compressed != first.Compressed {
			break
		}
	}
	c.group = n
	return true
}

// Group returns the buffers of the next group, valid until Advance; none at the end. Need has returned false before.
func (c *Cursor) Group() []Entry { return c.window[c.head : c.head+c.group] }

// Advance goes on to the next group.
func (c *Cursor) Advance() {
	c.head += c.group
	c.group = 0
}

// At is about where the next bytes will be read, to order several readers by.
func (c *Cursor) At() int64 {
	if c.head < c.tail {
		return c.window[c.head].At
	}
	return c.run.at
}
