package serde_test

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/weirflow/weir/serde"
)

// FuzzTypes feeds bytes to the serializer that which selects.
func FuzzTypes(f *testing.F) {
	for i := range codecs {
		f.Add(uint8(i), []byte{0, 0, 0, 2, 2, 'a', 1, 0, 0, 0, 1})
		f.Add(uint8(i), []byte{0x80, 0, 0, 0, 0x80, 0, 0x80, 0x80, 0, 0x80, 0, 0, 0})
	}
	f.Fuzz(func(t *testing.T, which uint8, p []byte) {
		if err := checkCodec(codecs[int(which)%len(codecs)], p); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzDecodeElement checks that bytes are refused with ErrElement or are those of an element, and its only form.
func FuzzDecodeElement(f *testing.F) {
	for _, tc := range elements {
		f.Add(unhex(f, tc.hex))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		var e serde.Element
		if err := serde.DecodeElement(p, &e); err != nil {
			if !errors.Is(err, serde.ErrElement) || !reflect.DeepEqual(e, serde.Element{}) {
				t.Fatalf("%x: %+v, %v", p, e, err)
			}
			return
		}
		q := serde.AppendElement(nil, &e)
		if e.Kind == serde.RecordAttributes && p[1] > 1 {
			p = []byte{p[0], 1} // any byte but 0 is true
		}
		if !bytes.Equal(p, q) || e.String() == "" {
			t.Fatalf("%x: %v was encoded as %x", p, &e, q)
		}
	})
}
