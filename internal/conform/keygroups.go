package conform

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/weirflow/weir/serde"
)

// checkKeyGroup checks a key's hash codes and groups, the ranges of subtasks, or a default maximum.
func checkKeyGroup(v *Vector) error {
	if v.Kind != "Key" && len(v.Hex) > 0 {
		return fmt.Errorf("%s has bytes: %x", v.Kind, v.Hex)
	}
	switch v.Kind {
	case "Ranges":
		return checkRanges(v)
	case "DefaultMaxParallelism":
		var f struct{ Parallelism, MaxParallelism int }
		if err := v.Fields.Decode(&f); err != nil {
			return err
		}
		return same("maxParallelism", f.MaxParallelism, serde.DefaultMaxParallelism(f.Parallelism))
	}
	var f struct {
		Type                 string
		Key                  json.RawMessage
		HashCode, MurmurHash int32
		Assignments          []struct{ MaxParallelism, Parallelism, KeyGroup, OperatorIndex int }
	}
	if err := v.Fields.Decode(&f); err != nil {
		return err
	}
	t, err := resolveType(f.Type)
	if err != nil {
		return err
	}
	key, err := t.parse(f.Key)
	if err != nil {
		return err
	}
	hash, err := hashOf(key)
	if err != nil {
		return err
	}
	errs := []error{
		checkValue(f.Type, f.Key, v.Hex),
		same("hashCode", f.HashCode, hash),
		same("murmurHash", f.MurmurHash, serde.MurmurHash(hash)),
	}
	if f.Type == "String" {
		units, err := parseUnits(f.Key)
		encoded, n, herr := serde.HashEncodedString(v.Hex)
		errs = append(errs, err, herr,
			same("hashCode of the code units", f.HashCode, serde.HashUnits(units)),
			same("hashCode of the encoded string", f.HashCode, encoded),
			same("bytes of the encoded string", len(v.Hex), n))
	}
	for _, a := range f.Assignments {
		what := fmt.Sprintf(" of %d with parallelism %d", a.MaxParallelism, a.Parallelism)
		first, last := serde.KeyGroupRange(a.MaxParallelism, a.Parallelism, a.OperatorIndex)
		errs = append(errs,
			serde.CheckParallelism(a.MaxParallelism, a.Parallelism),
			same("key group"+what, a.KeyGroup, serde.KeyGroup(hash, a.MaxParallelism)),
			same("operator"+what, a.OperatorIndex, serde.OperatorIndex(a.MaxParallelism, a.Parallelism, a.KeyGroup)),
			same("channel"+what, a.OperatorIndex, serde.ChannelOf(hash, a.MaxParallelism, a.Parallelism)),
			same("in its range"+what, true, first <= a.KeyGroup && a.KeyGroup <= last))
	}
	return errors.Join(errs...)
}

func checkRanges(v *Vector) error {
	var f struct {
		MaxParallelism, Parallelism int
		Ranges                      [][2]int
	}
	if err := v.Fields.Decode(&f); err != nil {
		return err
	}
	errs := []error{same("number of ranges", f.Parallelism, len(f.Ranges))}
	for i, want := range f.Ranges {
		first, last := serde.KeyGroupRange(f.MaxParallelism, f.Parallelism, i)
		errs = append(errs, same(fmt.Sprintf("range %d", i), want, [2]int{first, last}))
	}
	return errors.Join(errs...)
}

// hashOf returns the hash code of a parsed key.
func hashOf(key any) (int32, error) {
	switch k := key.(type) {
	case serde.Null[string]:
		if !k.Valid {
			return 0, nil // inside a tuple
		}
		return serde.HashString(k.V), nil
	case struct{}:
		return serde.HashTuple(), nil // Tuple0
	case []any:
		hashes, err := hashesOf(k)
		return serde.HashList(hashes...), err
	case serde.Tuple1[any]:
		return hashTuple(k.F0)
	case serde.Tuple2[any, any]:
		return hashTuple(k.F0, k.F1)
	case serde.Tuple3[any, any, any]:
		return hashTuple(k.F0, k.F1, k.F2)
	}
	return serde.HashAny(key)
}

func hashTuple(fields ...any) (int32, error) {
	hashes, err := hashesOf(fields)
	return serde.HashTuple(hashes...), err
}

func hashesOf(values []any) ([]int32, error) {
	hashes := make([]int32, len(values))
	for i, v := range values {
		var err error
		if hashes[i], err = hashOf(v); err != nil {
			return nil, err
		}
	}
	return hashes, nil
}
