package main

import (
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// built is a package with many faults compiled in, so that tests are compiled once for all of
// them. Each function has a copy for each of its faults and begins with a switch to them. The
// environment of a test says which fault is in force. The number 0 is none.
type built struct {
	m       *module
	pkg     string
	dir     string
	overlay string
	number  map[string]int    // of a fault, by key; one that does not compile has no number
	why     string            // what the compiler said of those
	tests   map[string]*tests // by their package
}

// inForce is the environment variable with the number of the fault.
const inForce = "TIDEMILL_MUTATE_FAULT"

// chooser is added to the changed package.
const chooser = `package %s

import (
	"os"
	"strconv"
)

var faultInForce = func() int {
	n, _ := strconv.Atoi(os.Getenv(%q))
	return n
}()

func chooseFault[T any](numbers []int, values ...T) T {
	for i, n := range numbers {
		if n == faultInForce {
			return values[i+1]
		}
	}
	return values[0]
}
`

// newBuilt compiles the package with its faults. Those that do not compile are dropped one
// after the other.
func newBuilt(ctx context.Context, r *runner, pkg string, faults []fault) (*built, error) {
	dir, err := os.MkdirTemp(r.dir, "built")
	if err != nil {
		return nil, err
	}
	b := &built{m: r.m, pkg: pkg, dir: dir, number: map[string]int{}, tests: map[string]*tests{}}
	for i, f := range faults {
		b.number[f.key()] = i + 1
	}
	for {
		lines, err := b.write(faults)
		if err != nil {
			return nil, err
		}
		out, err := r.goes(ctx, "build", "-overlay", b.overlay, "-gcflags=./"+pkg+"=-e", "./"+pkg)
		if err == nil {
			return b, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		b.why += out
		if !b.drop(out, lines, faults) {
			return nil, fmt.Errorf("%s does not compile, whatever faults are left out: %w\n%s", pkg, err, out)
		}
	}
}

// A line of a changed file may belong to faults.
type at struct {
	file string // its last part
	line int
}

var compilerSaid = regexp.MustCompile(`(?m)([^/\s:]+\.go):(\d+):\d+: `)

// drop leaves out the faults that the compiler rejects, and reports whether there were any.
func (b *built) drop(out string, lines map[at][]int, faults []fault) bool {
	any := false
	for _, m := range compilerSaid.FindAllStringSubmatch(out, -1) {
		n, _ := strconv.Atoi(m[2])
		for _, number := range lines[at{m[1], n}] {
			if key := faults[number-1].key(); b.number[key] != 0 {
				delete(b.number, key)
				any = true
			}
		}
	}
	return any
}

// write makes the changed files, and maps their lines to faults.
func (b *built) write(faults []fault) (map[at][]int, error) {
	lines := map[at][]int{}
	replace := map[string]string{}
	files := map[string][]fault{}
	for _, f := range faults {
		if b.number[f.key()] != 0 {
			files[f.file] = append(files[f.file], f)
		}
	}
	name := ""
	for _, file := range b.m.packages[b.pkg].GoFiles {
		whole := path.Join(b.pkg, file)
		original := filepath.Join(b.m.root, filepath.FromSlash(whole))
		text, pkg, err := b.changed(original, files[whole], lines)
		if err != nil {
			return nil, err
		}
		name = pkg
		replace[original] = filepath.Join(b.dir, file)
		if err := os.WriteFile(replace[original], []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	extra := filepath.Join(b.dir, "faultinforce.go")
	replace[filepath.Join(b.m.root, filepath.FromSlash(b.pkg), "faultinforce.go")] = extra
	if err := os.WriteFile(extra, fmt.Appendf(nil, chooser, name, inForce), 0o600); err != nil {
		return nil, err
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, err
	}
	b.overlay = filepath.Join(b.dir, "overlay.json")
	return lines, os.WriteFile(b.overlay, list, 0o600)
}

// An edit replaces some bytes by text.
type edit struct {
	from, to int
	text     string
}

// changed is the text of a file with its faults, and the name of its package. The original code
// keeps its lines; the copies follow it.
func (b *built) changed(original string, faults []fault, lines map[at][]int) (string, string, error) {
	src, err := os.ReadFile(original)
	if err != nil {
		return "", "", err
	}
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, original, src, parser.SkipObjectResolution)
	if err != nil {
		return "", "", err
	}
	c := copier{b: b, set: set, src: src, file: filepath.Base(original), lines: lines}
	for _, d := range f.Decls {
		from, to := c.offset(d.Pos()), c.offset(d.End())
		var in []fault
		for _, f := range faults {
			if from <= f.start && f.end <= to {
				in = append(in, f)
			}
		}
		if len(in) == 0 {
			continue
		}
		switch d := d.(type) {
		case *ast.FuncDecl:
			c.function(d, in)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				c.variable(s.(*ast.ValueSpec), in)
			}
		}
	}
	return c.text(), f.Name.Name, nil
}

// copier makes the changed text of one file.
type copier struct {
	b     *built
	set   *token.FileSet
	src   []byte
	file  string
	lines map[at][]int
	edits []edit
	tail  strings.Builder
}

func (c *copier) offset(p token.Pos) int { return c.set.Position(p).Offset }

func (c *copier) part(n ast.Node) string { return string(c.src[c.offset(n.Pos()):c.offset(n.End())]) }

// text is the file with the edits, and the copies after it.
func (c *copier) text() string {
	slices.SortFunc(c.edits, func(a, b edit) int { return a.from - b.from })
	var out strings.Builder
	done := 0
	for _, e := range c.edits {
		out.Write(c.src[done:e.from])
		out.WriteString(e.text)
		done = e.to
	}
	out.Write(c.src[done:])
	out.WriteString(c.tail.String())
	return out.String()
}

// function gives a function copies, and a switch to them at its beginning.
func (c *copier) function(d *ast.FuncDecl, faults []fault) {
	call := c.call(d)
	var cases strings.Builder
	from, nameFrom, nameTo, to := c.offset(d.Pos()), c.offset(d.Name.Pos()), c.offset(d.Name.End()), c.offset(d.End())
	for _, f := range faults {
		n := c.b.number[f.key()]
		name := fmt.Sprintf("fault%d%s", n, d.Name.Name)
		returns := "return " + call(name)
		if d.Type.Results == nil {
			returns = call(name) + "; return"
		}
		fmt.Fprintf(&cases, " case %d: %s;", n, returns)
		c.copy(n, string(c.src[from:nameFrom])+name+string(c.src[nameTo:f.start])+f.text+string(c.src[f.end:to]))
	}
	brace := c.offset(d.Body.Lbrace) + 1
	c.edits = append(c.edits, edit{brace, brace, " switch faultInForce {" + cases.String() + " };"})
}

// call names a function's parameters, and returns how another function of the same form is
// called with them.
func (c *copier) call(d *ast.FuncDecl) func(name string) string {
	receiver := ""
	if d.Recv != nil {
		receiver = c.named(d.Recv, "faulty") + "."
	}
	types := ""
	if d.Type.TypeParams != nil {
		var l []string
		for _, f := range d.Type.TypeParams.List {
			for _, n := range f.Names {
				l = append(l, n.Name)
			}
		}
		types = "[" + strings.Join(l, ", ") + "]"
	}
	given := c.named(d.Type.Params, "given")
	if l := d.Type.Params.List; len(l) > 0 {
		if _, many := l[len(l)-1].Type.(*ast.Ellipsis); many {
			given += "..."
		}
	}
	return func(name string) string { return receiver + name + types + "(" + given + ")" }
}

// named gives names to unnamed fields, and returns all.
func (c *copier) named(l *ast.FieldList, prefix string) string {
	var names []string
	for _, f := range l.List {
		if len(f.Names) == 0 {
			n := fmt.Sprintf("%s%d", prefix, len(names))
			names = append(names, n)
			from := c.offset(f.Type.Pos())
			c.edits = append(c.edits, edit{from, from, n + " "})
		}
		for _, id := range f.Names {
			n := id.Name
			if n == "_" {
				n = fmt.Sprintf("%s%d", prefix, len(names))
				c.edits = append(c.edits, edit{c.offset(id.Pos()), c.offset(id.End()), n})
			}
			names = append(names, n)
		}
	}
	return strings.Join(names, ", ")
}

// variable gives a variable one of several values.
func (c *copier) variable(s *ast.ValueSpec, faults []fault) {
	for i, v := range s.Values {
		from, to := c.offset(v.Pos()), c.offset(v.End())
		var numbers, names []string
		kind := ""
		if s.Type != nil {
			kind = " " + c.part(s.Type)
		}
		for _, f := range faults {
			if f.start < from || to < f.end {
				continue
			}
			n := c.b.number[f.key()]
			numbers = append(numbers, strconv.Itoa(n))
			name := fmt.Sprintf("fault%d%s", n, s.Names[i].Name)
			names = append(names, name)
			c.copy(n, "var "+name+kind+" = "+string(c.src[from:f.start])+f.text+string(c.src[f.end:to]))
		}
		if len(numbers) > 0 {
			before := "chooseFault([]int{" + strings.Join(numbers, ", ") + "}, "
			c.edits = append(c.edits, edit{from, from, before}, edit{to, to, ", " + strings.Join(names, ", ") + ")"})
		}
	}
}

// copy puts a declaration with a fault at the end of the file.
func (c *copier) copy(number int, text string) {
	first := strings.Count(string(c.src), "\n") + strings.Count(c.tail.String(), "\n") + 1
	c.tail.WriteString("\n" + text + "\n")
	for i := range strings.Count(text, "\n") + 2 {
		at := at{c.file, first + i}
		c.lines[at] = append(c.lines[at], number)
	}
}

func (b *built) close() { _ = os.RemoveAll(b.dir) }
