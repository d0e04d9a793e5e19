package event

import (
	"fmt"
	"math"
)

// Barrier divides the records that belong to checkpoint ID from those that come after it (CheckpointBarrier).
type Barrier struct {
	ID        int64
	Timestamp int64 // when the checkpoint began, in ms since 1970
	Options   Options
}

// SnapshotType says what is made of a checkpoint; numbered as on the wire.
type SnapshotType uint8

// The snapshot types.
const (
	Checkpoint         SnapshotType = 0
	Savepoint          SnapshotType = 1
	SavepointSuspend   SnapshotType = 2
	SavepointTerminate SnapshotType = 3
	FullCheckpoint     SnapshotType = 4
)

// IsSavepoint tells whether the snapshot belongs to the user, and so has a format.
func (t SnapshotType) IsSavepoint() bool { return t-Savepoint <= SavepointTerminate-Savepoint }

var snapshotNames = [...]string{"CHECKPOINT", "SAVEPOINT", "SAVEPOINT_SUSPEND", "SAVEPOINT_TERMINATE", "FULL_CHECKPOINT"}

// String returns the type in the form CHECKPOINT, SAVEPOINT_SUSPEND, ...
func (t SnapshotType) String() string {
	if int(t) < len(snapshotNames) {
		return snapshotNames[t]
	}
	return fmt.Sprintf("SnapshotType(%d)", uint8(t))
}

// SavepointFormat is the form of a savepoint's files (SavepointFormatType).
type SavepointFormat uint8

// The formats, numbered as on the wire.
const (
	Canonical SavepointFormat = 0
	Native    SavepointFormat = 1
)

// String returns CANONICAL or NATIVE.
func (f SavepointFormat) String() string {
	switch f {
	case Canonical:
		return "CANONICAL"
	case Native:
		return "NATIVE"
	}
	return fmt.Sprintf("SavepointFormat(%d)", uint8(f))
}

// Alignment says how a barrier gets through the channels (CheckpointOptions.AlignmentType); numbered as on the wire.
type Alignment uint8

// The alignments.
const (
	AtLeastOnce   Alignment = 0 // nobody waits
	Aligned       Alignment = 1 // a channel waits for the barriers of the others; may turn unaligned at its timeout
	Unaligned     Alignment = 2 // the barrier overtakes, and what it overtakes is stored
	ForcedAligned Alignment = 3 // would be unaligned, but this edge cannot
)

var alignmentNames = [...]string{"AT_LEAST_ONCE", "ALIGNED", "UNALIGNED", "FORCED_ALIGNED"}

// String returns the name of Flink's constant.
func (a Alignment) String() string {
	if int(a) < len(alignmentNames) {
		return alignmentNames[a]
	}
	return fmt.Sprintf("Alignment(%d)", uint8(a))
}

// NoTimeout is the timeout of a barrier that never turns unaligned.
const NoTimeout int64 = math.MaxInt64

// Options are a barrier's options (CheckpointOptions). They are a value; Location is shared, not copied.
type Options struct {
	Snapshot  SnapshotType
	Format    SavepointFormat // savepoints only
	Location  []byte          // reference to the storage, opaque; nil: the default one. Never empty and not nil
	Alignment Alignment
	Timeout   int64 // ms after Barrier.Timestamp at which an aligned barrier turns unaligned; NoTimeout: never
}

// IsExactlyOnce tells whether the barrier divides the records exactly.
func (o Options) IsExactlyOnce() bool { return o.Alignment != AtLeastOnce }

// IsUnaligned tells whether the barrier overtakes data (CheckpointOptions#isUnalignedCheckpoint).
func (o Options) IsUnaligned() bool { return o.Alignment == Unaligned }

// NeedsAlignment tells whether a channel stops at the barrier until the others have theirs (CheckpointOptions#needsAlignment).
func (o Options) NeedsAlignment() bool {
	return o.IsExactlyOnce() && (o.Snapshot.IsSavepoint() || !o.IsUnaligned())
}

// NeedsChannelState tells whether data in flight is stored with the checkpoint, now or once the timeout has passed.
func (o Options) NeedsChannelState() bool { return o.IsUnaligned() || o.IsTimeoutable() }

// IsTimeoutable tells whether the barrier may turn unaligned (CheckpointOptions#isTimeoutable).
func (o Options) IsTimeoutable() bool {
	return o.Alignment == Aligned && o.Timeout > 0 && o.Timeout != NoTimeout
}

// ToUnaligned returns the options with which an aligned checkpoint goes on as an unaligned one: no timeout any more.
// Options that are not Aligned are returned as they are.
func (o Options) ToUnaligned() Options {
	if o.Alignment == Aligned {
		o.Alignment, o.Timeout = Unaligned, NoTimeout
	}
	return o
}

// WithUnalignedUnsupported returns the options for an edge that cannot have unaligned checkpoints: unaligned and
// timeoutable ones become ForcedAligned and keep their timeout.
func (o Options) WithUnalignedUnsupported() Options {
	if o.NeedsChannelState() {
		o.Alignment = ForcedAligned
	}
	return o
}

// WithUnalignedSupported undoes WithUnalignedUnsupported.
func (o Options) WithUnalignedSupported() Options {
	if o.Alignment == ForcedAligned {
		if o.Timeout == NoTimeout {
			o.Alignment = Unaligned
		} else {
			o.Alignment = Aligned
		}
	}
	return o
}

// ForConfig returns the options that a job's configuration leads to (CheckpointOptions#forConfig). timeout is the
// aligned-checkpoint timeout in ms; 0 and NoTimeout: unaligned from the start, if unaligned is set.
func ForConfig(snapshot SnapshotType, format SavepointFormat, location []byte, exactlyOnce, unaligned bool, timeout int64) Options {
	o := Options{Snapshot: snapshot, Format: format, Location: location, Timeout: NoTimeout}
	switch {
	case !exactlyOnce:
		o.Alignment = AtLeastOnce
	case snapshot.IsSavepoint() || !unaligned:
		o.Alignment = Aligned
	case timeout == 0 || timeout == NoTimeout:
		o.Alignment = Unaligned
	default:
		o.Alignment, o.Timeout = Aligned, timeout
	}
	return o
}

// Validate says what Flink's constructor of options says: an error wraps ErrInvalid.
func (o Options) Validate() error {
	switch {
	case o.Snapshot > FullCheckpoint:
		return fmt.Errorf("%w: unknown checkpoint type: %d", ErrInvalid, o.Snapshot)
	case o.Snapshot.IsSavepoint() && o.Format > Native:
		return fmt.Errorf("%w: unknown savepoint format: %d", ErrInvalid, o.Format)
	case o.Location != nil && len(o.Location) == 0:
		return fmt.Errorf("%w: empty checkpoint location", ErrInvalid)
	case o.Alignment > ForcedAligned:
		return fmt.Errorf("%w: unknown alignment: %d", ErrInvalid, o.Alignment)
	case o.Snapshot.IsSavepoint() && o.IsUnaligned():
		return fmt.Errorf("%w: a savepoint can't be unaligned", ErrInvalid)
	case o.IsUnaligned() && o.Timeout != NoTimeout:
		return fmt.Errorf("%w: an unaligned checkpoint has no timeout, not %d ms", ErrInvalid, o.Timeout)
	}
	return nil
}
