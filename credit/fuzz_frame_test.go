package credit

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// vectorFrames calls add with the frames that Flink made (each direction's) and with the streams of whole sessions.
func vectorFrames(tb testing.TB, add func(frame []byte, toClient, flink120 bool)) {
	tb.Helper()
	dir := filepath.Join("..", "internal", "conform", "testdata", "vectors")
	n := 0
	for _, name := range []string{"wire.jsonl", "wire-1.20.jsonl"} {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			tb.Fatal(err)
		}
		sc := bufio.NewScanner(f)
		sc.Buffer(nil, 16<<20)
		for sc.Scan() {
			var v struct{ Kind, Hex string }
			if err := json.Unmarshal(sc.Bytes(), &v); err != nil {
				tb.Fatal(err)
			}
			b, err := hex.DecodeString(v.Hex)
			if err != nil {
				tb.Fatal(err)
			}
			if len(b) < 8<<10 {
				add(b, MessageID(b[8]).ToClient(), name != "wire.jsonl")
				n++
			}
		}
		f.Close()
	}
	sessions, err := filepath.Glob(filepath.Join(dir, "sessions", "*.bin"))
	if err != nil {
		tb.Fatal(err)
	}
	for _, path := range sessions {
		b, err := os.ReadFile(path)
		if err != nil {
			tb.Fatal(err)
		}
		add(b[:min(len(b), 8<<10)], strings.HasSuffix(path, ".s2c.bin"), strings.Contains(path, "flink120"))
		n++
	}
	if n < 100 {
		tb.Fatalf("only %d seeds", n)
	}
}

// feedPieces feeds a stream in pieces whose sizes come from cuts.
func feedPieces(stream, cuts []byte, feed func([]byte) error) error {
	for i := 0; len(stream) > 0; i++ {
		n := len(stream)
		if len(cuts) > 0 {
			n = min(n, int(cuts[i%len(cuts)])+1)
		}
		if err := feed(bytes.Clone(stream[:n:n])); err != nil {
			return err
		}
		stream = stream[n:]
	}
	return nil
}

// sameOutcome: however a stream is cut, the same is seen and the same is refused.
func sameOutcome(t *testing.T, one, two error, lines1, lines2 []string) {
	t.Helper()
	if !reflect.DeepEqual(lines1, lines2) {
		t.Fatalf("in one piece %q, in many %q", lines1, lines2)
	}
	if (one == nil) != (two == nil) || one != nil && one.Error() != two.Error() {
		t.Fatalf("in one piece %v, in many %v", one, two)
	}
	var fe *FrameError
	if one != nil && !errors.As(one, &fe) {
		t.Fatalf("an error that is no FrameError: %v", one)
	}
}

// FuzzServerDecoder feeds a server whatever a client might send.
func FuzzServerDecoder(f *testing.F) {
	vectorFrames(f, func(b []byte, toClient, _ bool) {
		if !toClient {
			f.Add(b, []byte{0})
			f.Add(b, []byte{4, 30, 1})
		}
	})
	f.Add(clientStream(golden(f)), []byte{7})
	f.Fuzz(func(t *testing.T, stream, cuts []byte) {
		var d1, d2 ServerDecoder
		var l1, l2 serverLog
		err1 := d1.Feed(bytes.Clone(stream), &l1)
		err2 := feedPieces(stream, cuts, func(p []byte) error { return d2.Feed(p, &l2) })
		sameOutcome(t, err1, err2, l1.lines, l2.lines)
		if err1 == nil && !d1.InFrame() && d1.Offset() != int64(len(stream)) {
			t.Fatalf("stands at %d of %d", d1.Offset(), len(stream))
		}
	})
}

// FuzzClientDecoder feeds a client whatever a server might send.
func FuzzClientDecoder(f *testing.F) {
	vectorFrames(f, func(b []byte, toClient, flink120 bool) {
		if toClient {
			f.Add(b, []byte{0}, flink120)
			f.Add(b, []byte{40, 3, 200}, flink120)
		}
	})
	f.Add(serverStream(golden(f)), []byte{7}, false)
	f.Fuzz(func(t *testing.T, stream, cuts []byte, flink120 bool) {
		cfg := DecoderConfig{MaxBuffer: 4096, MaxEvent: 1024, MaxError: 16 << 10, MaxPartials: 100}
		if flink120 {
			cfg.Profile = Flink120
		}
		d1, d2 := NewClientDecoder(cfg), NewClientDecoder(cfg)
		var l1, l2 clientLog
		err1 := d1.Feed(bytes.Clone(stream), &l1)
		err2 := feedPieces(stream, cuts, func(p []byte) error { return d2.Feed(p, &l2) })
		sameOutcome(t, err1, err2, l1.lines, l2.lines)
		if max(len(l1.buf), len(l2.buf)) > 4096 {
			t.Fatal("more memory than a buffer was asked for")
		}
	})
}

// FuzzJavaStream parses whatever might stand for an exception.
func FuzzJavaStream(f *testing.F) {
	vectorFrames(f, func(b []byte, _, _ bool) {
		if MessageID(b[8]) == MsgErrorResponse {
			f.Add(b[FrameHeaderLen:])
		}
	})
	f.Add(AppendThrowable(nil, ClassProducerFailed, "\x00\U0001F600"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, n, err := ParseThrowable(b)
		if err != nil {
			if !errors.Is(err, errJava) {
				t.Fatal(err)
			}
			return
		}
		if n < 10 || n > len(b) {
			t.Fatalf("%d of %d bytes", n, len(b))
		}
		again, m, err := ParseThrowable(b[:n])
		if err != nil || m != n || again.Error() != got.Error() {
			t.Fatalf("without what follows: %v, %d of %d, %v", again, m, n, err)
		}
		if text := got.Error(); len(text) > maxCauses*(maxJavaMessage+1<<17) || len(got.Stack) > maxJavaStack+1<<13 {
			t.Fatalf("%d bytes of text, %d of stack trace", len(text), len(got.Stack))
		}
		// What we would pass on is readable, too.
		if _, _, err := ParseThrowable(AppendThrowable(nil, got.Class, got.Message)); err != nil {
			t.Fatal(err)
		}
	})
}
