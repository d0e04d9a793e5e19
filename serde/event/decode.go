package event

import (
	"encoding/binary"
	"fmt"

	"github.com/weirflow/weir/internal/javatext"
)

// Decode decodes the event at the start of p into e and ignores what follows it. Fields that don't belong to the kind
// are cleared. Location and Payload of e are views of p. On error e is the zero event.
//
// Errors: ErrIncomplete for fewer than four bytes, ErrCorrupt for everything else; both by errors.Is. No length in p is
// believed before there are as many bytes.
//
// Decode allocates nothing for barriers, cancellation, ends and descriptors; nor for a watermark whose identifier is
// the one that e had before.
func Decode(p []byte, e *Event) error { return Flink23.Decode(p, e) }

// Decode is like the function Decode, for the events of one release. A kind that the release doesn't know is ErrCorrupt.
func (r Release) Decode(p []byte, e *Event) error {
	id, class := e.Watermark.Identifier, e.Class
	*e = Event{}
	d := decoder{p: p, release: r}
	if err := d.event(e, id, class, 0); err != nil {
		*e = Event{}
		return err
	}
	return nil
}

// decoder reads from the front of p. After a read beyond the end, short is true and all reads give zero.
type decoder struct {
	p       []byte
	release Release
	short   bool
}

func (d *decoder) take(n int) []byte {
	if n > len(d.p) {
		d.p, d.short = nil, true
		return nil
	}
	b := d.p[:n:n]
	d.p = d.p[n:]
	return b
}

func (d *decoder) u8() uint8 {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) u16() uint16 {
	if b := d.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (d *decoder) i32() int32 {
	if b := d.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (d *decoder) i64() int64 {
	if b := d.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// utf reads a string with a two-byte length; old is returned, without allocating, if it is the same text.
func (d *decoder) utf(old string) (string, error) {
	b := d.take(int(d.u16()))
	if javatext.ASCII(b) && old == string(b) {
		return old, nil
	}
	return javatext.Decode(b)
}

func (d *decoder) event(e *Event, id, class string, depth int) error {
	if len(d.p) < 4 {
		return fmt.Errorf("%w: %d bytes", ErrIncomplete, len(d.p))
	}
	word := d.i32()
	if word < 0 || word > int32(EndOfInputChannelState) || !d.release.Supports(Kind(word)) {
		return fmt.Errorf("%w: unknown word %d", ErrCorrupt, word)
	}
	e.Kind = Kind(word)
	var err error
	switch e.Kind {
	case CheckpointBarrier:
		err = d.barrier(&e.Barrier)
	case Generic:
		e.Class, err = d.utf(class)
		if len(d.p) > 0 {
			e.Payload, d.p = d.p, nil
		}
	case CancelCheckpoint:
		e.CheckpointID = d.i64()
	case Announcement:
		err = d.announcement(e, id, class, depth)
	case SubtaskConnection:
		e.InputSubtask, e.OutputSubtask = d.i32(), d.i32()
	case EndOfData:
		if e.StopMode = StopMode(d.u8()); e.StopMode > NoDrain {
			err = fmt.Errorf("unknown stop mode: %d", e.StopMode)
		}
	case RecoveryMetadata:
		e.Subpartition = d.i32()
	case Watermark:
		err = d.watermark(&e.Watermark, id)
	}
	if d.short {
		return fmt.Errorf("%w: %v is truncated", ErrCorrupt, e.Kind)
	}
	if err != nil {
		return wrapCorrupt(e.Kind, err)
	}
	return nil
}

// wrapCorrupt makes every error about content an ErrCorrupt that names the event.
func wrapCorrupt(k Kind, err error) error {
	return fmt.Errorf("%w: %v: %w", ErrCorrupt, k, err)
}

func (d *decoder) announcement(e *Event, id, class string, depth int) error {
	e.Seq = d.i32()
	if depth > 0 {
		return fmt.Errorf("announcement of an announcement")
	}
	if d.short {
		return nil
	}
	e.Announced = new(Event)
	return d.event(e.Announced, id, class, depth+1)
}

func (d *decoder) barrier(b *Barrier) error {
	b.ID, b.Timestamp = d.i64(), d.i64()
	o := &b.Options
	o.Snapshot = SnapshotType(d.u8())
	if o.Snapshot > FullCheckpoint {
		return fmt.Errorf("unknown checkpoint type code: %d", o.Snapshot)
	}
	if o.Snapshot.IsSavepoint() {
		if o.Format = SavepointFormat(d.u8()); o.Format > Native {
			return fmt.Errorf("unknown savepoint format type code: %d", o.Format)
		}
	}
	switch n := d.i32(); {
	case d.short:
		return nil
	case n == 0 || n < -1:
		return fmt.Errorf("location length %d", n)
	case n > 0:
		o.Location = d.take(int(n))
	}
	o.Alignment = Alignment(d.u8())
	o.Timeout = d.i64()
	if d.short {
		return nil
	}
	return o.Validate()
}

func (d *decoder) watermark(w *WatermarkEvent, id string) (err error) {
	if w.Identifier, err = d.utf(id); err != nil {
		return err
	}
	w.Aligned = d.u8() != 0
	switch tag := d.i32(); tag {
	case int32(LongWatermark):
		w.Value = d.i64()
	case int32(BoolWatermark):
		w.Type = BoolWatermark
		if d.u8() != 0 {
			w.Value = 1
		}
	default:
		return fmt.Errorf("unknown watermark class tag: %d", tag)
	}
	return nil
}
