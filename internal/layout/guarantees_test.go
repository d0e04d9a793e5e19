package layout

import (
	"os"
	"path"
	"strings"
	"testing"
)

// TestGuaranteesAreShown: each row of docs/guarantees.md names tests, which exist.
func TestGuaranteesAreShown(t *testing.T) {
	text, err := os.ReadFile("../../docs/guarantees.md")
	if err != nil {
		t.Fatal(err)
	}
	symbols, tests := declared(tree(t))
	rows := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 5 || strings.TrimSpace(cells[3]) == "shown by" || strings.Contains(cells[3], "---") {
			continue
		}
		rows++
		shown := names(cells[3])
		if len(shown) == 0 {
			t.Errorf("no test shows: %s", cells[1])
		}
		for _, name := range shown {
			_, fuzz := tests[name]
			fuzz = fuzz && strings.HasPrefix(path.Ext(name), ".Fuzz")
			if !tests[name] && !fuzz || symbols[name] {
				t.Errorf("%s: there is no test %s", strings.TrimSpace(cells[1]), name)
			}
		}
	}
	if rows < 20 {
		t.Errorf("only %d rows", rows)
	}
}
