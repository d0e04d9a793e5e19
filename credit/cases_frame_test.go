package credit

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/weirflow/weir/segment"
)

// TestCRD31Frames (CRD-31, the decoder's part): payloads of nobody are skipped exactly, empty ones need no path of their
// own.
func TestCRD31Frames(t *testing.T) {
	a, released := ChannelID{1}, ChannelID{2}
	frame := func(id ChannelID, seq int32, n int) []byte {
		h := BufferHeader{Receiver: id, Seq: seq, Type: segment.DataBuffer, Size: int32(n)}
		return AppendBufferResponse(nil, Flink23, &h, bytes.Repeat([]byte{byte(n)}, n))
	}
	stream := bytes.Join([][]byte{frame(a, 0, 100), frame(released, 0, 1000), frame(a, 1, 0), frame(a, 2, 50)}, nil)
	for _, step := range []int{len(stream), 1, 13} {
		c := &channelClient{wanted: a}
		d := NewClientDecoder(DecoderConfig{})
		for b := stream; len(b) > 0; b = b[min(step, len(b)):] {
			if err := d.Feed(b[:min(step, len(b))], c); err != nil {
				t.Fatal(err)
			}
		}
		if want := []int{100, 0, 50}; len(c.got) != 3 || c.got[0] != want[0] || c.got[1] != want[1] || c.got[2] != want[2] || c.skipped != 1 || d.InFrame() {
			t.Errorf("by %d: got %d, skipped %d", step, c.got, c.skipped)
		}
	}
}

// channelClient wants the payloads of one channel.
type channelClient struct {
	clientLog
	wanted  ChannelID
	got     []int
	skipped int
}

func (c *channelClient) OnBufferHeader(h *BufferHeader) ([]byte, bool) {
	if h.Receiver != c.wanted {
		c.skipped++
		return nil, false
	}
	c.buf = make([]byte, h.Size)
	return c.buf, true
}

func (c *channelClient) OnBufferDone(h *BufferHeader) error {
	if h.Receiver == c.wanted {
		if !bytes.Equal(c.buf, bytes.Repeat([]byte{byte(h.Size)}, int(h.Size))) {
			return errors.New("bytes differ")
		}
		c.got = append(c.got, int(h.Size))
	}
	return nil
}

// TestCRD33Frames (CRD-33, the decoder's part): errors of every kind are read or end the connection, with little memory.
func TestCRD33Frames(t *testing.T) {
	a := ChannelID{1}
	nested := new(javaBuilder).head().raw(tcObject).throwableDesc()
	nested.raw(tcObject, tcReference).i32(baseHandle).raw(tcNull, tcString).utf("the cause").raw(tcNull, tcEndBlockData)
	nested.raw(tcString).utf("outer").raw(tcArray).class("[Ljava.lang.StackTraceElement;", scSerializable, 0).raw(tcEndBlockData, tcNull).i32(2000)
	nested.raw(tcObject).class("java.lang.StackTraceElement", scSerializable, 2)
	nested.raw('I').utf("lineNumber").raw('L').utf("declaringClass").raw(tcString).utf("Ljava/lang/String;").raw(tcEndBlockData, tcNull).i32(1)
	nested.raw(tcString).utf(strings.Repeat("x", 40))
	// Handles: 0 to 3 Throwable and its field types, 4 root, 5 cause, 6 and 7 messages, 8 and 9 array, 10 the element class.
	for range 1999 {
		nested.raw(tcObject, tcReference).i32(baseHandle + 10).i32(2).raw(tcString).utf(strings.Repeat("y", 40))
	}
	nested.raw(tcEndBlockData)
	plain := AppendError(nil, errors.New("boom"), a, false)
	rng := rand.New(rand.NewPCG(33, 33))
	random := make([]byte, 1024)
	for i := range random {
		random[i] = byte(rng.Uint32())
	}
	for _, tc := range []struct {
		name  string
		frame []byte
		check func(e *ErrorResponse) bool
	}{
		{"plain", plain, func(e *ErrorResponse) bool {
			return !e.Fatal && e.Receiver == a && e.Cause.Error() == "java.io.IOException: boom"
		}},
		{"fatal", AppendError(nil, errors.New("boom"), a, true), func(e *ErrorResponse) bool {
			return e.Fatal && e.Receiver.IsZero() && e.Cause.Message == "boom"
		}},
		{"nested", AppendErrorResponse(nil, nested.b, a, false), func(e *ErrorResponse) bool {
			return e.Cause.Cause != nil && e.Cause.Cause.Message == "the cause" && len(e.Cause.Stack) > maxJavaStack/2 && len(e.Cause.Stack) < maxJavaStack+8<<10
		}},
		{"cut in the object", AppendErrorResponse(nil, AppendThrowable(nil, ClassIOException, "boom")[:60], a, false), nil},
		{"random", AppendErrorResponse(nil, random, a, false), nil},
	} {
		var c keepErrors
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := NewClientDecoder(DecoderConfig{}).Feed(tc.frame, &c)
		runtime.ReadMemStats(&after)
		if tc.check == nil {
			if !errors.Is(err, ErrUnreadableError) || !strings.Contains(err.Error(), "unreadable error from peer") {
				t.Errorf("%s: %v", tc.name, err)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > uint64(len(tc.frame)+8<<10) {
				t.Errorf("%s: %d bytes were allocated for %d", tc.name, used, len(tc.frame))
			}
			continue
		}
		if err != nil || len(c.got) != 1 || !tc.check(c.got[0]) {
			t.Errorf("%s: %v, %d errors", tc.name, err, len(c.got))
			if len(c.got) > 0 {
				t.Logf("%v, %d bytes of stack trace", c.got[0].Cause, len(c.got[0].Cause.Stack))
			}
		}
	}
}

// keepErrors keeps the errors that were reported.
type keepErrors struct {
	clientLog
	got []*ErrorResponse
}

func (c *keepErrors) OnErrorResponse(e *ErrorResponse) error {
	c.got = append(c.got, e)
	return nil
}
