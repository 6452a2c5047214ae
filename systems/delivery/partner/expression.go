package partner

import (
	"fmt"
	"slices"
	"sync"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"

	"github.com/tidemill/tidemill/internal/expressions"
)

// maxText is the longest text that a function makes, in bytes.
const maxText = 64 << 10

// eventFields are the fields of every event that the ingest API knows.
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

// An expression is compiled. It is safe for concurrent use.
type expression struct {
	name, source string
	program      *vm.Program
	machines     *sync.Pool // of *vm.VM
}

// compile checks an expression of a setting against what it may name. It may not ask for the
// time: a request must be the same at every attempt.
func compile(name, source string, v vocabulary, more ...expr.Option) (*expression, error) {
	p, _, err := expressions.Compile(source, expressions.Options{Names: v.names, Builtins: []string{"concat"}, More: slices.Concat([]expr.Option{expr.Patch(aliases{})}, functions(), v.extra, more)})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &expression{name: name, source: source, program: p, machines: &sync.Pool{New: func() any { return new(vm.VM) }}}, nil
}

// run gives the expression's value. An error names the expression, and none of the data.
func (e *expression) run(env map[string]any) (any, error) {
	m := e.machines.Get().(*vm.VM)
	defer e.machines.Put(m)
	m.MemoryBudget = expressions.MaxMemory
	v, err := m.Run(e.program, env)
	if err != nil {
		return nil, fmt.Errorf("%s: expression `%s`: %s", e.name, e.source, expressions.Cause(err))
	}
	return v, nil
}

// aliases lets event.value mean conversionValue too. They are two names of one field: an event
// has one of them.
type aliases struct{}

// Visit looks at one node.
func (aliases) Visit(n *ast.Node) {
	m, ok := (*n).(*ast.MemberNode)
	if !ok {
		return
	}
	of, named := m.Node.(*ast.IdentifierNode)
	field, constant := m.Property.(*ast.StringNode)
	if !named || !constant || of.Value != "event" || field.Value != "value" {
		return
	}
	other := &ast.MemberNode{Node: &ast.IdentifierNode{Value: "event"}, Property: &ast.StringNode{Value: "conversionValue"}}
	ast.Patch(n, &ast.BinaryNode{Operator: "??", Left: m, Right: other})
}
