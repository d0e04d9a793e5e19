package task_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirflow/weir/serde/event"
	"github.com/weirflow/weir/task"
)

// TestAttributes runs the scenarios seen in Flink.
func TestAttributes(t *testing.T) {
	for name, tc := range map[string]struct {
		channels int
		steps    string
	}{
		"two channels":                  {2, "0t true|0t -|1f -|0f false|1t true|1f false"},
		"undefined at first":            {2, "0f -|1f false|1f -"},
		"false once all have said so":   {3, "0t true|0f -|1f -|2f false"},
		"stays true while one is in it": {2, "0t true|1t -|0f -|1f false"},
	} {
		c := task.NewAttributesCombiner(tc.channels)
		for i, s := range strings.Split(tc.steps, "|") {
			got := "-"
			backlog, changed, err := c.Input(int(s[0]-'0'), s[1] == 't')
			if changed {
				got = fmt.Sprint(backlog)
			}
			if err != nil || got != s[3:] {
				t.Errorf("%s, step %d: got %s, %v, want %s", name, i, got, err, s[3:])
			}
		}
	}
	for _, ch := range []int{-1, 2} {
		if _, changed, err := task.NewAttributesCombiner(2).Input(ch, true); changed || !errors.Is(err, task.ErrValve) {
			t.Errorf("channel %d: %t, %v", ch, changed, err)
		}
	}
}

// TestCombinerRules checks each rule by hand.
func TestCombinerRules(t *testing.T) {
	long, boolean := event.LongWatermark, event.BoolWatermark
	for _, tc := range []struct {
		name  string
		d     task.WatermarkDeclaration
		steps string // channel, value, what goes out
	}{
		{"least", task.WatermarkDeclaration{Type: long}, "0 5 5|1 7 -|1 3 3|1 9 5|0 5 -|0 10 9"},
		{"least of all", task.WatermarkDeclaration{Type: long, WaitForAll: true}, "0 5 -|0 6 -|1 7 6|0 8 7|1 7 -"},
		{"greatest", task.WatermarkDeclaration{Type: long, Combine: task.Greatest}, "0 5 5|1 3 -|1 9 9|1 2 5"},
		{"greatest of all", task.WatermarkDeclaration{Type: long, Combine: task.Greatest, WaitForAll: true}, "1 9 -|0 2 9|1 1 2"},
		{"and", task.WatermarkDeclaration{Type: boolean}, "0 1 1|1 0 0|1 1 1"},
		{"and of all", task.WatermarkDeclaration{Type: boolean, WaitForAll: true}, "0 0 -|1 1 0|0 1 1|0 1 -"},
		{"or", task.WatermarkDeclaration{Type: boolean, Combine: task.Greatest}, "0 0 0|1 1 1|0 1 -|1 0 -|0 0 0"},
		{"first value is the initial one", task.WatermarkDeclaration{Type: long}, "0 9223372036854775807 9223372036854775807|1 9223372036854775807 -"},
		{"aligned", task.WatermarkDeclaration{Type: long, Aligned: true}, "0 5 -|1 7 7!|1 8 -|1 9 -|0 6 6!"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := task.NewWatermarkCombiners(2)
			tc.d.Identifier = "w"
			if err := c.Declare(tc.d); err != nil {
				t.Fatal(err)
			}
			for i, s := range strings.Split(tc.steps, "|") {
				var ch int
				var value int64
				var want string
				if _, err := fmt.Sscan(s, &ch, &value, &want); err != nil {
					t.Fatal(err)
				}
				w := event.WatermarkEvent{Identifier: "w", Type: tc.d.Type, Value: value, Aligned: i%2 == 0}
				out, err := c.Combine(ch, &w)
				got := "-"
				if out.N == 1 {
					e := out.Events[0]
					got = fmt.Sprint(e.Value)
					if e.Identifier != "w" || e.Type != w.Type || e.Aligned != w.Aligned {
						t.Errorf("step %d: %+v went out for %+v", i, e, w)
					}
				}
				if out.Resume {
					got += "!"
				}
				if err != nil || got != want || out.N > 1 {
					t.Fatalf("step %d, %s: got %s, %v", i, s, got, err)
				}
			}
		})
	}
}

// TestCombinerModel compares with a combiner that looks at all channels each time.
func TestCombinerModel(t *testing.T) {
	emitted := 0
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "channels")
		d := task.WatermarkDeclaration{
			Identifier: "w",
			Type:       event.WatermarkType(rapid.IntRange(0, 1).Draw(t, "type")),
			Combine:    task.Combine(rapid.IntRange(0, 1).Draw(t, "combine")),
			WaitForAll: rapid.Bool().Draw(t, "wait"),
		}
		least := d.Combine == task.Least
		initial := map[bool]map[bool]int64{false: {true: math.MaxInt64, false: math.MinInt64}, true: {true: 1, false: 0}}[d.Type == event.BoolWatermark][least]
		c := task.NewWatermarkCombiners(n)
		if err := c.Declare(d); err != nil {
			t.Fatal(err)
		}
		values, seen := make([]int64, n), map[int]bool{}
		for i := range values {
			values[i] = initial
		}
		last := "none"
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			ch := rapid.IntRange(0, n-1).Draw(t, "channel")
			values[ch] = rapid.Int64Range(0, 1+4*int64(1-d.Type)).Draw(t, "value")
			seen[ch] = true
			want := values[0]
			for _, v := range values {
				if least {
					want = min(want, v)
				} else {
					want = max(want, v)
				}
			}
			out, err := c.Combine(ch, &event.WatermarkEvent{Identifier: "w", Type: d.Type, Value: values[ch]})
			if err != nil {
				t.Fatal(err)
			}
			wantOut := (!d.WaitForAll || len(seen) == n) && fmt.Sprint(want) != last
			if wantOut != (out.N == 1) || wantOut && out.Events[0].Value != want || out.Resume {
				t.Fatalf("values %v, last %s: got %+v, want %t %d", values, last, out, wantOut, want)
			}
			if wantOut {
				last = fmt.Sprint(want)
				emitted++
			}
		}
	})
	if emitted == 0 {
		t.Error("nothing went out")
	}
}

// TestEventTimeCombiner checks that event time in events goes through the valve.
func TestEventTimeCombiner(t *testing.T) {
	c := task.NewWatermarkCombiners(2)
	if err := c.DeclareEventTime("time", "idle", task.NewValve(2)); err != nil {
		t.Fatal(err)
	}
	for i, tc := range []struct {
		ch   int
		w    event.WatermarkEvent
		want string
	}{
		{0, event.WatermarkEvent{Identifier: "time", Value: 5}, "[]"},
		{1, event.WatermarkEvent{Identifier: "time", Value: 7}, "[{time false 0 5}]"},
		{1, event.WatermarkEvent{Identifier: "idle", Type: event.BoolWatermark, Value: 1}, "[]"},
		{0, event.WatermarkEvent{Identifier: "idle", Type: event.BoolWatermark, Value: 1, Aligned: true}, "[{time true 0 7} {idle true 1 1}]"},
		{0, event.WatermarkEvent{Identifier: "idle", Type: event.BoolWatermark}, "[{idle false 1 0}]"},
	} {
		out, err := c.Combine(tc.ch, &tc.w)
		if got := fmt.Sprint(out.Events[:out.N]); err != nil || got != tc.want || out.Resume {
			t.Errorf("step %d: got %s, %v, want %s", i, got, err, tc.want)
		}
	}
}

// TestCombinerErrors checks what is refused, and that it changes nothing.
func TestCombinerErrors(t *testing.T) {
	c := task.NewWatermarkCombiners(1)
	for _, d := range []task.WatermarkDeclaration{{Identifier: "long"}, {Identifier: "aligned", Aligned: true}} {
		if err := c.Declare(d); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.DeclareEventTime("time", "idle", task.NewValve(1)); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"twice":       c.Declare(task.WatermarkDeclaration{Identifier: "long"}),
		"type":        c.Declare(task.WatermarkDeclaration{Identifier: "x", Type: 2}),
		"combine":     c.Declare(task.WatermarkDeclaration{Identifier: "x", Combine: 2}),
		"event time":  c.DeclareEventTime("time", "y", task.NewValve(1)),
		"idle status": c.DeclareEventTime("z", "idle", task.NewValve(1)),
	} {
		if !errors.Is(err, task.ErrValve) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, tc := range []struct {
		ch   int
		w    event.WatermarkEvent
		want error
	}{
		{0, event.WatermarkEvent{Identifier: "no such"}, task.ErrUnknownWatermark},
		{0, event.WatermarkEvent{Identifier: "z"}, task.ErrUnknownWatermark},
		{1, event.WatermarkEvent{Identifier: "long"}, task.ErrValve},
		{-1, event.WatermarkEvent{Identifier: "long"}, task.ErrValve},
		{0, event.WatermarkEvent{Identifier: "long", Type: event.BoolWatermark}, task.ErrValve},
		{0, event.WatermarkEvent{Identifier: "aligned", Type: event.BoolWatermark}, task.ErrValve},
		{0, event.WatermarkEvent{Identifier: "time", Type: event.BoolWatermark}, task.ErrValve},
		{0, event.WatermarkEvent{Identifier: "idle"}, task.ErrValve},
	} {
		if out, err := c.Combine(tc.ch, &tc.w); !errors.Is(err, tc.want) || out.N != 0 || out.Resume {
			t.Errorf("%d %+v: %+v, %v", tc.ch, tc.w, out, err)
		}
	}
}
