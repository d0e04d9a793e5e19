package serde

import (
	"errors"
	"fmt"
	"math/rand/v2"
)

// AllSubpartitions is what a selector returns for a record that goes to each
// subpartition: write it with [RecordWriter.Broadcast].
const AllSubpartitions = -1

// maxSubpartitions is Flink's bound of a parallelism.
const maxSubpartitions = 1 << 15

// ErrParallelism: a number of subpartitions or key groups that Flink does not
// allow.
var ErrParallelism = errors.New("serde: operator parallelism not within bounds")

// Selector chooses the subpartition of a record (Flink: ChannelSelector).
// Selectors are value types used as type parameters; those with a state have
// pointer methods. One belongs to one writer.
type Selector[T any] interface {
	// Select returns a subpartition, or AllSubpartitions.
	Select(rec T) int
}

// Emit writes rec where s says. Errors are those of [RecordWriter.WriteRecord].
// On [ErrFull] the selector has moved on already: to keep a record where it
// belongs, select once and call WriteRecord again.
func Emit[S Selector[[]byte], O Output](w *RecordWriter[O], s S, rec []byte) error {
	sub := s.Select(rec)
	if sub == AllSubpartitions {
		return w.Broadcast(rec)
	}
	return w.WriteRecord(sub, rec)
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
	if n < 1 || n > maxSubpartitions {
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
	if n < 1 || n > maxSubpartitions {
		return ShufflePartitioner[T]{}, errParallelism(n)
	}
	if random == nil {
		random = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	return ShufflePartitioner[T]{n: n, random: random}, nil
}

// Select returns a random subpartition.
func (p ShufflePartitioner[T]) Select(T) int { return p.random.IntN(p.n) }

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
