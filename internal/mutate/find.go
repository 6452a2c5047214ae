package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// A fault is one small change of one file.
type fault struct {
	pkg, file  string // paths inside the module, with slashes
	line       int
	fn         string // the function or declaration that it is in
	was, now   string // on one line, shortened; now is empty if something is left out
	nth        int    // of its kind in fn, from 1
	start, end int    // bytes of the file that are replaced
	text       string // the replacement
}

// key names the fault while its function does not change, on any line.
func (f fault) key() string {
	now := f.now
	if now == "" {
		now = "(left out)"
	}
	k := fmt.Sprintf("%s %s: %s → %s", f.file, f.fn, f.was, now)
	if f.nth > 1 {
		k += fmt.Sprintf(" #%d", f.nth)
	}
	return k
}

func (f fault) id() string {
	sum := sha256.Sum256([]byte(f.key()))
	return hex.EncodeToString(sum[:4])
}

func (f fault) String() string {
	return strings.Replace(f.key(), f.file, fmt.Sprintf("%s:%d", f.file, f.line), 1)
}

// finder collects the faults of one file.
type finder struct {
	set       *token.FileSet
	src       []byte
	pkg, file string
	fn        string
	neighbour map[string]string // a named constant, and another of its group
	count     map[string]int
	quiet     map[ast.Node]bool // parts that are skipped
	found     []fault
}

// faultsOf lists the possible faults of one file. neighbour has the constants of all groups
// that the file may use, by name.
func faultsOf(root, file string, neighbour map[string]string) ([]fault, error) {
	src, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
	if err != nil {
		return nil, err
	}
	w := &finder{set: token.NewFileSet(), src: src, pkg: path.Dir(file), file: file, neighbour: neighbour,
		count: map[string]int{}, quiet: map[ast.Node]bool{}}
	f, err := parser.ParseFile(w.set, file, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Body != nil && d.Name.Name != "String" && d.Name.Name != "GoString" {
				w.fn = name(d)
				ast.Inspect(d.Body, w.look)
			}
		case *ast.GenDecl:
			if d.Tok == token.VAR {
				for _, s := range d.Specs {
					if v := s.(*ast.ValueSpec); v.Names[0].Name != "_" {
						w.fn = v.Names[0].Name
						ast.Inspect(v, w.look)
					}
				}
			}
		}
	}
	return w.found, nil
}

func name(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	t := d.Recv.List[0].Type
	star := ""
	if s, ok := t.(*ast.StarExpr); ok {
		t, star = s.X, "*"
	}
	if g, ok := t.(*ast.IndexExpr); ok {
		t = g.X
	}
	id, ok := t.(*ast.Ident)
	if !ok {
		return d.Name.Name
	}
	if star != "" {
		return "(*" + id.Name + ")." + d.Name.Name
	}
	return id.Name + "." + d.Name.Name
}

var turned = map[token.Token]string{
	token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">", token.EQL: "!=", token.NEQ: "==",
	token.LAND: "||", token.LOR: "&&", token.ADD: "-", token.SUB: "+", token.MUL: "/", token.QUO: "*",
	token.ADD_ASSIGN: "-=", token.SUB_ASSIGN: "+=", token.INC: "--", token.DEC: "++",
}

// offByOne is the largest number that is made one larger: a larger number is a size, and adding
// one to it is not a fault.
const offByOne = 100

func (w *finder) look(n ast.Node) bool {
	if n == nil || w.quiet[n] {
		return false
	}
	switch n := n.(type) {
	case *ast.BinaryExpr:
		w.operator(n, n.OpPos, n.Op)
	case *ast.IncDecStmt:
		w.operator(n, n.TokPos, n.Tok)
	case *ast.AssignStmt:
		w.operator(n, n.TokPos, n.Tok)
	case *ast.IfStmt:
		if n.Else == nil && w.nothing(n.Body.List) {
			w.quiet[n.Cond] = true
			break
		}
		w.negate(n.Cond)
		if n.Else == nil && ends(n.Body) {
			w.change(n.Cond, n.Cond, "false && ("+w.text(n.Cond)+")")
		}
	case *ast.ForStmt:
		w.quiet[n.Post] = true // without it, or reversed, the loop never ends
	case *ast.SwitchStmt:
		w.lastCase(n.Body.List)
	case *ast.BlockStmt:
		w.leaveOut(n.List)
	case *ast.CaseClause:
		w.leaveOut(n.Body)
	case *ast.CommClause:
		w.leaveOut(n.Body)
	case *ast.BasicLit:
		if v, err := strconv.Atoi(n.Value); n.Kind == token.INT && err == nil && v <= offByOne {
			w.change(n, n, strconv.Itoa(v+1))
		}
	case *ast.Ident:
		switch other := map[string]string{"true": "false", "false": "true"}[n.Name]; {
		case other != "":
			w.change(n, n, other)
		case w.neighbour[n.Name] != "":
			w.change(n, n, w.neighbour[n.Name])
		}
	case *ast.SelectorExpr:
		if x, ok := n.X.(*ast.Ident); ok && w.neighbour[x.Name+"."+n.Sel.Name] != "" {
			w.change(n, n, x.Name+"."+w.neighbour[x.Name+"."+n.Sel.Name])
		}
		w.quiet[n.Sel] = true // a field, or another package's
	case *ast.KeyValueExpr:
		if _, ok := n.Key.(*ast.Ident); ok {
			w.quiet[n.Key] = true
		}
	case *ast.CallExpr:
		return w.call(n)
	}
	return true
}

// call changes calls that have an opposite, and reports whether to look into it.
func (w *finder) call(n *ast.CallExpr) bool {
	called := w.text(n.Fun)
	switch called {
	case "min":
		w.change(n, n.Fun, "max")
	case "max":
		w.change(n, n.Fun, "min")
	case "make":
		if len(n.Args) == 3 { // a capacity changes nothing
			w.quiet[n.Args[2]] = true
		} else if len(n.Args) == 2 {
			w.quiet[n.Args[1]] = isMapOrChan(n.Args[0])
		}
	case "slices.Grow", "panic", "fmt.Errorf", "errors.New":
		return false
	}
	return !says(called)
}

func isMapOrChan(e ast.Expr) bool {
	switch e.(type) {
	case *ast.MapType, *ast.ChanType:
		return true
	}
	return false
}

// says reports calls that only log.
func says(called string) bool {
	for _, part := range strings.Split(called, ".") {
		switch part {
		case "Log", "log", "slog":
			return true
		}
	}
	return false
}

// ends reports whether a block leaves its function or loop at its end.
func ends(b *ast.BlockStmt) bool {
	if len(b.List) == 0 {
		return false
	}
	switch b.List[len(b.List)-1].(type) {
	case *ast.ReturnStmt, *ast.BranchStmt:
		return true
	}
	return false
}

func (w *finder) operator(whole ast.Node, at token.Pos, op token.Token) {
	other := turned[op]
	if other == "" {
		return
	}
	from, to := w.offset(whole.Pos()), w.offset(whole.End())
	start := w.offset(at)
	end := start + len(op.String())
	w.add(fault{line: w.line(at), was: line(string(w.src[from:to])), now: line(string(w.src[from:start]) + other + string(w.src[end:to])),
		start: start, end: end, text: other})
}

func (w *finder) negate(cond ast.Expr) {
	if b, ok := cond.(*ast.BinaryExpr); ok && (b.Op == token.EQL || b.Op == token.NEQ) {
		return // which operator does
	}
	w.change(cond, cond, "!("+w.text(cond)+")")
}

// leaveOut drops statements one by one.
func (w *finder) leaveOut(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt:
			if c, ok := s.X.(*ast.CallExpr); ok && w.withoutEffect(c) {
				continue
			}
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				continue
			}
		case *ast.IncDecStmt, *ast.SendStmt:
		case *ast.BranchStmt:
			if s.Tok == token.FALLTHROUGH || s.Tok == token.GOTO {
				continue
			}
		default:
			continue
		}
		w.add(fault{line: w.line(s.Pos()), was: line(w.text(s)), start: w.offset(s.Pos()), end: w.offset(s.End()), text: w.used(s)})
	}
}

// used keeps the variables of a dropped assignment in use, so that it still compiles.
func (w *finder) used(s ast.Stmt) string {
	a, ok := s.(*ast.AssignStmt)
	if !ok || a.Tok != token.ASSIGN || len(a.Lhs) != len(a.Rhs) {
		return ""
	}
	var keep, blank []string
	for _, e := range a.Rhs {
		if id, ok := e.(*ast.Ident); ok && id.Name != "nil" && id.Name != "_" {
			keep, blank = append(keep, id.Name), append(blank, "_")
		}
	}
	if len(keep) == 0 {
		return ""
	}
	return strings.Join(blank, ", ") + " = " + strings.Join(keep, ", ")
}

// withoutEffect are calls that no test can miss: logs; locks, which the race detector checks; a
// hint to the scheduler; and returning memory for reuse.
func (w *finder) withoutEffect(c *ast.CallExpr) bool {
	called := w.text(c.Fun)
	switch called[strings.LastIndex(called, ".")+1:] {
	case "Lock", "Unlock", "RLock", "RUnlock", "panic", "Gosched":
		return true
	case "clear":
		if s, ok := c.Args[0].(*ast.SliceExpr); ok && s.Low == nil && s.High != nil {
			return w.text(s.High) == "cap("+w.text(s.X)+")"
		}
	}
	return says(called)
}

// nothing reports whether statements have no effect.
func (w *finder) nothing(l []ast.Stmt) bool {
	for _, s := range l {
		e, ok := s.(*ast.ExprStmt)
		if !ok {
			return false
		}
		if c, ok := e.X.(*ast.CallExpr); !ok || !w.withoutEffect(c) {
			return false
		}
	}
	return len(l) > 0
}

// lastCase: the part that decides whether nothing is done, or nothing.
func (w *finder) lastCase(l []ast.Stmt) {
	if len(l) == 0 {
		return
	}
	if c, ok := l[len(l)-1].(*ast.CaseClause); ok && w.nothing(c.Body) {
		for _, e := range c.List {
			w.quiet[e] = true
		}
	}
}

// change replaces a part; the fault is shown as the change of whole.
func (w *finder) change(whole, part ast.Node, text string) {
	from, to, start, end := w.offset(whole.Pos()), w.offset(whole.End()), w.offset(part.Pos()), w.offset(part.End())
	w.add(fault{line: w.line(part.Pos()), was: line(string(w.src[from:to])), now: line(string(w.src[from:start]) + text + string(w.src[end:to])),
		start: start, end: end, text: text})
}

func (w *finder) add(f fault) {
	f.pkg, f.file, f.fn = w.pkg, w.file, w.fn
	same := f.fn + "\x00" + f.was + "\x00" + f.now
	w.count[same]++
	f.nth = w.count[same]
	w.found = append(w.found, f)
}

func (w *finder) offset(p token.Pos) int { return w.set.Position(p).Offset }
func (w *finder) line(p token.Pos) int   { return w.set.Position(p).Line }
func (w *finder) text(n ast.Node) string { return string(w.src[w.offset(n.Pos()):w.offset(n.End())]) }

// shown is how much of a change is printed, in characters.
const shown = 90

// line makes one line of code out of several.
func line(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > shown {
		s = string(r[:shown]) + "…"
	}
	return s
}
