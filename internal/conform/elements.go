package conform

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/weirflow/weir/serde"
)

// checkElement encodes the element of a line and decodes its bytes.
func checkElement(v *Vector) error {
	var f struct {
		Tag               uint8
		Timestamp         *int64
		ValueType         string
		Value             json.RawMessage
		SubpartitionIndex int32
		MarkedTime        int64
		OperatorID        HexBytes
		OperatorIDLower   int64
		OperatorIDUpper   int64
		SubtaskIndex      int32
		Status            int32
		Idle, Backlog     bool
	}
	if err := v.Fields.Decode(&f); err != nil {
		return err
	}
	e := serde.Element{Subpartition: f.SubpartitionIndex, Subtask: f.SubtaskIndex, Idle: f.Idle, Backlog: f.Backlog}
	if f.Timestamp != nil {
		e.Timestamp = *f.Timestamp
	}
	switch v.Kind {
	case "StreamRecord":
		e.Kind, e.HasTimestamp = serde.Record, f.Timestamp != nil
		t, err := resolveType(f.ValueType)
		if err != nil {
			return err
		}
		value, err := t.parse(f.Value)
		if err != nil {
			return err
		}
		e.Value = t.ser.Append(nil, value)
	case "Watermark":
		e.Kind = serde.Watermark
	case "InternalWatermark":
		e.Kind = serde.InternalWatermark
	case "LatencyMarker":
		e.Kind, e.Timestamp = serde.LatencyMarker, f.MarkedTime
		copy(e.OperatorID[:], f.OperatorID)
		halves := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(f.OperatorIDLower)), uint64(f.OperatorIDUpper))
		if err := sameBytes("operator id and its halves", f.OperatorID, halves); err != nil {
			return err
		}
	case "WatermarkStatus":
		e.Kind = serde.WatermarkStatus
		if want := map[bool]int32{false: 0, true: -1}[f.Idle]; f.Status != want {
			return fmt.Errorf("status %d with idle %t", f.Status, f.Idle)
		}
	case "RecordAttributes":
		e.Kind = serde.RecordAttributes
	}
	var d serde.Element
	errs := []error{
		sameBytes("encoded", v.Hex, serde.AppendElement(nil, &e)),
		same("tag", f.Tag, v.Hex[0]),
		serde.DecodeElement(v.Hex, &d),
	}
	if e.Kind == serde.Record {
		errs = append(errs, checkValue(f.ValueType, f.Value, d.Value))
	}
	return errors.Join(append(errs, same("decoded", fmt.Sprintf("%+v", e), fmt.Sprintf("%+v", d)))...)
}
