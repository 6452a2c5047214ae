package event

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Schema is the JSON Schema (2020-12) of a type of events, made of the table that Decode uses;
// false: no type of that name. An event that Decode accepts is valid under it. Decode also
// refuses duplicate names, nesting of more than 10 levels, times such as the 30th of February,
// and events of more than 32 KB.
func (r *Rules) Schema(name string) ([]byte, bool) {
	t, ok := r.types[name]
	if !ok {
		return nil, false
	}
	w := writer{t: t, major: r.major}
	w.raw(`{"$schema":"https://json-schema.org/draft/2020-12/schema","$id":"/v1/schemas/`, t.name, `","title":`)
	w.quote(t.name)
	w.raw(`,"type":"object"`)
	required := slices.Clone(r.event.required)
	if t.Page {
		required = append(required, "context")
	}
	if t.Purchase {
		required = append(required, "orderId", "currency", "items")
	}
	w.list("required", required)
	if t.Purchase {
		w.raw(`,"oneOf":[{"required":["value"],"properties":{"value":{"type":"number"}}},{"required":["conversionValue"],"properties":{"conversionValue":{"type":"number"}}}]`)
	}
	w.members(r.event, true)
	w.raw(anyNames, `,"additionalProperties":{"$ref":"#/$defs/any"},"$defs":{"any":`, anySchema, `}}`)
	return w.b, true
}

// anySchema is the schema of a member that no rule names.
const anySchema = `{"maxLength":1000,"maxItems":100,"items":{"$ref":"#/$defs/any"},"maxProperties":1000` + anyNames + `,"additionalProperties":{"$ref":"#/$defs/any"}}`

const anyNames = `,"propertyNames":{"maxLength":1000}`

type writer struct {
	b []byte
	t typeRule

	major int // the current version
}

func (w *writer) raw(parts ...string) {
	for _, p := range parts {
		w.b = append(w.b, p...)
	}
}
func (w *writer) quote(s string) { w.b = Quote(w.b, s) }
func (w *writer) number(n int64) { w.b = strconv.AppendInt(w.b, n, 10) }

func (w *writer) list(name string, texts []string) {
	w.raw(`,"`, name, `":[`)
	for i, s := range texts {
		if i > 0 {
			w.raw(",")
		}
		w.quote(s)
	}
	w.raw("]")
}

// members writes the properties of an object.
func (w *writer) members(f *field, root bool) {
	w.raw(`,"properties":{`)
	first := true
	for _, name := range slices.Sorted(maps.Keys(f.members)) {
		m := f.members[name]
		if m.buys && !w.t.Purchase {
			continue
		}
		if !first {
			w.raw(",")
		}
		first = false
		w.quote(name)
		w.raw(":")
		switch {
		case root && name == "eventType":
			w.raw(`{"const":`)
			w.quote(w.t.name)
			w.raw("}")
		case root && name == "version":
			w.raw(`{"type":["string","null"],"pattern":"^0*(`, strconv.Itoa(w.major-1), "|", strconv.Itoa(w.major), `)(\\.[0-9]{1,6}){0,2}$"}`)
		case root && name == "items":
			w.value(m, true, 1)
		case root && name == "context" && w.t.Page:
			w.page(m)
		default:
			w.value(m, slices.Contains(f.required, name) || root && w.t.Purchase && strings.Contains(" orderId currency ", " "+name+" "), m.min)
		}
	}
	w.raw("}")
}

// page writes the context of an event that needs a page.
func (w *writer) page(context *field) {
	w.raw(`{"allOf":[`)
	w.value(context, true, 0)
	w.raw(`,{"required":["page"],"properties":{"page":{"type":"object","required":["url"],"properties":{"url":{"type":"string"}}}}}]}`)
}

// value writes what a value may be. One that is not required may be null.
func (w *writer) value(f *field, required bool, least int64) {
	typ := map[kind]string{text: "string", number: "number", integer: "integer", boolean: "boolean", object: "object", list: "array"}[f.kind]
	switch {
	case f.kind == free:
		w.raw(`{"$ref":"#/$defs/any"}`)
		return
	case f.kind == scalar:
		w.raw(`{"type":["string","number","boolean","null"],"maxLength":1000}`)
		return
	case required:
		w.raw(`{"type":"`, typ, `"`)
	default:
		w.raw(`{"type":["`, typ, `","null"]`)
	}
	switch f.kind {
	case text:
		w.characters(f, required)
	case number, integer:
		w.raw(`,"minimum":`)
		w.number(f.min)
		if f.max != noMax {
			w.raw(`,"maximum":`)
			w.number(f.max)
		}
	case list:
		w.raw(`,"minItems":`)
		w.number(least)
		w.raw(`,"maxItems":`)
		w.number(f.max)
		w.raw(`,"items":`)
		w.value(f.elem, true, 0)
	case object:
		if f.required != nil {
			w.list("required", f.required)
		}
		w.raw(`,"maxProperties":`)
		w.number(f.max)
		if f.names != nil {
			w.raw(`,"propertyNames":{"pattern":`)
			w.quote(f.names.pattern)
			w.raw("}")
		} else {
			w.raw(anyNames)
		}
		w.members(f, false)
		w.raw(`,"additionalProperties":`)
		if f.other == nil {
			w.raw("false")
		} else {
			w.value(f.other, false, 0)
		}
	}
	w.raw("}")
}

func (w *writer) characters(f *field, required bool) {
	if f.enum != nil {
		w.raw(`,"enum":[`)
		for _, s := range f.enum {
			w.quote(s)
			w.raw(",")
		}
		if required {
			w.b = w.b[:len(w.b)-1]
		} else {
			w.raw("null")
		}
		w.raw("]")
		return
	}
	w.raw(`,"minLength":`)
	w.number(f.min)
	w.raw(`,"maxLength":`)
	w.number(f.max)
	if f.form.pattern != "" {
		w.raw(`,"pattern":`)
		w.quote(f.form.pattern)
	}
	if f.form.format != "" {
		w.raw(`,"format":"`, f.form.format, `"`)
	}
}
