package conform

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// unchecked are the values of a line that are not compared with anything, or that may be another and still be right.
var unchecked = map[string]string{
	"Value.serializer":                  "the name of Flink's class, which the library has none of",
	"Key.assignments[].maxParallelism":  "a key may be in the same group of another number of groups",
	"Key.assignments[].parallelism":     "a group may be of the same subtask of another number of subtasks",
	"DefaultMaxParallelism.parallelism": "several have the same maximum",
	"Spanning.flushAfter[]":             "a flush changes nothing where a buffer ends",
	"Spanning.flushAfter[+]":            "as above",
}

// TestEveryValueCounts changes each value of the first lines of each kind, one at a time. Each such line must fail: a value that may be
// anything is one that is not checked.
func TestEveryValueCounts(t *testing.T) {
	paths, err := filepath.Glob("testdata/vectors/*.jsonl")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d files: %v", len(paths), err)
	}
	tried := 0
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]int{}
		for line := range bytes.Lines(text) {
			var v map[string]any
			if err := decodeJSON(line, &v); err != nil {
				t.Fatal(err)
			}
			fields := v["fields"].(map[string]any)
			if kind := fmt.Sprint(v["kind"], fields["type"], fields["valueType"], fields["partition"] == nil); len(line) > 20000 || seen[kind] == 3 {
				continue
			} else {
				seen[kind]++
			}
			mutate(fields, v["kind"].(string), func(name string, wanted any) {
				if unchecked[name] != "" {
					return
				}
				tried++
				changed, err := json.Marshal(v)
				if err != nil {
					t.Fatal(err)
				}
				parsed, err := parseVector(changed)
				if err == nil && guard(func() error { return checkVector(parsed) }) == nil {
					t.Errorf("%s %s: passed with another %s than %v", filepath.Base(path), v["name"], name, wanted)
				}
			})
		}
	}
	if tried < 1000 {
		t.Errorf("only %d values were changed", tried)
	}
}

// mutate changes each value in v, calls try and changes it back.
func mutate(v any, name string, try func(name string, wanted any)) {
	change := func(name string, old any, set func(any)) {
		for _, n := range otherValues(old) {
			set(n)
			try(name, old)
			set(old)
		}
		mutate(old, name, try)
	}
	switch v := v.(type) {
	case map[string]any:
		for k, old := range v {
			change(name+"."+k, old, func(n any) { v[k] = n })
			if list, ok := old.([]any); ok {
				v[k] = append(append([]any{}, list...), json.Number("7"))
				try(name+"."+k+"[+]", old)
				v[k] = old
			}
		}
	case []any:
		for i, old := range v {
			change(name+"[]", old, func(n any) { v[i] = n })
		}
	}
}

// otherValues returns values of the same JSON type, or any for null.
func otherValues(v any) []any {
	switch v := v.(type) {
	case nil:
		return []any{"00", json.Number("0"), true}
	case bool:
		return []any{!v}
	case json.Number:
		n, err := v.Int64()
		if err != nil {
			return nil
		}
		return []any{json.Number(fmt.Sprint(n + 1)), json.Number(fmt.Sprint(n ^ 0x40))}
	case string:
		if v == "" {
			return []any{"00", "61"}
		}
		digit := func(old string) string {
			if strings.ContainsAny(old, "1") {
				return "2"
			}
			return "1"
		}
		longer := v + "11" // of hexadecimal digits, too
		if strings.ContainsAny(v, ".!") {
			longer = v + "!"
		}
		return []any{digit(v[:1]) + v[1:], v[:len(v)-1] + digit(v[len(v)-1:]), longer}
	}
	return nil
}
