package credit

import (
	"fmt"

	"github.com/weirflow/weir/segment"
)

// InputSink takes the in-flight data of input channels that belongs to a checkpoint (ChannelStateWriter#addInputData).
// A StateSink is one.
type InputSink interface {
	// InputData brings one buffer of a channel, in the channel's order. The buffer is lent: an implementation that keeps it
	// retains it. seq is the buffer's sequence number. A buffer of type segment.RecoveryMetadata ends what a channel over
	// several subpartitions held when the checkpoint started. Called by the task only, in the middle of a poll
	// or a Fill: it must not call the gate.
	InputData(checkpoint int64, channel int, seq int32, b segment.Buffer)
}

// persistState tells where a channel stands between the start of a checkpoint and its barrier
// (ChannelStatePersister.CheckpointStatus).
type persistState uint8

const (
	// persistCompleted: no checkpoint, or all that it needed was handed over.
	persistCompleted persistState = iota
	// persistPending: the checkpoint started and the channel's barrier is not here: data that arrives belongs to it.
	persistPending
	// persistReceived: the barrier is here, the checkpoint goes on.
	persistReceived
)

// persister decides which arriving data belongs to a checkpoint: Flink's ChannelStatePersister without the writing.
// A pure state machine, owned by the task.
type persister struct {
	state    persistState
	lastSeen int64 // id of the newest checkpoint that started or whose barrier came; -1: none
}

func newPersister() persister { return persister{lastSeen: -1} }

// start begins checkpoint id; what the channel holds already is the caller's to hand over if there is no error.
func (p *persister) start(id int64) error {
	if p.state == persistReceived && p.lastSeen > id {
		return fmt.Errorf("%w: checkpoint %d started after the barrier of %d arrived", ErrSubsumed, id, p.lastSeen)
	}
	if p.lastSeen < id {
		p.state, p.lastSeen = persistPending, id
	}
	return nil
}

// stop ends checkpoint id and all older ones.
func (p *persister) stop(id int64) {
	if id >= p.lastSeen {
		p.state, p.lastSeen = persistCompleted, id
	}
}

// barrier notes that the barrier of checkpoint id arrived and reports whether it counts: an older one does not.
func (p *persister) barrier(id int64) bool {
	expected := p.lastSeen
	if p.state == persistCompleted {
		expected++
	}
	if id < expected {
		return false
	}
	p.state, p.lastSeen = persistReceived, id
	return true
}

// pending reports whether arriving data belongs to checkpoint lastSeen.
func (p *persister) pending() bool { return p.state == persistPending }

// received reports whether the barrier of the checkpoint that goes on is here.
func (p *persister) received() bool { return p.state == persistReceived }
