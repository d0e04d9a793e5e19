package main

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sort"

	"github.com/weirflow/weir"
)

// The figures of a script; Script.java has the same.
const (
	barriers     = 12
	burst        = 120
	burstSize    = 20_000
	giant        = 20_000_000
	halfGiant    = 6_000_000
	shortTimeout = 30 // ms
	longTimeout  = 60_000
)

// kind is how a partition is kept: Kind.java is the same in Java.
type kind string

const (
	pipelined kind = "PIPELINED"
	blocking  kind = "BLOCKING"
	lz4       kind = "LZ4"
	zstd      kind = "ZSTD"
)

// isBlocking: the only ones that Flink compresses.
func (k kind) isBlocking() bool { return k != pipelined }

// codec is weir's name for how a blocking partition is compressed.
func (k kind) codec() weir.Codec {
	switch k {
	case lz4:
		return weir.LZ4
	case zstd:
		return weir.ZSTD
	default:
		return weir.NoCompression
	}
}

// How barrier b is sent: b % 4.
const (
	aligned = iota
	timedLong
	timedShort
	unaligned
)

// script is what is sent, element by element, computed from a seed at either end: Script.java is the same in Java. Each round gives
// every channel a record. Before a barrier one channel gets a burst of larger records; then all get a watermark, then the barrier
// follows. Blocking partitions get no barriers, and records that can be compressed.
type script struct {
	seed     int64
	channels int
	rounds   int
	kind     kind
	// elements, by channel: the record's size, or -1-t for a watermark of time t.
	elements [][]int
	// offsets, by channel and element: where its bytes begin; one more at the end.
	offsets [][]int64
	// pauses, by channel and element: how many ms its reader sleeps before it goes on.
	pauses []map[int]int
	// before, by barrier and channel: the number of elements before it.
	before [barriers][]int
	// barrierAfter, by round: the barrier behind it, or -1.
	barrierAfter   []int
	watermarkAfter []bool
}

func newScript(seed int64, channels, rounds int, k kind) *script {
	s := &script{
		seed: seed, channels: channels, rounds: rounds, kind: k,
		elements: make([][]int, channels), offsets: make([][]int64, channels), pauses: make([]map[int]int, channels),
		barrierAfter: make([]int, rounds), watermarkAfter: make([]bool, rounds),
	}
	for r := range s.barrierAfter {
		s.barrierAfter[r] = -1
	}
	for b := 0; b < barriers && !k.isBlocking(); b++ {
		s.barrierAfter[(b+1)*rounds/(barriers+1)-1] = b
	}
	every := max(1, rounds/40)
	for c := range channels {
		s.pauses[c] = map[int]int{}
	}
	for r := range rounds {
		b := s.barrierAfter[r]
		s.watermarkAfter[r] = (r+1)%every == 0 || b >= 0
		for c := range channels {
			if r == rounds/2 && c == channels-1 {
				s.add(c, giant)
			} else {
				s.add(c, s.size(c, len(s.elements[c])))
			}
		}
		if b >= 0 {
			s.burst(b)
		}
		for c := 0; s.watermarkAfter[r] && c < channels; c++ {
			s.add(c, -1-r)
		}
		for c := 0; b >= 0 && c < channels; c++ {
			s.before[b] = append(s.before[b], len(s.elements[c]))
		}
	}
	for c, els := range s.elements {
		s.offsets[c] = make([]int64, len(els)+1)
		for e := range els {
			s.offsets[c][e+1] = s.offsets[c][e] + int64(s.length(c, e))
		}
	}
	return s
}

func (s *script) add(c, element int) { s.elements[c] = append(s.elements[c], element) }

// burstChannel is the channel that has the burst before barrier b.
func (s *script) burstChannel(b int) int { return b * 7 % s.channels }

// burstLength is the number of its records: the last ones are huge for some barriers.
func (s *script) burstLength(b int) int {
	if b == 3 || b == 6 {
		return burst + 1
	}
	return burst
}

func (s *script) burst(b int) {
	c := s.burstChannel(b)
	for i := range burst {
		if slow := b%4 >= timedShort; slow && i == 0 {
			s.pauses[c][len(s.elements[c])] = 100
		} else if slow && i >= burst-40 {
			s.pauses[c][len(s.elements[c])] = 4
		}
		s.add(c, burstSize)
	}
	switch b {
	case 3:
		s.add(c, giant)
	case 6:
		s.add(c, halfGiant)
	}
}

func mix(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

func (s *script) mix(c, e int) uint64 { return mix(mix(uint64(s.seed)) ^ uint64(c)<<32 ^ uint64(e)) }

func (s *script) size(c, e int) int {
	h := s.mix(c, e)
	v := func(n uint64) int { return int((h >> 10) % n) }
	switch pick := h & 1023; {
	case pick < 128:
		return 0
	case pick < 256:
		return 1 + v(8)
	case pick < 900:
		return 1 + v(200)
	case pick < 1010:
		return v(4000)
	case pick < 1020:
		return 32768 - 24 + v(32) // around the end of a buffer
	case pick < 1023:
		return v(100_000)
	default:
		return v(1_000_000)
	}
}

func (s *script) isRecord(c, e int) bool { return s.elements[c][e] >= 0 }

// hasTimestamp: every third record has one, the number of its element.
func (s *script) hasTimestamp(e int) bool { return e%3 == 0 }

// length is the number of bytes that an element takes in a channel, with its length.
func (s *script) length(c, e int) int {
	size := s.elements[c][e]
	switch {
	case size < 0:
		return 13
	case s.hasTimestamp(e):
		return 17 + size
	}
	return 9 + size
}

// content appends a record's bytes.
func (s *script) content(dst []byte, c, e int) []byte {
	size := s.elements[c][e]
	dst = slices.Grow(dst, size)
	at := len(dst)
	dst = dst[:at+size]
	p := dst[at:]
	x := s.mix(c, e) ^ 0x6A09E667F3BCC908
	repeat := 1
	if s.kind.isBlocking() {
		repeat = 8
	}
	for i := 0; len(p) >= 8; i, p = i+1, p[8:] {
		if i%repeat == 0 {
			x = x*6364136223846793005 + 1442695040888963407
		}
		binary.LittleEndian.PutUint64(p, x^x>>32)
	}
	x = x*6364136223846793005 + 1442695040888963407
	x ^= x >> 32
	for i := range p {
		p[i] = byte(x)
		x >>= 8
	}
	return dst
}

// serialized appends an element as it is in buffers.
func (s *script) serialized(dst []byte, c, e int) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(s.length(c, e)-4))
	switch {
	case !s.isRecord(c, e):
		return binary.BigEndian.AppendUint64(append(dst, 2), uint64(-1-s.elements[c][e]))
	case s.hasTimestamp(e):
		dst = binary.BigEndian.AppendUint64(append(dst, 0), uint64(e))
	default:
		dst = append(dst, 1)
	}
	return s.content(binary.BigEndian.AppendUint32(dst, uint32(s.elements[c][e])), c, e)
}

// matches tells whether p is a channel's bytes from position on.
func (s *script) matches(c int, position int64, p []byte) bool {
	off := s.offsets[c]
	if position < 0 || position+int64(len(p)) > off[len(off)-1] {
		return false
	}
	if len(p) == 0 {
		return true
	}
	e := sort.Search(len(off), func(i int) bool { return off[i] > position }) - 1
	skip := int(position - off[e])
	var scratch []byte
	for ; len(p) > 0; e++ {
		scratch = s.serialized(scratch[:0], c, e)
		want := scratch[skip:]
		skip = 0
		n := min(len(want), len(p))
		if !bytes.Equal(want[:n], p[:n]) {
			return false
		}
		p = p[n:]
	}
	return true
}
