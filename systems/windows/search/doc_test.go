package search

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill"
)

func TestTheDayIsCutOutAndNothingElseChanges(t *testing.T) {
	s := Events()
	for _, c := range []struct{ name, in, day, out string }{
		{"the only one", `{"elasticIndexDate":"2025-03-23"}`, "2025-03-23", `{}`},
		{"the only one, with space", `{ "elasticIndexDate" : "2025-03-23" }`, "2025-03-23", `{ }`},
		{"the first", `{"elasticIndexDate":"2025-03-23","a":1}`, "2025-03-23", `{"a":1}`},
		{"the first, with space", "{\n \"elasticIndexDate\": \"2025-03-23\" ,\n \"a\": 1\n}", "2025-03-23", "{\n \"a\": 1\n}"},
		{"in the middle", `{"a":1,"elasticIndexDate":"2025-03-23","b":2}`, "2025-03-23", `{"a":1,"b":2}`},
		{"in the middle, with space", `{"a":1 , "elasticIndexDate":"2025-03-23" , "b":2}`, "2025-03-23", `{"a":1 , "b":2}`},
		{"the last", `{"a":1,"elasticIndexDate":"2025-03-23"}`, "2025-03-23", `{"a":1}`},
		{"the last, with space", `{"a":1 , "elasticIndexDate":"2025-03-23" }`, "2025-03-23", `{"a":1 }`},
		{"written otherwise", `{"elastic\u0049ndexDate":"2025-\u0030\u0033-23","a":1}`, "2025-03-23", `{"a":1}`},
		{"numbers and texts keep their form", `{"a":9007199254740993,"b":1.50,"c":"\u00e9é","d":1E+2,"elasticIndexDate":"2025-03-23","e":{"elasticIndexDate":"x"},"f":[",\"",null]}`,
			"2025-03-23", `{"a":9007199254740993,"b":1.50,"c":"\u00e9é","d":1E+2,"e":{"elasticIndexDate":"x"},"f":[",\"",null]}`},
		{"no real date", `{"elasticIndexDate":"9999-99-99"}`, "9999-99-99", `{}`},
		{"space around", " {\"elasticIndexDate\":\"2025-03-23\"} \n", "2025-03-23", " {} \n"},
	} {
		payload := []byte(c.in)
		d, err := s.Doc([]byte("7"), payload)
		if err != nil || d.Day != c.day || string(d.Body) != c.out || d.ID != "7" || d.Schema != "gdelt-events" {
			t.Errorf("%s: %q, %q: %v, want %q", c.name, d.Day, d.Body, err, c.out)
		}
		if string(payload) != c.in {
			t.Errorf("%s: the payload was changed", c.name)
		}
	}
}

func TestARecordWithoutADayIsRefusedWithItsReason(t *testing.T) {
	s := Mentions()
	for in, reason := range map[string]string{
		`{}`: "elasticIndexDate", `{"elasticIndexDate":null}`: "elasticIndexDate", `{"elasticIndexDate":""}`: "elasticIndexDate", `{"elasticIndexDate":20250323}`: "elasticIndexDate",
		`{"elasticIndexDate":"2025-3-23"}`: "2025-3-23", `{"elasticIndexDate":"2025-03-23T00:00:00Z"}`: "YYYY-MM-DD", `{"elasticIndexDate":"../_all/x"}`: "YYYY-MM-DD",
		`[]`: "no JSON object", `"x"`: "no JSON object", ``: "no JSON object", `{"a":1`: "cut short", `{"a":}`: "not JSON", `{"a":1,"a":2}`: "twice", `{"elasticIndexDate":"2025-03-23"} {}`: "behind",
		"{\"a\":\"\xff\"}": "UTF-8", "{\"elasticIndexDate\":\"2025-03-23\",\"a\":\"secret": "cut short",
	} {
		_, err := s.Doc([]byte("7"), []byte(in))
		if tidemill.KindOf(err) != tidemill.Validation || !strings.Contains(err.Error(), reason) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", in, err, reason)
		}
	}
	if _, err := s.Doc(nil, []byte(`{"elasticIndexDate":"2025-03-23"}`)); tidemill.KindOf(err) != tidemill.Validation {
		t.Errorf("without a key: %v", err)
	}
}

// Cutting leaves an object of the other members, in their order and form.
func FuzzCut(f *testing.F) {
	f.Add([]byte(`{"a":1 , "day":"x", "b":[1,2]}`))
	f.Add([]byte(`{"day":"x" ,"b":{"day":2}}`))
	f.Add([]byte(` { "day" : null } `))
	f.Fuzz(func(t *testing.T, in []byte) {
		_, out, err := cut(in, "day")
		if err != nil {
			return
		}
		members := func(b []byte) (all []string) {
			dec := jsontext.NewDecoder(bytes.NewReader(b))
			if _, err := dec.ReadToken(); err != nil {
				t.Fatalf("%q became %q: %v", in, out, err)
			}
			for dec.PeekKind() == '"' {
				name, err := dec.ReadValue()
				if err != nil {
					t.Fatalf("%q became %q: %v", in, out, err)
				}
				member := string(name)
				value, err := dec.ReadValue()
				if err != nil {
					t.Fatalf("%q became %q: %v", in, out, err)
				}
				var plain string
				if json.Unmarshal([]byte(member), &plain) == nil && plain != "day" {
					all = append(all, member+":"+string(value))
				}
			}
			if _, err := dec.ReadToken(); err != nil {
				t.Fatalf("%q became %q: %v", in, out, err)
			}
			return all
		}
		if want, got := strings.Join(members(in), ","), strings.Join(members(out), ","); want != got {
			t.Errorf("%q became %q", in, out)
		}
		if strings.Contains(strings.Join(members(out), ""), "\x00") {
			t.Errorf("%q has NUL", out)
		}
	})
}

func TestIDsAreStableAndShort(t *testing.T) {
	long := strings.Repeat("x", 400) + strings.Repeat("é", 400)
	for _, c := range []struct{ name, key, want string }{
		{"a short key stays", "123_https://example.com/ä?b=c", "123_https://example.com/ä?b=c"},
		{"one of 512 bytes stays", strings.Repeat("x", 512), strings.Repeat("x", 512)},
		{"one of 513 does not", strings.Repeat("x", 513), strings.Repeat("x", 479) + "~"},
		{"letters are not cut in two", long, strings.Repeat("x", 400) + strings.Repeat("é", 39) + "~"},
		{"what is no UTF-8 does not stay", "a\xffb", "a\ufffdb~"},
		{"NUL does not stay", "a\x00b", "a\ufffdb~"},
		{"much that is no UTF-8", strings.Repeat("\xff\xfe", 500), "\ufffd~"},
	} {
		got := ID([]byte(c.key))
		if !strings.HasPrefix(got, c.want) || len(got) > MaxID || !utf8.ValidString(got) || got != ID([]byte(c.key)) {
			t.Errorf("%s: %d bytes %q, want it to begin with %q", c.name, len(got), got, c.want)
		}
	}
	if ID([]byte(long)) == ID([]byte(long+"x")) || ID([]byte("a\xffb")) == ID([]byte("a\xfeb")) || ID([]byte("a\x00b")) == ID([]byte("a\ufffdb")) {
		t.Error("two keys have one id")
	}
	if got, want := ID([]byte(strings.Repeat("x", 513))), strings.Repeat("x", 479)+"~35ade0090e64e74d6ad04204009c23a4"; got != want {
		t.Errorf("the id of a long key has changed: %s", got[470:])
	}
}

func TestCursorsReadBack(t *testing.T) {
	p := Position{Time: NoTime, Tie: []byte{0, 255, 1}, Day: "2025-03-23", ID: "x\u00e9"}
	if got, err := ParsePosition(p.Cursor()); err != nil || got.Compare(p) != 0 {
		t.Errorf("%+v: %v", got, err)
	}
	for _, bad := range []string{"", "x", p.Cursor() + "AAAA", p.Cursor()[:9], "!"} {
		if _, err := ParsePosition(bad); tidemill.KindOf(err) != tidemill.Validation {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{`protest "human rights" -actor1Code:USA`, "eventDate:2025-03..2025-04-01 avgTone:<-1.5", `actor1Name.keyword:"x y" quadClass:>=1`, "a:b", `"`} {
		f.Add(text)
	}
	s := Events()
	f.Fuzz(func(t *testing.T, text string) {
		clauses, err := s.Parse(text)
		if err != nil && tidemill.KindOf(err) != tidemill.Validation {
			t.Errorf("%q: %v", text, err)
		}
		for _, c := range clauses {
			if c.Words == nil && c.Field == Any || c.Range && c.Field == Any {
				t.Errorf("%q: %+v", text, c)
			}
			c.Match(s, make([]Value, len(s.Fields)))
		}
	})
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"globalEventId":1.5e3,"eventDate":"2025-03-23","actor1Location":{"lat":1,"lon":"2"},"avgTone":-0.0}`))
	s := Events()
	f.Fuzz(func(t *testing.T, body []byte) {
		values, err := s.Read(body)
		if err != nil {
			if tidemill.KindOf(err) != tidemill.Validation {
				t.Errorf("%q: %v", body, err)
			}
			return
		}
		s.Position(&Doc{}, values)
	})
}
