package partner

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/sink/httpsink"
)

// mapping makes the body of a message from its event. It is safe for concurrent use.
type mapping struct {
	fields []mapped
	root   *node
	dedup  int // the field that names the message to the partner; -1: none
	single map[string]any
	key    func(*tidemill.Message) string
	memory sync.Pool // of *[]any: the values of one message
}

type mapped struct {
	name     string
	value    *expression
	required bool
}

// node is an object of the body, or one field.
type node struct {
	name     []byte // quoted, with its colon
	text     string
	field    int // of the mapping; -1: an object
	children []*node
}

func newMapping(fields []Field, dedup string, v vocabulary, settings map[string]string, key func(*tidemill.Message) string) (*mapping, error) {
	m := &mapping{root: &node{field: -1}, dedup: -1, key: key}
	set := make(map[string]any, len(settings))
	for name, value := range settings {
		set[name] = value
	}
	m.single = set
	for i, f := range fields {
		e, err := compile("mapping."+f.Field, f.Value, v)
		if err != nil {
			return nil, err
		}
		m.fields = append(m.fields, mapped{f.Field, e, f.Required})
		if f.Field == dedup {
			m.dedup = i
		}
		if err := m.root.place(f.Field, i); err != nil {
			return nil, err
		}
	}
	m.memory.New = func() any { v := make([]any, len(m.fields)); return &v }
	return m, nil
}

// place puts a field at its path. Objects keep the order of their first field.
func (n *node) place(path string, field int) error {
	for name := range strings.SplitSeq(path, ".") {
		if name == "" {
			return fmt.Errorf("mapping: the field %q has an empty name", path)
		}
		if n.field >= 0 {
			return fmt.Errorf("mapping: the field %q goes into another that is no object", path)
		}
		var next *node
		for _, c := range n.children {
			if c.text == name {
				next = c
			}
		}
		if next == nil {
			quoted, err := jsontext.AppendQuote(nil, name)
			if err != nil {
				return fmt.Errorf("mapping: the field %q: %w", path, err)
			}
			next = &node{name: append(quoted, ':'), text: name, field: -1}
			n.children = append(n.children, next)
		}
		n = next
	}
	if n.field >= 0 || n.children != nil {
		return fmt.Errorf("mapping: the field %q is there twice", path)
	}
	n.field = field
	return nil
}

// encode is an httpsink.Options.Encode.
func (m *mapping) encode(msg *tidemill.Message, r *httpsink.Request) error {
	event, err := decode(msg.Payload)
	if err != nil {
		return invalid("mapping: the event cannot be read: %w", plain(err))
	}
	if _, ok := event.(map[string]any); !ok {
		return invalid("mapping: the event is no object")
	}
	env := map[string]any{"event": event, "setting": m.single, "id": m.key(msg), "site": msg.Tenant}
	slot := m.memory.Get().(*[]any)
	values := *slot
	defer func() { clear(values); m.memory.Put(slot) }()
	for i, f := range m.fields {
		v, err := f.value.run(env)
		if err != nil {
			return invalid("%w", err)
		}
		if f.required && (v == nil || v == "") {
			return invalid("mapping.%s: expression `%s` gives nothing, and the field is required", f.name, f.value.source)
		}
		values[i] = v
	}
	if m.dedup >= 0 {
		if r.ID, err = asText(values[m.dedup]); err != nil || values[m.dedup] == nil {
			return invalid("mapping.%s: it names the message to the partner, and is no text", m.fields[m.dedup].name)
		}
	}
	r.Body, err = m.write(r.Body, m.root, values)
	return err
}

// write appends an object without the fields that have no value.
func (m *mapping) write(dst []byte, n *node, values []any) ([]byte, error) {
	dst = append(dst, '{')
	first := true
	for _, c := range n.children {
		if !c.any(values) {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(dst, c.name...)
		var err error
		if c.field < 0 {
			dst, err = m.write(dst, c, values)
		} else if dst, err = encode(dst, values[c.field], 0); err != nil {
			f := m.fields[c.field]
			err = invalid("mapping.%s: expression `%s`: its value cannot be sent: %w", f.name, f.value.source, plain(err))
		}
		if err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

// any says whether a node has a value in it.
func (n *node) any(values []any) bool {
	if n.field >= 0 {
		return values[n.field] != nil
	}
	for _, c := range n.children {
		if c.any(values) {
			return true
		}
	}
	return false
}

func invalid(format string, args ...any) error {
	return tidemill.Fail(tidemill.Validation, format, args...)
}

// plain removes what a decoder's error quotes of the data.
func plain(err error) error {
	if s, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return fmt.Errorf("no JSON at byte %d", s.ByteOffset)
	}
	return err
}
