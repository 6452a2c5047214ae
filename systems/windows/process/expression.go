package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill/internal/expressions"
	"github.com/tidemill/tidemill/systems/windows/record"
)

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

// typeOf are the types that values have which are not null.
var typeOf = map[record.Type]types.Type{record.Integer: types.Int, record.Number: types.Float64, record.Text: types.String}

type machine struct {
	vm.VM
	names map[string]any
}

// compile checks an expression of a setting.
func compile(what, source string, more ...expr.Option) (*expression, error) {
	names := types.Map{"kind": types.String, "batch": types.String}
	there := types.Map{"kind": types.String, "batch": types.String} // as if no value were null
	for _, k := range []record.Kind{record.Event, record.Mention} {
		for i := range k.Fields() {
			f := record.Field(i)
			names[k.Name(f)], there[k.Name(f)] = types.Any, typeOf[k.Type(f)]
		}
	}
	o := expressions.Options{Names: names, Builtins: []string{"string"}, Patterns: true, More: more}
	p, used, err := expressions.Compile(source, o)
	if err == nil { // what is wrong even then fails always
		o.Names = there
		_, _, err = expressions.Compile(source, o)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return &expression{source: source, program: p, used: used, machines: &sync.Pool{New: func() any { return &machine{names: map[string]any{}} }}}, nil
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
	m.MemoryBudget = expressions.MaxMemory
	v, err := m.Run(e.program, m.names)
	if err != nil {
		return nil, fmt.Errorf("expression `%s`: %s", e.source, expressions.Cause(err))
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
