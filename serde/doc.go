// Package serde turns values into records and records into buffers, as Flink does, and back.
//
// Its one idea is that records are views: a record is read where the network put it, a stream element is a small struct
// whose value is a slice of the record, and only what spans buffers is copied.
//
// There are three layers, each useful without the others:
//
//   - Framing. A record is a 32-bit length and that many bytes, records follow each other, and buffers cut this stream
//     anywhere. RecordWriter fills buffers, Deserializer reads them.
//   - Stream elements. On a streaming edge each record is an Element: a record with or without timestamp, a watermark, a
//     latency marker, a watermark status, record attributes.
//   - Type encodings. A Serializer turns one Go type into the bytes of one of Flink's type serializers.
//
// Beside them stand key groups (KeyGroup, ChannelOf, KeyGroupRange), which say where a key goes, and Java's hash codes, of
// which they are made.
//
// The invariants: for every value v that a Serializer takes, Decode(Append(v)) is v and consumes all bytes; a decoder never
// panics, returns nothing but an ErrCorrupt for bytes that no encoder writes, and allocates no more than a small multiple of
// the bytes it is given. Whatever the cuts between buffers, the records that come out are those that went in.
//
// # Type parameters
//
// Serializers are value types for use as type parameters: ListSerializer[int64, LongSerializer]. Nothing is boxed then,
// and nothing allocated. A method that is called on a serializer by its own name, LongSerializer{}.Append(dst, v), is
// inlined; one that is called on a type parameter goes through the instance's dictionary, which costs about as much as
// a call by an interface (measured with Go 1.26: BenchmarkSerializerCalls). Where single nanoseconds count, compose
// by hand: Append of a type of one's own that calls the serializers of its fields by name is direct all the way.
//
// # Null
//
// Where Flink's encoding has a null of its own, the Go type has one, too: a nil *big.Int, Decimal.Unscaled, NullInstant,
// NullLocalDate and so on; for strings it is NullableStringSerializer. For all others Null and NullableSerializer are an
// explicit wrapper.
//
// # What is left out
//
// Of Flink's type serializers these are missing: POJOs (PojoSerializer: write a type of your own; flags byte 2, then for
// each field in the order of names a byte, 0, and the value, or 1 for null), tuples of more than five fields (likewise),
// the Kryo fallback for generic types, and the serializers of the table runtime (RowData). Variant and Bitmap are carried as
// opaque bytes. Records of such types are still records: their bytes go through every other part of weir untouched.
package serde
