package operation

import (
	"bytes"
	"context"
	"encoding"
	"encoding/base64"
	"encoding/json"
	"iter"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill/serve/caller"
)

// A field of an answer may be tagged covered:"payload", or with another word: without the right to
// payloads, a caller sees names and types in it, and no values. JSON that nothing describes is
// covered too, and so are members that their type does not have.

type coverKey struct{}

// WithCover is a context in which paths are covered for everybody: payload.customer.email is a
// member of what is tagged covered:"payload", at that depth, in each element of an array.
func WithCover(ctx context.Context, paths []string) context.Context {
	c := map[string][][]string{}
	for _, p := range paths {
		parts := strings.Split(p, ".")
		c[parts[0]] = append(c[parts[0]], parts[1:])
	}
	return context.WithValue(ctx, coverKey{}, c)
}

// cover is what is covered in answers.
type cover struct {
	who    caller.Caller
	system string                // of what is in the answers, but of that which is [InSystem]; empty: not known
	all    bool                  // of what is tagged, see over
	paths  map[string][][]string // by tag
}

// InSystem is an answer, or an item of a listing, that says which system it is of: its payloads are
// shown to those who may see the payloads of that one.
type InSystem interface{ InSystem() string }

type systemKey struct{}

// WithSystem is a context of a request for an operation of a system: its answers are of that one.
func WithSystem(ctx context.Context, system string) context.Context {
	return context.WithValue(ctx, systemKey{}, system)
}

// systemOf is the system of a context; empty: it has none.
func systemOf(ctx context.Context) string {
	system, _ := ctx.Value(systemKey{}).(string)
	return system
}

// coverOf is what is covered for the caller of a context.
func coverOf(ctx context.Context) *cover {
	paths, _ := ctx.Value(coverKey{}).(map[string][][]string)
	return &cover{caller.From(ctx), systemOf(ctx), false, paths}
}

// over is what is covered in one answer; nil: nothing.
func (c *cover) over(v any) *cover {
	system := c.system
	if of, ok := v.(InSystem); ok {
		system = of.InSystem()
	}
	one := *c
	if one.all = !c.who.MayRead(system); one.all || len(one.paths) > 0 {
		return &one
	}
	return nil
}

// of is an answer with what is covered.
func (c *cover) of(v any) (any, error) {
	over := c.over(v)
	if over == nil {
		return v, nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return over.json(shapeOf(reflect.TypeOf(v)), b)
}

// page covers each item of a page.
func (c *cover) page(p *Paged[any]) (err error) {
	for i, item := range p.Items {
		if p.Items[i], err = c.of(item); err != nil {
			return err
		}
	}
	return nil
}

// json covers JSON of a shape.
func (c *cover) json(s *shape, b []byte) (json.RawMessage, error) {
	out, err := c.value(s, "", b)
	return json.RawMessage(out), err
}

// shape is what is covered in JSON of a type.
type shape struct {
	tag    string            // what it is; empty: it is shown
	by     string            // the member beside it that has its name in a path; empty: paths go into it
	base64 bool              // of a text: it is in base64
	fields map[string]*shape // of an object; nil: it is none
	each   *shape            // of an array, or of an object with any names; nil: it is none
	etag   string            // of an object: the member that is the ETag of others; empty: there is none
	etagOf []string          // these others
}

var (
	shapes sync.Map // by reflect.Type
	hidden = &shape{tag: "payload"}
)

func shapeOf(t reflect.Type) *shape {
	if s, ok := shapes.Load(t); ok {
		return s.(*shape)
	}
	s := shaping{}.of(t)
	shapes.Store(t, s)
	return s
}

// shaping are shapes that are being made: a type may have itself.
type shaping map[reflect.Type]*shape

var textual = reflect.TypeFor[encoding.TextMarshaler]()

func (known shaping) of(t reflect.Type) *shape {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if s := known[t]; s != nil {
		return s
	}
	s := new(shape)
	known[t] = s
	zero := reflect.Zero(t).Interface()
	if f, ok := zero.(interface{ Form() reflect.Type }); ok {
		*s = *known.of(f.Form())
		return s
	}
	if f, ok := zero.(interface{ OneOf() []any }); ok {
		s.fields = map[string]*shape{}
		for _, one := range f.OneOf() {
			for name, of := range known.of(reflect.TypeOf(one)).fields {
				s.fields[name] = of
			}
		}
		return s
	}
	switch {
	case t == reflect.TypeFor[json.RawMessage]() || t.Kind() == reflect.Interface:
		*s = *hidden
	case t.Implements(textual) || reflect.PointerTo(t).Implements(textual):
	case t.Kind() == reflect.Slice || t.Kind() == reflect.Map || t.Kind() == reflect.Array:
		s.each = known.of(t.Elem())
	case t.Kind() == reflect.Struct:
		known.fields(s, t)
	}
	return s
}

func (known shaping) fields(s *shape, t reflect.Type) {
	s.fields = map[string]*shape{}
	for f, name := range inJSON(t) {
		if of := f.Tag.Get("etagOf"); of != "" {
			s.etag, s.etagOf = name, strings.Split(of, ",")
		}
		if tag := f.Tag.Get("covered"); tag != "" {
			s.fields[name] = &shape{tag: tag, by: f.Tag.Get("by"), base64: strings.HasSuffix(strings.ToLower(name), "base64")}
		} else {
			s.fields[name] = known.of(f.Type)
		}
	}
}

// inJSON are the fields of a struct that its JSON has, with their names there.
func inJSON(t reflect.Type) iter.Seq2[reflect.StructField, string] {
	return func(yield func(reflect.StructField, string) bool) {
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case !f.IsExported() || name == "-":
				continue
			case name == "" && f.Anonymous: // its fields are visible
				continue
			case name == "":
				name = f.Name
			}
			if !yield(f, name) {
				return
			}
		}
	}
}

// value covers a value of a shape, with its name where that is beside it.
func (c *cover) value(s *shape, name string, b jsontext.Value) (jsontext.Value, error) {
	switch {
	case s.tag != "" && c.all:
		return c.tagged(s, b)
	case s.tag != "":
		return c.some(s, name, b)
	case s.fields == nil && s.each == nil:
		return b, nil
	}
	out, err := eachOf(b, func(name string, all members, v jsontext.Value) (jsontext.Value, error) {
		of := s.each
		if s.fields != nil {
			if of = s.fields[name]; of == nil {
				of = hidden
			}
		}
		return c.value(of, all.text(of.by), v)
	})
	if err != nil || s.etag == "" || bytes.Equal(out, b) {
		return out, err
	}
	return s.retag(b, out)
}

// tagged covers a value that is tagged, all of it.
func (c *cover) tagged(s *shape, b jsontext.Value) (jsontext.Value, error) {
	if s.base64 {
		return quote(base64.StdEncoding.EncodeToString([]byte(coveredText))), nil
	}
	return inText(b, blank)
}

// some covers paths in a value that is tagged.
func (c *cover) some(s *shape, name string, b jsontext.Value) (jsontext.Value, error) {
	for _, path := range c.paths[s.tag] {
		var err error
		if s.by != "" {
			if strings.EqualFold(name, strings.Join(path, ".")) {
				b, err = c.tagged(s, b)
			}
		} else if !s.base64 { // else it is no JSON
			b, err = inText(b, func(v jsontext.Value) (jsontext.Value, error) { return at(v, path, blank) })
		}
		if err != nil {
			return nil, err
		}
	}
	return b, nil
}

// inText does something to a value, or to the value that a text has in JSON.
func inText(b jsontext.Value, do func(jsontext.Value) (jsontext.Value, error)) (jsontext.Value, error) {
	var text string
	if b.Kind() != '"' || json.Unmarshal(b, &text) != nil {
		return do(b)
	}
	inner := jsontext.Value(strings.TrimSpace(text))
	if k := inner.Kind(); k != '{' && k != '[' || !inner.IsValid(lax...) {
		return do(b)
	}
	out, err := do(inner)
	if err != nil || bytes.Equal(out, inner) {
		return b, err
	}
	return quote(string(out)), nil
}

// at does something to what is at a path: it covers it, or looks at it.
func at(b jsontext.Value, path []string, do func(jsontext.Value) (jsontext.Value, error)) (jsontext.Value, error) {
	switch k := b.Kind(); {
	case len(path) == 0:
		return do(b)
	case k == '[':
		return eachOf(b, func(_ string, _ members, v jsontext.Value) (jsontext.Value, error) { return at(v, path, do) })
	case k == '{':
		return eachOf(b, func(name string, _ members, v jsontext.Value) (jsontext.Value, error) {
			if name != path[0] {
				return v, nil
			}
			return at(v, path[1:], do)
		})
	}
	return b, nil
}

// What stands for values that are covered.
const (
	coveredText   = "(text)"
	coveredNumber = "(number)"
	coveredTruth  = "(true or false)"
)

// blank covers all values in a value; names stay.
func blank(b jsontext.Value) (jsontext.Value, error) {
	switch b.Kind() {
	case '{', '[':
		return eachOf(b, func(_ string, _ members, v jsontext.Value) (jsontext.Value, error) { return blank(v) })
	case '"':
		if string(b) == `""` {
			return b, nil
		}
		return quote(coveredText), nil
	case '0':
		return quote(coveredNumber), nil
	case 't', 'f':
		return quote(coveredTruth), nil
	}
	return b, nil
}

func quote(s string) jsontext.Value {
	b, _ := jsontext.AppendQuote(nil, s) // U+FFFD for what is not UTF-8
	return b
}

// members are those of an object, in their order, or the elements of an array, without names.
type members []member

type member struct {
	name  string
	value jsontext.Value
}

// text is the text of a member; empty: there is none.
func (m members) text(name string) (s string) {
	i := slices.IndexFunc(m, func(one member) bool { return one.name == name && one.value.Kind() == '"' })
	if i >= 0 {
		_ = json.Unmarshal(m[i].value, &s)
	}
	return s
}

// lax takes what senders send.
var lax = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// eachOf does something to each member or element of a value, and to no value of another kind. Where
// nothing changes the value stays as it is, byte for byte.
func eachOf(b jsontext.Value, do func(name string, all members, v jsontext.Value) (jsontext.Value, error)) (jsontext.Value, error) {
	kind := b.Kind()
	if kind != '{' && kind != '[' {
		return b, nil
	}
	all, err := membersOf(b)
	if err != nil {
		return nil, err
	}
	out, changed := []byte{byte(kind)}, false
	for i, m := range all {
		v, err := do(m.name, all, m.value)
		if err != nil {
			return nil, err
		}
		if changed = changed || !bytes.Equal(v, m.value); i > 0 {
			out = append(out, ',')
		}
		if kind == '{' {
			out = append(append(out, quote(m.name)...), ':')
		}
		out = append(out, v...)
	}
	if !changed {
		return b, nil
	}
	return append(out, byte(kind)+2), nil // } and ]
}

func membersOf(b jsontext.Value) (all members, err error) {
	d := jsontext.NewDecoder(bytes.NewReader(b), lax...)
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	for d.PeekKind() != '}' && d.PeekKind() != ']' {
		name := ""
		if b.Kind() == '{' {
			t, err := d.ReadToken()
			if err != nil {
				return nil, err
			}
			name = t.String()
		}
		v, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		all = append(all, member{name, v.Clone()})
	}
	return all, nil
}
