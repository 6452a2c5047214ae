package logbook

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemill/tidemill/internal/gofiles"
)

// methods of slog.Logger that write a record, with the place of the message among their arguments.
var methods = map[string]int{
	"Debug": 0, "Info": 0, "Warn": 0, "Error": 0,
	"DebugContext": 1, "InfoContext": 1, "WarnContext": 1, "ErrorContext": 1,
	"Log": 2, "LogAttrs": 2,
}

// around are what else of log/slog makes records, or loggers that nobody passed: all of it is
// forbidden.
var around = []string{"Debug", "Info", "Warn", "Error", "DebugContext", "InfoContext", "WarnContext", "ErrorContext", "Log", "LogAttrs",
	"With", "Default", "SetDefault", "NewRecord", "NewLogLogger", "SetLogLoggerLevel"}

// mayLog are the files that may use package log, and why.
var mayLog = map[string]string{
	"cli/main.go":     "it silences the package, which Go's HTTP client writes to",
	"serve/server.go": "Go's HTTP server takes nothing else; a writer makes records of it",
}

// Find finds the records in the source of the product below a folder, and what is wrong with them,
// each as "file:line: what".
func Find(root string) (all []Record, wrong []string, err error) {
	err = gofiles.Walk(root, func(rel string) bool { return !product(rel) }, func(rel, path string) error {
		some, bad, err := find(rel, path, nil)
		all, wrong = append(all, some...), append(wrong, bad...)
		return err
	})
	at := map[string]string{}
	for _, r := range all {
		if first := at[r.Name]; first != "" {
			wrong = append(wrong, fmt.Sprintf("%s: %q is written at %s too: give one another name, or write it in one place", r.At, r.Name, first))
		}
		at[r.Name] = r.At
	}
	inOrder(all)
	return all, wrong, err
}

// product reports whether a folder is part of the product.
func product(rel string) bool {
	top, _, _ := strings.Cut(rel, "/")
	return !slices.Contains([]string{"test", "bench", "scripts", "examples", "sim"}, top) &&
		!strings.HasSuffix(rel, "test") && !slices.Contains([]string{"internal/testenv", "internal/mutate", "internal/logbook"}, rel)
}

// file is one that is looked at.
type file struct {
	rel     string
	set     *token.FileSet
	imports map[string]string         // paths by the names they have here
	above   map[int]*ast.CommentGroup // by the line that follows them
	all     []Record
	wrong   []string
}

func find(rel, name string, src any) ([]Record, []string, error) {
	f := &file{rel: rel, set: token.NewFileSet(), imports: map[string]string{}, above: map[int]*ast.CommentGroup{}}
	parsed, err := parser.ParseFile(f.set, name, src, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		return nil, nil, err
	}
	for _, i := range parsed.Imports {
		path, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			return nil, nil, err
		}
		local := path[strings.LastIndexByte(path, '/')+1:]
		if i.Name != nil {
			local = i.Name.Name
		}
		f.imports[local] = path
		if local == "." {
			f.tell(i.Pos(), "%s is imported with a dot: what it logs cannot be seen", path)
		}
	}
	for _, c := range parsed.Comments {
		f.above[f.line(c.End())+1] = c
	}
	called := map[*ast.SelectorExpr]bool{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok {
				called[s] = true
				f.call(n, s)
			}
		case *ast.SelectorExpr:
			f.selector(n, called[n])
		case *ast.Field:
			f.field(n)
		case *ast.CompositeLit:
			if s, ok := n.Type.(*ast.SelectorExpr); ok && f.of(s) == "log/slog" && s.Sel.Name == "Record" {
				f.tell(n.Pos(), "a slog.Record is made by hand: call the logger")
			}
		}
		return true
	})
	return f.all, f.wrong, nil
}

func (f *file) line(p token.Pos) int { return f.set.Position(p).Line }

func (f *file) tell(at token.Pos, format string, args ...any) {
	f.wrong = append(f.wrong, fmt.Sprintf("%s:%d: ", f.rel, f.line(at))+fmt.Sprintf(format, args...))
}

// of is the path of the package that a selector is of; empty: of none.
func (f *file) of(s *ast.SelectorExpr) string {
	x, ok := s.X.(*ast.Ident)
	if !ok {
		return ""
	}
	return f.imports[x.Name]
}

// selector refuses other ways of logging.
func (f *file) selector(s *ast.SelectorExpr, called bool) {
	switch path := f.of(s); {
	case path == "log" && mayLog[f.rel] == "":
		f.tell(s.Pos(), "package log is not used: call the logger that was passed")
	case path == "log/slog" && slices.Contains(around, s.Sel.Name):
		f.tell(s.Pos(), "slog.%s is not used: call the logger that was passed", s.Sel.Name)
	case path == "" && !called && isLog(s.X):
		if _, is := methods[s.Sel.Name]; is {
			f.tell(s.Pos(), "%s is passed on: call it where the record is written", s.Sel.Name)
		}
	}
}

// isLog reports whether an expression is called as all loggers are: log, Log, log().
func isLog(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return strings.EqualFold(e.Name, "log")
	case *ast.SelectorExpr:
		return strings.EqualFold(e.Sel.Name, "log")
	case *ast.CallExpr:
		return isLog(e.Fun)
	}
	return false
}

// field refuses other names of loggers: what is called on one by another name is found, but not
// that its method is passed on.
func (f *file) field(n *ast.Field) {
	star, ok := n.Type.(*ast.StarExpr)
	if !ok {
		return
	}
	if s, ok := star.X.(*ast.SelectorExpr); !ok || f.of(s) != "log/slog" || s.Sel.Name != "Logger" {
		return
	}
	for _, name := range n.Names {
		if !isLog(name) && name.Name != "_" {
			f.tell(name.Pos(), "a logger is called %s: call it log", name.Name)
		}
	}
}

// call looks at a call, which is a record if it is of a method that no other type of the product
// has with such arguments: whatever the logger is called, it is found.
func (f *file) call(c *ast.CallExpr, s *ast.SelectorExpr) {
	if s.Sel.Name == "With" && f.of(s) == "" && len(c.Args) > 0 {
		if _, is := text(c.Args[0]); is {
			f.keys(c.Pos(), c.Args, everywhere)
		}
		return
	}
	at, is := methods[s.Sel.Name]
	if !is || f.of(s) != "" && f.of(s) != "log" || len(c.Args) <= at || at == 0 && isContext(c.Args[0]) {
		return // an error's Error() has no arguments, and a context is no message
	}
	r := Record{Level: strings.ToLower(strings.TrimSuffix(s.Sel.Name, "Context")), Part: partOf(f.rel), At: fmt.Sprintf("%s:%d", f.rel, f.line(c.Pos()))}
	if at == 2 {
		r.Level = f.levelOf(c.Args[1])
	}
	if r.Name, is = text(c.Args[at]); !is || r.Name == "" {
		f.tell(c.Pos(), "the message is no literal: make what varies a field")
		return
	}
	switch {
	case !slices.Contains(levels, r.Level):
		f.tell(c.Pos(), "the level of %q is no constant of slog", r.Name)
	case r.Part == "":
		f.tell(c.Pos(), "%q is of no part that the reference has", r.Name)
	}
	r.Fields = f.keys(c.Pos(), c.Args[at+1:], known)
	f.explained(c, &r)
	f.all = append(f.all, r)
}

// isContext reports whether an expression is a context: ctx, or x.Context().
func isContext(e ast.Expr) bool {
	if c, ok := e.(*ast.CallExpr); ok {
		s, ok := c.Fun.(*ast.SelectorExpr)
		return ok && s.Sel.Name == "Context"
	}
	x, ok := e.(*ast.Ident)
	return ok && x.Name == "ctx"
}

func (f *file) levelOf(e ast.Expr) string {
	if s, ok := e.(*ast.SelectorExpr); ok && f.of(s) == "log/slog" {
		return strings.ToLower(strings.TrimPrefix(s.Sel.Name, "Level"))
	}
	return ""
}

// text is the value of a literal.
func text(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(lit.Value)
	return s, err == nil
}

// keys are those of fields: of a literal and a value, or of a call whose first argument is the key.
func (f *file) keys(at token.Pos, args []ast.Expr, allowed map[string]string) (keys []string) {
	for i := 0; i < len(args); i++ {
		key, is := text(args[i])
		if is {
			i++ // its value
		} else if c, ok := args[i].(*ast.CallExpr); ok && len(c.Args) > 0 {
			key, is = text(c.Args[0])
		}
		switch {
		case !is:
			f.tell(at, "a field has a key that is no literal")
		case i >= len(args):
			f.tell(at, "the field %q has no value", key)
		case allowed[key] == "":
			f.tell(at, "the field %q is not known: take one that is, or say in keys.go what it means", key)
		case slices.Contains(keys, key):
			f.tell(at, "the field %q is there twice", key)
		}
		keys = append(keys, key)
	}
	return keys
}

// explained reads the comment above a call.
func (f *file) explained(c *ast.CallExpr, r *Record) {
	why := ""
	if g := f.above[f.line(c.Pos())]; g != nil {
		_, why, _ = strings.Cut("\n"+g.Text(), "\nLogged ")
	}
	why = strings.Join(strings.Fields(why), " ")
	r.When, r.Do, _ = strings.Cut(why, " To do: ")
	loud := r.Level == "warn" || r.Level == "error"
	switch {
	case r.When == "":
		f.tell(c.Pos(), "no comment above says when %q is written: // Logged when …", r.Name)
	case loud && r.Do == "":
		f.tell(c.Pos(), "no comment above says what to do about %q: // To do: …", r.Name)
	case !loud && r.Do != "":
		f.tell(c.Pos(), "%q asks to do something, and is only %s", r.Name, r.Level)
	case !strings.HasSuffix(why, "."):
		f.tell(c.Pos(), "what is said of %q does not end as a sentence", r.Name)
	}
}
