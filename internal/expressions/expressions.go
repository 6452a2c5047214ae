// Package expressions compiles expressions of settings, in the language of expr-lang/expr, that
// can neither run long nor grow with the data. Use it for every expression that an operator
// writes.
package expressions

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"
)

// Bounds of an expression. It has no loops, so its time is bounded by its size.
const (
	MaxSource = 4096   // bytes
	MaxMemory = 10_000 // elements that it may make, as vm counts them: the caller's memory budget
	maxNodes  = 500    // of its syntax tree
)

// Builtins are the functions of the language that may be used everywhere. None applies an
// expression to a list, makes long texts of short ones, or asks for the time.
var Builtins = []string{"len", "trim", "trimPrefix", "trimSuffix", "upper", "lower", "split", "indexOf", "lastIndexOf",
	"hasPrefix", "hasSuffix", "int", "float", "abs", "ceil", "floor", "round", "min", "max", "type", "first", "last", "get"}

// Options say what an expression may use.
type Options struct {
	Names    types.Map     // what it may name
	Builtins []string      // functions of the language besides Builtins; they have to be as harmless
	Patterns bool          // `matches` may be used with a pattern that is written in the expression
	More     []expr.Option // the caller's functions, the type of the value
}

// Compile checks an expression and says which names it uses, in order.
func Compile(source string, o Options) (p *vm.Program, used []string, err error) {
	if source == "" || len(source) > MaxSource {
		return nil, nil, fmt.Errorf("an expression of 1 to %d bytes is needed", MaxSource)
	}
	g := &guard{builtins: slices.Concat(Builtins, o.Builtins), patterns: o.Patterns}
	options := []expr.Option{expr.Env(o.Names), expr.DisableAllBuiltins(), expr.MaxNodes(maxNodes), expr.Patch(g)}
	for _, b := range g.builtins {
		options = append(options, expr.EnableBuiltin(b))
	}
	p, err = expr.Compile(source, append(options, o.More...)...)
	if err == nil {
		err = g.found
	}
	if err != nil {
		return nil, nil, fmt.Errorf("expression `%s`: %s", source, Cause(err))
	}
	slices.Sort(g.used)
	return p, slices.Compact(g.used), nil
}

// Cause is the message of an error of the language without its picture of the source.
func Cause(err error) string {
	if e, ok := errors.AsType[*file.Error](err); ok {
		return e.Message
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}

// guard finds what could run long or grow with the data, and the names in use.
type guard struct {
	builtins []string
	patterns bool
	found    error
	used     []string
}

// Visit looks at one node.
func (g *guard) Visit(n *ast.Node) {
	var what string
	switch n := (*n).(type) {
	case *ast.PredicateNode:
		what = "a loop"
	case *ast.BuiltinNode: // loops parse even when they are not enabled
		if !slices.Contains(g.builtins, n.Name) {
			what = n.Name
		}
	case *ast.IdentifierNode:
		if n.Value == "$env" {
			what = n.Value
		}
		g.used = append(g.used, n.Value)
	case *ast.VariableDeclaratorNode:
		what = "let"
	case *ast.BinaryNode:
		switch n.Operator {
		case "..":
			what = "a range"
		case "matches":
			if _, fixed := n.Right.(*ast.StringNode); !g.patterns {
				what = "a regular expression"
			} else if !fixed {
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
