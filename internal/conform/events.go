package conform

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"

	"github.com/weirflow/weir/serde/event"
)

// eventFields are the values of a line about an event, or of an announced event.
type eventFields struct {
	EventClass, DataTypeName string
	DataType                 uint8
	BlocksUpstream           bool
	BroadcastPayload         HexBytes

	CheckpointID             int64
	Timestamp                int64
	SnapshotType             string
	SavepointFormat          *string
	Location                 HexBytes
	Alignment                string
	AlignmentOrdinal         uint8
	AlignedCheckpointTimeout int64

	SequenceNumber int32
	AnnouncedKind  string
	Announced      Object

	StopMode                  string
	StopModeOrdinal           uint8
	InputSubtaskIndex         int32
	OutputSubtaskIndex        int32
	FinalBufferSubpartitionID int32 `json:"finalBufferSubpartitionId"`
	Identifier, WatermarkType string
	Aligned                   bool
	Value                     any
}

// eventKinds are the kinds of events that have a code of their own, by the name of Flink's class.
var eventKinds = func() map[string]event.Kind {
	m := map[string]event.Kind{}
	for k := event.EndOfPartition; k <= event.EndOfInputChannelState; k++ {
		if k != event.Generic {
			m[k.String()] = k
		}
	}
	m["EndOfChannelStateEvent"] = event.EndOfOutputChannelState // its name in 1.20
	return m
}()

// checkEvent encodes the values of a line both ways, decodes both, and compares the data type.
func checkEvent(v *Vector) error {
	var f eventFields
	if err := v.Fields.Decode(&f); err != nil {
		return err
	}
	e, err := f.event(v.Kind)
	if err != nil {
		return err
	}
	release := event.Flink23
	if len(v.Flink) > 4 && v.Flink[:5] == "1.20." {
		release = event.Flink120
	}
	if e.Kind == event.Generic {
		// The class's own bytes are not among the values; what the decoder finds must encode to the same bytes.
		var d event.Event
		if err := release.Decode(v.Hex, &d); err != nil {
			return err
		}
		e.Payload = d.Payload
	}
	padded := []byte(f.BroadcastPayload)
	if padded == nil {
		padded = v.Hex
	}
	wantPadded := event.AppendPadded(nil, e)
	if e.Kind == event.Generic && len(v.Hex) > len(wantPadded)/4 && len(e.Payload) > 4 {
		// How far the array grows depends on the pieces in which the class writes; the rest of it is zero in any case.
		wantPadded = append(bytes.Clone(v.Hex), make([]byte, max(0, len(padded)-len(v.Hex)))...)
	}
	dt := event.DataTypeOf(e, false)
	errs := []error{
		e.Validate(),
		sameBytes("encoded", v.Hex, event.Append(nil, e)),
		sameBytes("broadcast", padded, wantPadded),
		checkClass(e.Kind, v.Kind, f.EventClass),
		same("data type", f.DataType, uint8(dt)),
		same("name of the data type", f.DataTypeName, dt.String()),
		same("blocks upstream", f.BlocksUpstream, dt.BlocksUpstream()),
		same("data type with priority", 3, uint8(event.DataTypeOf(e, true))),
	}
	for _, p := range [][]byte{v.Hex, padded} {
		var d event.Event
		if err := release.Decode(p, &d); err != nil {
			errs = append(errs, err)
			continue
		}
		if e.Kind == event.Generic && len(d.Payload) >= len(e.Payload) {
			d.Payload = d.Payload[:len(e.Payload):len(e.Payload)]
			if len(d.Payload) == 0 {
				d.Payload = nil
			}
		}
		if !reflect.DeepEqual(&d, e) {
			errs = append(errs, fmt.Errorf("decoded\n\twanted: %+v\n\tgot:    %+v", *e, d))
		}
	}
	return errors.Join(errs...)
}

// event returns the event that the values stand for.
func (f *eventFields) event(kind string) (*event.Event, error) {
	e := &event.Event{Kind: event.Generic}
	if k, ok := eventKinds[kind]; ok {
		e.Kind = k
	}
	switch e.Kind {
	case event.Generic:
		e.Class = f.EventClass
	case event.CheckpointBarrier:
		return e, f.barrier(&e.Barrier)
	case event.CancelCheckpoint:
		e.CheckpointID = f.CheckpointID
	case event.Announcement:
		var inner eventFields
		if err := f.Announced.Decode(&inner); err != nil {
			return nil, err
		}
		var err error
		e.Seq = f.SequenceNumber
		if e.Announced, err = inner.event(f.AnnouncedKind); err == nil && inner.EventClass != "" {
			err = checkClass(e.Announced.Kind, f.AnnouncedKind, inner.EventClass)
		}
		return e, err
	case event.SubtaskConnection:
		e.InputSubtask, e.OutputSubtask = f.InputSubtaskIndex, f.OutputSubtaskIndex
	case event.EndOfData:
		e.StopMode = event.StopMode(f.StopModeOrdinal)
		return e, same("stop mode", f.StopMode, e.StopMode.String())
	case event.RecoveryMetadata:
		e.Subpartition = f.FinalBufferSubpartitionID
	case event.Watermark:
		return e, f.watermark(&e.Watermark)
	}
	return e, nil
}

func (f *eventFields) barrier(b *event.Barrier) error {
	o := &b.Options
	b.ID, b.Timestamp = f.CheckpointID, f.Timestamp
	for o.Snapshot.String() != f.SnapshotType {
		if o.Snapshot++; o.Snapshot > event.FullCheckpoint {
			return fmt.Errorf("unknown snapshotType %q", f.SnapshotType)
		}
	}
	if f.SavepointFormat != nil {
		if o.Format = event.Canonical; *f.SavepointFormat != o.Format.String() {
			o.Format = event.Native
		}
		if err := same("savepoint format", *f.SavepointFormat, o.Format.String()); err != nil {
			return err
		}
	}
	o.Location = f.Location
	o.Alignment = event.Alignment(f.AlignmentOrdinal)
	o.Timeout = f.AlignedCheckpointTimeout
	return same("alignment", f.Alignment, o.Alignment.String())
}

func (f *eventFields) watermark(w *event.WatermarkEvent) error {
	w.Identifier, w.Aligned = f.Identifier, f.Aligned
	switch v := f.Value.(type) {
	case bool:
		w.Type = event.BoolWatermark
		if v {
			w.Value = 1
		}
		return same("watermark type", f.WatermarkType, "bool")
	default:
		var err error
		w.Value, err = toInt64(v)
		if err != nil {
			return err
		}
		return same("watermark type", f.WatermarkType, "long")
	}
}

// checkClass checks that the class of an event is the one that its kind is short for.
func checkClass(k event.Kind, kind, class string) error {
	pkg := "org.apache.flink.runtime.io.network.api."
	switch k {
	case event.Generic:
		return nil
	case event.Watermark:
		pkg = "org.apache.flink.runtime.event."
	case event.EndOfInputChannelState, event.EndOfOutputChannelState:
		pkg = "org.apache.flink.runtime.io.network.partition.consumer."
	}
	return same("class", pkg+kind, class)
}
