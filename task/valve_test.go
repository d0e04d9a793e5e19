package task_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirflow/weir/task"
)

// step does one step of a valve, W ch ts, I ch or A ch, and says what went out.
func step(t interface{ Fatalf(string, ...any) }, v *task.Valve, op string, ch int, ts int64) string {
	var out task.ValveOutput
	var err error
	switch op {
	case "W":
		out, err = v.InputWatermark(ch, ts)
	case "I":
		out, err = v.InputStatus(ch, true)
	case "A":
		out, err = v.InputStatus(ch, false)
	}
	if err != nil {
		t.Fatalf("%s %d %d: %v", op, ch, ts, err)
	}
	return show(out)
}

func show(out task.ValveOutput) string {
	var words []string
	if out.HasWatermark {
		words = append(words, fmt.Sprintf("WM(%d)", out.Watermark))
	}
	if out.StatusChanged && out.Idle {
		words = append(words, "IDLE")
	} else if out.StatusChanged {
		words = append(words, "ACTIVE")
	}
	if len(words) == 0 {
		return "-"
	}
	return strings.Join(words, "; ")
}

// TestValve runs scenarios whose outcome was seen in Flink, and one that follows from its rules.
func TestValve(t *testing.T) {
	for _, tc := range []struct {
		name     string
		channels int
		steps    string
	}{
		{"single", 1, "W 0 0 WM(0)|W 0 25 WM(25)|W 0 25 -|W 0 10 -|I 0 0 IDLE|W 0 50 -|I 0 0 -|A 0 0 ACTIVE|W 0 50 WM(50)"},
		{"least of three", 3, "W 0 0 -|W 1 0 -|W 2 0 WM(0)|W 0 12 -|W 2 8 -|W 2 10 -|W 1 15 WM(10)|W 2 17 WM(12)|W 0 20 WM(15)"},
		{"idle raises the least", 3, "W 0 10 -|W 1 5 -|W 2 5 WM(5)|I 1 0 -|W 2 12 WM(10)|I 2 0 -|I 0 0 WM(12); IDLE|A 1 0 ACTIVE|W 1 5 -|W 1 20 WM(20)"},
		{"last idle flushes the greatest", 3, "W 0 3 -|W 1 7 -|W 2 5 WM(3)|I 0 0 WM(5)|I 1 0 -|I 2 0 WM(7); IDLE|A 0 0 ACTIVE|W 0 4 -|W 0 8 WM(8)"},
		{"active again, but behind", 2, "W 0 10 -|W 1 10 WM(10)|I 1 0 -|W 0 20 WM(20)|A 1 0 -|W 1 15 -|W 0 25 WM(25)|W 1 22 -|W 1 25 -|W 1 30 -|W 0 30 WM(30)"},
		{"idle with one behind", 2, "W 0 5 -|W 1 10 WM(5)|I 1 0 -|I 0 0 WM(10); IDLE|A 1 0 ACTIVE|W 1 11 WM(11)"},
		{"no flush", 2, "W 0 5 -|W 1 10 WM(5)|I 0 0 WM(10)|I 1 0 IDLE|A 0 0 ACTIVE|W 0 9 -|W 0 10 -|W 0 11 WM(11)"},
		{"all idle at the start", 2, "I 0 0 -|I 1 0 IDLE|A 1 0 ACTIVE|W 1 4 WM(4)|A 0 0 -|W 0 1 -"},
		{"last idle is behind, no flush", 3, "W 0 20 -|W 1 10 -|W 2 10 WM(10)|I 0 0 -|I 1 0 -|W 2 15 WM(15)|A 1 0 -|I 2 0 -|I 1 0 IDLE"},
		{"greatest watermark", 2, "W 0 9223372036854775807 -|W 1 5 WM(5)|W 1 9223372036854775807 WM(9223372036854775807)|W 1 9223372036854775807 -"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := task.NewValve(tc.channels)
			for i, s := range strings.Split(tc.steps, "|") {
				var op string
				var ch int
				var ts int64
				if _, err := fmt.Sscan(s, &op, &ch, &ts); err != nil {
					t.Fatal(err)
				}
				want := strings.SplitN(s, " ", 4)[3]
				if got := step(t, v, op, ch, ts); got != want {
					t.Fatalf("step %d, %s: got %s, want %s", i, s, got, want)
				}
			}
		})
	}
}

// naive is a valve that looks at all channels each time.
type naive struct {
	watermark     []int64
	idle, aligned []bool
	lastOut       int64
	allIdle       bool
}

func newNaive(n int) *naive {
	v := &naive{make([]int64, n), make([]bool, n), make([]bool, n), math.MinInt64, false}
	for i := range n {
		v.watermark[i], v.aligned[i] = math.MinInt64, true
	}
	return v
}

func (v *naive) least() string {
	least, any := int64(math.MaxInt64), false
	for i, a := range v.aligned {
		if a {
			least, any = min(least, v.watermark[i]), true
		}
	}
	if any && least > v.lastOut {
		v.lastOut = least
		return fmt.Sprintf("WM(%d)", least)
	}
	return "-"
}

func (v *naive) step(op string, ch int, ts int64) string {
	switch {
	case op == "W":
		if v.allIdle || v.idle[ch] || ts <= v.watermark[ch] {
			return "-"
		}
		v.watermark[ch] = ts
		v.aligned[ch] = v.aligned[ch] || ts >= v.lastOut
		return v.least()
	case op == "I" && !v.idle[ch]:
		v.idle[ch], v.aligned[ch] = true, false
		atOut := v.watermark[ch] == v.lastOut
		for _, idle := range v.idle {
			if !idle {
				if atOut {
					return v.least()
				}
				return "-"
			}
		}
		v.allIdle = true
		greatest := v.lastOut
		for _, w := range v.watermark {
			greatest = max(greatest, w)
		}
		if atOut && greatest > v.lastOut {
			v.lastOut = greatest
			return fmt.Sprintf("WM(%d); IDLE", greatest)
		}
		return "IDLE"
	case op == "A" && v.idle[ch]:
		v.idle[ch] = false
		v.aligned[ch] = v.watermark[ch] >= v.lastOut
		if v.allIdle {
			v.allIdle = false
			return "ACTIVE"
		}
	}
	return "-"
}

// TestValveModel compares with a valve that scans all channels, and checks the invariants.
func TestValveModel(t *testing.T) {
	emitted, turned := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom([]int{1, 2, 3, 3, 3, 4, 9}).Draw(t, "channels")
		v, twin := task.NewValve(n), newNaive(n)
		last, idle := int64(math.MinInt64), false
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			op := rapid.SampledFrom([]string{"W", "W", "I", "A"}).Draw(t, "op")
			ch := rapid.IntRange(0, n-1).Draw(t, "channel")
			ts := max(twin.lastOut, -3) + rapid.Int64Range(-3, 6).Draw(t, "ts")
			got, want := step(t, v, op, ch, ts), twin.step(op, ch, ts)
			if got != want {
				t.Fatalf("%s %d %d: got %s, want %s", op, ch, ts, got, want)
			}
			if v.LastWatermark() < last || strings.HasPrefix(got, "WM") != (v.LastWatermark() > last) {
				t.Fatalf("%s: watermark %d after %d", got, v.LastWatermark(), last)
			}
			if strings.HasPrefix(got, "WM") {
				emitted++
			}
			if changed := strings.Contains(got, "IDLE") || strings.Contains(got, "ACTIVE"); changed != (v.Idle() != idle) {
				t.Fatalf("%s: idle %t after %t", got, v.Idle(), idle)
			} else if changed {
				turned++
			}
			last, idle = v.LastWatermark(), v.Idle()
			all := true
			for i := range n {
				all = all && twin.idle[i]
				if twin.aligned[i] && twin.watermark[i] < last {
					t.Fatalf("channel %d is aligned at %d, but %d is out", i, twin.watermark[i], last)
				}
			}
			if all != idle {
				t.Fatalf("all channels idle: %t, output idle: %t", all, idle)
			}
		}
	})
	if emitted == 0 || turned == 0 {
		t.Errorf("%d watermarks and %d statuses went out", emitted, turned)
	}
}

// TestRangeValve checks channels with several subpartitions.
func TestRangeValve(t *testing.T) {
	v, err := task.NewRangeValve([]task.ValveChannel{{First: 4, Count: 2}, {First: 7, Count: 1}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		ch   int
		sub  int32
		ts   int64
		want string
	}{{0, 4, 5, "-"}, {1, 7, 6, "-"}, {0, 5, 7, "WM(5)"}, {0, 4, 8, "WM(6)"}, {1, 99, 9, "WM(7)"}} {
		out, err := v.InputInternalWatermark(tc.ch, tc.sub, tc.ts)
		if err != nil || show(out) != tc.want {
			t.Fatalf("%+v: %s, %v", tc, show(out), err)
		}
	}
	for name, f := range map[string]func() (task.ValveOutput, error){
		"subpartition below":   func() (task.ValveOutput, error) { return v.InputInternalWatermark(0, 3, 50) },
		"subpartition above":   func() (task.ValveOutput, error) { return v.InputInternalWatermark(0, 6, 50) },
		"subpartition unnamed": func() (task.ValveOutput, error) { return v.InputWatermark(0, 50) },
		"channel below":        func() (task.ValveOutput, error) { return v.InputWatermark(-1, 50) },
		"channel above":        func() (task.ValveOutput, error) { return v.InputWatermark(2, 50) },
		"status":               func() (task.ValveOutput, error) { return v.InputStatus(1, true) },
		"no such channel":      func() (task.ValveOutput, error) { return task.NewValve(2).InputStatus(2, true) },
	} {
		if out, err := f(); !errors.Is(err, task.ErrValve) || !out.Empty() {
			t.Errorf("%s: %s, %v", name, show(out), err)
		}
	}
	for _, c := range []task.ValveChannel{{0, 0}, {-1, 1}, {math.MaxInt32, 1}} {
		if _, err := task.NewRangeValve([]task.ValveChannel{c}); !errors.Is(err, task.ErrValve) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if v, err := task.NewRangeValve([]task.ValveChannel{{First: 3, Count: 1}}); err != nil {
		t.Error(err)
	} else if out, err := v.InputStatus(0, true); err != nil || show(out) != "IDLE" {
		t.Errorf("a status where all channels have one subpartition: %s, %v", show(out), err)
	}
}
