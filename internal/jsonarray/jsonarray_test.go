package jsonarray

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill"
)

func TestElementsAreTheBytesThatCame(t *testing.T) {
	for body, want := range map[string]string{
		`[]`:                                     "",
		` [ 1 , {"b":1.0,"a":[2],"b":3} ,"x" ] `: "1|{\"b\":1.0,\"a\":[2],\"b\":3}|x",
		`[12345678901234567890123]`:              "12345678901234567890123",
		"[\"\xff\"]":                             "bad",
		`[1`:                                     "bad",
		`[1,]`:                                   "bad",
		`[1] 2`:                                  "behind",
		"[1]\x00":                                "behind",
		`]`:                                      "bad",
	} {
		var all []string
		for v, err := range Elements([]byte(body)) {
			switch {
			case errors.Is(err, ErrBehind):
				all = []string{"behind"}
			case err != nil:
				all = []string{"bad"}
			default:
				all = append(all, strings.Trim(string(v), `"`))
			}
		}
		if got := strings.Join(all, "|"); got != want {
			t.Errorf("%q gives %q, want %q", body, got, want)
		}
	}
	n := 0
	for v, err := range Elements([]byte("[\"\xff\",2,3]"), jsontext.AllowInvalidUTF8(true)) {
		if n++; err != nil || n == 2 && string(v) != "2" {
			t.Errorf("element %d is %q, %v", n, v, err)
		}
		if n == 2 {
			break
		}
	}
}

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		body  string
		want  string
		array bool
		ok    bool
	}{
		{`{"a":1}`, `[{"a":1}]`, false, true},
		{`nothing`, `[nothing]`, false, true}, // its decoder says what is wrong
		{` [ {"a" : 1} ,2]`, `[{"a" : 1} 2]`, true, true},
		{`[]`, "", true, false},
		{`[{}`, "", true, false},
		{`[{}] {}`, "", true, false},
		{`[1,2,3,4]`, "", true, false},
	} {
		all, array, err := Split([]byte(c.body), 3)
		if (err == nil) != c.ok || array != c.array || err == nil && fmt.Sprintf("%s", all) != c.want {
			t.Errorf("%s: %s, %v, %v", c.body, all, array, err)
		}
		if err != nil && tidemill.KindOf(err) != tidemill.Validation {
			t.Errorf("%s: kind %v", c.body, tidemill.KindOf(err))
		}
	}
}
