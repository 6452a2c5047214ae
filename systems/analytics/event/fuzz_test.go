package event

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/person"
)

// seeds are events of every format, and near misses.
func seeds(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, s := range [][]byte{posthogEvent(r), nativeEvent(r), segmentEvent(r),
		[]byte(`{"specversion":"1.0","id":"1","source":"s","type":"a","subject":"u","data":{"$set":{"a":[1,{"b":"}"}]}}}`),
		[]byte(`{"event":"$identify","distinct_id":1e5,"properties":{"$anon_distinct_id":"a\\\"","$set":{"k":"\ud800"},"$unset":["x",1]},"$set_once":{"y":null}}`),
		[]byte(`{"type":"alias","userId":{"a":1},"previousId":["b"],"context":{"page":{"url":"x"},"screen":{"width":1e9}}}`),
		[]byte(`{"type":"group","groupId":"g","userId":"u","traits":{"a":1}}`),
		[]byte("{\"event\":\"a\",\"distinct_id\":\"\xff\",\"properties\":{\"\xff\":1}}"),
		[]byte(`{"project_id":"33333333-3333-4333-8333-333333333333","event_name":"a","distinct_id":"u","properties":"{\"a\":1}","timestamp":"1768471323"}`),
		[]byte(`{}`), []byte(`{"event":`), []byte(`"`), []byte(`{"\`), []byte(`{"a":"\\\\`),
	} {
		f.Add(s)
	}
}

// sound fails if a decoder accepted what Validate refuses, or refused without a reason.
func sound(t *testing.T, e *Event, err error) bool {
	t.Helper()
	if err != nil {
		refusal(t, err)
		return false
	}
	if err := Validate(e); err != nil {
		t.Fatalf("taken, but %v", err)
	}
	if e.ID == uuid.Nil || e.Timestamp.IsZero() && e.Timestamp.Year() != 1 {
		t.Fatalf("id %v, time %v", e.ID, e.Timestamp)
	}
	if e.Merge != NoMerge && (e.Other == "" || e.Other == e.DistinctID || IllegalDistinctID(e.Other) || e.MergeRefused != "") {
		t.Fatalf("merge %d of %q and %q, refused %q", e.Merge, e.DistinctID, e.Other, e.MergeRefused)
	}
	if !e.Profile && (len(e.Changes) > 0 || e.Merge != NoMerge) {
		t.Fatalf("without a profile: merge %d, changes %s", e.Merge, changesOf(e))
	}
	for _, b := range [][]byte{e.Properties, e.UserProperties} {
		if len(b) > 0 && (b[0] != '{' || !valid(b)) {
			t.Fatalf("properties %q are no object", b)
		}
	}
	last := map[string]bool{}
	for i, c := range e.Changes {
		key := string(rune('0'+c.Op)) + c.Key
		if volatile(c.Key) || last[key] || (c.Value == nil) != (c.Op == person.Unset) || c.Value != nil && !valid(c.Value) {
			t.Fatalf("change %d of %s", i, changesOf(e))
		}
		last[key] = true
	}
	return true
}

// within reports whether part is in whole, byte for byte.
func within(whole, part []byte) bool { return len(part) == 0 || bytes.Contains(whole, part) }

func FuzzDecode(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		kept := bytes.Clone(raw)
		for format := Native; format < formats; format++ {
			m := endpoint(format)
			var e Event
			if !sound(t, &e, Decode(&m, raw, &e)) {
				continue
			}
			added := format == Segment || format == CloudEvents // values without another place, behind those that were sent
			if !added && !within(raw, e.Properties) {
				t.Errorf("format %d: properties %q are not as received", format, e.Properties)
			}
			if format != PostHog && format != Segment && !within(raw, e.UserProperties) {
				t.Errorf("format %d: user properties %q are not as received", format, e.UserProperties)
			}
			for _, c := range e.Changes {
				if !within(raw, c.Value) {
					t.Errorf("format %d: value %q is not as received", format, c.Value)
				}
			}
			row := e.AppendJSON(nil)
			var back Event
			if err := ParseRow(row, &back); err != nil {
				t.Fatalf("format %d: row %q: %v", format, row, err)
			}
			if again := back.AppendJSON(nil); !bytes.Equal(again, row) {
				t.Errorf("format %d: row\n%q\ncame back as\n%q", format, row, again)
			}
			if got, want := changesOf(&back), changesOf(&e); got != want && !bytes.ContainsAny(raw, "\r\n") {
				t.Errorf("format %d: changes %q came back as %q", format, want, got)
			}
		}
		if !bytes.Equal(kept, raw) {
			t.Errorf("the bytes received were changed")
		}
	})
}

func FuzzDecodeMessage(f *testing.F) {
	seeds(f)
	m := endpoint(PostHog)
	f.Add(m.Append(nil))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, msg := range []*tidemill.Message{
			payload(string(raw)),
			entry("data", string(raw)),
			entry("project_id", projectText, "event_name", "a", "distinct_id", "u", "properties", string(raw), "user_properties", string(raw)),
			entry("project_id", projectText, "event_name", "$create_alias", "distinct_id", string(raw), "timestamp", string(raw), "screen_width", string(raw)),
		} {
			var e Event
			err := DecodeMessage(msg, Clock{}, &e)
			sound(t, &e, err)
		}
		var e Event
		if err := DecodeMessage(entry(MetaHeader, string(raw)), Clock{}, &e); err == nil {
			t.Errorf("an entry without a payload was taken: %s", show(&e))
		}
	})
}

func FuzzParseRow(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		var e Event
		if sound(t, &e, ParseRow(raw, &e)) {
			e.AppendJSON(nil)
		}
	})
}

// FuzzScan compares the cursor with the JSON package: over every valid object it finds the same
// names and the same bytes of values.
func FuzzScan(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !valid(raw) {
			return
		}
		d := new(decoder)
		dec := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
		read := func() []byte {
			v, err := dec.ReadValue()
			if err != nil {
				t.Fatalf("%q: %v", raw, err)
			}
			return v
		}
		kind := dec.PeekKind()
		if kind != '{' && kind != '[' {
			c := cursor{b: raw}
			if got, want := c.any(), read(); !bytes.Equal(got, want) {
				t.Errorf("value %q; want %q", got, want)
			} else if text, err := jsontext.AppendUnquote(nil, want); is(want, '"') && d.text(got) != string(text) {
				t.Errorf("text %q; want %q, %v", d.text(got), text, err)
			}
			return
		}
		if _, err := dec.ReadToken(); err != nil {
			t.Fatal(err)
		}
		c := cursor{b: raw}
		if !c.open(byte(kind)) {
			t.Fatalf("%q is not opened", raw)
		}
		for {
			var name, want []byte
			var more bool
			if kind == '{' {
				name, more = c.member()
			} else {
				more = c.element()
			}
			if end := dec.PeekKind() == '}' || dec.PeekKind() == ']'; end == more {
				t.Fatalf("%q: one of both has an end, at %d", raw, c.i)
			}
			if !more {
				break
			}
			if kind == '{' {
				if want, _ = jsontext.AppendUnquote(nil, read()); toUTF8(string(name)) != string(want) {
					t.Errorf("name %q; want %q", name, want)
				}
			}
			if got, want := c.any(), read(); !bytes.Equal(got, want) {
				t.Errorf("value %q; want %q", got, want)
			}
		}
		if rest := bytes.TrimSpace(raw[c.i:]); len(rest) > 0 {
			t.Errorf("left %q", rest)
		}
	})
}

func FuzzParseTime(f *testing.F) {
	for _, s := range []string{"2026-01-15T10:02:03.5+05:30", "2026-01-15 10:02:03", "1768471323.5", "1e12", "-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseTime(s)
		if err != nil {
			refusal(t, err)
			return
		}
		if got.Year() < 1 || got.Year() > 9999 {
			t.Errorf("ParseTime(%q) = %v", s, got)
		}
		if again, err := ParseTime(got.Format("2006-01-02T15:04:05.999999999Z07:00")); err != nil || !again.Equal(got) {
			t.Errorf("ParseTime(%q) = %v, written out and read again %v, %v", s, got, again, err)
		}
	})
}

// FuzzCursor walks over unchecked bytes: it must end.
func FuzzCursor(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		c := cursor{b: raw}
		c.any()
		c = cursor{b: raw}
		c.open('{')
		for steps := 0; ; steps++ {
			before := c.i
			_, ok := c.member()
			c.any()
			if c.i > len(raw) || steps > len(raw)+1 {
				t.Fatalf("at %d after %d steps", c.i, steps)
			}
			if !ok || c.i == before {
				break
			}
		}
		c = cursor{b: raw}
		c.open('[')
		for steps := 0; c.element(); steps++ {
			before := c.i
			if c.any(); c.i == before {
				break
			}
		}
	})
}
