package serde

// Tuples are their fields in order, without a header. A field may be null only if its own serializer takes null.
//
// The tuples that are not here (Flink has them up to 25 fields), and structures of one's own, need a type with Append and
// Decode that calls the serializers of its fields one after the other, as these do.

// Tuple0Serializer encodes the tuple without fields: the byte 0x2a.
type Tuple0Serializer struct{}

// Append appends an empty tuple.
func (Tuple0Serializer) Append(dst []byte, _ struct{}) []byte { return append(dst, 0x2a) }

// Decode reads an empty tuple; the value of its byte is ignored.
func (Tuple0Serializer) Decode(p []byte) (struct{}, int, error) { return VoidSerializer{}.Decode(p) }

// Len returns 1.
func (Tuple0Serializer) Len() int { return 1 }

// Tuple1 is a tuple of one field.
type Tuple1[A any] struct {
	F0 A
}

// Tuple1Serializer encodes a Tuple1.
type Tuple1Serializer[A any, SA Serializer[A]] struct {
	F0 SA
}

// Append appends a tuple.
func (s Tuple1Serializer[A, SA]) Append(dst []byte, v Tuple1[A]) []byte {

	return s.F0.Append(dst, v.F0)
}

// Decode reads a tuple.
func (s Tuple1Serializer[A, SA]) Decode(p []byte) (v Tuple1[A], n int, err error) {
	at := 0
	if v.F0, n, err = s.F0.Decode(p[at:]); err != nil {
		return Tuple1[A]{}, 0, err
	}
	at += n
	return v, at, nil
}

// Tuple2 is a tuple of two fields.
type Tuple2[A, B any] struct {
	F0 A
	F1 B
}

// Tuple2Serializer encodes a Tuple2.
type Tuple2Serializer[A, B any, SA Serializer[A], SB Serializer[B]] struct {
	F0 SA
	F1 SB
}

// Append appends a tuple.
func (s Tuple2Serializer[A, B, SA, SB]) Append(dst []byte, v Tuple2[A, B]) []byte {
	dst = s.F0.Append(dst, v.F0)
	return s.F1.Append(dst, v.F1)
}

// Decode reads a tuple.
func (s Tuple2Serializer[A, B, SA, SB]) Decode(p []byte) (v Tuple2[A, B], n int, err error) {
	at := 0
	if v.F0, n, err = s.F0.Decode(p[at:]); err != nil {
		return Tuple2[A, B]{}, 0, err
	}
	at += n
	if v.F1, n, err = s.F1.Decode(p[at:]); err != nil {
		return Tuple2[A, B]{}, 0, err
	}
	at += n
	return v, at, nil
}

// Tuple3 is a tuple of three fields.
type Tuple3[A, B, C any] struct {
	F0 A
	F1 B
	F2 C
}

// Tuple3Serializer encodes a Tuple3.
type Tuple3Serializer[A, B, C any, SA Serializer[A], SB Serializer[B], SC Serializer[C]] struct {
	F0 SA
	F1 SB
	F2 SC
}

// Append appends a tuple.
func (s Tuple3Serializer[A, B, C, SA, SB, SC]) Append(dst []byte, v Tuple3[A, B, C]) []byte {
	dst = s.F0.Append(dst, v.F0)
	dst = s.F1.Append(dst, v.F1)
	return s.F2.Append(dst, v.F2)
}

// Decode reads a tuple.
func (s Tuple3Serializer[A, B, C, SA, SB, SC]) Decode(p []byte) (v Tuple3[A, B, C], n int, err error) {
	at := 0
	if v.F0, n, err = s.F0.Decode(p[at:]); err != nil {
		return Tuple3[A, B, C]{}, 0, err
	}
	at += n
	if v.F1, n, err = s.F1.Decode(p[at:]); err != nil {
		return Tuple3[A, B, C]{}, 0, err
	}
	at += n
	if v.F2, n, err = s.F2.Decode(p[at:]); err != nil {
		return Tuple3[A, B, C]{}, 0, err
	}
	at += n
	return v, at, nil
}

// Tuple4 is a tuple of four fields.
type Tuple4[A, B, C, D any] struct {
	F0 A
	F1 B
	F2 C
	F3 D
}

// Tuple4Serializer encodes a Tuple4.
type Tuple4Serializer[A, B, C, D any, SA Serializer[A], SB Serializer[B], SC Serializer[C], SD Serializer[D]] struct {
	F0 SA
	F1 SB
	F2 SC
	F3 SD
}

// Append appends a tuple.
func (s Tuple4Serializer[A, B, C, D, SA, SB, SC, SD]) Append(dst []byte, v Tuple4[A, B, C, D]) []byte {
	dst = s.F0.Append(dst, v.F0)
	dst = s.F1.Append(dst, v.F1)
	dst = s.F2.Append(dst, v.F2)
	return s.F3.Append(dst, v.F3)
}

// Decode reads a tuple.
func (s Tuple4Serializer[A, B, C, D, SA, SB, SC, SD]) Decode(p []byte) (v Tuple4[A, B, C, D], n int, err error) {
	at := 0
	if v.F0, n, err = s.F0.Decode(p[at:]); err != nil {
		return Tuple4[A, B, C, D]{}, 0, err
	}
	at += n
	if v.F1, n, err = s.F1.Decode(p[at:]); err != nil {
		return Tuple4[A, B, C, D]{}, 0, err
	}
	at += n
	if v.F2, n, err = s.F2.Decode(p[at:]); err != nil {
		return Tuple4[A, B, C, D]{}, 0, err
	}
	at += n
	if v.F3, n, err = s.F3.Decode(p[at:]); err != nil {
		return Tuple4[A, B, C, D]{}, 0, err
	}
	at += n
	return v, at, nil
}

// Tuple5 is a tuple of five fields.
type Tuple5[A, B, C, D, E any] struct {
	F0 A
	F1 B
	F2 C
	F3 D
	F4 E
}

// Tuple5Serializer encodes a Tuple5.
type Tuple5Serializer[A, B, C, D, E any, SA Serializer[A], SB Serializer[B], SC Serializer[C], SD Serializer[D], SE Serializer[E]] struct {
	F0 SA
	F1 SB
	F2 SC
	F3 SD
	F4 SE
}

// Append appends a tuple.
func (s Tuple5Serializer[A, B, C, D, E, SA, SB, SC, SD, SE]) Append(dst []byte, v Tuple5[A, B, C, D, E]) []byte {
	dst = s.F0.Append(dst, v.F0)
	dst = s.F1.Append(dst, v.F1)
	dst = s.F2.Append(dst, v.F2)
	dst = s.F3.Append(dst, v.F3)
	return s.F4.Append(dst, v.F4)
}

// Decode reads a tuple.
func (s Tuple5Serializer[A, B, C, D, E, SA, SB, SC, SD, SE]) Decode(p []byte) (v Tuple5[A, B, C, D, E], n int, err error) {
	at := 0
	if v.F0, n, err = s.F0.Decode(p[at:]); err != nil {
		return Tuple5[A, B, C, D, E]{}, 0, err
	}
	at += n
	if v.F1, n, err = s.F1.Decode(p[at:]); err != nil {
		return Tuple5[A, B, C, D, E]{}, 0, err
	}
	at += n
	if v.F2, n, err = s.F2.Decode(p[at:]); err != nil {
		return Tuple5[A, B, C, D, E]{}, 0, err
	}
	at += n
	if v.F3, n, err = s.F3.Decode(p[at:]); err != nil {
		return Tuple5[A, B, C, D, E]{}, 0, err
	}
	at += n
	if v.F4, n, err = s.F4.Decode(p[at:]); err != nil {
		return Tuple5[A, B, C, D, E]{}, 0, err
	}
	at += n
	return v, at, nil
}
