package serde

import (
	"errors"
	"fmt"
	"math/rand/v2"
)

// AllSubpartitions is what a selector returns for a record that goes to each
// subpartition. A [RecordWriter] takes it in place of one.
const AllSubpartitions = -1

// ErrParallelism is wrapped by errors about numbers of subtasks, subpartitions
// or key groups that are out of bounds.
var ErrParallelism = errors.New("Operator parallelism not within bounds") //nolint:staticcheck // Flink's words

// Selector chooses the subpartition of a record (Flink: ChannelSelector).
// Selectors are value types used as type parameters; those with a state have
// pointer methods. One belongs to one writer.
type Selector[T any] interface {
	// Select returns a subpartition, or AllSubpartitions. Ask once a record: a
	// writer that has no room is asked again, the selector is not.
	Select(rec T) int
}

// ForwardPartitioner sends everything to the one subpartition of a pointwise
// edge of equal parallelism (Flink: ForwardPartitioner).
type ForwardPartitioner[T any] struct{}

// Select returns 0.
func (ForwardPartitioner[T]) Select(T) int { return 0 }

// GlobalPartitioner sends everything to the first consumer (Flink:
// GlobalPartitioner).
type GlobalPartitioner[T any] struct{}

// Select returns 0.
func (GlobalPartitioner[T]) Select(T) int { return 0 }

// BroadcastPartitioner sends everything to each consumer (Flink:
// BroadcastPartitioner).
type BroadcastPartitioner[T any] struct{}

// Select returns AllSubpartitions.
func (BroadcastPartitioner[T]) Select(T) int { return AllSubpartitions }

// RoundRobin goes through the subpartitions in turn. Its forms differ in where
// they start.
type RoundRobin[T any] struct {
	next, n int
}

// NewRescalePartitioner starts at subpartition 0 (Flink: RescalePartitioner,
// and RoundRobinChannelSelector, which is a writer's default).
func NewRescalePartitioner[T any](n int) (RoundRobin[T], error) {
	return newRoundRobin[T](0, n)
}

// NewRebalancePartitioner starts behind a random one, so that many producers
// do not all begin with the same consumer (Flink: RebalancePartitioner). random
// returns a number below its argument; nil is math/rand/v2.
func NewRebalancePartitioner[T any](n int, random func(n int) int) (RoundRobin[T], error) {
	if n < 1 {
		return RoundRobin[T]{}, errParallelism(n)
	}
	if random == nil {
		random = rand.IntN
	}
	return newRoundRobin[T]((random(n)+1)%n, n)
}

func newRoundRobin[T any](next, n int) (RoundRobin[T], error) {
	if n < 1 || n > MaxParallelism {
		return RoundRobin[T]{}, errParallelism(n)
	}
	return RoundRobin[T]{next: next, n: n}, nil
}

// Select returns the next subpartition.
func (p *RoundRobin[T]) Select(T) int {
	sub := p.next
	if p.next++; p.next >= p.n {
		p.next = 0
	}
	return sub
}

// ShufflePartitioner chooses at random for each record (Flink:
// ShufflePartitioner).
type ShufflePartitioner[T any] struct {
	n      int
	random *rand.Rand
}

// NewShufflePartitioner returns one for n subpartitions. random nil: seeded by
// the runtime.
func NewShufflePartitioner[T any](n int, random *rand.Rand) (ShufflePartitioner[T], error) {
	if n < 1 || n > MaxParallelism {
		return ShufflePartitioner[T]{}, errParallelism(n)
	}
	if random == nil {
		random = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	return ShufflePartitioner[T]{n: n, random: random}, nil
}

// Select returns a random subpartition.
func (p ShufflePartitioner[T]) Select(T) int { return p.random.IntN(p.n) }

// KeyHasher gives the Java hash code of a record's key. Implementations are
// value types used as type parameters; see HashString and its kin.
type KeyHasher[T any] interface {
	KeyHash(rec T) int32
}

// KeyHashFunc makes a KeyHasher of a function, at the price of an indirect call.
type KeyHashFunc[T any] func(rec T) int32

// KeyHash calls f.
func (f KeyHashFunc[T]) KeyHash(rec T) int32 { return f(rec) }

// KeyGroupPartitioner sends all records of a key to the subtask that owns the
// key's group (Flink: KeyGroupStreamPartitioner, named HASH).
type KeyGroupPartitioner[T any, H KeyHasher[T]] struct {
	hasher H
	owner  []uint16 // of each key group; its length is the number of key groups
	mask   uint32   // length - 1 if that is a power of two, as it is by default; else 0
}

// NewKeyGroupPartitioner returns one for n subpartitions, one a subtask of the
// consumer, which has maxParallelism key groups. An error wraps [ErrParallelism].
func NewKeyGroupPartitioner[T any, H KeyHasher[T]](hasher H, maxParallelism, n int) (KeyGroupPartitioner[T, H], error) {
	p := KeyGroupPartitioner[T, H]{hasher: hasher}
	if err := CheckParallelism(maxParallelism, n); err != nil {
		return p, err
	}
	p.owner = make([]uint16, maxParallelism)
	for group := range p.owner {
		p.owner[group] = uint16(OperatorIndex(maxParallelism, n, group))
	}
	if maxParallelism&(maxParallelism-1) == 0 {
		p.mask = uint32(maxParallelism - 1)
	}
	return p, nil
}

// Select returns the subtask that owns the key's group. The zero
// KeyGroupPartitioner, which has no groups, returns 0.
func (p KeyGroupPartitioner[T, H]) Select(rec T) int {
	group := uint32(MurmurHash(p.hasher.KeyHash(rec)))
	if p.mask != 0 {
		group &= p.mask
	} else if n := uint32(len(p.owner)); n != 0 {
		group %= n
	}
	if int(group) < len(p.owner) {
		return int(p.owner[group])
	}
	return 0
}

// CustomPartitioner lets the user's function choose by a key (Flink:
// CustomPartitionerWrapper). What it returns is not checked here; the writer
// refuses a subpartition that does not exist.
type CustomPartitioner[T, K any] struct {
	// N is the number of subpartitions, Key extracts the key, Partition maps it
	// to 0..N-1.
	N         int
	Key       func(rec T) K
	Partition func(key K, n int) int
}

// Select asks the user's functions.
func (p CustomPartitioner[T, K]) Select(rec T) int { return p.Partition(p.Key(rec), p.N) }

func errParallelism(n int) error { return fmt.Errorf("%w: %d", ErrParallelism, n) }
