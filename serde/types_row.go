package serde

import "fmt"

// RowKind says what a row does to the table that a stream of rows stands for. Kinds are numbered as on the wire.
type RowKind uint8

// The kinds of rows.
const (
	Insert       RowKind = 0
	UpdateBefore RowKind = 1
	UpdateAfter  RowKind = 2
	Delete       RowKind = 3
)

var rowKinds = [...]string{"+I", "-U", "+U", "-D"}

// String returns Flink's short form: +I, -U, +U or -D.
func (k RowKind) String() string {
	if int(k) < len(rowKinds) {
		return rowKinds[k]
	}
	return fmt.Sprintf("RowKind(%d)", uint8(k))
}

// Row is a row with fields by position. A nil field is null.
type Row struct {
	Kind   RowKind
	Fields []any
}

// FieldSerializer is a serializer for a field whose type is known only at run time; Field makes one.
type FieldSerializer interface {
	// AppendAny appends v; ok is false if v has another type, and dst is then returned as it is.
	AppendAny(dst []byte, v any) (out []byte, ok bool)
	// DecodeAny is Decode.
	DecodeAny(p []byte) (v any, n int, err error)
	// Accepts tells whether v has the field's type.
	Accepts(v any) bool
}

// Field returns s as a FieldSerializer. Values in it are boxed, so unlike s alone it allocates.
func Field[T any, S Serializer[T]](s S) FieldSerializer { return field[T, S]{s} }

type field[T any, S Serializer[T]] struct{ s S }

func (f field[T, S]) AppendAny(dst []byte, v any) ([]byte, bool) {
	t, ok := v.(T)
	if !ok {
		return dst, false
	}
	return f.s.Append(dst, t), true
}

func (f field[T, S]) DecodeAny(p []byte) (any, int, error) {
	v, n, err := f.s.Decode(p)
	if err != nil {
		return nil, 0, err
	}
	return v, n, nil
}

func (f field[T, S]) Accepts(v any) bool {
	_, ok := v.(T)
	return ok
}

// RowSerializer encodes rows: a mask of bits, the highest of a byte first, then the fields that are not null. The mask has
// two bits for the kind, the lower one first, and one for each field, 1 if it is null.
//
// Rows are for what has no type in Go; they allocate. A struct whose type is known is better served by a type of one's
// own that calls AppendRowMask, DecodeRowMask and its fields' serializers.
type RowSerializer struct {
	Fields []FieldSerializer
	Legacy bool // without the two bits of the kind; every row is read as +I
}

// Check tells whether Append can encode v. The error wraps ErrInvalid.
func (s RowSerializer) Check(v Row) error {
	if len(v.Fields) != len(s.Fields) {
		return fmt.Errorf("%w: Row arity of record (%d) does not match this serializer's field length (%d).", //nolint:staticcheck // Flink's words
			ErrInvalid, len(v.Fields), len(s.Fields))
	}
	if v.Kind > Delete {
		return fmt.Errorf("%w: unknown kind of row: %d", ErrInvalid, v.Kind)
	}
	for i, f := range v.Fields {
		if f != nil && !s.Fields[i].Accepts(f) {
			return fmt.Errorf("%w: field %d of the row is a %T", ErrInvalid, i, f)
		}
	}
	return nil
}

// Append appends a row. A row that Check refuses appends nothing.
func (s RowSerializer) Append(dst []byte, v Row) []byte {
	if s.Check(v) != nil {
		return dst
	}
	dst = AppendRowMask(dst, v.Kind, s.Legacy, len(v.Fields), func(i int) bool { return v.Fields[i] == nil })
	for i, f := range v.Fields {
		if f != nil {
			dst, _ = s.Fields[i].AppendAny(dst, f)
		}
	}
	return dst
}

// Decode reads a row.
func (s RowSerializer) Decode(p []byte) (Row, int, error) {
	kind, mask, at, err := DecodeRowMask(p, s.Legacy, len(s.Fields))
	if err != nil {
		return Row{}, 0, err
	}
	v := Row{Kind: kind, Fields: make([]any, len(s.Fields))}
	for i, f := range s.Fields {
		if mask.IsNull(i) {
			continue
		}
		var n int
		if v.Fields[i], n, err = f.DecodeAny(p[at:]); err != nil {
			return Row{}, 0, fmt.Errorf("field %d of a row: %w", i, err)
		}
		at += n
	}
	return v, at, nil
}

// RowMask is the mask of an encoded row: a view of its bytes.
type RowMask struct {
	bits []byte
	skip int // bits in front of those of the fields
}

// IsNull tells whether field i is null.
func (m RowMask) IsNull(i int) bool {
	i += m.skip
	return m.bits[i/8]&(0x80>>(i%8)) != 0
}

// AppendRowMask appends the mask of a row of n fields; isNull is asked about each of them in order.
func AppendRowMask(dst []byte, kind RowKind, legacy bool, n int, isNull func(i int) bool) []byte {
	skip := 0
	var b byte
	if !legacy {
		skip = 2
		b = byte(kind&1)<<7 | byte(kind>>1&1)<<6
	}
	bit := skip
	for i := range n {
		if bit == 8 {
			dst = append(dst, b)
			b, bit = 0, 0
		}
		if isNull(i) {
			b |= 0x80 >> bit
		}
		bit++
	}
	if bit > 0 {
		dst = append(dst, b)
	}
	return dst
}

// DecodeRowMask reads the mask of a row of n fields at the start of p. size is the number of its bytes.
func DecodeRowMask(p []byte, legacy bool, n int) (kind RowKind, mask RowMask, size int, err error) {
	if !legacy {
		mask.skip = 2
	}
	if size = (n + mask.skip + 7) / 8; size > len(p) {
		return 0, RowMask{}, 0, ErrTruncated
	}
	mask.bits = p[:size:size]
	if !legacy {
		kind = RowKind(p[0]>>7 | p[0]>>6&1<<1)
	}
	return kind, mask, size, nil
}
