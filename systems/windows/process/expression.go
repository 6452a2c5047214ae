package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill/systems/windows/record"
)

// Bounds of an expression. There are no loops, so its time is bounded by its size.
const (
	maxSource = 4096 // bytes
	maxNodes  = 500  // of its syntax tree
	maxMemory = 10_000
)

// builtins are the functions of the language that may be used: none that goes through a list
// with an expression of its own, makes long texts of short ones, or asks for the time.
var builtins = []string{"len", "trim", "trimPrefix", "trimSuffix", "upper", "lower", "split", "indexOf", "lastIndexOf",
	"hasPrefix", "hasSuffix", "int", "float", "string", "abs", "ceil", "floor", "round", "min", "max", "type", "first", "last", "get"}

// expression is a compiled one: over the values of a record by their names, kind ("event" or
// "mention") and batch. A value is an int, a float or a text, and nil where it is null or
// where the kind has none of that name; `x ?? 0` gives it another. It may be used from several
// goroutines.
type expression struct {
	source   string
	program  *vm.Program
	used     []string   // names of values that it asks for
	machines *sync.Pool // of *machine
}

type machine struct {
	vm.VM
	names map[string]any
}

// compile checks an expression of a setting.
func compile(what, source string, more ...expr.Option) (*expression, error) {
	bad := func(err error) (*expression, error) {
		return nil, fmt.Errorf("%s: expression `%s`: %s", what, source, cause(err))
	}
	if source == "" || len(source) > maxSource {
		return nil, fmt.Errorf("%s: an expression of 1 to %d bytes is needed", what, maxSource)
	}
	names := types.Map{"kind": types.String, "batch": types.String}
	for _, k := range []record.Kind{record.Event, record.Mention} {
		for f := range k.Fields() {
			names[k.Name(record.Field(f))] = types.Any
		}
	}
	look := &guard{used: map[string]bool{}}
	options := []expr.Option{expr.Env(names), expr.DisableAllBuiltins(), expr.MaxNodes(maxNodes), expr.Patch(look)}
	for _, b := range builtins {
		options = append(options, expr.EnableBuiltin(b))
	}
	p, err := expr.Compile(source, append(options, more...)...)
	if err == nil {
		err = look.found
	}
	if err != nil {
		return bad(err)
	}
	e := &expression{source: source, program: p, machines: &sync.Pool{New: func() any { return &machine{names: map[string]any{}} }}}
	for name := range look.used {
		e.used = append(e.used, name)
	}
	slices.Sort(e.used)
	return e, nil
}

// run gives the expression's value for a record. An error quotes nothing of the data.
func (e *expression) run(batch string, r *record.Record) (any, error) {
	m := e.machines.Get().(*machine)
	defer e.machines.Put(m)
	for _, name := range e.used {
		switch name {
		case "kind":
			m.names[name] = r.Kind.String()
		case "batch":
			m.names[name] = batch
		default:
			m.names[name] = value(r, name)
		}
	}
	m.MemoryBudget = maxMemory
	v, err := m.Run(e.program, m.names)
	if err != nil {
		return nil, fmt.Errorf("expression `%s`: %s", e.source, cause(err))
	}
	return v, nil
}

// value is a record's as expressions know it.
func value(r *record.Record, name string) any {
	f, ok := r.Kind.Lookup(name)
	if !ok {
		return nil
	}
	switch r.Kind.Type(f) {
	case record.Integer:
		if n, ok := r.Int(f); ok {
			return int(n)
		}
	case record.Number:
		if x, ok := r.Float(f); ok {
			return x
		}
	case record.Text:
		if s, ok := r.Text(f); ok {
			return s
		}
	}
	return nil
}

// asJSON is the value of an expression as JSON: nothing but null, booleans, numbers, texts and
// lists and objects of them.
func asJSON(v any) ([]byte, error) {
	if s, text := v.(string); text {
		b, _ := jsontext.AppendQuote(nil, s) // U+FFFD stands for what is no UTF-8: a text may have been cut
		return b, nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, errors.New("its value is nothing that JSON can write")
	}
	return b, nil
}

// cause is the message without the picture of the source that the language draws.
func cause(err error) string {
	if e, ok := errors.AsType[*file.Error](err); ok {
		return e.Message
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}

// guard finds what could run or grow with the data, and which names are asked for.
type guard struct {
	found error
	used  map[string]bool
}

// Visit looks at one node.
func (g *guard) Visit(n *ast.Node) {
	var what string
	switch n := (*n).(type) {
	case *ast.PredicateNode:
		what = "a loop"
	case *ast.BuiltinNode: // loops are there even where they are not enabled
		if !slices.Contains(builtins, n.Name) {
			what = n.Name
		}
	case *ast.IdentifierNode:
		if n.Value == "$env" {
			what = n.Value
		}
		g.used[n.Value] = true
	case *ast.VariableDeclaratorNode:
		what = "let"
	case *ast.BinaryNode:
		switch n.Operator {
		case "..":
			what = "a range"
		case "matches":
			if _, fixed := n.Right.(*ast.StringNode); !fixed {
				what = "a regular expression that is no text of the setting"
			}
		case "**", "^":
			what = "a power"
		}
	}
	if what != "" && g.found == nil {
		g.found = fmt.Errorf("%s is not possible here", what)
	}
}
