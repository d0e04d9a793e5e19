package conform

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/weirflow/weir/serde"
)

// checkType encodes the value of a line and decodes its bytes.
func checkType(v *Vector) error {
	var f struct {
		Type  string
		Value json.RawMessage
	}
	if err := v.Fields.Decode(&f); err != nil {
		return err
	}
	return checkValue(f.Type, f.Value, v.Hex)
}

// checkValue compares both ways between a value and its bytes.
func checkValue(name string, raw json.RawMessage, want []byte) error {
	t, err := resolveType(name)
	if err != nil {
		return err
	}
	value, err := t.parse(raw)
	if err != nil {
		return err
	}
	if r, ok := value.(serde.Row); ok {
		t = typeOf(rowSerializer{len(r.Fields)}, parseRow)
	}
	encoded := t.ser.Append([]byte{0xa5}, value)[1:]
	err = sameBytes("encoded", want, encoded)
	if n, ok := value.(*big.Int); ok && bytes.Equal(want, longBigInt(n)) || hasBig(name) && len(want) > len(encoded) {
		err = nil // 0, 1 and 10 have a second form; that it is no other value is seen below
	}
	decoded, n, derr := t.ser.Decode(append(bytes.Clone(want), 0xa5))
	if derr != nil {
		return errors.Join(err, derr)
	}
	return errors.Join(err,
		same("bytes decoded", len(want), n),
		same("decoded", fmt.Sprint(value), fmt.Sprint(decoded)),
		sameBytes("encoded again", encoded, t.ser.Append(nil, decoded)))
}

// hasBig tells whether there is a BigInteger or a BigDecimal inside of another type, or in a BigDecimal.
func hasBig(name string) bool {
	return name != "BigInteger" && (strings.Contains(name, "BigInteger") || strings.Contains(name, "BigDecimal"))
}

// longBigInt is the form of 0, 1 and 10 that Flink gives those which are not Java's constants.
func longBigInt(n *big.Int) []byte {
	if n == nil || !n.IsUint64() {
		return nil
	}
	switch u := n.Uint64(); u {
	case 0, 1, 10:
		return []byte{0, 0, 0, 5, byte(u)}
	}
	return nil
}
