package inspect

import (
	"bytes"
	"encoding/binary"

	"github.com/weirflow/weir/credit"
)

// magic is what every frame has behind its length.
var magic = binary.BigEndian.AppendUint32(nil, credit.Magic)

// find looks for something that looks like the head of a frame: a length, the magic number, a message. -1: there is none; the
// last FrameHeaderLen-1 bytes may still begin one.
func find(p []byte, legal func(credit.MessageID) bool) int {
	for at := 0; ; at++ {
		i := bytes.Index(p[at:], magic)
		if i < 0 {
			return -1
		}
		at += i
		if at < 4 || at+4 >= len(p) {
			continue
		}
		if n := binary.BigEndian.Uint32(p[at-4:]); n >= credit.FrameHeaderLen && n <= 1<<31-1 && legal(credit.MessageID(p[at+4])) {
			return at - 4
		}
	}
}

// goes returns which messages go in a direction.
func goes(dir Dir) func(credit.MessageID) bool {
	return func(m credit.MessageID) bool { return m <= credit.MsgSegmentID && m.ToClient() == (dir == ToClient) }
}

// begin takes bytes of a direction whose first frame was not found yet. It returns the bytes from the frame on, nil if more
// must come.
func (s *Session) begin(dir Dir, p []byte) ([]byte, error) {
	h := &s.half[dir]
	h.head = append(h.head, p...)
	if h.mode == sniff {
		if len(h.head) < credit.FrameHeaderLen {
			return nil, nil
		}
		if !bytes.Equal(h.head[4:8], magic) {
			s.foreign = bytes.Clone(h.head[:8])
			return nil, nil
		}
		return h.head, nil
	}
	at := find(h.head, goes(dir))
	if at < 0 {
		h.head = append(h.head[:0], h.head[max(0, len(h.head)-credit.FrameHeaderLen+1):]...)
		return nil, nil
	}
	skipped := h.fed - int64(len(h.head)-at) - h.base
	h.head = h.head[at:]
	return h.head, s.note("%s: a frame was found at byte %d; the %d bytes before it are not shown", dir, h.base+skipped, skipped)
}
