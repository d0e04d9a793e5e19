package align

import (
	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/serde/event"
)

// Union makes a Gate of a union of gates, for a NewCheckpointedInput: channels are numbered through. To the handler the
// union is one Input with Channels() channels.
type Union struct{ *credit.UnionGate }

var (
	_ Gate = Union{}
	_ Gate = (*credit.Gate)(nil)
)

// Block is credit.Gate.Block of the channel's own gate, and so are the methods below.
func (u Union) Block(channel int) error {
	g, ch := u.Split(channel)
	return g.Block(ch)
}

// Resume resumes a channel.
func (u Union) Resume(channel int) error {
	g, ch := u.Split(channel)
	return g.Resume(ch)
}

// AckAll acknowledges a channel's records.
func (u Union) AckAll(channel int) error {
	g, ch := u.Split(channel)
	return g.AckAll(ch)
}

// Prioritize promotes a channel's announced barrier.
func (u Union) Prioritize(channel int, seq int32) error {
	g, ch := u.Split(channel)
	return g.Prioritize(ch, seq)
}

// CheckpointStarted makes a channel hand over its data.
func (u Union) CheckpointStarted(channel int, b *event.Barrier) error {
	g, ch := u.Split(channel)
	return g.CheckpointStarted(ch, b)
}

// CheckpointStopped ends that.
func (u Union) CheckpointStopped(channel int, id int64) error {
	g, ch := u.Split(channel)
	return g.CheckpointStopped(ch, id)
}

// Ended reports whether a channel delivered its end of partition.
func (u Union) Ended(channel int) bool {
	g, ch := u.Split(channel)
	return g.Ended(ch)
}
