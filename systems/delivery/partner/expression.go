package partner

import (
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
)

// Bounds of an expression. There are no loops, so its time is bounded by its size.
const (
	maxNodes  = 500    // of its syntax tree
	maxMemory = 10_000 // elements that it may make, in vm's own count
	maxText   = 64 << 10
)

// builtins are the functions of the language that may be used. None goes through a list with
// an expression of its own, makes long texts of short ones, or asks for the time: a request
// must be the same at every attempt.
var builtins = []string{"len", "trim", "trimPrefix", "trimSuffix", "upper", "lower", "split", "indexOf", "lastIndexOf",
	"hasPrefix", "hasSuffix", "int", "float", "abs", "ceil", "floor", "round", "min", "max", "type", "first", "last", "get", "concat"}

// eventFields are the fields of every event that the door knows.
var eventFields = []string{"eventType", "timestamp", "siteId", "eventId", "conversionId", "version", "sessionId", "userId", "deviceId",
	"consent", "context", "properties", "orderId", "value", "conversionValue", "currency", "items", "tax", "shipping",
	"discount", "coupon", "paymentMethod", "enhancedConversion", "idempotencyKey"}

// vocabulary is what an expression may name.
type vocabulary struct {
	names types.Map
	extra []expr.Option // functions of its own
}

// ofEvents is the vocabulary of a mapping.
func ofEvents(settings map[string]string, extraFields []string, extra ...expr.Option) vocabulary {
	event, setting := types.Map{}, types.Map{}
	for _, f := range slices.Concat(eventFields, extraFields) {
		event[f] = types.Any
	}
	for name := range settings {
		setting[name] = types.String
	}
	return vocabulary{types.Map{"event": event, "setting": setting, "id": types.String, "site": types.String}, extra}
}

// ofAnswers is the vocabulary of rules.
func ofAnswers(more ...string) vocabulary {
	v := types.Map{"status": types.Int, "body": types.Any, "raw": types.String}
	for _, name := range more {
		v[name] = types.Any
	}
	return vocabulary{names: v}
}

// An expression is a compiled one. It may be run from several goroutines.
type expression struct {
	name, source string
	program      *vm.Program
	machines     *sync.Pool // of *vm.VM
}

// compile checks an expression of a setting against what it may name.
func compile(name, source string, v vocabulary, more ...expr.Option) (*expression, error) {
	guard := &loops{}
	options := []expr.Option{expr.Env(v.names), expr.DisableAllBuiltins(), expr.MaxNodes(maxNodes), expr.Patch(guard)}
	for _, b := range builtins {
		options = append(options, expr.EnableBuiltin(b))
	}
	options = append(options, functions()...)
	options = append(options, v.extra...)
	options = append(options, more...)
	if len(source) > 4096 {
		return nil, fmt.Errorf("%s: the expression is longer than 4096 bytes", name)
	}
	p, err := expr.Compile(source, options...)
	if err == nil {
		err = guard.found
	}
	if err != nil {
		return nil, fmt.Errorf("%s: expression `%s`: %s", name, source, cause(err))
	}
	return &expression{name: name, source: source, program: p, machines: &sync.Pool{New: func() any { return new(vm.VM) }}}, nil
}

// run gives the expression's value. An error names the expression, and nothing of the data.
func (e *expression) run(env map[string]any) (any, error) {
	m := e.machines.Get().(*vm.VM)
	defer e.machines.Put(m)
	m.MemoryBudget = maxMemory
	v, err := m.Run(e.program, env)
	if err != nil {
		return nil, fmt.Errorf("%s: expression `%s`: %s", e.name, e.source, cause(err))
	}
	return v, nil
}

// cause is the message without the picture of the source that the language draws.
func cause(err error) string {
	if e, ok := errors.AsType[*file.Error](err); ok {
		return e.Message
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}

// loops finds what could run or grow with the data.
type loops struct{ found error }

// Visit looks at one node.
func (l *loops) Visit(n *ast.Node) {
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
	case *ast.VariableDeclaratorNode:
		what = "let"
	case *ast.BinaryNode:
		switch n.Operator {
		case "..":
			what = "a range"
		case "matches":
			what = "a regular expression"
		case "**", "^":
			what = "a power"
		}
	}
	if what != "" && l.found == nil {
		l.found = fmt.Errorf("%s is not possible here", what)
	}
}
