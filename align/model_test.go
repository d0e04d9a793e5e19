package align

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirflow/weir/credit"
	"github.com/weirflow/weir/segment"
	"github.com/weirflow/weir/serde/event"
	"pgregory.net/rapid"
)

// sent is what a sender of the model has in its line.
type sent struct {
	buf   segment.Buffer
	epoch int // data: barriers that were sent before it
}

// TestRecordsAndBarriers runs senders that block themselves, a real gate and a handler, at random, and checks what an
// operator sees: in aligned mode no record of an epoch before its checkpoint, and none missing (I1, I2); in any mode each
// record once and in order (I16), and every sender let go (I6).
func TestRecordsAndBarriers(t *testing.T) {
	exposure := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(t, "channels")
		mode := rapid.SampledFrom([]string{"al", "alo", "un", "to20"}).Draw(t, "kind")
		checkpoints := rapid.IntRange(1, 4).Draw(t, "checkpoints")
		cfg := Config{}
		switch mode {
		case "alo":
			cfg.Mode = AtLeastOnce
		case "un", "to20":
			cfg.Unaligned = UnalignedOn
		}
		h := newHarness(noFatal{}, cfg, n, credit.GuardFail)
		lines := make([][]sent, n)
		want := make([][]string, n)
		epochs := map[string]int{}
		number := 0
		for ch := range n {
			for cp := 0; cp <= checkpoints; cp++ {
				for range rapid.IntRange(0, 3).Draw(t, "data") {
					number++
					name := fmt.Sprintf("b%d", number)
					p := []byte{1, 2, 3}
					h.names[&p[0]] = name
					epochs[name] = cp
					lines[ch] = append(lines[ch], sent{segment.Wrap(p, segment.DataBuffer), cp})
					want[ch] = append(want[ch], name)
				}
				if cp == checkpoints {
					break
				}
				if rapid.IntRange(0, 12).Draw(t, "ends") == 0 {
					break // the channel ends early
				}
				e := barrierItem(ch, int64(cp+1), kind(mode)).Event
				lines[ch] = append(lines[ch], sent{serialized(e), -1})
			}
			lines[ch] = append(lines[ch], sent{serialized(&event.Event{Kind: event.EndOfPartition}), -1})
		}
		blocked := make([]bool, n)
		got := make([][]string, n)
		emittedIn := make([][]int, n) // epochs of what was emitted, by channel
		done := 0                     // newest checkpoint that is over for records: triggered or aborted
		look := func() {
			for _, line := range h.out {
				var ch, id int
				var name string
				if _, err := fmt.Sscanf(line, "RESUME(c%d)", &ch); err == nil {
					if !blocked[ch] {
						t.Fatalf("channel %d resumed and not blocked", ch)
					}
					blocked[ch] = false
				}
				if _, err := fmt.Sscanf(line, "TRIGGER(%d,", &id); err == nil {
					exposure[mode]++
					done = max(done, id)
					if mode != "al" {
						continue
					}
					for c := range n {
						missing := 0
						for _, name := range want[c] {
							if epochs[name] < id && !slices.Contains(got[c], name) {
								missing++
							}
						}
						if missing > 0 {
							t.Fatalf("checkpoint %d triggered, %d records of channel %d missing", id, missing, c)
						}
					}
				}
				if _, err := fmt.Sscanf(line, "ABORT(%d,", &id); err == nil {
					done = max(done, id)
				}
				if _, err := fmt.Sscanf(line, "poll:c%d:%s", &ch, &name); err == nil && name[0] == 'b' {
					got[ch] = append(got[ch], name)
					emittedIn[ch] = append(emittedIn[ch], epochs[name])
					if mode == "al" && epochs[name] > done {
						t.Fatalf("record of epoch %d before checkpoint %d is over: %v", epochs[name], epochs[name], h.out)
					}
				}
			}
			h.out = nil
		}
		left := true
		for left {
			left = false
			for ch := range n {
				left = left || len(lines[ch]) > 0
			}
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				if mode == "to20" {
					h.clock(rapid.Int64Range(0, 15).Draw(t, "ms"))
				}
			case 1, 2:
				h.poll()
			default:
				ch := rapid.IntRange(0, n-1).Draw(t, "channel")
				if blocked[ch] || len(lines[ch]) == 0 {
					h.poll()
					break
				}
				s := lines[ch][0]
				lines[ch] = lines[ch][1:]
				blocked[ch] = s.buf.Type().BlocksUpstream()
				h.arrive(ch, s.buf)
			}
			look()
		}
		for range 10 * (number + n*(checkpoints+2)) {
			h.poll()
			if h.out[len(h.out)-1] == "poll:none(finished)" {
				break
			}
		}
		look()
		for ch := range n {
			if !slices.Equal(got[ch], want[ch]) {
				t.Fatalf("channel %d: sent %v, emitted %v", ch, want[ch], got[ch])
			}
			if blocked[ch] {
				t.Fatalf("channel %d is blocked for ever", ch)
			}
		}
		if !h.in.Finished() || h.handler.Pending() && mode != "alo" {
			t.Fatalf("finished %v, pending %v", h.in.Finished(), h.handler.Pending())
		}
	})
	for _, mode := range []string{"al", "alo", "un", "to20"} {
		if exposure[mode] == 0 {
			t.Errorf("%s: no checkpoint was triggered", mode)
		}
	}
}

// randomOps draws ops for a handler with n channels; kinds are the barriers' kinds.
func randomOps(t *rapid.T, n int, kinds ...string) []string {
	var ops []string
	ended := map[int]bool{}
	id := int64(1)
	for range rapid.IntRange(1, 40).Draw(t, "ops") {
		ch := rapid.IntRange(0, n-1).Draw(t, "channel")
		if ended[ch] {
			continue
		}
		id = max(1, id+int64(rapid.IntRange(-1, 1).Draw(t, "step")))
		switch rapid.IntRange(0, 9).Draw(t, "what") {
		case 0:
			ops = append(ops, fmt.Sprintf("C %d %d", ch, id))
		case 1:
			ops = append(ops, fmt.Sprintf("E %d", ch))
			ended[ch] = true
		default:
			ops = append(ops, fmt.Sprintf("B %d %d %s", ch, id, rapid.SampledFrom(kinds).Draw(t, "kind")))
		}
	}
	return ops
}

// results runs ops and returns what is said, without what words tell.
func results(t *rapid.T, cfg Config, n int, ops []string, without ...string) []string {
	h, r := newRecorded(noFatal{}, cfg, n)
	for _, op := range ops {
		if err := r.do(h, op); err != nil {
			r.say("error")
			break
		}
	}
	return slices.DeleteFunc(r.take(), func(l string) bool {
		return slices.ContainsFunc(without, func(w string) bool { return strings.HasPrefix(l, w) })
	})
}

// TestModesAgree: with barriers that cannot turn unaligned, the alternating handler does what the aligned one does; with
// unaligned ones only, what the unaligned one does (I20, I21).
func TestModesAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(t, "channels")
		stop := rapid.Bool().Draw(t, "stop")
		ops := randomOps(t, n, "al", "fa", "sp")
		a := results(t, Config{StopAtFirstEnd: stop}, n, ops)
		b := results(t, Config{StopAtFirstEnd: stop, Unaligned: UnalignedOn}, n, ops, "initInputs")
		if !slices.Equal(a, b) {
			t.Fatalf("%v\naligned     %v\nalternating %v", ops, a, b)
		}
		ops = randomOps(t, n, "un")
		a = results(t, Config{StopAtFirstEnd: stop, Unaligned: UnalignedAlways}, n, ops)
		b = results(t, Config{StopAtFirstEnd: stop, Unaligned: UnalignedOn}, n, ops)
		if !slices.Equal(a, b) {
			t.Fatalf("%v\nunaligned   %v\nalternating %v", ops, a, b)
		}
	})
}

// TestRelabelling: other numbers for the channels give other numbers in what is said, and nothing else (I22).
func TestRelabelling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 5).Draw(t, "channels")
		perm := rapid.Permutation([]string{"0", "1", "2", "3", "4"}[:n]).Draw(t, "labels")
		relabel := func(l string) string {
			for _, prefix := range []string{"block(0.", "resume(0."} {
				if rest, ok := strings.CutPrefix(l, prefix); ok {
					return prefix + perm[rest[0]-'0'] + rest[1:]
				}
			}
			return l
		}
		cfg := Config{Unaligned: Unaligned(rapid.IntRange(0, 1).Draw(t, "mode"))}
		if rapid.Bool().Draw(t, "at least once") {
			cfg = Config{Mode: AtLeastOnce}
		}
		ops := randomOps(t, n, "al", "fa")
		a := results(t, cfg, n, ops)
		for i := range a {
			a[i] = relabel(a[i])
		}
		renamed := make([]string, len(ops))
		for i, op := range ops {
			renamed[i] = op[:2] + perm[op[2]-'0'] + op[3:]
		}
		b := results(t, cfg, n, renamed)
		slices.Sort(a) // a release goes through the channels in their order
		slices.Sort(b)
		if !slices.Equal(a, b) {
			t.Fatalf("%v as %v\n%v\n%v", ops, renamed, a, b)
		}
	})
}

// TestTrackerInvariants: ids of pending checkpoints ascend, there are not too many, none is complete; triggers ascend
// when each channel's ids do (I4, I15).
func TestTrackerInvariants(t *testing.T) {
	triggers := 0
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(t, "channels")
		h, r := newRecorded(noFatal{}, Config{Mode: AtLeastOnce, StopAtFirstEnd: rapid.Bool().Draw(t, "stop")}, n)
		tr := h.(*Tracker)
		ids := make([]int64, n)
		ended := make([]bool, n)
		last := int64(0)
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			ch := rapid.IntRange(0, n-1).Draw(t, "channel")
			if ended[ch] {
				continue
			}
			op := ""
			switch what := rapid.IntRange(0, 30).Draw(t, "what"); {
			case what == 0:
				op, ended[ch] = fmt.Sprintf("E %d", ch), true
			case what == 1:
				ids[ch]++
				op = fmt.Sprintf("C %d %d", ch, ids[ch])
			default:
				ids[ch] += int64(rapid.IntRange(1, 2).Draw(t, "skip"))
				op = fmt.Sprintf("B %d %d alo", ch, ids[ch])
			}
			if err := r.do(h, op); err != nil {
				t.Fatalf("%s: %v", op, err)
			}
			for _, l := range r.take() {
				var id int64
				if _, err := fmt.Sscanf(l, "TRIGGER(%d,", &id); err == nil {
					triggers++
					if id <= last {
						t.Fatalf("trigger %d after %d", id, last)
					}
					last = id
				}
			}
			if len(tr.pending) > MaxTracked {
				t.Fatalf("%d are pending", len(tr.pending))
			}
			for i, c := range tr.pending {
				if i > 0 && c.id <= tr.pending[i-1].id {
					t.Fatalf("%d is pending after %d", c.id, tr.pending[i-1].id)
				}
				if c.seen.n >= c.target {
					t.Fatalf("%d is complete and pending", c.id)
				}
			}
		}
	})
	if triggers == 0 {
		t.Error("nothing was triggered")
	}
}
