package bridge

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
)

func entry(fields ...string) *tidemill.Message {
	m := &tidemill.Message{ID: "1700000000000-0"}
	for i := 0; i < len(fields); i += 2 {
		m.Header = append(m.Header, tidemill.Field{Name: []byte(fields[i]), Value: []byte(fields[i+1])})
	}
	return m
}

// TestFailuresAreNoData holds that what a queue adds to an entry that was refused before is not
// published in its place.
func TestFailuresAreNoData(t *testing.T) {
	failed := tidemill.Field{Name: []byte(queue.FailuresHeader), Value: queue.Failure{Kind: tidemill.Business, Cause: "the receiver refused it"}.Append(nil)}
	sent := &tidemill.Message{Payload: []byte(`{"n":1}`)}
	traced := &tidemill.Message{Payload: []byte(`{"n":1}`), Header: []tidemill.Field{{Name: []byte(tidemill.Traceparent), Value: []byte("00-1")}}}
	for _, m := range []*tidemill.Message{sent, traced, entry("host", "a", "seq", "7"), entry("payload", "1")} {
		want := string(appendMessage(nil, m))
		m.Header = append(m.Header, failed, failed)
		if got := string(appendMessage(nil, m)); got != want {
			t.Errorf("it is published as %s after it failed, and before as %s", got, want)
		}
	}
}

func TestData(t *testing.T) {
	for _, c := range []struct {
		name   string
		fields []string
		want   string
	}{
		{"an object, byte for byte", []string{"payload", `{"b":1, "a":{"x":[1,2]}}`}, `{"b":1, "a":{"x":[1,2]}}`},
		{"key order and doubled keys", []string{"payload", `{"z":1,"a":2,"z":3}`}, `{"z":1,"a":2,"z":3}`},
		{"an integer beyond 64 bits", []string{"payload", `{"n":123456789012345678901234567890}`}, `{"n":123456789012345678901234567890}`},
		{"a number that floats would round", []string{"payload", `12345678901234567890`}, `12345678901234567890`},
		{"unknown escapes of letters", []string{"payload", `"\u00e9\/"`}, `"\u00e9\/"`},
		{"an array", []string{"payload", `[1,2]`}, `[1,2]`},
		{"true", []string{"payload", `true`}, `true`},
		{"null", []string{"payload", `null`}, `null`},
		{"text in quotes", []string{"payload", `"up"`}, `"up"`},
		{"JSON with blanks around", []string{"payload", " {} \n"}, " {} \n"},
		{"a date is text", []string{"payload", `2025-01-01 10:00 up`}, `"2025-01-01 10:00 up"`},
		{"a word is text", []string{"payload", `test`}, `"test"`},
		{"text that begins like a literal", []string{"payload", `null pointer`}, `"null pointer"`},
		{"text that begins like a number", []string{"payload", `5 failed`}, `"5 failed"`},
		{"text that begins like an object", []string{"payload", `{oops`}, `"{oops"`},
		{"text that begins like a list", []string{"payload", `[warn] disk`}, `"[warn] disk"`},
		{"a leading zero is text", []string{"payload", `007`}, `"007"`},
		{"two values are text", []string{"payload", `1 2`}, `"1 2"`},
		{"half a string is text", []string{"payload", `"abc`}, `"\"abc"`},
		{"a control character in a string is no JSON", []string{"payload", "\"a\nb\""}, `"\"a\nb\""`},
		{"NaN is text", []string{"payload", `NaN`}, `"NaN"`},
		{"nothing", []string{"payload", ``}, `""`},
		{"letters beyond ASCII", []string{"payload", `grün <b>&`}, `"grün <b>&"`},
		{"bytes that are not UTF-8", []string{"payload", "a\xffb"}, `"a` + "\ufffd" + `b"`},
		{"an object with bytes that are not UTF-8 is text", []string{"payload", "{\"a\":\"x\xffy\", \"n\":1}"}, `"{\"a\":\"x` + "\ufffd" + `y\", \"n\":1}"`},
		{"so is one of which a name is not UTF-8", []string{"payload", "{\"\xc3\":1}"}, `"{\"` + "\ufffd" + `\":1}"`},
		{"and a surrogate in UTF-8", []string{"payload", "\"\xed\xa0\x80\""}, `"\"` + "\ufffd\ufffd\ufffd" + `\""`},
		{"struct_data of a flat entry that is not UTF-8", []string{"struct_data", "{\"a\":\"\xff\"}"}, `{"struct_data":"{\"a\":\"` + "\ufffd" + `\"}"}`},
		{"the payload among other fields", []string{"host", "a", "payload", `{"x":1}`, "n", "2"}, `{"x":1}`},
		{"all fields, in order, as strings", []string{"z", "1", "a", `{"x":1}`, "m", "a \"b\""}, `{"z":"1","a":"{\"x\":1}","m":"a \"b\""}`},
		{"struct_data that is JSON", []string{"payload", `{"a":1,"struct_data":"{\"n\":12345678901234567890, \"k\":[1]}","b":2}`}, `{"a":1,"struct_data":{"n":12345678901234567890, "k":[1]},"b":2}`},
		{"struct_data that is no JSON", []string{"payload", `{"struct_data":"hello"}`}, `{"struct_data":"hello"}`},
		{"struct_data that is a number in quotes", []string{"payload", `{"struct_data":"5"}`}, `{"struct_data":5}`},
		{"struct_data that is no string", []string{"payload", `{"struct_data":{"a":"{}"}}`}, `{"struct_data":{"a":"{}"}}`},
		{"struct_data further down", []string{"payload", `{"a":{"struct_data":"{}"}}`}, `{"a":{"struct_data":"{}"}}`},
		{"struct_data as a value", []string{"payload", `{"a":"struct_data","b":"{}"}`}, `{"a":"struct_data","b":"{}"}`},
		{"struct_data spelled with escapes", []string{"payload", `{ "struct\u005fdata" : "{}" }`}, `{ "struct\u005fdata" : {} }`},
		{"struct_data in a list", []string{"payload", `[{"struct_data":"{}"}]`}, `[{"struct_data":"{}"}]`},
		{"struct_data of a flat entry", []string{"a", "1", "struct_data", `{"x":1}`}, `{"a":"1","struct_data":{"x":1}}`},
		{"an entry's only field with another name", []string{"line", `{"x":1}`}, `{"line":"{\"x\":1}"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := string(appendData(nil, entry(c.fields...)))
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			framed := appendMessage([]byte("before"), entry(c.fields...))
			want := `before{"message":{"payload":` + c.want + `},"redis":{"payload":{"id":"1700000000000-0"}}}`
			if string(framed) != want || !json.Valid(framed[len("before"):]) || !utf8.Valid(framed) {
				t.Errorf("the message is %s", framed)
			}
		})
	}
}

func TestAMessageWithoutFieldsIsItsPayload(t *testing.T) {
	m := &tidemill.Message{ID: `a"b`, Payload: []byte(`{"x":1}`)}
	if got, want := string(appendMessage(nil, m)), `{"message":{"payload":{"x":1}},"redis":{"payload":{"id":"a\"b"}}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestATraceBesideAPayloadIsNoData(t *testing.T) {
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	m := entry("traceparent", trace, "tracestate", "a=1")
	m.Payload = []byte(`{"x":1}`)
	if got, want := string(appendData(nil, m)), `{"x":1}`; got != want {
		t.Errorf("of a job: %s, want %s", got, want)
	}
	of := entry("traceparent", trace) // as a source makes it of an entry with a single field
	of.Payload = of.Header[0].Value
	if got, want := string(appendData(nil, of)), `{"traceparent":"`+trace+`"}`; got != want {
		t.Errorf("of an entry with nothing else: %s, want %s", got, want)
	}
	if got, want := string(appendData(nil, entry("a", "1", "traceparent", trace))), `{"a":"1","traceparent":"`+trace+`"}`; got != want {
		t.Errorf("of an entry with fields: %s, want %s", got, want)
	}
}

func TestDeepNestingEndsNothing(t *testing.T) {
	for _, n := range []int{100, 9_999, 60_000, 5_000_000} {
		deep := strings.Repeat("[", n) + strings.Repeat("]", n)
		if !json.Valid(appendMessage(nil, entry("payload", deep))) && n < 5_000 {
			t.Errorf("%d levels make no JSON", n)
		}
	}
}

func TestFramingAllocatesNothing(t *testing.T) {
	m := entry("payload", `{"host":"a","n":12345678901234567890,"tags":["x","y"],"text":"all is well"}`)
	dst := make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(100, func() { dst = appendMessage(dst[:0], m) }); n != 0 {
		t.Errorf("framing allocates %v times", n)
	}
}

func FuzzData(f *testing.F) {
	for _, s := range []string{`{"struct_data":"{}"}`, "test", `{"a":1}`, "\xff", `"\u00`, `{"struct\u005fdata":"[1]","struct_data":"2"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		is := json.Valid(b) && utf8.Valid(b)
		if got := valid(b); got != is {
			t.Fatalf("valid(%q) is %v, encoding/json and unicode/utf8 say %v", b, got, is)
		}
		data := appendData(nil, entry("payload", string(b)))
		if !json.Valid(data) || !utf8.Valid(data) {
			t.Fatalf("%q became %q, which is no JSON", b, data)
		}
		if !is {
			var s string
			if err := json.Unmarshal(data, &s); err != nil || s != strings.ToValidUTF8(string(b), "\ufffd") && len(s) == 0 && len(b) > 0 {
				t.Fatalf("text %q became %q", b, data)
			}
		} else if !mayHoldStruct(b) && string(data) != string(b) {
			t.Fatalf("%q was changed to %q", b, data)
		}
	})
}
