package credit

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weirflow/weir/internal/alloctest"
	"github.com/weirflow/weir/internal/buildtag"
	"github.com/weirflow/weir/segment"
)

// landRig is a receiver whose messages are all of one size, in windows that take the whole pool.
func landRig(t testing.TB, channels, exclusive int, profile Profile) *rig {
	return newRig(t, rigConfig{channels: channels, exclusive: exclusive, segment: landLeast,
		client: ClientConfig{Decoder: DecoderConfig{Profile: profile}}})
}

// filled is a message with n bytes, all v. The channel may be one that there is not.
func (r *rig) filled(ch, n int, v byte) []byte {
	h := BufferHeader{Receiver: rigID(ch), Type: segment.DataBuffer, Size: int32(n)}
	if ch < len(r.seq) {
		h.Seq = r.next(ch)
	}
	return AppendBufferResponse(nil, r.core.decoder.cfg.Profile, &h, bytes.Repeat([]byte{v}, n))
}

// learn shows the receiver a full message, and gives it back.
func (r *rig) learn() {
	r.t.Helper()
	r.feed(r.filled(0, landLeast, 0))
	b := r.take()
	b.Release()
	r.pump()
	r.wire.buf = r.wire.buf[:0]
}

// arrive lets p arrive in pieces, as one read; it returns the pieces that there were.
func (r *rig) arrive(p []byte, room int) (pieces [][]byte) {
	r.t.Helper()
	pieces = slices.Clone(r.core.Land(room))
	n := 0
	for _, q := range pieces {
		n += copy(q, p[n:])
	}
	if len(pieces) > 0 {
		if err := r.core.Landed(n, make([]byte, n)); err != nil {
			r.t.Fatal(err)
		}
	}
	if n < len(p) {
		if err := r.core.Feed(p[n:]); err != nil {
			r.t.Fatal(err)
		}
	}
	return pieces
}

func lengths(pieces [][]byte) (n []int) {
	for _, p := range pieces {
		n = append(n, len(p))
	}
	return n
}

func inUse(r *rig) int { return r.recv.Local().Stats().InUse }

// Wherever a read ends, the next one goes on there, and each payload lies where it was read to.
func TestLandGoesOn(t *testing.T) {
	for _, profile := range []Profile{Flink23, Flink120} {
		head := FrameHeaderLen + profile.headerLen()
		for _, cut := range []int{1, 8, 9, 10, head - 1, head, head + 1, head + 5000, head + landLeast - 1, head + landLeast} {
			r := landRig(t, 1, 2, profile)
			r.learn()
			a, b := r.filled(0, landLeast, 'a'), r.filled(0, landLeast, 'b')
			first := r.arrive(a[:cut], 100_000)
			if want := []int{head, landLeast, head, landLeast}; !slices.Equal(lengths(first), want) {
				t.Fatalf("pieces of %v bytes, want %v", lengths(first), want)
			}
			second := r.arrive(append(a[cut:], b...), 100_000)
			want, atA, atB := []int{head - cut, landLeast, head, landLeast}, 1, 3
			switch {
			case cut == head+landLeast: // that it is all here
				want, atB = []int{head, landLeast}, 1
			case cut > head:
				want, atB = []int{head + landLeast - cut, head, landLeast}, 2
			case cut == head:
				want, atB = []int{landLeast, head, landLeast}, 2
			}
			if !slices.Equal(lengths(second), want) {
				t.Fatalf("%s, cut at %d: pieces of %v bytes, want %v", profile, cut, lengths(second), want)
			}
			r.pump()
			memory := [2]*byte{&second[atA][0], &second[atB][0]}
			if cut >= head {
				memory[0] = &first[1][0]
			}
			for i, v := range "ab" {
				got := r.take()
				if p := got.Bytes(); !bytes.Equal(p, bytes.Repeat([]byte{byte(v)}, landLeast)) {
					t.Fatalf("cut at %d: message %d is wrong", cut, i)
				} else if &p[0] != memory[i] {
					t.Fatalf("cut at %d: message %d was copied", cut, i)
				}
				got.Release()
			}
			r.pump()
		}
	}
}

// Who feeds and who lands lets the gate see it at once.
func TestLandedIsSeen(t *testing.T) {
	r := landRig(t, 1, 2, Flink23)
	r.learn()
	if pieces := r.arrive(r.filled(0, landLeast, 'a'), 100_000); len(pieces) != 4 {
		t.Fatal(lengths(pieces))
	}
	if r.gate.Fill() != 1 {
		t.Fatal("the gate does not see what came")
	}
	r.take().Release()
	r.pump()
}

// What bounds the pieces: the room, the credit, a number; and what there are none for.
func TestLandBounds(t *testing.T) {
	const head, full = FrameHeaderLen + 38, FrameHeaderLen + 38 + landLeast
	land := func(r *rig, room int) (segments int) {
		t.Helper()
		before := inUse(r)
		pieces := r.core.Land(room)
		segments = len(pieces) / 2
		if got := inUse(r) - before; got != segments {
			t.Fatalf("%d segments lent for %d pieces", got, len(pieces))
		}
		if len(pieces) > 0 {
			if err := r.core.Landed(0, nil); err != nil {
				t.Fatal(err)
			}
		}
		if got := inUse(r); got != before {
			t.Fatalf("%d segments in use, %d before", got, before)
		}
		return segments
	}
	r := landRig(t, 2, 20, Flink23)
	if n := land(r, 1<<20); n != 0 {
		t.Fatalf("%d segments before anything came", n)
	}
	r.learn()
	for room, want := range map[int]int{0: 0, full - 1: 0, full: 1, 2*full - 1: 1, 2 * full: 2, 1 << 20: landMost} {
		if n := land(r, room); n != want {
			t.Fatalf("%d segments in %d bytes, want %d", n, room, want)
		}
	}

	// Only the outstanding credit counts.
	for i := range 2*20 - 3 {
		r.feed(r.filled(i%2, landLeast, 0))
	}
	out := r.core.outstanding
	if out >= landMost || out == 0 {
		t.Fatalf("%d outstanding: the case does not happen", out)
	}
	for range 3 { // not yet announced
		r.take().Release()
	}
	r.port.Poll()
	if n := land(r, 1<<20); n != out {
		t.Fatalf("%d segments with %d outstanding", n, out)
	}
	for r.poll() != "none" {
	}

	// An event says nothing about data.
	r.event(0, aligned(1))
	if n := land(r, full); n != 1 {
		t.Fatal("nothing is expected after an event")
	}
	if err := r.gate.Resume(0); r.poll() == "none" || err != nil {
		t.Fatal(err)
	}

	// In the middle of a message that is another one, of one that is skipped, and of one that does not fit there are none.
	for name, p := range map[string][]byte{
		"announcement": AppendBacklogAnnouncement(nil, rigID(1), 3),
		"skipped":      r.filled(7, landLeast, 0),
		"large":        r.filled(1, landLeast, 0),
	} {
		at := len(p) - 10
		if err := r.core.Feed(p[:at]); err != nil {
			t.Fatal(err)
		}
		room := 1 << 20
		if name == "large" {
			room = 9
		}
		if n := len(r.core.Land(room)); n != 0 {
			t.Fatalf("%s: %d pieces", name, n)
		}
		if err := r.core.Feed(p[at:]); err != nil {
			t.Fatal(err)
		}
		r.pump()
	}
	r.take().Release()
	r.pump()

	// What is small is copied.
	r.feed(r.filled(0, landLeast-1, 0))
	r.take().Release()
	r.pump()
	if n := land(r, 1<<20); n != 0 {
		t.Fatalf("%d segments for %d bytes", n, landLeast-1)
	}
	r.learn()
	r.core.Fail(errors.New("over"))
	if n := land(r, 1<<20); n != 0 {
		t.Fatalf("%d segments after the end", n)
	}
}

// Messages of channels that nobody has may be as large as the decoder lets them be, which is more than a segment where segments are
// small and DecoderConfig.MaxBuffer is what it is as it comes. Nothing can be landed by their measure.
func TestLandLargerThanSegment(t *testing.T) {
	r := landRig(t, 1, 4, Flink23)
	r.core.decoder.cfg.MaxBuffer = 4 * landLeast
	for _, size := range []int{landLeast + 1, 4 * landLeast} {
		r.learn()
		r.feed(r.filled(7, size, 0))
		if got := r.core.landing.last; got != size {
			t.Fatalf("the last message had %d bytes, want %d: the case does not happen", got, size)
		}
		if n := len(r.core.Land(1 << 20)); n != 0 || inUse(r) != 0 {
			t.Fatalf("%d pieces and %d segments for messages of %d bytes", n, inUse(r), size)
		}
		r.learn()
		if n := len(r.arrive(r.filled(0, landLeast, 'z'), 1<<20)); n == 0 {
			t.Fatal("no pieces for messages that fit again")
		}
		r.pump()
		if got := r.poll(); got != "0:"+strings.Repeat("z", landLeast) {
			t.Fatalf("%.50s", got)
		}
	}
}

// With each miss in a row twice as many reads do without, up to landPause; a hit begins anew.
func TestLandPauses(t *testing.T) {
	r := landRig(t, 1, 4, Flink23)
	miss := func(want int) {
		t.Helper()
		if n := len(r.arrive(slices.Concat(r.filled(0, 100, 'x'), r.filled(0, landLeast, 'y')), 100_000)); n == 0 {
			t.Fatal("no pieces")
		}
		r.pump()
		if got := r.poll(); got != "0:"+strings.Repeat("x", 100) {
			t.Fatalf("%.50s", got)
		}
		if got := r.poll(); got != "0:"+strings.Repeat("y", landLeast) {
			t.Fatalf("%.50s", got)
		}
		for i := range want {
			if r.core.Land(100_000) != nil {
				t.Fatalf("pieces for read %d of a pause of %d", i, want)
			}
		}
	}
	r.learn()
	for _, pause := range []int{1, 2, 4, 8, 16, 32, landPause, landPause, landPause} {
		miss(pause)
	}
	r.arrive(r.filled(0, landLeast, 'z'), 100_000)
	r.pump()
	r.take().Release()
	r.pump()
	miss(1)
	if n := len(r.core.Land(100_000)); n == 0 {
		t.Fatal("no pieces after the pause")
	}
	if err := r.core.Landed(0, nil); err != nil {
		t.Fatal(err)
	}
}

// Errors in what was read into segments: in the head, in what is decoded from the spill, and of the connection before.
func TestLandErrors(t *testing.T) {
	for name, want := range map[string]error{"magic": ErrBadMagic, "spill": ErrBadMagic, "length": ErrFrameLength, "failed": errUnit} {
		r := landRig(t, 1, 4, Flink23)
		r.learn()
		good, bad := r.filled(0, landLeast, 'a'), r.filled(0, landLeast, 'b')
		var spill []byte
		switch name {
		case "spill":
			good = append(good, r.filled(0, 100, 'c')...)
			fallthrough
		case "magic":
			bad[4]++
		case "length":
			bad[3]++
		}
		p := slices.Concat(good, bad)
		n := 0
		for _, q := range r.core.Land(1 << 20) {
			n += copy(q, p[n:])
		}
		if inUse(r) != 4 {
			t.Fatalf("%s: %d segments lent", name, inUse(r))
		}
		spill = make([]byte, n)
		if name == "failed" {
			r.core.Fail(errUnit)
		}
		err := r.core.Landed(n, spill)
		if !errors.Is(err, want) || err != r.core.Err() {
			t.Fatalf("%s: %v, and of the connection %v", name, err, r.core.Err())
		}
		var fe *FrameError
		if errors.As(err, &fe) && fe.Offset != int64(len(good)+FrameHeaderLen+38+landLeast) {
			t.Fatalf("%s: at %d", name, fe.Offset)
		}
		if err := r.core.Landed(1, spill); err != r.core.Err() {
			t.Fatal(err)
		}
		if name != "failed" && r.gate.Fill() == 0 {
			t.Fatalf("%s: what came before is not seen", name)
		}
		r.pump()
		if got := r.poll(); !strings.HasPrefix(got, "error") { // it overtakes what came before
			t.Fatalf("%s: polled %.50q", name, got)
		}
		if n := inUse(r); n != int(r.ch[0].charged) {
			t.Fatalf("%s: %d segments in use, %d charged", name, n, r.ch[0].charged)
		}
		r.gate.Close()
		r.pump()
		if n := inUse(r); n != 0 {
			t.Fatalf("%s: %d segments in use", name, n)
		}
	}
}

var errUnit = errors.New("somebody else's")

// Landing allocates nothing, neither when what is expected comes nor when it does not.
func TestLandAllocatesNothing(t *testing.T) {
	if buildtag.Race || buildtag.Debug {
		t.Skip("these builds allocate by themselves")
	}
	for _, what := range []string{"hit", "miss"} {
		r := landRig(t, 2, 8, Flink23)
		r.wire.buf = make([]byte, 0, 1<<16)
		r.learn()
		spill := make([]byte, 1<<20)
		var p []byte
		var at []int // of the sequence numbers
		for i := range 8 {
			at = append(at, len(p)+FrameHeaderLen+24)
			n := landLeast
			if what == "miss" && i == 6 {
				n = 100
			}
			r.seq[i%2] = 0
			p = append(p, r.filled(i%2, n, byte(i))...)
		}
		seq := [2]int32{1, 0}
		landed, missed := 0, 0
		alloctest.Zero(t, 200, 2000, func() {
			for i, at := range at {
				appendI32(p[:at], seq[i%2])
				seq[i%2]++
			}
			q := p
			if pieces := r.core.Land(1 << 20); len(pieces) > 0 {
				landed++
				n := 0
				for _, piece := range pieces {
					n += copy(piece, q[n:])
				}
				if err := r.core.Landed(n, spill); err != nil {
					t.Fatal(err)
				}
				q = q[n:]
				if r.core.landing.pause > 0 {
					missed++
				}
			}
			if err := r.core.Feed(q); err != nil {
				t.Fatal(err)
			}
			r.gate.Fill()
			for range 8 {
				it, st, err := r.gate.Poll()
				if st != Ready || err != nil {
					t.Fatal(st, err)
				}
				it.Buf.Release()
			}
			r.pump()
			r.wire.buf = r.wire.buf[:0]
		})
		if landed == 0 || (missed > 0) != (what == "miss") {
			t.Fatalf("%s: landed in %d reads, missed in %d", what, landed, missed)
		}
		r.seq[0], r.seq[1] = seq[0], seq[1]
	}
}
