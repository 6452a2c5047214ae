package partner

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"
)

// Never says why a condition can hold for no event, as far as that can be seen without one: it
// compares the type or the site of an event with one that does not exist, or wants one field to
// equal two texts. Empty: it may hold, or it is the word false, which says so on purpose.
func Never(when string, types, sites []string) string {
	if when == "" || when == "false" {
		return ""
	}
	tree, err := parser.Parse(when)
	if err != nil {
		return "" // reported elsewhere
	}
	return never(tree.Node, map[string][]string{"eventType": types, "siteId": sites})
}

func never(n ast.Node, known map[string][]string) string {
	b, ok := n.(*ast.BinaryNode)
	if !ok {
		if c, is := n.(*ast.BoolNode); is && !c.Value {
			return "a part of it is false"
		}
		return ""
	}
	switch b.Operator {
	case "&&", "and":
		if why := never(b.Left, known); why != "" {
			return why
		}
		if why := never(b.Right, known); why != "" {
			return why
		}
		return twice(b)
	case "||", "or":
		if left := never(b.Left, known); left != "" && never(b.Right, known) != "" {
			return left
		}
	case "==":
		if name, text, ok := equals(b); ok {
			return absent(name, []string{text}, known)
		}
	case "in":
		name, list := member(b.Left), []string(nil)
		if a, ok := b.Right.(*ast.ArrayNode); ok && name != "" {
			for _, e := range a.Nodes {
				s, ok := e.(*ast.StringNode)
				if !ok {
					return ""
				}
				list = append(list, s.Value)
			}
			return absent(name, list, known)
		}
	}
	return ""
}

// absent says that none of the texts is among the known ones.
func absent(name string, texts []string, known map[string][]string) string {
	there := known[name]
	if len(there) == 0 || slices.ContainsFunc(texts, func(t string) bool { return slices.Contains(there, t) }) {
		return ""
	}
	if len(texts) == 0 {
		return "the list that event." + name + " is looked for in is empty"
	}
	return fmt.Sprintf("there is no %s %s", map[string]string{"eventType": "type of events", "siteId": "site"}[name], strconv.Quote(texts[0]))
}

// twice says that a conjunction wants one member to equal two texts.
func twice(n ast.Node) string {
	want := map[string]string{}
	var look func(ast.Node) string
	look = func(n ast.Node) string {
		b, ok := n.(*ast.BinaryNode)
		switch {
		case !ok:
		case b.Operator == "&&" || b.Operator == "and":
			if why := look(b.Left); why != "" {
				return why
			}
			return look(b.Right)
		case b.Operator == "==":
			if name, text, ok := equals(b); ok {
				if other, set := want[name]; set && other != text {
					return fmt.Sprintf("event.%s cannot be %q and %q", name, other, text)
				}
				want[name] = text
			}
		}
		return ""
	}
	return look(n)
}

// equals finds which member of the event is compared with which text.
func equals(b *ast.BinaryNode) (name, text string, ok bool) {
	m, s := b.Left, b.Right
	if _, is := m.(*ast.StringNode); is {
		m, s = s, m
	}
	t, is := s.(*ast.StringNode)
	if name = member(m); name == "" || !is {
		return "", "", false
	}
	return name, t.Value, true
}

// member is the name of a member of the event itself; empty for anything else.
func member(n ast.Node) string {
	if c, ok := n.(*ast.ChainNode); ok {
		n = c.Node
	}
	m, ok := n.(*ast.MemberNode)
	if !ok {
		return ""
	}
	of, isName := m.Node.(*ast.IdentifierNode)
	name, isText := m.Property.(*ast.StringNode)
	if !isName || !isText || of.Value != "event" {
		return ""
	}
	return name.Value
}
