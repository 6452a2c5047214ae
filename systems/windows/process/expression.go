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

// expression is compiled. It sees the values of a record by their names, kind ("event" or
// "mention") and batch. A value is an int, a float or a text. It is nil where it is null or the
// kind has no value of that name; `x ?? 0` gives a default. It is safe for concurrent use.
type expression struct {
	source   string
	program  *vm.Program
	used     []string   // names of values that it uses
	machines *sync.Pool // of *machine
}

// typeOf are the types of values that are not null.
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
	if err == nil { // an error even then is one always
		o.Names = there
		_, _, err = expressions.Compile(source, o)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return &expression{source: source, program: p, used: used, machines: &sync.Pool{New: func() any { return &machine{names: map[string]any{}} }}}, nil
}

// run gives the expression's value for a record. An error quotes none of the data.
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

// value is a record's value as expressions see it.
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

// asJSON is the value of an expression as JSON: null, booleans, numbers, texts, and lists and
// objects of them.
func asJSON(v any) ([]byte, error) {
	if s, text := v.(string); text {
		b, _ := jsontext.AppendQuote(nil, s) // U+FFFD replaces what is not UTF-8: a text may have been cut
		return b, nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, errors.New("its value is nothing that JSON can write")
	}
	return b, nil
}
