package catalog

import (
	"bytes"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// FuzzScanner compares with a parser that accepts only JSON: on every JSON object both see the
// same pairs, and on anything else nothing breaks.
func FuzzScanner(f *testing.F) {
	for _, s := range []string{`{}`, ` { "a" : 1 , "b":"\\\"" , "c":[{"d":"]}"},[]],"e":{"f":{}},"g":null } `, `{"a":1`, `{"a"`, `{"`, `[]`, ``, `{"a":}`, `{"a":"\`, `{"a":[}`, `{,}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		type pair struct{ name, value string }
		var got []pair
		s, ok := open(in)
		for n := 0; ok; n++ {
			if n > len(in) {
				t.Fatalf("%q: more pairs than bytes", in)
			}
			var name, value []byte
			if name, value, ok = s.next(); ok {
				if len(value) == 0 {
					t.Fatalf("%q: the value of %q is empty", in, name)
				}
				got = append(got, pair{string(name), string(value)})
			}
		}
		d := jsontext.NewDecoder(bytes.NewReader(in), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
		whole, err := d.ReadValue()
		if err != nil || whole.Kind() != '{' {
			return
		}
		d = jsontext.NewDecoder(bytes.NewReader(bytes.Clone(whole)), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
		if _, err := d.ReadToken(); err != nil {
			t.Fatal(err)
		}
		for i := 0; d.PeekKind() != '}'; i++ {
			n, err := d.ReadValue()
			if err != nil {
				t.Fatal(err)
			}
			name := string(n[1 : len(n)-1])
			v, err := d.ReadValue()
			if err != nil {
				t.Fatal(err)
			}
			if i >= len(got) || got[i] != (pair{name, string(v)}) {
				t.Fatalf("%q: pair %d is %q, want %q: %q", in, i, got, name, v)
			}
		}
	})
}
