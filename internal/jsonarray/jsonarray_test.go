package jsonarray

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
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
