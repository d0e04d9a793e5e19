package inspect

import (
	"fmt"
	"time"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/segment"
)

// Reason is why nothing moves through a channel.
type Reason uint8

// The reasons. Of each it is known who waits for whom.
const (
	// Moving: there is credit and a backlog, so the sender is at work. Nobody waits.
	Moving Reason = iota
	// NoCredit: there is a backlog and no credit. The sender waits for the receiver.
	NoCredit
	// Blocked: the sender waits behind a barrier, or another blocking event, until the receiver resumes it.
	Blocked
	// NotAcknowledged: the data has ended, and the receiver has not said yet that it processed all of it.
	NotAcknowledged
	// NoData: there is credit and no backlog. The receiver waits for the sender.
	NoData
	// Neither: the sender has no credit, and had nothing when it last said so. Who waits cannot be seen.
	Neither
	numReasons
)

var reasonNames = [numReasons]string{"moving", "no credit", "blocked by barrier", "end of data not acknowledged", "no data", "neither credit nor known data"}

// String says it in words.
func (r Reason) String() string {
	if r < numReasons {
		return reasonNames[r]
	}
	return fmt.Sprintf("Reason(%d)", uint8(r))
}

// Waiter names who waits: "sender", "receiver" or "".
func (r Reason) Waiter() string {
	switch r {
	case NoCredit, Blocked, NotAcknowledged:
		return "sender"
	case NoData:
		return "receiver"
	}
	return ""
}

// Wait is how long something lasted.
type Wait struct {
	Total, Longest time.Duration
	// LongestAt is when the longest one began.
	LongestAt time.Time
	Times     int
}

func (w *Wait) add(begin, end time.Time) {
	d := max(end.Sub(begin), 0) // clocks of captures may step back
	w.Total += d
	w.Times++
	if d > w.Longest || w.Times == 1 {
		w.Longest, w.LongestAt = d, begin
	}
}

// Channel is what a session knows of a channel.
type Channel struct {
	ID credit.ChannelID
	// Request is the channel's request; nil: it was before the beginning.
	Request *credit.PartitionRequest
	State
	// Frames and Bytes count whole frames by direction; Payload the bytes of data alone.
	Frames, Bytes [2]int64
	Payload       int64
	// Data and Events count messages of the sender. Data is also the credit that was used.
	Data, Events int64
	// Granted is the credit of all AddCredit, without the request's.
	Granted int64
	// MaxBacklog is the largest backlog that was reported.
	MaxBacklog int32
	// Waits is meaningless without times.
	Waits [numReasons]Wait
	// Failure is the error that the server reported.
	Failure *credit.ErrorResponse

	ended, acked bool
	nextSeq      int32
	seqKnown     bool
	now          Reason
	since        time.Time // since when now is so; zero: not known, or closed

	records *records
}

// initial is the credit of the request.
func (c *Channel) initial() int32 {
	if c.Request == nil {
		return 0
	}
	return c.Request.Credit
}

// ready reports whether the sender could send a message of the type, as far as is known.
func (c *Channel) ready(t segment.DataType) bool {
	return c != nil && !c.State.Blocked && (!t.IsBuffer() || !c.CreditKnown || c.Credit > 0)
}

// reason is why nothing moves now; ok is false if that cannot be known or does not matter any more.
func (c *Channel) reason() (r Reason, ok bool) {
	switch {
	case c.Closed:
		return 0, false
	case c.State.Blocked:
		return Blocked, true
	case c.ended && !c.acked:
		return NotAcknowledged, true
	case !c.CreditKnown:
		return 0, false
	case c.Backlog > 0 && c.Credit > 0:
		return Moving, true
	case c.Backlog > 0:
		return NoCredit, true
	case c.Credit > 0 || c.ended:
		return NoData, true
	}
	return Neither, true
}

// settle is called after each change, with its time.
func (c *Channel) settle(t time.Time) {
	r, ok := c.reason()
	if t.IsZero() || ok && !c.since.IsZero() && r == c.now {
		return
	}
	if !c.since.IsZero() {
		c.Waits[c.now].add(c.since, t)
	}
	c.now, c.since = r, time.Time{}
	if ok {
		c.since = t
	}
}

// end closes the last wait.
func (c *Channel) end(t time.Time) {
	if !t.IsZero() && !c.since.IsZero() {
		c.Waits[c.now].add(c.since, t)
		c.since = time.Time{}
	}
}

// lost forgets what missing bytes may have changed.
func (c *Channel) lost(dir Dir) {
	c.CreditKnown, c.seqKnown = false, c.seqKnown && dir == ToServer
	c.BacklogKnown = c.BacklogKnown && dir == ToServer
	c.State.Blocked = false
	if c.records != nil {
		c.records.lost()
	}
}

func (c *Channel) request(r *credit.PartitionRequest) {
	req := *r
	c.Request = &req
	c.Credit, c.CreditKnown = int64(r.Credit), true
	c.BacklogKnown, c.seqKnown, c.nextSeq = true, true, 0
	if c.records != nil && c.Data == 0 {
		c.records.fresh()
	}
}

func (c *Channel) addCredit(n int32) {
	c.Credit += int64(n)
	c.Granted += int64(n)
}

// resume ends a block. A sender whose receiver has no exclusive buffers forgets its credit then
// (CreditBasedSequenceNumberingViewReader#resumeConsumption).
func (c *Channel) resume() (odd []string) {
	if !c.State.Blocked && c.CreditKnown {
		odd = append(odd, "was not blocked")
	}
	c.State.Blocked = false
	if c.Request != nil && c.initial() == 0 {
		c.Credit = 0
	}
	return odd
}

func (c *Channel) setBacklog(n int32) {
	c.Backlog, c.BacklogKnown = n, true
	c.MaxBacklog = max(c.MaxBacklog, n)
}

// buffer takes in a message of the sender.
func (c *Channel) buffer(h *credit.BufferHeader) (odd []string) {
	if c.seqKnown && h.Seq != c.nextSeq {
		odd = append(odd, fmt.Sprintf("sequence number %d, expected %d", h.Seq, c.nextSeq))
	}
	c.nextSeq, c.seqKnown = h.Seq+h.Numbers(), true
	if c.State.Blocked && (c.Request == nil || c.Request.Range.Len() == 1) {
		odd = append(odd, "sent while blocked by "+c.BlockedBy.String())
	}
	c.setBacklog(h.Backlog)
	if h.Type.IsBuffer() {
		c.Data++
		c.Payload += int64(h.Size)
		if c.Credit--; c.CreditKnown && c.Credit < 0 {
			odd = append(odd, "sent without credit")
		}
		return odd
	}
	c.Events++
	switch {
	case h.Type.BlocksUpstream():
		c.State.Blocked, c.BlockedBy = true, h.Type
	case h.Type == segment.EndOfData:
		c.ended = true
	case h.Type == segment.EndOfPartition:
		c.Closed = true
	}
	return odd
}
