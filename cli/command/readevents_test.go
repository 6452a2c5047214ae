package command

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-json-experiment/json/jsontext"
)

func TestFormsOfAFileOfEvents(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", ""},
		{"blank lines", "\n \r\n\t", ""},
		{"many blanks", strings.Repeat(" ", Longest+10) + "\n1", "1"},
		{"a value a line", "{\"a\":1}\n\n 2 \r\n3", `{"a":1} 2 3`},
		{"a line that is none", "1\n{\n3\n", "1 (f, line 2: it is not JSON in UTF-8) 3"},
		{"a first line that is none", "id;type\n2\n", "(f, line 1: it is not JSON in UTF-8) 2"},
		{"values over several lines", "{\n\"a\" : 1\n}\n{\n}\n", "{\n\"a\" : 1\n} {\n}"},
		{"values in one line", "{}{} 3", "{} {} 3"},
		{"an array", " [1, {\"a\": [2]},\n[3]]", `1 {"a": [2]} [3]`},
		{"an empty array", "[]", ""},
		{"arrays", "[1]\n[2,3] 4", "1 2 3 4"},
		{"an array that ends early", "[1,2", "1 2 (error: f, event 3)"},
		{"an array with a comma too many", "[1,]", "1 (error: f, event 2)"},
		{"something behind an array", "[1]]", "1 (error: f, event 2)"},
		{"duplicate names are for others to judge", `{"a":1,"a":2}`, `{"a":1,"a":2}`},
	} {
		for _, slow := range []bool{false, true} {
			var got []string
			in := strings.NewReader(c.text)
			do := func(raw []byte, _ string) error { got = append(got, string(raw)); return nil }
			bad := func(place, why string) { got = append(got, "("+place+": "+why+")") }
			var err error
			if slow {
				err = ReadEvents(iotest.OneByteReader(in), "f", do, bad)
			} else {
				err = ReadEvents(in, "f", do, bad)
			}
			if err != nil {
				place, _, _ := strings.Cut(err.Error(), ": ")
				got = append(got, "(error: "+place+")")
			}
			if all := strings.Join(got, " "); all != c.want {
				t.Errorf("%s: read %s, want %s (%v)", c.name, all, c.want, err)
			}
		}
	}
	gone := errors.New("gone")
	if err := ReadEvents(strings.NewReader("1\n2"), "f", func([]byte, string) error { return gone }, nil); !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
	if err := ReadEvents(iotest.ErrReader(gone), "f", nil, nil); !errors.Is(err, gone) {
		t.Errorf("a file that cannot be read: %v", err)
	}
}

func FuzzReadEvents(f *testing.F) {
	for _, s := range []string{"1\n2", "[1,[2]]", "{\n}{}", "[", "\"\\ud800\""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		err := ReadEvents(bytes.NewReader(b), "f", func(raw []byte, place string) error {
			if !jsontext.Value(raw).IsValid(jsontext.AllowDuplicateNames(true)) || !bytes.Contains(b, raw) || place == "" {
				return fmt.Errorf("%q is no value of the file", raw)
			}
			return nil
		}, func(string, string) {})
		if err != nil && strings.Contains(err.Error(), "is no value of") {
			t.Error(err)
		}
	})
}
