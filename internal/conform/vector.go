package conform

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
)

// Vector is one line of a vector file.
type Vector struct {
	Line   int    // of the file, from 1
	Name   string // unique in the file
	Flink  string // the release that made the bytes
	Kind   string
	Fields Object // the values
	Hex    []byte // the bytes; nil if the line has none
	Raw    Object // the whole line, for families with members of their own
}

// Object is a JSON object whose values are not decoded yet, so that 64-bit integers stay exact.
type Object map[string]json.RawMessage

// Has tells whether the object has the member, be it null.
func (o Object) Has(name string) bool {
	_, ok := o[name]
	return ok
}

// Decode decodes the object's members into the fields of the struct that dst points to. Numbers that land in an any are
// json.Number.
func (o Object) Decode(dst any) error {
	p, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return decodeJSON(p, dst)
}

func decodeJSON(p []byte, dst any) error {
	d := json.NewDecoder(bytes.NewReader(p))
	d.UseNumber()
	return d.Decode(dst)
}

// HexBytes is a byte string that JSON holds in hexadecimal; null is nil, "" is empty and not nil.
type HexBytes []byte

// UnmarshalJSON decodes a string of hexadecimal digits, or null.
func (h *HexBytes) UnmarshalJSON(p []byte) error {
	var s *string
	if err := json.Unmarshal(p, &s); err != nil {
		return err
	}
	if s == nil {
		*h = nil
		return nil
	}
	b, err := hex.DecodeString(*s)
	if err == nil {
		*h = append(HexBytes{}, b...)
	}
	return err
}

// ParseVectors reads a vector file. An error names the line.
func ParseVectors(r io.Reader) ([]*Vector, error) {
	var all []*Vector
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 0, 64<<10), 64<<20)
	line := 0
	for sc.Scan() {
		line++
		if len(bytes.TrimSpace(sc.Bytes())) == 0 {
			continue
		}
		v, err := parseVector(sc.Bytes())
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		v.Line = line
		all = append(all, v)
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", line+1, err)
	}
	return all, nil
}

func parseVector(p []byte) (*Vector, error) {
	v := &Vector{}
	if err := json.Unmarshal(p, &v.Raw); err != nil {
		return nil, err
	}
	var head struct {
		Name, Flink, Kind string
		Fields            Object
		Hex               HexBytes
	}
	if err := decodeJSON(p, &head); err != nil {
		return nil, err
	}
	v.Name, v.Flink, v.Kind, v.Fields, v.Hex = head.Name, head.Flink, head.Kind, head.Fields, head.Hex
	return v, nil
}

// sameBytes returns an error that shows both if got isn't wanted.
func sameBytes(what string, wanted, got []byte) error {
	if bytes.Equal(wanted, got) {
		return nil
	}
	return fmt.Errorf("%s\n\twanted: %x\n\tgot:    %x", what, wanted, got)
}

// same returns an error that shows both if got isn't wanted.
func same[T comparable](what string, wanted, got T) error {
	if wanted == got {
		return nil
	}
	return fmt.Errorf("%s\n\twanted: %v\n\tgot:    %v", what, wanted, got)
}

// toInt64 returns the exact value of a json.Number.
func toInt64(v any) (int64, error) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, fmt.Errorf("%v is not a number", v)
	}
	return n.Int64()
}
