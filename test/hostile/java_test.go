package hostile

import (
	"bytes"
	"encoding/binary"
	"math"
)

// Parts of a Java object stream, written by hand: what a hostile server may put into an error.

var javaHead = []byte{0xAC, 0xED, 0, 5}

// javaClass is the descriptor of a serializable class with no fields and no super class.
func javaClass(name string) []byte {
	p := binary.BigEndian.AppendUint16([]byte{0x72}, uint16(len(name)))
	p = append(p, name...)
	p = binary.BigEndian.AppendUint64(p, 1) // serialVersionUID
	p = append(p, 2, 0, 0)                  // SC_SERIALIZABLE, no fields
	return append(p, 0x78, 0x70)            // end of annotations, no super class
}

// javaDeep is an array of arrays of arrays: each is the only element of the one around it.
func javaDeep(depth int) []byte {
	class := append([]byte{0x75}, javaClass("[Ljava.lang.Object;")...)
	p := append(bytes.Clone(javaHead), class...)
	for range depth {
		p = append(p, 0, 0, 0, 1)                         // one element:
		p = append(p, 0x75, 0x71, 0x00, 0x7E, 0x00, 0x00) // an array of the class with handle 0
	}
	return append(p, 0, 0, 0, 0)
}

// javaChain is a chain of classes, each the super class of the one before.
func javaChain(n int) []byte {
	p := append(bytes.Clone(javaHead), 0x73)
	for range n {
		c := javaClass("x")
		p = append(p, c[:len(c)-1]...)
	}
	return append(p, 0x70)
}

// javaArray is an array that says it has n elements, and has none.
func javaArray(n uint32) []byte {
	p := append(bytes.Clone(javaHead), 0x75)
	p = append(p, javaClass("[Ljava.lang.Object;")...)
	return binary.BigEndian.AppendUint32(p, n)
}

// javaString is a long string that says it has n bytes, and has none.
func javaString(n uint64) []byte {
	return binary.BigEndian.AppendUint64(append(bytes.Clone(javaHead), 0x7C), n)
}

// javaFields is a class that says it has 65535 fields.
func javaFields() []byte {
	p := append(bytes.Clone(javaHead), 0x73, 0x72, 0, 1, 'x')
	p = binary.BigEndian.AppendUint64(p, 1)
	p = append(p, 2)
	return binary.BigEndian.AppendUint16(p, math.MaxUint16)
}

// javaMany is an array of n strings of one letter: n handles.
func javaMany(n int) []byte {
	p := append(bytes.Clone(javaHead), 0x75)
	p = append(p, javaClass("[Ljava.lang.Object;")...)
	p = binary.BigEndian.AppendUint32(p, uint32(n))
	return append(p, bytes.Repeat([]byte{0x74, 0, 1, 'x'}, n)...)
}

// javaSelf is an object whose array contains itself, many times.
func javaSelf(n int) []byte {
	p := append(bytes.Clone(javaHead), 0x75)
	p = append(p, javaClass("[Ljava.lang.Object;")...)
	p = binary.BigEndian.AppendUint32(p, uint32(n))
	return append(p, bytes.Repeat([]byte{0x71, 0x00, 0x7E, 0x00, 0x01}, n)...)
}
