package record_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/windows/record"
)

const goodEvent = `{"globalEventId":1234567890123456789,"day":20250323,"monthYear":202503,"year":2025,"fractionDate":2025.2247,` +
	`"actor1Code":"USAGOV","actor1Name":"UNITED \u0053TATES","actor1CountryCode":"USA","actor1KnownGroupCode":null,"isRootEvent":1,` +
	`"eventCode":"043","eventBaseCode":"043","eventRootCode":"04","quadClass":1,"goldsteinScale":2.80,"numMentions":10,"numSources":1,` +
	`"numArticles":10,"avgTone":-1.23456789012345678901,"actor1GeoType":3,"actor1GeoFullName":"Köln, \"Germany\"","actor1GeoLat":50.933,` +
	`"actor1GeoLong":6.95,"actor2GeoLat":0,"actor2GeoLong":0,"actionGeoLat":1E1,"unknown":{"a":["}",1]},"dateAdded":20250323151500,` +
	`"sourceUrl":"https://example.com/a?b=c"}`

const goodMention = `{"mentionIdentifier":"https://example.com/a_1","globalEventId":7,"eventTimeDate":20250323151500,"mentionTimeDate":20250230151500,` +
	`"mentionType":1,"mentionSourceName":"example.com","sentenceId":3,"actor1CharOffset":-1,"actor2CharOffset":10,"actionCharOffset":20,` +
	`"inRawText":1,"confidence":50,"mentionDocLen":1000,"mentionDocTone":-2.50}`

func decode(t *testing.T, k record.Kind, raw string) *record.Record {
	t.Helper()
	r := new(record.Record)
	if err := record.Decode(k, []byte(raw), r); err != nil {
		t.Fatalf("decode %s: %v", raw, err)
	}
	return r
}

func TestValuesAreAsTheyCame(t *testing.T) {
	r := decode(t, record.Event, goodEvent)
	if r.ID != 1234567890123456789 {
		t.Errorf("id is %d", r.ID)
	}
	if s, ok := r.Text(record.Actor1Name); s != "UNITED STATES" || !ok {
		t.Errorf("name is %q, %v", s, ok)
	}
	if s, ok := r.Text(record.Actor1GeoFullName); s != `Köln, "Germany"` || !ok {
		t.Errorf("place is %q, %v", s, ok)
	}
	if got := string(r.Value(record.AvgTone)); got != "-1.23456789012345678901" {
		t.Errorf("tone is %s", got)
	}
	if x, ok := r.Float(record.Actor1GeoLat); x != 50.933 || !ok {
		t.Errorf("latitude is %v, %v", x, ok)
	}
	if n, ok := r.Int(record.NumMentions); n != 10 || !ok {
		t.Errorf("mentions are %v, %v", n, ok)
	}
	for _, f := range []record.Field{record.Actor1KnownGroupCode, record.Actor2Code} {
		if v := r.Value(f); v != nil {
			t.Errorf("value %d is %s, want null", f, v)
		}
	}
	m := decode(t, record.Mention, goodMention)
	if n, ok := m.Int(record.Actor1CharOffset); n != -1 || !ok || m.ID != 7 {
		t.Errorf("offset is %d, %v, of %d", n, ok, m.ID)
	}
}

func TestWhatIsRefused(t *testing.T) {
	for _, c := range []struct{ name, raw, want string }{
		{"nothing", ``, "no JSON: it is empty"},
		{"half", `{"globalEventId":1`, "no JSON: it ends too early"},
		{"two", `{"globalEventId":1}{}`, "no JSON: there is something behind the object"},
		{"a word", `{"globalEventId":x}`, "no JSON: "},
		{"no UTF-8", "{\"globalEventId\":1,\"sourceUrl\":\"\xff\"}", "no JSON: invalid UTF-8"},
		{"an array", `[{"globalEventId":1}]`, "it is an array, want one object"},
		{"a text", `"globalEventId"`, "it is a text, want one object"},
		{"null", ` null`, "it is null, want one object"},
		{"no id", `{"day":1}`, "globalEventId is missing"},
		{"a null id", `{"globalEventId":null}`, "globalEventId is missing"},
		{"the id in quotes", `{"globalEventId":"1"}`, "globalEventId is a text, want an integer or null"},
		{"the id with a fraction", `{"globalEventId":1.0}`, "globalEventId is a number that is no integer of 64 bits"},
		{"the id with an exponent", `{"globalEventId":1e3}`, "globalEventId is a number that is no integer"},
		{"the id too large", `{"globalEventId":9223372036854775808}`, "globalEventId is a number that is no integer"},
		{"the id far too large", `{"globalEventId":-99999999999999999999}`, "globalEventId is a number that is no integer"},
		{"a number for a text", `{"globalEventId":1,"eventCode":43}`, "eventCode is a number, want a text or null"},
		{"an object for a number", `{"globalEventId":1,"avgTone":{}}`, "avgTone is an object, want a number or null"},
		{"a boolean for an integer", `{"globalEventId":1,"isRootEvent":true}`, "isRootEvent is a boolean, want an integer or null"},
		{"a name twice", `{"globalEventId":1,"globalEventId":2}`, "globalEventId comes twice"},
		{"a name twice by escapes", `{"globalEventId":1,"d\u0061y":null,"day":2}`, "day comes twice"},
		{"two things", `{"globalEventId":1,"day":"x","year":[]}`, "day is a text, want an integer or null; year is an array"},
		{"large", `{"globalEventId":1,"x":"` + strings.Repeat("x", record.MaxSize) + `"}`, "more than 1048576"},
	} {
		var r record.Record
		err := record.Decode(record.Event, []byte(c.raw), &r)
		if err == nil || !strings.Contains(err.Error(), c.want) || tidemill.KindOf(err) != tidemill.Validation {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if err := record.Decode(0, []byte(`{}`), new(record.Record)); tidemill.KindOf(err) != tidemill.Internal {
		t.Errorf("no kind: %v", err)
	}
}

func TestWhatIsTaken(t *testing.T) {
	for _, raw := range []string{
		`{"globalEventId":-9223372036854775808}`, `{"globalEventId":9223372036854775807}`,
		" {\n \"globalEventId\" : 1 ,\t\"day\" : null }\r\n",
		`{"x":1,"x":2,"globalEventId":1}`, // an unknown name may come twice
		`{"globalEventId":1,"x":"\\\"}","y":[{"globalEventId":2}],"day":5}`,
		`{"globalEventId":1,"mentionIdentifier":{}}`, // another kind's
	} {
		decode(t, record.Event, raw)
	}
}

func TestKeys(t *testing.T) {
	for _, c := range []struct {
		kind                     record.Kind
		raw                      string
		key, qualifier, together string
	}{
		{record.Event, `{"globalEventId":-0}`, "0", "", "0"},
		{record.Event, goodEvent, "1234567890123456789", "", "1234567890123456789"},
		{record.Mention, goodMention, "7_https://example.com/a_1", "3", "7_https://example.com/a_1_3"},
		{record.Mention, `{"globalEventId":7,"mentionIdentifier":"\"\u00e4\"","sentenceId":-1}`, `7_"ä"`, "-1", `7_"ä"_-1`},
		{record.Mention, `{"globalEventId":7}`, "7_null", "", "7_null_"},
		{record.Mention, `{"globalEventId":7,"mentionIdentifier":""}`, "7_", "", "7__"},
	} {
		r := decode(t, c.kind, c.raw)
		key, qualifier, together := r.AppendKey([]byte("<")), r.AppendQualifier([]byte("<")), r.AppendQualifiedKey([]byte("<"))
		if string(key) != "<"+c.key || string(qualifier) != "<"+c.qualifier || string(together) != "<"+c.together {
			t.Errorf("%s: %s, %s, %s", c.raw, key, qualifier, together)
		}
	}
}

func TestBatchID(t *testing.T) {
	for _, c := range []struct {
		name, header, want, wrong string
		h                         []string
	}{
		{"the usual header", "", "20250323151500", "", []string{"__TypeId__", "x", "X-Batch-ID", "20250323151500"}},
		{"the other one", "", "b", "", []string{"batchId", "b"}},
		{"the usual one before the other", "", "a", "", []string{"batchId", "b", "X-Batch-ID", "a"}},
		{"a name of one's own", "run", "r", "", []string{"X-Batch-ID", "a", "run", "r"}},
		{"the other one instead of one's own", "run", "b", "", []string{"batchId", "b"}},
		{"as HTTP writes names", "", "a", "", []string{"X-Batch-Id", "a"}},
		{"quoted as JSON", "", "a\"ä", "", []string{"X-Batch-ID", `"a\"\u00e4"`}},
		{"spaces around", "", "a b", "", []string{"X-Batch-ID", " a b\n"}},
		{"the last of several", "", "2", "", []string{"X-Batch-ID", "1", "X-Batch-ID", "2"}},
		{"no header", "", "", "there is no batch id: neither a header X-Batch-ID nor batchId", []string{"x", "y"}},
		{"an empty one", "", "", "is empty", []string{"X-Batch-ID", " "}},
		{"an empty one in quotes", "", "", "is empty", []string{"X-Batch-ID", `""`}},
		{"half a quote", "", "", "no JSON text", []string{"X-Batch-ID", `"a`}},
		{"control characters", "", "", "control characters", []string{"X-Batch-ID", "a\x00b"}},
		{"no UTF-8", "", "", "no UTF-8", []string{"X-Batch-ID", "\xff"}},
		{"a long one", "", "", "256 bytes", []string{"X-Batch-ID", strings.Repeat("x", 256)}},
	} {
		var h []tidemill.Field
		for i := 0; i < len(c.h); i += 2 {
			h = append(h, tidemill.Field{Name: []byte(c.h[i]), Value: []byte(c.h[i+1])})
		}
		got, err := record.BatchID(h, c.header)
		switch {
		case c.wrong == "" && (err != nil || got != c.want):
			t.Errorf("%s: %q, %v; want %q", c.name, got, err, c.want)
		case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong) || tidemill.KindOf(err) != tidemill.Validation):
			t.Errorf("%s: %q, %v; want %q", c.name, got, err, c.wrong)
		}
	}
}

func TestSetAndAdd(t *testing.T) {
	r := decode(t, record.Event, goodEvent)
	for _, c := range []struct {
		name string
		do   func() error
		ok   bool
	}{
		{"a text", func() error { return r.SetText(record.EventCode, `a"b`) }, true},
		{"a number", func() error { return r.Set(record.AvgTone, []byte(" 1.50 ")) }, true},
		{"nothing", func() error { return r.Set(record.Actor1Code, nil) }, true},
		{"null", func() error { return r.Set(record.Actor1CountryCode, []byte("null")) }, true},
		{"a text for a number", func() error { return r.Set(record.AvgTone, []byte(`"1"`)) }, false},
		{"no JSON", func() error { return r.Set(record.AvgTone, []byte(`1 2`)) }, false},
		{"no UTF-8", func() error { return r.SetText(record.EventCode, "\xff") }, false},
		{"no id", func() error { return r.Set(record.GlobalEventID, nil) }, false},
		{"a value it has not", func() error { return r.Set(record.EventFields, nil) }, false},
		{"one more", func() error { return r.Add("sentiment", []byte("0.50")) }, true},
		{"the same again", func() error { return r.Add("sentiment", []byte("0.75")) }, true},
		{"one more of no JSON", func() error { return r.Add("more", []byte("{")) }, false},
		{"under a name of its own", func() error { return r.Add("eventDate", []byte("1")) }, false},
		{"under no name", func() error { return r.Add("", []byte("1")) }, false},
	} {
		if err := c.do(); (err == nil) != c.ok || err != nil && tidemill.KindOf(err) != tidemill.Validation {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	out := string(r.AppendOut(nil))
	for _, want := range []string{`"eventCode":"a\"b"`, `"avgTone":1.50,`, `"actor1Code":null`, `"actor1CountryCode":null`, `,"sentiment":0.75}`} {
		if !strings.Contains(out, want) {
			t.Errorf("%s is not in %s", want, out)
		}
	}
	for i := range record.MaxExtra - 1 {
		if err := r.Add(fmt.Sprint("x", i), []byte("1")); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Add("one too many", []byte("1")); err == nil {
		t.Error("there is no limit")
	}
	var copied record.Record
	copied.CopyFrom(r)
	if !reflect.DeepEqual(copied.AppendOut(nil), r.AppendOut(nil)) {
		t.Error("the copy is another record")
	}
	if err := r.Add("sentiment", []byte("1")); err != nil || bytes.Contains(copied.AppendOut(nil), []byte(`"sentiment":1`)) {
		t.Errorf("the copy changes with what it was made of: %v", err)
	}
}

func TestAppendJSONIsReadAsTheSame(t *testing.T) {
	for _, c := range []struct {
		kind record.Kind
		raw  string
	}{{record.Event, goodEvent}, {record.Mention, goodMention}} {
		r := decode(t, c.kind, c.raw)
		again := decode(t, c.kind, string(r.AppendJSON(nil)))
		for f := range c.kind.Fields() {
			if !bytes.Equal(r.Value(record.Field(f)), again.Value(record.Field(f))) {
				t.Errorf("%s was %s, is %s", c.kind.Name(record.Field(f)), r.Value(record.Field(f)), again.Value(record.Field(f)))
			}
		}
		var all map[string]any
		if err := json.Unmarshal(r.AppendJSON(nil), &all); err != nil || len(all) != c.kind.Fields() {
			t.Errorf("%d names, %v", len(all), err)
		}
	}
}
