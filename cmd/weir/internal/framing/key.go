package framing

import (
	"bytes"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Key finds the part of a record that decides its subpartition.
type Key struct {
	kind   Kind
	name   string // NDJSON
	column int    // Lines and CSV: from 1; 0 is the whole record
	lo, hi int    // Length and Raw
}

// ParseKey reads a key's description for a framing: the number of a word (lines) or of a column (csv), counted from 1; the
// name of a top-level member (ndjson); a range of bytes LO:HI of the payload (length, raw). The empty description is the
// whole record.
func ParseKey(kind Kind, field string) (Key, error) {
	k := Key{kind: kind, hi: -1}
	if field == "" {
		return k, nil
	}
	switch kind {
	case NDJSON:
		k.name = field
		return k, nil
	case Lines, CSV:
		n, err := strconv.Atoi(field)
		if err != nil || n < 1 {
			return k, fmt.Errorf("key %q: %s framing wants the number of a field, from 1", field, kind)
		}
		k.column = n
		return k, nil
	default:
		lo, hi, ok := strings.Cut(field, ":")
		var err1, err2 error
		k.lo, err1 = strconv.Atoi(lo)
		k.hi, err2 = strconv.Atoi(hi)
		if !ok || err1 != nil || err2 != nil || k.lo < 0 || k.hi < k.lo {
			return k, fmt.Errorf("key %q: %s framing wants a range of bytes LO:HI", field, kind)
		}
		return k, nil
	}
}

// Of returns the key of rec. A record that has no such field has an empty key. The result may be a view of rec.
func (k Key) Of(rec []byte) ([]byte, error) {
	switch k.kind {
	case NDJSON:
		return k.member(rec)
	case Lines:
		return word(rec, k.column), nil
	case CSV:
		return k.cell(rec)
	default:
		p := rec
		if k.kind == Length && len(p) >= 4 {
			p = p[4:min(len(p), 4+int(binary.BigEndian.Uint32(p)))]
		}
		if k.hi < 0 {
			return p, nil
		}
		return p[min(k.lo, len(p)):min(k.hi, len(p))], nil
	}
}

func (k Key) member(rec []byte) ([]byte, error) {
	if k.name == "" || len(bytes.TrimSpace(rec)) == 0 {
		return bytes.TrimSpace(rec), nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(rec, &members); err != nil {
		return nil, fmt.Errorf("key %q: the record is not a JSON object: %w", k.name, err)
	}
	return members[k.name], nil
}

func (k Key) cell(rec []byte) ([]byte, error) {
	if k.column == 0 {
		return bytes.TrimRight(rec, "\r\n"), nil
	}
	r := csv.NewReader(bytes.NewReader(rec))
	r.FieldsPerRecord, r.LazyQuotes = -1, true
	row, err := r.Read()
	if err != nil || len(row) < k.column {
		return nil, nil // an empty line or a short row: no such field
	}
	return []byte(row[k.column-1]), nil
}

// word returns the n-th word of rec, the whole line without its end for n = 0.
func word(rec []byte, n int) []byte {
	if n == 0 {
		return bytes.TrimRight(rec, "\r\n")
	}
	for ; ; n-- {
		for len(rec) > 0 && space(rec[0]) {
			rec = rec[1:]
		}
		i := 0
		for i < len(rec) && !space(rec[i]) {
			i++
		}
		if n == 1 || i == 0 {
			return rec[:i]
		}
		rec = rec[i:]
	}
}

func space(c byte) bool {
	return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\v' || c == '\f'
}
