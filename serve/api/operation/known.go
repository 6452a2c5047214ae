package operation

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemill/tidemill/internal/nearest"
)

// Known refuses JSON with a member that a type does not have, and names the nearest that it has. What
// is no JSON, or no such value, whoever decodes it refuses.
func Known(t reflect.Type, b []byte) error {
	m := unknownIn(t, b, "")
	if m == nil {
		return nil
	}
	p := Refuse(http.StatusBadRequest, "the body is not what is asked for: %s", m.Detail)
	p.Errors = []Mistake{*m}
	return p
}

// unknownIn is the first member, by name, that there is at a pointer into JSON and not in the type; nil:
// there is none.
func unknownIn(t reflect.Type, b json.RawMessage, at string) *Mistake {
	if f, ok := reflect.Zero(t).Interface().(interface{ Form() reflect.Type }); ok {
		return unknownIn(f.Form(), b, at)
	}
	switch {
	case t.Kind() == reflect.Pointer:
		return unknownIn(t.Elem(), b, at)
	case t.Implements(textual) || reflect.PointerTo(t).Implements(textual) || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()):
		return nil
	case t.Kind() == reflect.Struct:
		return unknownMember(t, b, at)
	case t.Kind() == reflect.Map:
		var all map[string]json.RawMessage
		_ = json.Unmarshal(b, &all) // whoever decodes it says so
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if m := unknownIn(t.Elem(), all[name], at+"/"+pointed(name)); m != nil {
				return m
			}
		}
	case t.Kind() == reflect.Slice:
		var all []json.RawMessage
		_ = json.Unmarshal(b, &all)
		for i, one := range all {
			if m := unknownIn(t.Elem(), one, at+"/"+strconv.Itoa(i)); m != nil {
				return m
			}
		}
	}
	return nil
}

// unknownMember looks into an object.
func unknownMember(t reflect.Type, b json.RawMessage, at string) *Mistake {
	var all map[string]json.RawMessage
	_ = json.Unmarshal(b, &all)
	var names []string
	types := map[string]reflect.Type{}
	for f, name := range inJSON(t) {
		names = append(names, name)
		types[strings.ToLower(name)] = f.Type // the decoder takes a name in any case
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		of, at := types[strings.ToLower(name)], at+"/"+pointed(name)
		if of == nil {
			return &Mistake{Pointer: at, Detail: fmt.Sprintf("unknown field %.120q: %s", name, meant(name, names))}
		}
		if m := unknownIn(of, all[name], at); m != nil {
			return m
		}
	}
	return nil
}

// pointed is a name in a pointer of RFC 6901.
func pointed(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }

// meant says which name was meant, or which there are.
func meant(word string, names []string) string {
	switch best := nearest.To(word, names); {
	case best != "":
		return fmt.Sprintf("did you mean %q?", best)
	case len(names) == 0:
		return "there are none here"
	}
	return "there are " + strings.Join(names, ", ")
}
