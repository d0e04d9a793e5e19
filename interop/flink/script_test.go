package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func scripts() []*script {
	return []*script{newScript(1, 1, 300, pipelined), newScript(1, 3, 100, pipelined), newScript(2, 50, 60, pipelined)}
}

func TestScriptHasWhatItIsFor(t *testing.T) {
	for _, s := range scripts() {
		empty, largest, marks := 0, 0, 0
		for c, els := range s.elements {
			for e, size := range els {
				largest = max(largest, size)
				switch {
				case size == 0:
					empty++
				case size < 0:
					marks++
				}
				if got := len(s.serialized(nil, c, e)); size < 1000 && got != s.length(c, e) {
					t.Fatalf("channel %d, element %d has %d bytes, want %d", c, e, got, s.length(c, e))
				}
			}
		}
		if empty == 0 || largest != 20_000_000 || marks < 12*s.channels {
			t.Errorf("%d channels: %d empty records, largest %d, %d watermarks", s.channels, empty, largest, marks)
		}
		last := -1
		for b := range barriers {
			if at := s.before[b][0]; at <= last {
				t.Errorf("barrier %d comes after %d elements, the one before after %d", b, at, last)
			} else {
				last = at
			}
		}
	}
}

// The bytes of a channel match from where they lie, and from nowhere else.
func TestMatches(t *testing.T) {
	s := newScript(1, 3, 100, pipelined)
	var all []byte
	for e := range 20 {
		all = s.serialized(all, 2, e)
	}
	for _, from := range []int{0, 1, 4, int(s.offsets[2][3]), int(s.offsets[2][7]) - 1, len(all) - 1, len(all)} {
		for _, to := range []int{from, min(from+1, len(all)), len(all)} {
			if !s.matches(2, int64(from), all[from:to]) {
				t.Errorf("%d to %d does not match", from, to)
			}
		}
	}
	broken := bytes.Clone(all)
	broken[len(broken)-1] ^= 1
	if s.matches(2, 0, broken) || s.matches(1, 0, all) || s.matches(2, 1, all) || s.matches(2, -1, nil) {
		t.Error("something else matches, too")
	}
}

// perfect is what both ends see if all goes well: the bytes in flight are the same everywhere.
func perfect(s *script) (sent, got *report) {
	sent, got = newReport(s.channels), newReport(s.channels)
	for c, els := range s.elements {
		for _, size := range els {
			if size >= 0 {
				sent.record(c, make([]byte, size%100))
				got.record(c, make([]byte, size%100))
			} else if c == 0 {
				sent.Watermarks++
				got.Watermarks++
			}
		}
	}
	sent.EndOfData, got.EndOfData = true, true
	for b := range barriers {
		f := checkpoint{ID: int64(b + 1), Timestamp: 9, Unaligned: b%4 == unaligned}
		g := checkpoint{ID: f.ID, Timestamp: 9, Unaligned: b%4 >= timedShort}
		flight := int64(0)
		if g.Unaligned {
			flight = 10
		}
		for c := range s.channels {
			at := s.offsets[c][s.before[b][c]]
			f.Low, f.State = append(f.Low, at), append(f.State, flight)
			g.Low, g.State = append(g.Low, at-2*flight), append(g.State, flight)
		}
		f.High, g.High = f.Low, g.Low
		sent.Checkpoints, got.Checkpoints = append(sent.Checkpoints, f), append(got.Checkpoints, g)
	}
	return sent, got
}

// Whatever goes wrong, a cell fails; and so does one that proves nothing.
func TestCompareFails(t *testing.T) {
	s := newScript(1, 3, 100, pipelined)
	if res, err := compare(s, first(perfect(s)), second(perfect(s))); err != nil || res.turned != 3 || res.unaligned != 3 || res.aligned != 6 {
		t.Fatal(res, err)
	}
	for _, c := range []struct {
		name, want string
		spoil      func(sent, got *report)
	}{
		{"record lost", "records were sent", func(_, got *report) { got.Records[1]-- }},
		{"nothing sent", "records were sent", func(sent, got *report) { clear(sent.Records); clear(got.Records) }},
		{"other bytes", "sums differ", func(_, got *report) { got.Sums[2] ^= 1 }},
		{"no bytes", "no data", func(_, got *report) { got.Bytes = 0 }},
		{"watermark lost", "watermarks were sent", func(_, got *report) { got.Watermarks-- }},
		{"no watermarks", "watermarks were sent", func(sent, got *report) { sent.Watermarks, got.Watermarks = 0, 0 }},
		{"no end of data", "end of data", func(_, got *report) { got.EndOfData = false }},
		{"buffer lost", "come home", func(sent, _ *report) { sent.Missing = 1 }},
		{"checkpoint lost", "checkpoints were begun", func(_, got *report) { got.Checkpoints = got.Checkpoints[1:] }},
		{"no checkpoints", "checkpoints were begun", func(sent, got *report) { sent.Checkpoints, got.Checkpoints = nil, nil }},
		{"other barrier", "came as", func(_, got *report) { got.Checkpoints[4].Timestamp++ }},
		{"unaligned became aligned", "unaligned: true", func(_, got *report) { got.Checkpoints[3].Unaligned = false }},
		{"aligned became unaligned", "unaligned: false", func(_, got *report) { got.Checkpoints[4].Unaligned = true }},
		{"record read too early", "were written", func(_, got *report) { got.Checkpoints[0].Low[1]++; got.Checkpoints[0].High[1]++ }},
		{"bytes in flight lost", "were written", func(_, got *report) { got.Checkpoints[3].State[0]-- }},
		{"bytes in flight twice", "were written", func(sent, _ *report) { sent.Checkpoints[3].State[0]++ }},
		{"aligned with bytes in flight", "aligned checkpoint with bytes", func(sent, got *report) {
			sent.Checkpoints[0].State[0]++
			got.Checkpoints[0].Low = slices.Clone(got.Checkpoints[0].Low)
			got.Checkpoints[0].Low[0]--
		}},
		{"nothing in flight at the receiver", "proves nothing", func(_, got *report) {
			for i := range got.Checkpoints {
				for c, n := range got.Checkpoints[i].State {
					got.Checkpoints[i].Low[c] += n
					got.Checkpoints[i].State[c] = 0
				}
			}
		}},
		{"none turned", "no checkpoint turned", func(sent, got *report) {
			for i := timedShort; i < barriers; i += 4 {
				got.Checkpoints[i].Unaligned = false
				clear(got.Checkpoints[i].State)
				clear(sent.Checkpoints[i].State)
				got.Checkpoints[i].Low = sent.Checkpoints[i].Low
			}
		}},
	} {
		sent, got := perfect(s)
		c.spoil(sent, got)
		if _, err := compare(s, sent, got); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func first(a, _ *report) *report  { return a }
func second(_, b *report) *report { return b }
