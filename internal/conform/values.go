package conform

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/weirflow/weir/internal/javatext"
	"github.com/weirflow/weir/serde"
)

// A valueType reads the JSON values of one type, and has the library's serializer for them. It is put together at run
// time from the type's name, with the library's own composite serializers over any.
type valueType struct {
	parse func(p json.RawMessage) (any, error)
	ser   anySerializer
}

// anySerializer makes a serializer for any of one for a field.
type anySerializer struct{ serde.FieldSerializer }

// Append appends a value that was parsed for this very serializer.
func (s anySerializer) Append(dst []byte, v any) []byte {
	dst, ok := s.AppendAny(dst, v)
	if !ok {
		panic(fmt.Sprintf("a %T went to the wrong serializer", v))
	}
	return dst
}

// Decode decodes a value.
func (s anySerializer) Decode(p []byte) (any, int, error) { return s.DecodeAny(p) }

// lenSerializer is an anySerializer of known length.
type lenSerializer struct {
	anySerializer
	n int
}

// Len returns the length.
func (s lenSerializer) Len() int { return s.n }

func typeOf[T any, S serde.Serializer[T]](s S, parse func(json.RawMessage) (T, error)) valueType {
	return valueType{
		parse: func(p json.RawMessage) (any, error) { return parse(p) },
		ser:   anySerializer{serde.Field[T](s)},
	}
}

// simpleTypes are the types whose names have no parts.
var simpleTypes = map[string]valueType{
	"Boolean":            typeOf(serde.BooleanSerializer{}, parseJSON[bool]),
	"Byte":               typeOf(serde.ByteSerializer{}, parseJSON[int8]),
	"Short":              typeOf(serde.ShortSerializer{}, parseJSON[int16]),
	"Character":          typeOf(serde.CharSerializer{}, parseJSON[uint16]),
	"Integer":            typeOf(serde.IntSerializer{}, parseJSON[int32]),
	"Long":               typeOf(serde.LongSerializer{}, parseJSON[int64]),
	"Float":              typeOf(serde.FloatSerializer{}, parseFloat),
	"Double":             typeOf(serde.DoubleSerializer{}, parseDouble),
	"Void":               typeOf(serde.VoidSerializer{}, parseEmpty("null")),
	"Tuple0":             typeOf(serde.Tuple0Serializer{}, parseEmpty("[]")),
	"String":             typeOf(serde.NullableStringSerializer{}, parseString),
	"byte[]":             typeOf(serde.BytesSerializer{}, parseBytes),
	"boolean[]":          typeOf(serde.BooleanArraySerializer{}, parseJSON[[]bool]),
	"short[]":            typeOf(serde.ShortArraySerializer{}, parseJSON[[]int16]),
	"char[]":             typeOf(serde.CharArraySerializer{}, parseJSON[[]uint16]),
	"int[]":              typeOf(serde.IntArraySerializer{}, parseJSON[[]int32]),
	"long[]":             typeOf(serde.LongArraySerializer{}, parseJSON[[]int64]),
	"float[]":            typeOf(serde.FloatArraySerializer{}, parseSlice(parseFloat)),
	"double[]":           typeOf(serde.DoubleArraySerializer{}, parseSlice(parseDouble)),
	"String[]":           typeOf(serde.StringArraySerializer{}, parseSlice(parseString)),
	"BigInteger":         typeOf(serde.BigIntSerializer{}, parseBigInt),
	"BigDecimal":         typeOf(serde.BigDecSerializer{}, parseDecimal),
	"java.util.Date":     typeOf(serde.DateSerializer{}, orNull(serde.NullDate, parseJSON[int64])),
	"java.sql.Date":      typeOf(serde.DateSerializer{}, orNull(serde.NullDate, parseJSON[int64])),
	"java.sql.Time":      typeOf(serde.DateSerializer{}, orNull(serde.NullDate, parseJSON[int64])),
	"java.sql.Timestamp": typeOf(serde.TimestampSerializer{}, orNull(serde.NullTimestamp, parseJSON[serde.Timestamp])),
	"Instant":            typeOf(serde.InstantSerializer{}, orNull(serde.NullInstant, parseJSON[serde.Instant])),
	"LocalDate":          typeOf(serde.LocalDateSerializer{}, orNull(serde.NullLocalDate, isoText(parseDate))),
	"LocalTime":          typeOf(serde.LocalTimeSerializer{}, orNull(serde.NullLocalTime, isoText(parseTime))),
	"LocalDateTime":      typeOf(serde.LocalDateTimeSerializer{}, orNull(serde.NullLocalDateTime, isoText(parseDateTime))),
	"Enum RowKind":       typeOf(serde.EnumSerializer{N: 4}, parseRowKindName),
}

// fixedLengths are the lengths of the types that a padded Nullable may have inside.
var fixedLengths = map[string]int{
	"Boolean": 1, "Byte": 1, "Short": 2, "Character": 2, "Integer": 4, "Long": 8, "Float": 4, "Double": 8,
	"java.util.Date": 8, "java.sql.Timestamp": 12, "Instant": 12, "LocalDate": 6, "LocalTime": 7, "LocalDateTime": 13,
}

// resolveType returns the type with a name as the vectors have it.
func resolveType(name string) (valueType, error) {
	if t, ok := simpleTypes[name]; ok {
		return t, nil
	}
	if inner, ok := strings.CutSuffix(name, "[] (generic)"); ok {
		e, err := resolveType(inner)
		return typeOf(serde.ArraySerializer[any, anySerializer]{Element: e.ser}, parseSlice(parseNull(e))), err
	}
	padded := false
	if inner, ok := strings.CutSuffix(name, " (padded)"); ok {
		name, padded = inner, true
	}
	head, rest, ok := strings.Cut(name, "<")
	if !ok || !strings.HasSuffix(rest, ">") {
		return valueType{}, fmt.Errorf("unknown type %q", name)
	}
	if head == "Row" {
		return typeOf(rowSerializer{}, parseRow), nil
	}
	var args []valueType
	names := splitTypes(rest[:len(rest)-1])
	for _, n := range names {
		t, err := resolveType(n)
		if err != nil {
			return valueType{}, err
		}
		args = append(args, t)
	}
	switch {
	case head == "Nullable" && padded && len(args) == 1 && fixedLengths[names[0]] > 0:
		inner := lenSerializer{args[0].ser, fixedLengths[names[0]]}
		return typeOf(serde.PaddedNullableSerializer[any, lenSerializer]{Value: inner}, parseNull(args[0])), nil
	case head == "Nullable" && !padded && len(args) == 1:
		return typeOf(serde.NullableSerializer[any, anySerializer]{Value: args[0].ser}, parseNull(args[0])), nil
	case head == "List" && len(args) == 1:
		return typeOf(serde.ListSerializer[any, anySerializer]{Element: args[0].ser}, parseSlice(args[0].parse)), nil
	case head == "Set" && len(args) == 1:
		return typeOf(serde.SetSerializer[any, anySerializer]{Element: args[0].ser}, parseSlice(parseNull(args[0]))), nil
	case head == "Map" && len(args) == 2:
		return typeOf(serde.MapSerializer[any, any, anySerializer, anySerializer]{Key: args[0].ser, Value: args[1].ser}, parseSlice(parseEntry(args[0], args[1]))), nil
	case head == "Either" && len(args) == 2:
		return typeOf(serde.EitherSerializer[any, any, anySerializer, anySerializer]{Left: args[0].ser, Right: args[1].ser}, parseEither(args[0], args[1])), nil
	case head == fmt.Sprintf("Tuple%d", len(args)):
		return resolveTuple(args)
	}
	return valueType{}, fmt.Errorf("unknown type %q", name)
}

// splitTypes splits a list of type names at the commas that are not inside of < and >.
func splitTypes(s string) []string {
	var names []string
	depth, start := 0, 0
	for i, c := range s {
		switch {
		case c == '<':
			depth++
		case c == '>':
			depth--
		case c == ',' && depth == 0:
			names = append(names, strings.TrimSpace(s[start:i]))
			start = i + 1
		}
	}
	return append(names, strings.TrimSpace(s[start:]))
}

func resolveTuple(args []valueType) (valueType, error) {
	fields := func(p json.RawMessage) ([]any, error) {
		raw, err := parseJSON[[]json.RawMessage](p)
		if err != nil {
			return nil, err
		}
		if len(raw) != len(args) {
			return nil, fmt.Errorf("%d values for a tuple of %d fields", len(raw), len(args))
		}
		v := make([]any, len(raw))
		for i := range raw {
			if v[i], err = args[i].parse(raw[i]); err != nil {
				return nil, err
			}
		}
		return v, nil
	}
	type s = anySerializer
	switch len(args) {
	case 1:
		return typeOf(serde.Tuple1Serializer[any, s]{F0: args[0].ser}, func(p json.RawMessage) (t serde.Tuple1[any], err error) {
			v, err := fields(p)
			if err == nil {
				t = serde.Tuple1[any]{F0: v[0]}
			}
			return t, err
		}), nil
	case 2:
		return typeOf(serde.Tuple2Serializer[any, any, s, s]{F0: args[0].ser, F1: args[1].ser}, func(p json.RawMessage) (t serde.Tuple2[any, any], err error) {
			v, err := fields(p)
			if err == nil {
				t = serde.Tuple2[any, any]{F0: v[0], F1: v[1]}
			}
			return t, err
		}), nil
	case 3:
		return typeOf(serde.Tuple3Serializer[any, any, any, s, s, s]{F0: args[0].ser, F1: args[1].ser, F2: args[2].ser}, func(p json.RawMessage) (t serde.Tuple3[any, any, any], err error) {
			v, err := fields(p)
			if err == nil {
				t = serde.Tuple3[any, any, any]{F0: v[0], F1: v[1], F2: v[2]}
			}
			return t, err
		}), nil
	case 4:
		return typeOf(serde.Tuple4Serializer[any, any, any, any, s, s, s, s]{F0: args[0].ser, F1: args[1].ser, F2: args[2].ser, F3: args[3].ser},
			func(p json.RawMessage) (t serde.Tuple4[any, any, any, any], err error) {
				v, err := fields(p)
				if err == nil {
					t = serde.Tuple4[any, any, any, any]{F0: v[0], F1: v[1], F2: v[2], F3: v[3]}
				}
				return t, err
			}), nil
	}
	return valueType{}, fmt.Errorf("no tuple of %d fields", len(args))
}

// rowSerializer is a row of strings and integers in turn, whose number of fields the row says.
type rowSerializer struct{ n int }

func (s rowSerializer) row(n int) serde.RowSerializer {
	r := serde.RowSerializer{}
	for i := range n {
		if i%2 == 0 {
			r.Fields = append(r.Fields, serde.Field[string](serde.StringSerializer{}))
		} else {
			r.Fields = append(r.Fields, serde.Field[int32](serde.IntSerializer{}))
		}
	}
	return r
}

// Append appends a row.
func (s rowSerializer) Append(dst []byte, v serde.Row) []byte {
	return s.row(len(v.Fields)).Append(dst, v)
}

// Decode reads a row of n fields.
func (s rowSerializer) Decode(p []byte) (serde.Row, int, error) { return s.row(s.n).Decode(p) }

func parseJSON[T any](p json.RawMessage) (v T, err error) {
	if string(p) == "null" {
		return v, fmt.Errorf("null where a %T is wanted", v)
	}
	err = json.Unmarshal(p, &v)
	return v, err
}

func parseSlice[T any](parse func(json.RawMessage) (T, error)) func(json.RawMessage) ([]T, error) {
	return func(p json.RawMessage) ([]T, error) {
		raw, err := parseJSON[[]json.RawMessage](p)
		if err != nil {
			return nil, err
		}
		v := make([]T, len(raw))
		for i := range raw {
			if v[i], err = parse(raw[i]); err != nil {
				return nil, err
			}
		}
		return v, nil
	}
}

func orNull[T any](null T, parse func(json.RawMessage) (T, error)) func(json.RawMessage) (T, error) {
	return func(p json.RawMessage) (T, error) {
		if string(p) == "null" {
			return null, nil
		}
		return parse(p)
	}
}

func parseNull(t valueType) func(json.RawMessage) (serde.Null[any], error) {
	return func(p json.RawMessage) (serde.Null[any], error) {
		if string(p) == "null" {
			return serde.Null[any]{}, nil
		}
		v, err := t.parse(p)
		return serde.Some(v), err
	}
}

func parseEntry(k, v valueType) func(json.RawMessage) (serde.Entry[any, any], error) {
	return func(p json.RawMessage) (e serde.Entry[any, any], err error) {
		raw, err := parseJSON[[]json.RawMessage](p)
		if err != nil {
			return e, err
		}
		if len(raw) != 2 {
			return e, fmt.Errorf("entry of %d values", len(raw))
		}
		if e.Key, err = k.parse(raw[0]); err != nil {
			return e, err
		}
		e.Value, err = parseNull(v)(raw[1])
		return e, err
	}
}

func parseEither(l, r valueType) func(json.RawMessage) (serde.Either[any, any], error) {
	return func(p json.RawMessage) (e serde.Either[any, any], err error) {
		o, err := parseJSON[Object](p)
		if err != nil {
			return e, err
		}
		if e.IsLeft = o.Has("left"); e.IsLeft {
			e.Left, err = l.parse(o["left"])
		} else {
			e.Right, err = r.parse(o["right"])
		}
		return e, err
	}
}

// parseEmpty makes a parser of a type with only one value.
func parseEmpty(only string) func(json.RawMessage) (struct{}, error) {
	return func(p json.RawMessage) (v struct{}, err error) {
		if string(p) != only {
			err = fmt.Errorf("%s instead of %s", p, only)
		}
		return v, err
	}
}

func parseBits(p json.RawMessage, size int) (uint64, error) {
	v, err := parseJSON[struct {
		Bits string
		Text *string
	}](p)
	if err != nil {
		return 0, err
	}
	if len(v.Bits) != size/4 {
		return 0, fmt.Errorf("%q is not %d bits", v.Bits, size)
	}
	bits, err := strconv.ParseUint(v.Bits, 16, size)
	if err != nil || v.Text == nil {
		return bits, err
	}
	text, err := strconv.ParseFloat(*v.Text, size)
	if err != nil {
		return 0, err
	}
	value := math.Float64frombits(bits)
	if size == 32 {
		value = float64(math.Float32frombits(uint32(bits)))
	}
	if value != text && (value == value || text == text) || math.Signbit(value) != math.Signbit(text) && value == value {
		return 0, fmt.Errorf("text %s of %s", *v.Text, v.Bits)
	}
	return bits, nil
}

func parseFloat(p json.RawMessage) (float32, error) {
	b, err := parseBits(p, 32)
	return math.Float32frombits(uint32(b)), err
}

func parseDouble(p json.RawMessage) (float64, error) {
	b, err := parseBits(p, 64)
	return math.Float64frombits(b), err
}

// parseUnits reads the UTF-16 code units of a string.
func parseUnits(p json.RawMessage) ([]uint16, error) {
	v, err := parseJSON[struct {
		Text  *string
		UTF16 HexBytes
	}](p)
	if err != nil {
		return nil, err
	}
	if len(v.UTF16)%2 != 0 {
		return nil, fmt.Errorf("utf16 of %d bytes", len(v.UTF16))
	}
	var units []uint16
	for i := 0; i < len(v.UTF16); i += 2 {
		units = append(units, uint16(v.UTF16[i])<<8|uint16(v.UTF16[i+1]))
	}
	// Unpaired surrogates are U+FFFD in both, as JSON has no others.
	if want := string(utf16.Decode(units)); v.Text != nil && *v.Text != want {
		return nil, fmt.Errorf("text %q of units that say %q", *v.Text, want)
	}
	return units, nil
}

func parseString(p json.RawMessage) (serde.Null[string], error) {
	if string(p) == "null" {
		return serde.Null[string]{}, nil
	}
	units, err := parseUnits(p)
	return serde.Some(javatext.FromUnits(units)), err
}

func parseBytes(p json.RawMessage) ([]byte, error) { return parseJSON[HexBytes](p) }

func parseBigInt(p json.RawMessage) (*big.Int, error) {
	if string(p) == "null" {
		return nil, nil
	}
	s, err := parseJSON[string](p)
	if err != nil {
		return nil, err
	}
	v, ok := new(big.Int).SetString(s, 10)
	if !ok {
		return nil, fmt.Errorf("%q is not a number", s)
	}
	return v, nil
}

func parseDecimal(p json.RawMessage) (serde.Decimal, error) {
	if string(p) == "null" {
		return serde.Decimal{}, nil
	}
	v, err := parseJSON[struct {
		Unscaled json.RawMessage
		Scale    int32
	}](p)
	if err != nil {
		return serde.Decimal{}, err
	}
	u, err := parseBigInt(v.Unscaled)
	return serde.Decimal{Unscaled: u, Scale: v.Scale}, err
}

func parseRow(p json.RawMessage) (serde.Row, error) {
	v, err := parseJSON[struct {
		Kind   string
		Fields []json.RawMessage
	}](p)
	if err != nil {
		return serde.Row{}, err
	}
	r := serde.Row{Fields: make([]any, len(v.Fields))}
	for r.Kind.String() != v.Kind {
		if r.Kind++; r.Kind > serde.Delete {
			return r, fmt.Errorf("unknown kind of row %q", v.Kind)
		}
	}
	for i, f := range v.Fields {
		switch {
		case string(f) == "null":
		case i%2 == 0:
			s, err := parseString(f)
			if err != nil {
				return r, err
			}
			r.Fields[i] = s.V
		default:
			if r.Fields[i], err = parseJSON[int32](f); err != nil {
				return r, err
			}
		}
	}
	return r, nil
}

func parseRowKindName(p json.RawMessage) (int32, error) {
	s, err := parseJSON[string](p)
	for i, name := range []string{"INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE"} {
		if s == name {
			return int32(i), err
		}
	}
	return 0, fmt.Errorf("unknown constant %q", s)
}
