package task

import "fmt"

// AttributesCombiner makes one stream of record attributes out of those of many channels (Flink:
// RecordAttributesCombiner). The output is a backlog while any channel is; it is none once every channel has said that it
// is none; before that it is what it was.
//
// It belongs to one goroutine. The invariant: what goes out differs from what went out before.
type AttributesCombiner struct {
	channels []attribute
	backlogs int       // channels in backlog
	unseen   int       // channels that have said nothing
	last     attribute // what went out
}

// attribute is what a channel said last.
type attribute uint8

const (
	unknown attribute = iota
	fresh
	backlog
)

// NewAttributesCombiner returns a combiner for a number of channels, none of which has said anything.
func NewAttributesCombiner(channels int) *AttributesCombiner {
	return &AttributesCombiner{channels: make([]attribute, channels), unseen: channels}
}

// Input takes a channel's attributes. changed tells that isBacklog goes downstream. The error is ErrValve; nothing has
// changed then.
func (c *AttributesCombiner) Input(channel int, inBacklog bool) (isBacklog, changed bool, err error) {
	if uint(channel) >= uint(len(c.channels)) {
		return false, false, fmt.Errorf("%w: there is no channel %d", ErrValve, channel)
	}
	now := fresh
	if inBacklog {
		now = backlog
	}
	before := c.channels[channel]
	if before == now {
		return false, false, nil
	}
	c.channels[channel] = now
	if before == unknown {
		c.unseen--
	}
	if inBacklog {
		c.backlogs++
	} else if before == backlog {
		c.backlogs--
	}
	combined := fresh
	switch {
	case c.backlogs > 0:
		combined = backlog
	case c.unseen > 0:
		return false, false, nil // undefined: what went out stays
	}
	if combined == c.last {
		return false, false, nil
	}
	c.last = combined
	return combined == backlog, true, nil
}
