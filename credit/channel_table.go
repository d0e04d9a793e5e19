package credit

import (
	"bytes"
	"encoding/binary"
	"iter"
	"maps"
	"math/bits"
	"slices"
)

// channelTable finds what belongs to a channel's id, for each message of a connection. The one thing it adds to a map is a place for
// each id that its last four bytes say. Our own clients number their channels there, so that ten thousand of them have a place
// each, one beside the other, and finding one costs a comparison. Ids that are random all over, Flink's, share places, and the
// map answers for those that were pushed out. The zero value is empty. It belongs to its connection.
type channelTable[T any] struct {
	all    map[ChannelID]*T
	places []channelPlace[T] // a power of two, at least as many as there are ids; an entry is in all, too
}

type channelPlace[T any] struct {
	id ChannelID
	v  *T // nil: nobody's place
}

const minPlaces = 8

// setChannelNumber gives an id the place n.
func setChannelNumber(id *ChannelID, n uint32) { binary.BigEndian.PutUint32(id[12:], n) }

func (t *channelTable[T]) place(id *ChannelID) *channelPlace[T] {
	return &t.places[binary.BigEndian.Uint32(id[12:])&uint32(len(t.places)-1)]
}

// get returns nil for an id that is not in the table.
func (t *channelTable[T]) get(id *ChannelID) *T {
	if len(t.places) == 0 {
		return nil
	}
	p := t.place(id)
	if p.v != nil && p.id == *id {
		return p.v
	}
	v := t.all[*id]
	if v != nil {
		p.id, p.v = *id, v
	}
	return v
}

// put sets what belongs to an id; v is not nil.
func (t *channelTable[T]) put(id ChannelID, v *T) {
	if t.all == nil {
		t.all = make(map[ChannelID]*T)
	}
	t.all[id] = v
	if len(t.all) > len(t.places) {
		t.places = make([]channelPlace[T], max(minPlaces, 2<<bits.Len(uint(len(t.all)-1))))
	}
	*t.place(&id) = channelPlace[T]{id, v}
}

// remove takes an id out.
func (t *channelTable[T]) remove(id ChannelID) {
	delete(t.all, id)
	if len(t.places) == 0 {
		return
	}
	if p := t.place(&id); p.id == id {
		*p = channelPlace[T]{}
	}
}

func (t *channelTable[T]) len() int { return len(t.all) }

// values yields all in ascending order of their ids, so that what is done for each of them, at the end of a connection, is
// done in the same order in each run. The loop may remove what it got, or others.
func (t *channelTable[T]) values() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		ids := slices.SortedFunc(maps.Keys(t.all), func(a, b ChannelID) int { return bytes.Compare(a[:], b[:]) })
		for _, id := range ids {
			if v := t.all[id]; v != nil && !yield(v) {
				return
			}
		}
	}
}
