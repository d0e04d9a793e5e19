package align

import (
	"fmt"
	"math/bits"
	"sort"
)

// Channels numbers the channels of all gates of a task from 0 on: first those of gate 0, then those of gate 1, and so
// on. Handlers know only these flat numbers. A gate may have no channel at all. The zero value has no gates.
type Channels struct {
	first []int // first[g] is the flat number of gate g's channel 0; one element more than gates
}

// NewChannels makes the numbering for gates with the given numbers of channels.
// A negative number, or more than 2³¹−1 channels together, is an error that wraps ErrConfig.
func NewChannels(counts ...int) (Channels, error) {
	first := make([]int, len(counts)+1)
	for g, n := range counts {
		if n < 0 || n > 1<<31-1-first[g] {
			return Channels{}, fmt.Errorf("%w: gate %d has %d channels", ErrConfig, g, n)
		}
		first[g+1] = first[g] + n
	}
	return Channels{first: first}, nil
}

// Gates is the number of gates.
func (c Channels) Gates() int { return max(0, len(c.first)-1) }

// Len is the number of channels of all gates.
func (c Channels) Len() int {
	if len(c.first) == 0 {
		return 0
	}
	return c.first[len(c.first)-1]
}

// In is the number of channels of one gate, 0 for a gate that there is not.
func (c Channels) In(gate int) int {
	if gate < 0 || gate >= c.Gates() {
		return 0
	}
	return c.first[gate+1] - c.first[gate]
}

// Flat is the flat number of a channel of a gate. The error wraps ErrUnknownChannel.
func (c Channels) Flat(gate, channel int) (int, error) {
	if channel < 0 || channel >= c.In(gate) {
		return 0, fmt.Errorf("%w: gate %d, channel %d", ErrUnknownChannel, gate, channel)
	}
	return c.first[gate] + channel, nil
}

// Split is the inverse of Flat. The error wraps ErrUnknownChannel.
func (c Channels) Split(flat int) (gate, channel int, err error) {
	if flat < 0 || flat >= c.Len() {
		return 0, 0, fmt.Errorf("%w: %d of %d", ErrUnknownChannel, flat, c.Len())
	}
	if len(c.first) == 2 { // by far the most common: one gate
		return 0, flat, nil
	}
	// The first gate that begins behind flat; the one before it holds flat. Empty gates are passed over.
	gate = sort.Search(len(c.first), func(g int) bool { return c.first[g] > flat }) - 1
	return gate, flat - c.first[gate], nil
}

// channelSet is a set of flat channel numbers with a count. It is made once with room for all and allocates no more.
type channelSet struct {
	words []uint64
	n     int
}

func newChannelSet(channels int) channelSet {
	return channelSet{words: make([]uint64, (channels+63)/64)}
}

// add reports whether ch was not in the set before.
func (s *channelSet) add(ch int) bool {
	w, m := ch>>6, uint64(1)<<(ch&63)
	if s.words[w]&m != 0 {
		return false
	}
	s.words[w] |= m
	s.n++
	return true
}

func (s *channelSet) remove(ch int) {
	w, m := ch>>6, uint64(1)<<(ch&63)
	if s.words[w]&m != 0 {
		s.words[w] &^= m
		s.n--
	}
}

func (s *channelSet) has(ch int) bool { return s.words[ch>>6]&(1<<(ch&63)) != 0 }

func (s *channelSet) clear() {
	if s.n > 0 {
		clear(s.words)
		s.n = 0
	}
}

// next is the smallest member that is at least from, or -1.
func (s *channelSet) next(from int) int {
	if s.n == 0 {
		return -1
	}
	for w := from >> 6; w < len(s.words); w++ {
		word := s.words[w]
		if w == from>>6 {
			word &= ^uint64(0) << (from & 63)
		}
		if word != 0 {
			return w<<6 + bits.TrailingZeros64(word)
		}
	}
	return -1
}
