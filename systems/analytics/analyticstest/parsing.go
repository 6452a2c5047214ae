package analyticstest

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/analytics"
	"github.com/tidemill/tidemill/systems/analytics/event"
)

var parsing = []promise{
	{name: "A2 a malformed entry is dead with its bytes, and its batch goes on", reason: "one bad producer must not hold up the others, and what it sent can be looked at", holds: malformedIsDead},
	{name: "A2 flat fields and one JSON field are the same event", reason: "producers of both kinds write to the stream", holds: flatAndJSON},
	{name: "A3 an id that is missing is the entry's own, the same at every redelivery", reason: "a derived id is what makes a redelivery harmless", holds: derivedIDs},
	{name: "A3 an id that is no UUID becomes the UUIDv5 of it", reason: "what a producer calls the same is the same", holds: foreignIDs},
	{name: "A3 a missing time is the entry's, and every format of the facts is read", reason: "producers in the field leave it out or write it in their way", holds: timestamps},
	{name: "A3 a time beyond the bounds becomes the nearer one, with a warning", reason: "months are partitions of a warehouse, and anybody may send any time", holds: farTimestamps},
	{name: "A3 a time that cannot be read is refused", reason: "an event at a wrong time is worse than one that is known to be wrong", holds: badTimestamps},
	{name: "A8 screen sizes are clamped, and junk is 0", reason: "the column holds 16 bits, and no event dies of its screen", holds: screens},
}

func malformedIsDead(b *bench) {
	junk := []string{"\xff\x00{\"", `{"event_name":"cut`, `["not","an","object"]`, `{"a":1}`, "", "null"}
	b.put(entry("first", "u1"))
	for i, j := range junk {
		b.put(&tidemill.Message{ID: fmt.Sprint("junk-", i), Payload: []byte(j)})
	}
	b.put(&tidemill.Message{ID: "junk-header", Header: []tidemill.Field{{Name: []byte("data"), Value: []byte(`{"project_id":`)}}})
	b.put(entry("last", "u2"))
	b.process()
	b.wantBooks(2, 0, uint64(len(junk))+1)
	b.one("first")
	b.one("last")
	for i, l := range b.letters() {
		if l.Kind != tidemill.Validation || l.Pipeline != analytics.Name || l.Cause == "" {
			b.Errorf("letter %s is of %s, kind %v, cause %q; want validation with a cause", l.ID, l.Pipeline, l.Kind, l.Cause)
		}
		if i < len(junk) && string(l.Payload) != junk[i] {
			b.Errorf("letter %s has the payload %q, %q was put", l.ID, l.Payload, junk[i])
		}
		if l.ID == "junk-header" && string(l.Get("data")) != `{"project_id":` {
			b.Errorf("letter %s has lost its header: %v", l.ID, l.Header)
		}
	}
}

// everything has a value for each field of an entry.
var everything = []string{"event_id", uid(1), "event_type", "custom", "anonymous_id", "anon", "user_id", "user", "session_id", "session",
	"url", "https://example.org/a?b=c", "referrer", "https://example.net/", "page_title", "Title – ✓", "page_path", "/a", "device_type", "tablet",
	"browser", "Firefox", "browser_version", "115.0", "os", "Linux", "os_version", "6.1", "screen_width", "1920", "screen_height", "1080",
	"language", "de-AT", "timezone", "Europe/Vienna", "sdk_name", "native", "sdk_version", "1.2.3", "ip", "203.0.113.9", "user_agent", "curl/8",
	"batch_id", "batch-1", "properties", `{ "z":1, "a" : [1,2,12345678901234567890],"z":2 }`, "user_properties", `{"plan":"pro"}`}

func flatAndJSON(b *bench) {
	flat := entry("every field", "u", everything...)
	text := func(id string, quoteBags bool) string {
		var s strings.Builder
		for i, f := range flat.Header {
			v := fmt.Sprintf("%q", f.Value)
			switch name := string(f.Name); {
			case name == "event_id":
				v = fmt.Sprintf("%q", id)
			case !quoteBags && (name == "properties" || name == "user_properties"), strings.HasPrefix(name, "screen_"):
				v = string(f.Value)
			}
			fmt.Fprintf(&s, "%s%q:%s", map[bool]string{true: "{", false: ","}[i == 0], f.Name, v)
		}
		return s.String() + "}"
	}
	b.put(flat, object(text(uid(2), false)), object(text(uid(3), true)),
		&tidemill.Message{Header: []tidemill.Field{{Name: []byte("data"), Value: []byte(text(uid(4), false))}}},
		&tidemill.Message{Header: []tidemill.Field{{Name: []byte("event"), Value: []byte(text(uid(5), true))}}})
	b.process()
	rows := b.events()
	if len(rows) != 5 {
		b.Fatalf("%d rows of 5\n%s", len(rows), b.log.String())
	}
	for i := range rows {
		e := &rows[i]
		if e.ID.String() != uid(i+1) {
			b.Errorf("row %d has the id %v, want %s", i, e.ID, uid(i+1))
		}
		e.ID, e.Origin, e.Order, e.IngestedAt = uuid.Nil, 0, 0, time.Time{}
		if got, want := string(e.AppendJSON(nil)), string(rows[0].AppendJSON(nil)); got != want {
			b.Errorf("row %d is\n%s\nthe flat one is\n%s", i, got, want)
		}
	}
	e := rows[0]
	if e.Type != "custom" || e.UserID != "user" || e.SessionID != "session" || e.PageTitle != "Title – ✓" || e.ScreenWidth != 1920 || e.BatchID != "batch-1" ||
		e.IP != "203.0.113.9" || e.SDKVersion != "1.2.3" || e.Timezone != "Europe/Vienna" || !e.Timestamp.Equal(noon) || e.DeviceType != "tablet" {
		b.Errorf("the row has not kept every field: %+v", e)
	}
	if want := everything[len(everything)-3]; string(e.Properties) != want {
		b.Errorf("properties are %s, want as received %s", e.Properties, want)
	}
}

func derivedIDs(b *bench) {
	b.put(entry("nameless", "u"), entry("nameless", "u")) // two entries are two events
	settle := broken()
	s := b.start(options(), func(p *analytics.Parts) {
		p.Source = &stream{source: p.Source.(source), settle: fault{err: settle.err, left: settle.left}}
	})
	b.until("both are stored", func() bool { return len(b.events()) == 2 })
	before := b.events()
	s.halt() // it could never report that they are
	if books := b.books(); books.Pending != 2 {
		b.Errorf("%d are pending after every settlement failed, want 2", books.Pending)
	}
	b.process()
	after := b.events()
	if len(after) != 2 || before[0].ID != after[0].ID || before[1].ID != after[1].ID {
		b.Errorf("after the redelivery there are %v, before there were %v", ids(after), ids(before))
	}
	if before[0].ID == before[1].ID || before[0].ID == uuid.Nil {
		b.Errorf("two entries have the ids %v", ids(before))
	}
	b.wantBooks(2, 0, 0)
}

func ids(es []event.Event) (out []uuid.UUID) {
	for i := range es {
		out = append(out, es[i].ID)
	}
	return out
}

func foreignIDs(b *bench) {
	b.put(entry("text", "u", "event_id", "order-7/42"), entry("again", "u", "event_id", "order-7/42"),
		entry("other", "u", "event_id", "order-7/43"), entry("uuid", "u", "event_id", strings.ToUpper(uid(9))),
		object(fmt.Sprintf(`{"event_id":123,"project_id":%q,"event_name":"number","distinct_id":"u","timestamp":1700000000}`, Project.ID)),
		entry("digits", "u", "event_id", "123"))
	b.process()
	b.wantBooks(4, 2, 0) // "again" and "digits" are others under another entry
	if id := b.one("text").ID; id.Version() != 5 || id == b.one("other").ID {
		b.Errorf("a text became the id %v, want a UUIDv5 of its own", id)
	}
	if id := b.one("uuid").ID; id.String() != uid(9) {
		b.Errorf("a UUID became %v", id)
	}
}

func timestamps(b *bench) {
	formats := map[string]string{
		"2023-11-14T22:13:20Z": "2023-11-14T22:13:20Z", "2023-11-14T23:13:20.5+01:00": "2023-11-14T22:13:20.5Z",
		"2023-11-14T22:13:20.123456789Z": "2023-11-14T22:13:20.123Z", "2023-11-14 22:13:20": "2023-11-14T22:13:20Z",
		"2023-11-14 22:13:20.042": "2023-11-14T22:13:20.042Z", "1700000000": "2023-11-14T22:13:20Z", "1700000000123": "2023-11-14T22:13:20.123Z",
	}
	for text := range formats {
		b.put(entry(text, "u", "timestamp", text))
	}
	b.put(object(fmt.Sprintf(`{"project_id":%q,"event_name":"number","distinct_id":"u","timestamp":1700000000123}`, Project.ID)))
	formats["number"] = "2023-11-14T22:13:20.123Z"
	m := entry("none", "u", "timestamp", "")
	m.Time = noon.Add(1234 * time.Millisecond)
	b.put(m)
	formats["none"] = "1999-12-31T12:00:01.234Z"
	b.process()
	for name, want := range formats {
		if got := b.one(name).Timestamp.Format(time.RFC3339Nano); got != want {
			b.Errorf("the time %q is %s, want %s", name, got, want)
		}
	}
}

func farTimestamps(b *bench) {
	clock := options().Clock
	earliest, latest := clock.Bounds(noon)
	for name, given := range map[string]time.Time{"earliest": earliest, "old": earliest.Add(-time.Millisecond), "latest": latest, "new": latest.Add(time.Millisecond)} {
		m := entry(name, "u", "timestamp", given.Format(time.RFC3339Nano))
		m.Time = noon
		b.put(m)
	}
	b.process()
	b.wantBooks(4, 0, 0)
	for name, want := range map[string]time.Time{"earliest": earliest, "old": earliest, "latest": latest, "new": latest} {
		e := b.one(name)
		if !e.Timestamp.Equal(want) {
			b.Errorf("%s is stored with %v, want %v", name, e.Timestamp, want)
		}
		if beyond := name == "old" || name == "new"; strings.Contains(string(e.Properties), event.GivenTimestamp) != beyond {
			b.Errorf("%s has the properties %s", name, e.Properties)
		}
	}
	if old, far := len(b.warnings(event.TooOld)), len(b.warnings(event.TooNew)); old != 1 || far != 1 {
		b.Errorf("%d warnings of what is too old and %d of what lies in the future, want one of each", old, far)
	}
}

func badTimestamps(b *bench) {
	bad := []string{"yesterday", "2024-13-01T00:00:00Z", "2024-02-30T00:00:00Z", "2024-01-01T25:00:00Z", "12:00", "NaN", "1e400", "2024-01-01", "--1"}
	for _, text := range bad {
		b.put(entry(text, "u", "timestamp", text))
	}
	b.put(object(fmt.Sprintf(`{"project_id":%q,"event_name":"object","distinct_id":"u","timestamp":{"s":1}}`, Project.ID)))
	b.put(entry("good", "u"))
	b.process()
	b.wantBooks(1, 0, uint64(len(bad))+1)
	for _, l := range b.letters() {
		if l.Kind != tidemill.Validation || !strings.Contains(l.Cause, "timestamp") {
			b.Errorf("letter %s: kind %v, cause %q", l.ID, l.Kind, l.Cause)
		}
	}
	if n := len(b.warnings("invalid_event")); n != len(bad)+1 {
		b.Errorf("%d warnings of %d refusals", n, len(bad)+1)
	}
}

func screens(b *bench) {
	want := map[string]uint16{"1920": 1920, "65535": 65535, "65536": 65535, "999999999999999999999": 65535, "-5": 0, "junk": 0,
		"12.7": 12, "1e3": 1000, "NaN": 0, "Infinity": 0, " ": 0, "0x10": 0}
	for v := range want {
		b.put(entry("flat "+v, "u", "screen_width", v, "screen_height", v))
	}
	inJSON := map[string]uint16{"1080": 1080, "70000": 65535, "-1": 0, "true": 0, "null": 0, "{}": 0, "[1]": 0, `"800"`: 800}
	for v := range inJSON {
		b.put(object(fmt.Sprintf(`{"project_id":%q,"event_name":%q,"distinct_id":"u","screen_width":%s,"screen_height":%s}`, Project.ID, "json "+v, v, v)))
	}
	b.process()
	b.wantBooks(uint64(len(want)+len(inJSON)), 0, 0)
	for _, l := range b.letters() {
		b.Errorf("letter %s: %s", l.Payload, l.Cause)
	}
	check := func(name string, want uint16) {
		if e := b.one(name); e.ScreenWidth != want || e.ScreenHeight != want {
			b.Errorf("%s became %d × %d, want %d", name, e.ScreenWidth, e.ScreenHeight, want)
		}
	}
	for v, w := range want {
		check("flat "+v, w)
	}
	for v, w := range inJSON {
		check("json "+v, w)
	}
}

// same reports whether two pieces of JSON have the same bytes.
func same(got []byte, want string) bool { return bytes.Equal(got, []byte(want)) }
