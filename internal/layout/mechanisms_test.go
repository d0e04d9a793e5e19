package layout

import (
	"fmt"
	"go/ast"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// mechanisms is the number of rows of docs/mechanisms.md.
const mechanisms = 157

// mechanism is one of them.
type mechanism struct {
	text         string
	where, tests []string
}

var quoted = regexp.MustCompile("`([^`]+)`")

func names(cell string) (all []string) {
	for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
		all = append(all, m[1])
	}
	return all
}

// readMechanisms returns the rows by number, and the numbers that the text lists as not built.
func readMechanisms(t *testing.T, text string) (rows map[int]mechanism, unbuilt []int) {
	t.Helper()
	rows = map[int]mechanism{}
	for line := range strings.Lines(text) {
		if list, ok := strings.CutPrefix(line, "Not built, or only in part: "); ok {
			list, _, _ = strings.Cut(list, ".")
			for _, w := range strings.Split(list, ", ") {
				n, err := strconv.Atoi(w)
				if err != nil {
					t.Errorf("%q is no number of a row", w)
				}
				unbuilt = append(unbuilt, n)
			}
		}
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 6 {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSpace(cells[1]))
		if err != nil {
			continue // the head
		}
		if _, twice := rows[n]; twice {
			t.Errorf("row %d occurs twice", n)
		}
		rows[n] = mechanism{text: cells[2], where: names(cells[3]), tests: names(cells[4])}
	}
	return rows, unbuilt
}

// declared returns everything that a package declares on its top level, "Name" or "Type.Method", by "directory.name"; the second
// one has the tests. The root package's directory is called weir here.
func declared(files []*file) (symbols, tests map[string]bool) {
	symbols, tests = map[string]bool{}, map[string]bool{}
	for _, f := range files {
		dir := f.dir()
		if dir == "." {
			dir = "weir"
		}
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				name := dir + "." + d.Name.Name
				if d.Recv != nil {
					name = dir + "." + receiver(d.Recv.List[0].Type) + "." + d.Name.Name
				}
				if f.test() {
					tests[name] = strings.HasPrefix(d.Name.Name, "Test")
				} else {
					symbols[name] = true
				}
			case *ast.GenDecl:
				if !f.test() {
					declare(symbols, dir, d)
				}
			}
		}
	}
	return symbols, tests
}

func declare(symbols map[string]bool, dir string, d *ast.GenDecl) {
	for _, s := range d.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			symbols[dir+"."+s.Name.Name] = true
		case *ast.ValueSpec:
			for _, n := range s.Names {
				symbols[dir+"."+n.Name] = true
			}
		}
	}
}

// receiver is the name of a receiver's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return fmt.Sprintf("%T", e)
}

// checkMechanisms returns what is wrong with the rows.
func checkMechanisms(rows map[int]mechanism, unbuilt []int, symbols, tests map[string]bool) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	for n := 1; n <= mechanisms; n++ {
		m, ok := rows[n]
		if !ok {
			say("row %d is missing", n)
			continue
		}
		if len(m.where) == 0 || len(m.tests) == 0 {
			say("row %d names no symbol or no test", n)
		}
		for _, s := range m.where {
			if !symbols[s] {
				say("row %d: there is no %s", n, s)
			}
		}
		for _, s := range m.tests {
			if !tests[s] {
				say("row %d: there is no test %s", n, s)
			}
		}
		if strings.Contains(m.text, "not built") != slices.Contains(unbuilt, n) {
			say("row %d: the list of what is not built says otherwise", n)
		}
	}
	if len(rows) != mechanisms {
		say("%d rows, want %d", len(rows), mechanisms)
	}
	return wrong
}

// TestMechanisms: docs/mechanisms.md has every row, and what it names exists.
func TestMechanisms(t *testing.T) {
	text, err := os.ReadFile("../../docs/mechanisms.md")
	if err != nil {
		t.Fatal(err)
	}
	rows, unbuilt := readMechanisms(t, string(text))
	symbols, tests := declared(tree(t))
	for _, w := range checkMechanisms(rows, unbuilt, symbols, tests) {
		t.Error(w)
	}
}

// TestMechanismsAreChecked shows that each rule can say no.
func TestMechanismsAreChecked(t *testing.T) {
	whole := func() map[int]mechanism {
		rows := map[int]mechanism{}
		for n := range mechanisms {
			rows[n+1] = mechanism{text: "does", where: []string{"p.S"}, tests: []string{"p.TestS"}}
		}
		return rows
	}
	symbols, tests := map[string]bool{"p.S": true}, map[string]bool{"p.TestS": true}
	if wrong := checkMechanisms(whole(), nil, symbols, tests); len(wrong) > 0 {
		t.Errorf("what is right is called wrong: %q", wrong)
	}
	for name, breakIt := range map[string]func(map[int]mechanism){
		"missing":   func(r map[int]mechanism) { delete(r, 7) },
		"more":      func(r map[int]mechanism) { r[mechanisms+1] = r[1] },
		"no symbol": func(r map[int]mechanism) { r[7] = mechanism{where: []string{"p.T"}, tests: []string{"p.TestS"}} },
		"no test":   func(r map[int]mechanism) { r[7] = mechanism{where: []string{"p.S"}, tests: []string{"p.S"}} },
		"no names":  func(r map[int]mechanism) { r[7] = mechanism{} },
		"unlisted": func(r map[int]mechanism) {
			m := r[7]
			m.text = "not built: this"
			r[7] = m
		},
	} {
		rows := whole()
		breakIt(rows)
		if len(checkMechanisms(rows, nil, symbols, tests)) == 0 {
			t.Errorf("%s: not seen", name)
		}
	}
	if rows, unbuilt := readMechanisms(t, "Not built, or only in part: 3. So.\n| 3 | x | `a.B`, `a.C.d` | `a.TestB` |\n"); len(rows) != 1 ||
		len(rows[3].where) != 2 || len(rows[3].tests) != 1 || !slices.Equal(unbuilt, []int{3}) {
		t.Errorf("read %v, %v", rows, unbuilt)
	}
}
