package config

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/tidemill/tidemill/internal/nearest"
	"github.com/tidemill/tidemill/internal/when"
)

// shape checks a part of the file against the type that it is read into, before it is: each
// mistake has its line, the whole name of the setting, and the form that is wanted. It shows no
// value, which may be a key. What is said with anchors, aliases and tags is left to the decoder.
func (r *reader) shape(path string, n ast.Node, t reflect.Type) (ok bool) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch n := n.(type) {
	case *ast.StringNode:
		if hidden(n.Value) && !strings.HasPrefix(r.path, FromDatabase) { // what was taken in there goes on
			r.fail(n, "%s: %v", path, errHidden)
			return false
		}
	case *ast.NullNode, *ast.AliasNode, *ast.AnchorNode, *ast.TagNode, *ast.MergeKeyNode:
		return true
	}
	wrong := func() bool {
		r.fail(n, "%s: want %s", path, formOf(t))
		return false
	}
	_, isMap := n.(*ast.MappingNode)
	list, isList := n.(*ast.SequenceNode)
	switch {
	case isText(t):
		return !isMap && !isList || wrong()
	case t.Kind() == reflect.Struct:
		return isMap && r.group(path, n.(*ast.MappingNode), t) || !isMap && wrong()
	case t.Kind() == reflect.Slice:
		if !isList {
			return wrong()
		}
		ok = true
		for i, e := range list.Values {
			ok = r.shape(fmt.Sprintf("%s[%d]", path, i), e, t.Elem()) && ok
		}
		return ok
	case t.Kind() == reflect.Map:
		if !isMap {
			return wrong()
		}
		ok = true
		for _, kv := range n.(*ast.MappingNode).Values {
			ok = r.shape(path+"."+kv.Key.GetToken().Value, kv.Value, t.Elem()) && ok
		}
		return ok
	case isMap || isList || !isScalar(n.GetToken().Value, t):
		return wrong()
	}
	return true
}

// group checks the settings of a group.
func (r *reader) group(path string, n *ast.MappingNode, t reflect.Type) (ok bool) {
	members := membersOf(t)
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = m.name
	}
	ok = true
	for _, kv := range n.Values {
		if _, merge := kv.Key.(*ast.MergeKeyNode); merge {
			continue
		}
		key := kv.Key.GetToken().Value
		found := false
		for _, m := range members {
			if m.name == key {
				found = true
				ok = r.shape(path+"."+key, kv.Value, m.of) && ok
			}
		}
		if !found {
			r.fail(kv.Key, "there is no setting %s.%s%s", path, key, meant(key, names))
			ok = false
		}
	}
	return ok
}

// meant is the name that was probably meant, or all that there are.
func meant(key string, names []string) string {
	best := nearest.To(key, names)
	if best == "" {
		return "; there are " + strings.Join(names, ", ")
	}
	return fmt.Sprintf("; did you mean %s?", best)
}

// member is a setting of a group in a list.
type member struct {
	name  string
	of    reflect.Type
	field reflect.StructField
}

func membersOf(t reflect.Type) (all []member) {
	for f := range t.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("yaml"), ","); f.IsExported() && name != "-" {
			if name == "" {
				name = strings.ToLower(f.Name)
			}
			all = append(all, member{name, f.Type, f})
		}
	}
	return all
}

// isText says whether a value is one text that its type reads by itself.
func isText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

var durationType = reflect.TypeFor[time.Duration]()

// isScalar says whether a text can be read as a plain value of a type.
func isScalar(text string, t reflect.Type) bool {
	var err error
	switch {
	case t == durationType:
		if text != "0" {
			_, err = when.Duration(text)
		}
	case t.Kind() == reflect.Bool:
		return text == "true" || text == "false"
	case t.Kind() == reflect.Int:
		_, err = strconv.ParseInt(text, 0, strconv.IntSize)
	case t.Kind() == reflect.Float64:
		_, err = strconv.ParseFloat(text, 64)
	}
	return err == nil
}

// formOf says what a type is written like.
func formOf(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == durationType:
		return "a duration such as 10s, 24h or 7d"
	case isText(t):
		return "a text"
	case t.Kind() == reflect.Struct:
		return "a group of settings: " + groupForm(t)
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct && !isText(t.Elem()):
		return "a list of groups of settings: [" + groupForm(t.Elem()) + "]"
	case t.Kind() == reflect.Slice:
		return "a list: [" + strings.TrimPrefix(formOf(t.Elem()), "a ") + ", …]"
	case t.Kind() == reflect.Map:
		return "names with " + strings.TrimPrefix(formOf(t.Elem()), "a ") + "s: {name: …}"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Int:
		return "a whole number"
	case t.Kind() == reflect.Float64:
		return "a number"
	}
	return "a text"
}

func groupForm(t reflect.Type) string {
	var names []string
	for _, m := range membersOf(t) {
		names = append(names, m.name+": …")
	}
	if len(names) > 7 {
		names = append(names[:7], "…")
	}
	return "{" + strings.Join(names, ", ") + "}"
}
