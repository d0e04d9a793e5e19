package serde

import (
	"fmt"
	"math/bits"
)

// Key groups (KeyGroupRangeAssignment): a key's hash code is hashed again and falls into one of maxParallelism groups, and
// each subtask owns a range of groups. So state can be given to another number of subtasks without touching a key.

// MaxParallelism is the greatest number of key groups, and of subtasks.
const MaxParallelism = 1 << 15

// CheckParallelism checks that 0 < parallelism <= maxParallelism <= MaxParallelism; an error wraps ErrParallelism. The other
// functions of this file are for such numbers only. They don't panic with others, but mean nothing.
func CheckParallelism(maxParallelism, parallelism int) error {
	if maxParallelism < 1 || maxParallelism > MaxParallelism {
		return fmt.Errorf("%w: %d key groups", ErrParallelism, maxParallelism)
	}
	if parallelism < 1 || parallelism > maxParallelism {
		return fmt.Errorf("%w: %d, with %d key groups", ErrParallelism, parallelism, maxParallelism)
	}
	return nil
}

// DefaultMaxParallelism returns the number of key groups that Flink picks for an operator with parallelism subtasks:
// half as many again, rounded up to a power of two, between 128 and MaxParallelism.
func DefaultMaxParallelism(parallelism int) int {
	if parallelism < 1 {
		parallelism = 1
	}
	if parallelism >= MaxParallelism {
		return MaxParallelism
	}
	n := parallelism + parallelism/2
	return min(max(1<<bits.Len(uint(n-1)), 128), MaxParallelism)
}

// MurmurHash spreads a hash code; the result is never negative (MathUtils#murmurHash).
func MurmurHash(code int32) int32 {
	x := uint32(code)
	x *= 0xcc9e2d51
	x = bits.RotateLeft32(x, 15)
	x *= 0x1b873593
	x = bits.RotateLeft32(x, 13)
	x = x*5 + 0xe6546b64
	x ^= 4
	x ^= x >> 16
	x *= 0x85ebca6b
	x ^= x >> 13
	x *= 0xc2b2ae35
	x ^= x >> 16
	if v := int32(x); v >= 0 {
		return v
	} else if v != -1<<31 {
		return -v
	}
	return 0
}

// KeyGroup returns the key group of a key with the given hash code.
func KeyGroup(hash int32, maxParallelism int) int {
	if maxParallelism < 1 {
		return 0
	}
	return int(MurmurHash(hash)) % maxParallelism
}

// OperatorIndex returns the subtask that owns a key group.
func OperatorIndex(maxParallelism, parallelism, keyGroup int) int {
	if maxParallelism < 1 {
		return 0
	}
	return keyGroup * parallelism / maxParallelism
}

// ChannelOf returns the channel, that is the subtask, for a key with the given hash code.
func ChannelOf(hash int32, maxParallelism, parallelism int) int {
	return OperatorIndex(maxParallelism, parallelism, KeyGroup(hash, maxParallelism))
}

// KeyGroupRange returns the first and the last key group of a subtask.
func KeyGroupRange(maxParallelism, parallelism, operator int) (first, last int) {
	if parallelism < 1 {
		return 0, 0
	}
	first = (operator*maxParallelism + parallelism - 1) / parallelism
	last = ((operator+1)*maxParallelism - 1) / parallelism
	return first, last
}
