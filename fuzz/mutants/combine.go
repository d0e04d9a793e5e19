package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// combined is a set of overlaid files that hold many mutants at once: a function that some of them break becomes a choice between
// what it was and what each of them makes of it, a variable gets another value, and the process's environment chooses. So a package's tests are compiled once,
// not once for each mutant.
type combined struct {
	overlay string         // for the compiler
	number  map[string]int // of each mutant that is in, by name
}

// chooser is the environment variable with the number of the mutant that a process runs.
const chooser = "WEIR_MUTANT"

// combine writes the files to dir. A mutant that breaks something else than the body of one function or the value of one variable is left out.
func combine(root, dir string, ms []Mutant) (*combined, error) {
	sources, number, err := together(root, ms)
	if err != nil {
		return nil, err
	}
	c := &combined{number: number}
	replace := map[string]string{}
	put := func(name, text string) error {
		to := filepath.Join(dir, strconv.Itoa(len(replace))+".go")
		replace[filepath.Join(root, filepath.FromSlash(name))] = to
		return os.WriteFile(to, []byte(text), 0o600)
	}
	chosen := map[string]bool{}
	for name, s := range sources {
		if err := put(name, s.text()); err != nil {
			return nil, err
		}
		at := filepath.Dir(name)
		if chosen[at] {
			continue
		}
		chosen[at] = true
		if err := put(filepath.Join(at, "mutant_chosen.go"), fmt.Sprintf(
			"package %s\n\nimport (\n\t\"os\"\n\t\"strconv\"\n)\n\nvar mutantChosen, _ = strconv.Atoi(os.Getenv(%q))\n", s.ast.Name, chooser)); err != nil {
			return nil, err
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, err
	}
	c.overlay = filepath.Join(dir, "overlay.json")
	return c, os.WriteFile(c.overlay, list, 0o600)
}

// source is a file, and what mutants make of its functions.
type source struct {
	code string
	fset *token.FileSet
	ast  *ast.File
	// broken has for the index of a declaration the broken ones, by the mutants' numbers.
	broken    map[int][]variant
	variables []variable
}

// variant is a declaration of a function as a mutant has it.
type variant struct {
	number int
	code   string
}

// variable is what a mutant makes of the value of a package's variable. It is set before anything but the values of other variables
// can have used it.
type variable struct {
	name, value string
	number      int
}

// together adds what the mutants break to the files that they are of, and returns those by name and the numbers of the mutants that
// are in.
func together(root string, ms []Mutant) (sources map[string]*source, number map[string]int, err error) {
	sources, number = map[string]*source{}, map[string]int{}
	for i := range ms {
		m := &ms[i]
		s := sources[m.File]
		if s == nil {
			if s, err = readSource(root, m.File); err != nil {
				return nil, nil, err
			}
			sources[m.File] = s
		}
		broken, err := m.apply(root)
		if err != nil {
			return nil, nil, err
		}
		if s.add(string(broken), i+1) {
			number[m.Name] = i + 1
		}
	}
	return sources, number, nil
}

func readSource(root, name string) (*source, error) {
	code, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		return nil, err
	}
	return parseSource(string(code))
}

func parseSource(code string) (*source, error) {
	s := &source{code: code, fset: token.NewFileSet(), broken: map[int][]variant{}}
	var err error
	s.ast, err = parser.ParseFile(s.fset, "", code, parser.SkipObjectResolution)
	return s, err
}

// slice is the code between two positions.
func (s *source) slice(from, to token.Pos) string {
	return s.code[s.fset.Position(from).Offset:s.fset.Position(to).Offset]
}

func (s *source) decl(i int) string { return s.slice(s.ast.Decls[i].Pos(), s.ast.Decls[i].End()) }

// add takes in the file as a mutant has it, if all that differs is the body of one function.
func (s *source) add(broken string, number int) bool {
	b, err := parseSource(broken)
	if err != nil || len(b.ast.Decls) != len(s.ast.Decls) {
		return false
	}
	at := -1
	for i := range s.ast.Decls {
		if s.decl(i) != b.decl(i) {
			if at >= 0 {
				return false
			}
			at = i
		}
	}
	if at < 0 {
		return false
	}
	if name, value := b.variable(at); name != "" && strings.HasPrefix(s.decl(at), "var "+name) {
		s.variables = append(s.variables, variable{name, value, number})
		return true
	}
	was, ok := s.ast.Decls[at].(*ast.FuncDecl)
	is, ok2 := b.ast.Decls[at].(*ast.FuncDecl)
	if !ok || !ok2 || was.Name.Name == "init" || s.slice(was.Pos(), was.Body.Pos()) != b.slice(is.Pos(), is.Body.Pos()) {
		return false
	}
	s.broken[at] = append(s.broken[at], variant{number, b.renamed(is, variantName(is, number))})
	return true
}

// variable returns name and value of declaration i, if it is that of a single variable without a type.
func (s *source) variable(i int) (name, value string) {
	d, ok := s.ast.Decls[i].(*ast.GenDecl)
	if !ok || d.Tok != token.VAR || len(d.Specs) != 1 {
		return "", ""
	}
	v := d.Specs[0].(*ast.ValueSpec)
	if len(v.Names) != 1 || len(v.Values) != 1 || v.Type != nil {
		return "", ""
	}
	return v.Names[0].Name, s.slice(v.Values[0].Pos(), v.Values[0].End())
}

func variantName(f *ast.FuncDecl, number int) string {
	return f.Name.Name + "Mutant" + strconv.Itoa(number)
}

// renamed is the function with another name.
func (s *source) renamed(f *ast.FuncDecl, name string) string {
	return s.slice(f.Pos(), f.Name.Pos()) + name + s.slice(f.Name.End(), f.End())
}

// text is the file with the choices in it.
func (s *source) text() string {
	at := make([]int, 0, len(s.broken))
	for i := range s.broken {
		at = append(at, i)
	}
	slices.Sort(at)
	var out strings.Builder
	from := s.ast.FileStart
	for _, i := range at {
		f := s.ast.Decls[i].(*ast.FuncDecl)
		out.WriteString(s.slice(from, f.Pos()))
		out.WriteString(s.choice(f, s.broken[i]))
		from = f.End()
	}
	out.WriteString(s.slice(from, s.ast.FileEnd))
	for _, i := range at {
		f := s.ast.Decls[i].(*ast.FuncDecl)
		fmt.Fprintf(&out, "\n%s\n", s.renamed(f, variantName(f, 0)))
		for _, v := range s.broken[i] {
			fmt.Fprintf(&out, "\n%s\n", v.code)
		}
	}
	for _, v := range s.variables {
		broken := v.name + "Mutant" + strconv.Itoa(v.number)
		fmt.Fprintf(&out, "\nvar %s = %s\n\nfunc init() {\n\tif mutantChosen == %d {\n\t\t%s = %s\n\t}\n}\n", broken, v.value, v.number, v.name, broken)
	}
	return out.String()
}

// choice is the function f as one that calls the variant which was chosen. Its parameters get names of their own, since they may
// have none, or that of a type.
func (s *source) choice(f *ast.FuncDecl, variants []variant) string {
	var out strings.Builder
	out.WriteString("func ")
	prefix, args := "", ""
	if f.Recv != nil {
		r := f.Recv.List[0].Type
		fmt.Fprintf(&out, "(mutantReceiver %s) ", s.slice(r.Pos(), r.End()))
		prefix = "mutantReceiver."
	}
	out.WriteString(f.Name.Name)
	var types []string
	if p := f.Type.TypeParams; p != nil {
		out.WriteString(s.slice(p.Pos(), p.End()))
		for _, field := range p.List {
			for _, n := range field.Names {
				types = append(types, n.Name)
			}
		}
	}
	out.WriteByte('(')
	n := 0
	for _, field := range f.Type.Params.List {
		for range max(1, len(field.Names)) {
			fmt.Fprintf(&out, "mutantArg%d %s, ", n, s.slice(field.Type.Pos(), field.Type.End()))
			args += fmt.Sprintf("mutantArg%d", n)
			if _, variadic := field.Type.(*ast.Ellipsis); variadic {
				args += "..."
			}
			args += ", "
			n++
		}
	}
	out.WriteString(") ")
	give := ""
	if r := f.Type.Results; r != nil {
		out.WriteString(s.slice(r.Pos(), r.End()))
		give = "return "
	}
	inst := ""
	if len(types) > 0 {
		inst = "[" + strings.Join(types, ", ") + "]"
	}
	call := func(number int) string {
		return give + prefix + variantName(f, number) + inst + "(" + args + ")"
	}
	out.WriteString(" {\n\tswitch mutantChosen {\n")
	for _, v := range variants {
		fmt.Fprintf(&out, "\tcase %d:\n\t\t%s\n", v.number, call(v.number))
	}
	fmt.Fprintf(&out, "\tdefault:\n\t\t%s\n\t}\n}", call(0))
	return out.String()
}
