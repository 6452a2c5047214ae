package jsonspan

import (
	"bytes"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

func TestEnds(t *testing.T) {
	for _, c := range []struct {
		b     string
		end   int
		whole bool
	}{
		{`"a"b`, 3, true},
		{`""`, 2, true},
		{`"\"",1`, 4, true},
		{`"\\",1`, 4, true},
		{`"\\\"",1`, 6, true},
		{`"`, 1, false},
		{`"a\"`, 4, false},
		{`{}]`, 2, true},
		{`{"a":"}"}}`, 9, true},
		{`[[1],{"]":[]}] `, 14, true},
		{`[1}`, 3, true}, // its reader reports the error
		{`[1`, 2, false},
		{`{"a`, 3, false},
	} {
		of := Nested
		if c.b[0] == '"' {
			of = Text
		}
		if end, whole := of([]byte(c.b), 0); end != c.end || whole != c.whole {
			t.Errorf("%s ends at %d, %v; want %d, %v", c.b, end, whole, c.end, c.whole)
		}
	}
}

func TestEndsWhereAParserSaysSo(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		b := []byte(rapid.StringMatching(`(\{"a":|\[)*("([a-z"{}\[\]]|\\"|\\\\)*"|1)[\]},"a]*`).Draw(r, "value"))
		if b[0] == '1' {
			return
		}
		v, err := jsontext.NewDecoder(bytes.NewReader(b)).ReadValue()
		if err != nil {
			return
		}
		of := Nested
		if b[0] == '"' {
			of = Text
		}
		if end, whole := of(b, 0); end != len(v) || !whole {
			r.Fatalf("%s ends at %d, %v; a parser says %d", b, end, whole, len(v))
		}
	})
}
