package serde

import (
	"encoding/binary"
	"fmt"
	"math/big"
)

// BigIntSerializer encodes a BigInteger; nil is null. An i32 code, and for all but null, 0, 1 and 10 (codes 0 to 3) the
// minimal two's complement, whose length is the code less 4.
//
// Flink uses the short codes of 0, 1 and 10 only for Java's constants, so the same numbers also come in the long form;
// Decode accepts both, Append writes the short one.
type BigIntSerializer struct{}

// The codes that stand for a value.
const (
	bigNull = iota
	bigZero
	bigOne
	bigTen
	bigOffset // code of a number of n bytes: bigOffset + n
)

// Append appends a number or null.
func (BigIntSerializer) Append(dst []byte, v *big.Int) []byte {
	if v == nil {
		return appendCount(dst, bigNull)
	}
	if v.IsUint64() {
		switch v.Uint64() {
		case 0:
			return appendCount(dst, bigZero)
		case 1:
			return appendCount(dst, bigOne)
		case 10:
			return appendCount(dst, bigTen)
		}
	}
	n := twosLen(v)
	dst = appendCount(dst, bigOffset+n)
	at := len(dst)
	dst = append(dst, make([]byte, n)...)
	fillTwos(dst[at:], v)
	return dst
}

// twosLen returns the bytes of v's minimal two's complement.
func twosLen(v *big.Int) int {
	bits := v.BitLen()
	if v.Sign() < 0 && v.TrailingZeroBits() == uint(bits-1) {
		bits-- // a negative power of two needs one bit less
	}
	return bits/8 + 1
}

// fillTwos fills dst with v's two's complement.
func fillTwos(dst []byte, v *big.Int) {
	if v.Sign() >= 0 {
		v.FillBytes(dst)
		return
	}
	// -v = ^(|v| - 1); |v| fits, or it is the one power of two that has the sign bit itself.
	abs := new(big.Int).Neg(v)
	abs.Sub(abs, big.NewInt(1)).FillBytes(dst)
	for i := range dst {
		dst[i] = ^dst[i]
	}
}

// Decode reads a number or null.
func (BigIntSerializer) Decode(p []byte) (*big.Int, int, error) {
	if len(p) < 4 {
		return nil, 0, ErrTruncated
	}
	code := int32(binary.BigEndian.Uint32(p))
	switch code {
	case bigNull:
		return nil, 4, nil
	case bigZero:
		return new(big.Int), 4, nil
	case bigOne:
		return big.NewInt(1), 4, nil
	case bigTen:
		return big.NewInt(10), 4, nil
	}
	if code <= bigOffset {
		return nil, 0, fmt.Errorf("%w: code %d of a BigInteger", ErrCorrupt, code)
	}
	n := int(code) - bigOffset
	if n > len(p)-4 {
		return nil, 0, fmt.Errorf("%w: BigInteger of %d bytes in %d", ErrTruncated, n, len(p)-4)
	}
	v := new(big.Int).SetBytes(p[4 : 4+n])
	if p[4] >= 0x80 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(8*n)))
	}
	return v, 4 + n, nil
}

// Decimal is Java's BigDecimal: Unscaled times ten to the power of -Scale. A nil Unscaled is null.
type Decimal struct {
	Unscaled *big.Int
	Scale    int32
}

// BigDecSerializer encodes a BigDecimal: its unscaled value as a BigInteger, then the i32 scale, which null lacks.
type BigDecSerializer struct{}

// Append appends a decimal or null.
func (BigDecSerializer) Append(dst []byte, v Decimal) []byte {
	dst = BigIntSerializer{}.Append(dst, v.Unscaled)
	if v.Unscaled == nil {
		return dst
	}
	return IntSerializer{}.Append(dst, v.Scale)
}

// Decode reads a decimal or null.
func (BigDecSerializer) Decode(p []byte) (v Decimal, n int, err error) {
	if v.Unscaled, n, err = (BigIntSerializer{}).Decode(p); err != nil || v.Unscaled == nil {
		return v, n, err
	}
	scale, size, err := IntSerializer{}.Decode(p[n:])
	if err != nil {
		return Decimal{}, 0, err
	}
	v.Scale = scale
	return v, n + size, nil
}
