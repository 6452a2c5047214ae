package event_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tidemill/tidemill/systems/delivery/event"
)

// schema checks values by a JSON Schema, as far as ours use it. It knows nothing of the rules
// that wrote the schema.
type schema struct {
	t    *testing.T
	root map[string]any
}

func (s *schema) fits(node any, v any) bool {
	if b, ok := node.(bool); ok {
		return b
	}
	n := node.(map[string]any)
	for key, want := range n {
		if !s.keyword(n, key, want, v) {
			return false
		}
	}
	return true
}

func (s *schema) keyword(n map[string]any, key string, want, v any) bool {
	object, isObject := v.(map[string]any)
	list, isList := v.([]any)
	text, isText := v.(string)
	num, isNumber := v.(json.Number)
	size := func(n int, most bool) bool {
		limit, _ := want.(json.Number).Int64()
		return most && int64(n) <= limit || !most && int64(n) >= limit
	}
	switch key {
	case "$schema", "$id", "$defs", "title", "format":
		return true
	case "$ref":
		return s.fits(s.root["$defs"].(map[string]any)["any"], v)
	case "type":
		names, many := want.([]any)
		if !many {
			names = []any{want}
		}
		return slices.ContainsFunc(names, func(name any) bool { return is(name.(string), v) })
	case "const":
		return v == want
	case "enum":
		return slices.Contains(want.([]any), v)
	case "pattern":
		return !isText || regexp.MustCompile(want.(string)).MatchString(text)
	case "minLength":
		return !isText || size(utf8.RuneCountInString(text), false)
	case "maxLength":
		return !isText || size(utf8.RuneCountInString(text), true)
	case "minimum":
		return !isNumber || rational(num).Cmp(rational(want.(json.Number))) >= 0
	case "maximum":
		return !isNumber || rational(num).Cmp(rational(want.(json.Number))) <= 0
	case "minItems":
		return !isList || size(len(list), false)
	case "maxItems":
		return !isList || size(len(list), true)
	case "maxProperties":
		return !isObject || size(len(object), true)
	case "items":
		return !isList || !slices.ContainsFunc(list, func(e any) bool { return !s.fits(want, e) })
	case "required":
		return !isObject || !slices.ContainsFunc(want.([]any), func(name any) bool { _, there := object[name.(string)]; return !there })
	case "properties":
		for name, part := range want.(map[string]any) {
			if value, there := object[name]; isObject && there && !s.fits(part, value) {
				return false
			}
		}
		return true
	case "additionalProperties":
		named, _ := n["properties"].(map[string]any)
		for name, value := range object {
			if _, there := named[name]; !there && !s.fits(want, value) {
				return false
			}
		}
		return true
	case "propertyNames":
		for name := range object {
			if !s.fits(want, name) {
				return false
			}
		}
		return true
	case "allOf":
		return !slices.ContainsFunc(want.([]any), func(part any) bool { return !s.fits(part, v) })
	case "oneOf":
		fit := 0
		for _, part := range want.([]any) {
			if s.fits(part, v) {
				fit++
			}
		}
		return fit == 1
	}
	s.t.Fatalf("the schema uses %q, which this test does not know", key)
	return false
}

func is(name string, v any) bool {
	switch v := v.(type) {
	case nil:
		return name == "null"
	case bool:
		return name == "boolean"
	case string:
		return name == "string"
	case []any:
		return name == "array"
	case map[string]any:
		return name == "object"
	case json.Number:
		return name == "number" || name == "integer" && rational(v).IsInt()
	}
	return false
}

func rational(n json.Number) *big.Rat {
	r, _ := new(big.Rat).SetString(n.String())
	return r
}

func parse(t *testing.T, b []byte) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%.100q: %v", b, err)
	}
	return v
}

// beyond are refusals that a schema cannot express.
var beyond = regexp.MustCompile(`nested deeper|comes twice|more than 100 characters|in an event of`)

func TestSchemasSayWhatDecodeDoes(t *testing.T) {
	r := newRules(t, event.Options{Types: map[string]event.Type{"subscribe": {Purchase: true}}})
	schemas := map[string]*schema{}
	for _, name := range r.Types() {
		b, ok := r.Schema(name)
		if !ok {
			t.Fatalf("there is no schema of %q", name)
		}
		schemas[name] = &schema{t, parse(t, b).(map[string]any)}
	}
	judged := map[bool]int{}
	for _, c := range append(bounds(), bound{raw: view}, bound{raw: purchase}, bound{raw: string(typical)}) {
		v := parse(t, []byte(c.raw)).(map[string]any)
		name, _ := v["eventType"].(string)
		s := schemas[name]
		if s == nil {
			continue
		}
		got := problems(t, r, c.raw, event.Given{})
		if slices.ContainsFunc(got, beyond.MatchString) {
			continue
		}
		judged[len(got) == 0]++
		if fits := s.fits(s.root, v); fits != (len(got) == 0) {
			t.Errorf("%s: valid under its schema: %t; Decode says %q", c.name, fits, got)
		}
	}
	if judged[true] < 100 || judged[false] < 100 {
		t.Errorf("only %v events were judged both ways", judged)
	}
	if _, ok := r.Schema("other"); ok {
		t.Error("there is a schema of a type that there is not")
	}
}

func ExampleRules_Schema() {
	r, err := event.New(event.Options{Types: map[string]event.Type{"subscribe": {Purchase: true}}})
	if err != nil {
		panic(err)
	}
	s, _ := r.Schema("subscribe")
	fmt.Println(string(s[:150]))
	// Output:
	// {"$schema":"https://json-schema.org/draft/2020-12/schema","$id":"/v1/schemas/subscribe","title":"subscribe","type":"object","required":["eventType","t
}
