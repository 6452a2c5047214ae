package config

import (
	"fmt"
	"io"
	"reflect"
	"strings"
)

// listOf is a setting that is a list of groups, with its elements now.
type listOf struct {
	path   string
	value  reflect.Value
	reload bool   // a reload applies what changes in it
	stored string // what an element is called that a database may have; empty: all stand in the file
}

// lists are those of c, in the order of the structs.
func (c *Loaded) lists() []listOf {
	all := listsIn(reflect.ValueOf(&c.Config).Elem(), "")
	for _, g := range c.groups {
		all = append(all, listsIn(g.value(), g.prefix())...)
	}
	return all
}

func listsIn(group reflect.Value, prefix string) (all []listOf) {
	for i := range group.NumField() {
		t, v := group.Type().Field(i), group.Field(i)
		switch path := prefix + t.Tag.Get("yaml"); {
		case !t.IsExported() || isText(t.Type):
		case t.Type.Kind() == reflect.Struct:
			all = append(all, listsIn(v, path+".")...)
		case t.Type.Kind() == reflect.Slice && t.Type.Elem().Kind() == reflect.Struct:
			all = append(all, listOf{path, v, t.Tag.Get("reload") == "true", t.Tag.Get("stored")})
		}
	}
	return all
}

// element is what an element is made of.
func (l *listOf) element() reflect.Type { return l.value.Type().Elem() }

// Part is a setting of the elements of a list.
type Part struct {
	Path string // group.list[].part
	Form string // what it is written like, in words
	Help string

	Reload bool // a reload applies what changes in the list
}

// PartsOf lists the settings of the elements of lists that a name is of, as ReferenceOf does.
func (s Schema) PartsOf(name string) (all []Part) {
	for _, l := range s.blank().lists() {
		for _, p := range partsOf(l.path+"[]", l.element()) {
			if p.Reload = l.reload; p.is(name) {
				all = append(all, p)
			}
		}
	}
	return all
}

// is says whether a name is the setting's, or that of a group or list that it is in.
func (p *Part) is(name string) bool {
	plain := func(path string) string { return strings.ReplaceAll(path, "[]", "") }
	path := plain(p.Path)
	return name == "" || path == plain(name) || strings.HasPrefix(path, plain(name)+".")
}

func partsOf(path string, t reflect.Type) (all []Part) {
	for _, m := range membersOf(t) {
		p := Part{Path: path + "." + m.name, Form: formOf(m.of), Help: m.field.Tag.Get("help")}
		of, below := m.of, p.Path
		for of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if of.Kind() == reflect.Slice && of.Elem().Kind() == reflect.Struct && !isText(of.Elem()) {
			of, below = of.Elem(), below+"[]"
		}
		all = append(all, p)
		if of.Kind() == reflect.Struct && !isText(of) {
			all = append(all, partsOf(below, of)...)
		}
	}
	return all
}

// describe writes the settings of the elements of lists as remarks: of a list, or of a group or
// setting in one. It says whether there are any.
func (s Schema) describe(w io.Writer, name, indent string) (bool, error) {
	var b strings.Builder
	for _, l := range s.blank().lists() {
		var lines []string
		for _, p := range partsOf(l.path+"[]", l.element()) {
			if p.is(name) {
				line := strings.TrimPrefix(p.Path, l.path+"[].") + ": " + p.Help
				if p.Help == "" {
					line = strings.TrimSuffix(line, ": ") + ": " + p.Form
				} else if form := p.Form; !strings.Contains(form, "{") && form != "a text" {
					line += " (" + form + ")"
				}
				lines = append(lines, line)
			}
		}
		if len(lines) == 0 {
			continue
		}
		if l.reload {
			fmt.Fprintf(&b, "%s# %s\n", indent, reloadNote)
		}
		fmt.Fprintf(&b, "%s# each of %s has:\n", indent, l.path)
		// What its expressions have, and the like.
		if more, ok := reflect.Zero(l.element()).Interface().(interface{ About() []string }); ok && (l.path == name || strings.HasPrefix(l.path, name+".")) {
			lines = append(lines, more.About()...)
		}
		for _, line := range lines {
			fmt.Fprintf(&b, "%s#   %s\n", indent, line)
		}
	}
	_, err := io.WriteString(w, b.String())
	return b.Len() > 0, err
}
