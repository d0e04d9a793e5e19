package sim

import "encoding/binary"

// How far into a frame cuts are counted: the whole header of a buffer, and the whole of a message about a channel's credit.
const (
	downOffsets = 9 + 38 + 1
	upOffsets   = 9 + 20
)

// cutter finds out where in a frame a stream of bytes is cut. It knows nothing but that a frame begins with its length.
type cutter struct {
	at, length int // bytes of the frame that were seen, and how many it has; 0: its length is not complete
	head       [4]byte
}

// next takes the next piece of the stream, and counts where it ends, if that is in the middle of a frame.
func (c *cutter) next(p []byte, counts []int) {
	for len(p) > 0 {
		if c.length == 0 {
			n := copy(c.head[c.at:], p)
			p, c.at = p[n:], c.at+n
			if c.at < len(c.head) {
				break
			}
			c.length = int(binary.BigEndian.Uint32(c.head[:]))
			continue
		}
		n := min(len(p), c.length-c.at)
		p, c.at = p[n:], c.at+n
		if c.at == c.length {
			c.at, c.length = 0, 0
		}
	}
	if c.at > 0 && c.at < len(counts) {
		counts[c.at]++
	}
}
