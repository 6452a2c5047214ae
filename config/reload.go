package config

import (
	"cmp"
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/tidemill/tidemill"
)

// Change is a setting that another configuration has otherwise.
type Change struct {
	Setting string // its path; of an element of a list with its name: delivery.partners[shop].timeout
	What    string // Added, Removed or Changed
	Before  string // as it is written; of a secret that there is one, no more. Empty: none, or of an element
	After   string
	Reload  bool // a reload applies it while the process runs; else it needs a restart
}

// What a Change is.
const (
	Added   = "added" // an element of a list
	Removed = "removed"
	Changed = "changed"
)

// Group is the first part of its setting, like delivery; empty: it has no other part.
func (c *Change) Group() string { return groupOf(c.Setting) }

// List is the path of the list that it is in an element of; empty: of none.
func (c *Change) List() string {
	list, _, in := strings.Cut(c.Setting, "[")
	if !in {
		return ""
	}
	return list
}

// Changes are what next has otherwise: in the order of the structs, settings before lists. A secret
// that an element names by its variable is compared as it was read first.
func (c *Loaded) Changes(next *Loaded) (all []Change) {
	were, are := c.Fields(), next.Fields()
	for i := range were {
		was, is := &were[i], &are[i]
		if !same(was.value, is.value) {
			all = append(all, Change{Setting: was.Path, What: Changed, Before: was.String(), After: is.String(), Reload: was.Reload})
		}
	}
	lists := next.lists()
	for i, l := range c.lists() {
		d := difference{c, next, l, nil}
		d.compare(lists[i].value)
		all = append(all, d.all...)
	}
	return all
}

// same says whether two values are the same. An empty list is none.
func same(a, b reflect.Value) bool {
	if a.Kind() == reflect.Slice && a.Len() == 0 && b.Len() == 0 {
		return true
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

// difference is what a list has otherwise.
type difference struct {
	was, is *Loaded
	list    listOf // as it was
	all     []Change
}

func (d *difference) add(setting, what, before, after string) {
	d.all = append(d.all, Change{Setting: setting, What: what, Before: before, After: after, Reload: d.list.reload})
}

// compare compares elements by their names, and then their order.
func (d *difference) compare(after reflect.Value) {
	were, before := elements(d.list.value)
	are, now := elements(after)
	at := func(name string) string { return fmt.Sprintf("%s[%s]", d.list.path, name) }
	for _, name := range were {
		if v, there := now[name]; there {
			d.element(at(name), before[name], v)
		} else {
			d.add(at(name), Removed, "", "")
		}
	}
	for _, name := range are {
		if _, there := before[name]; !there {
			d.add(at(name), Added, "", "")
		}
	}
	kept := func(names []string, in map[string]reflect.Value) []string {
		return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !in[name].IsValid() })
	}
	if a, b := kept(were, now), kept(are, before); !slices.Equal(a, b) {
		d.add(d.list.path, Changed, "the order "+strings.Join(a, ", "), "the order "+strings.Join(b, ", "))
	}
}

// elements are those of a list by their names, which are their name or id, else their number.
func elements(list reflect.Value) (names []string, all map[string]reflect.Value) {
	all = map[string]reflect.Value{}
	for i := range list.Len() {
		e := list.Index(i)
		name := fmt.Sprintf("number %d", i+1)
		for _, m := range membersOf(e.Type()) {
			if m.name == "name" || m.name == "id" {
				name = cmp.Or(e.FieldByIndex(m.field.Index).String(), name)
			}
		}
		for base, n := name, 2; all[name].IsValid(); n++ { // another key of a project
			name = fmt.Sprintf("%s, %d", base, n)
		}
		names, all[name] = append(names, name), e
	}
	return names, all
}

// element compares the members of an element, and the secrets that they name.
func (d *difference) element(path string, a, b reflect.Value) {
	before, after := shown(a), shown(b)
	for _, m := range membersOf(a.Type()) {
		x, y := a.FieldByIndex(m.field.Index), b.FieldByIndex(m.field.Index)
		if !same(x, y) {
			d.add(path+"."+m.name, Changed, memberText(before, m), memberText(after, m))
			continue
		}
		if f := before.FieldByName(m.field.Name); f.IsValid() {
			x = f // with what a preset names
		}
		for _, name := range d.was.rotated(d.is, x) {
			d.add(path+"."+m.name, Changed, "what "+name+" was", "what "+name+" is")
		}
	}
}

// shown is an element without anything that may be a secret.
func shown(e reflect.Value) reflect.Value {
	if s, ok := e.Interface().(interface{ Shown() any }); ok {
		return reflect.ValueOf(s.Shown())
	}
	return e
}

// longest is how much of a value is shown.
const longest = 200

func memberText(e reflect.Value, m member) string {
	f := e.FieldByName(m.field.Name)
	if !f.IsValid() || f.IsZero() {
		return ""
	}
	if f.Kind() == reflect.String {
		return cut(f.String())
	}
	if m, ok := f.Interface().(encoding.TextMarshaler); ok {
		text, _ := m.MarshalText() // the types of settings have no value that cannot be written
		return cut(string(text))
	}
	text, err := yaml.MarshalWithOptions(f.Interface(), yaml.Flow(true), yaml.OmitZero())
	if err != nil {
		return "" // it is said that it changed
	}
	return cut(strings.TrimSpace(string(text)))
}

func cut(text string) string {
	if r := []rune(text); len(r) > longest {
		return string(r[:longest]) + "…"
	}
	return text
}

// rotated are the names of secrets that a value names and that are others in next.
func (c *Loaded) rotated(next *Loaded, v reflect.Value) (names []string) {
	switch v.Kind() {
	case reflect.String:
		if s, read := c.secrets.known(v.String()); read {
			if is, _ := next.Secret(v.String()); !is.Equal(s) {
				names = append(names, v.String())
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			names = append(names, c.rotated(next, v.Index(i))...)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			names = append(names, c.rotated(next, v.MapIndex(k))...)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			return c.rotated(next, v.Elem())
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[tidemill.Secret]() {
			return nil
		}
		for i := range v.NumField() {
			names = append(names, c.rotated(next, v.Field(i))...)
		}
	}
	return names
}

// With is c with those changes of next that leave lets pass: what it does not is as in c. Its error
// names what is wrong with the two together.
func (c *Loaded) With(next *Loaded, leave func(*Change) bool) error {
	kept := map[string]bool{}
	for _, change := range c.Changes(next) {
		if leave(&change) {
			kept[cmp.Or(change.List(), change.Setting)] = true
		}
	}
	were, are := c.Fields(), next.Fields()
	for i := range were {
		if path := were[i].Path; kept[path] {
			are[i].value.Set(were[i].value)
			next.From[path], next.layers[path] = c.From[path], c.layers[path]
		}
	}
	lists := next.lists()
	for i, l := range c.lists() {
		if kept[l.path] {
			lists[i].value.Set(l.value)
			next.places[l.path] = c.places[l.path]
		}
	}
	return next.check(next.Fields())
}
