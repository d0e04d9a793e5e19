package align

import (
	"fmt"

	"github.com/weirflow/weir/segment"
)

// Store keeps what arrives on blocked channels during one alignment (Flink 1.8: BufferBlocker). It belongs to one
// goroutine.
type Store interface {
	// Add keeps an item. It takes over b's reference, also when it fails.
	Add(channel int, b segment.Buffer) error
	// Bytes is what the items added since the last RollOver count for.
	Bytes() int64
	// RollOver hands out what was added since the last one, in order, and begins anew; nil if nothing was. With shared
	// the sequence may use a read buffer together with other such sequences: only one of them may be read at a time.
	RollOver(shared bool) (Sequence, error)
	// Close gives everything back that was not rolled over.
	Close() error
}

// Sequence is what one alignment stored, to be read once, in order (Flink 1.8: BufferOrEventSequence).
type Sequence interface {
	// Open gets ready to be read; it has an effect only the first time.
	Open() error
	// Next hands out the next item; the caller owns its reference. ok is false at the end.
	Next() (channel int, b segment.Buffer, ok bool, err error)
	// Size is the sum of what all its items count for, read or not.
	Size() int64
	// Close gives back what was not read.
	Close() error
}

// memoryStore keeps items as they are. Its memory is bounded by the senders' credit: what is kept here is not granted
// again. (Flink 1.8: CachedBufferBlocker)
type memoryStore struct {
	page  int64
	items []storedItem
	bytes int64
}

type storedItem struct {
	channel int
	buf     segment.Buffer
}

// NewMemoryStore makes a store in memory. Each item counts for a whole page of pageSize bytes, whatever its size.
func NewMemoryStore(pageSize int) (Store, error) {
	if pageSize <= 0 {
		return nil, fmt.Errorf("%w: page size %d", ErrConfig, pageSize)
	}
	return &memoryStore{page: int64(pageSize)}, nil
}

func (s *memoryStore) Add(channel int, b segment.Buffer) error {
	s.items = append(s.items, storedItem{channel, b})
	s.bytes += s.page
	return nil
}

func (s *memoryStore) Bytes() int64 { return s.bytes }

func (s *memoryStore) RollOver(bool) (Sequence, error) {
	if s.bytes == 0 {
		return nil, nil
	}
	seq := &memorySequence{items: s.items, size: s.bytes}
	s.items, s.bytes = nil, 0
	return seq, nil
}

func (s *memoryStore) Close() error {
	for _, it := range s.items {
		it.buf.Release()
	}
	s.items, s.bytes = nil, 0
	return nil
}

type memorySequence struct {
	items []storedItem
	at    int
	size  int64
}

func (s *memorySequence) Open() error { return nil }

func (s *memorySequence) Next() (int, segment.Buffer, bool, error) {
	if s.at == len(s.items) {
		return 0, segment.Buffer{}, false, nil
	}
	it := s.items[s.at]
	s.items[s.at] = storedItem{}
	s.at++
	return it.channel, it.buf, true, nil
}

func (s *memorySequence) Size() int64 { return s.size }

func (s *memorySequence) Close() error {
	for _, it := range s.items[s.at:] {
		it.buf.Release()
	}
	s.items, s.at = nil, 0
	return nil
}
