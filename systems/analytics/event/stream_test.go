package event

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
)

const projectText = "33333333-3333-4333-8333-333333333333"

// entry makes the flat entry of a stream from names and values.
func entry(fields ...string) *tidemill.Message {
	msg := &tidemill.Message{ID: "1768471323456-0", To: "events:incoming", Time: now, Mark: tidemill.Mark{Epoch: 1, Hi: 1768471323456}}
	for i := 0; i < len(fields); i += 2 {
		msg.Header = append(msg.Header, tidemill.Field{Name: []byte(fields[i]), Value: []byte(fields[i+1])})
	}
	return msg
}

// payload makes an entry of one JSON value.
func payload(json string) *tidemill.Message {
	msg := entry()
	msg.Payload = []byte(json)
	return msg
}

func taken(t *testing.T, msg *tidemill.Message) *Event {
	t.Helper()
	var e Event
	if err := DecodeMessage(msg, Clock{}, &e); err != nil {
		t.Fatalf("DecodeMessage: %v", err)
	}
	if e.ID == uuid.Nil || e.Project != project || e.Origin == 0 || e.Timestamp.IsZero() || e.IngestedAt.IsZero() {
		t.Errorf("id %v, project %v, origin %d, time %v, ingested %v", e.ID, e.Project, e.Origin, e.Timestamp, e.IngestedAt)
	}
	return &e
}

func TestStreamEntries(t *testing.T) {
	full := lines("name=$identify", "type=identify", "distinct=u", "anonymous=anon", "user=u", "session=s", "url=https://x/p", "referrer=r", "title=T", "path=/p",
		"device=mobile", "browser=Mobile Safari 18", "os=iOS 18.1", "screen=390x65535", "language=en", "timezone=Europe/Lisbon", "sdk=js 1", "ip=198.51.100.7", "agent=Safari", "batch=import-1",
		`properties={"a": 1.0}`, `user_properties={"email":"é","$set_once":{"b":1}}`, `changes=once b:1, set email:"é"`, "merge=identify", "other=anon")
	small := lines("name=a", "type=track", "distinct=u")
	for _, c := range []struct {
		name string
		msg  *tidemill.Message
		want string
	}{
		{"a flat entry with every field", entry("schema_version", "1", "event_id", "e1", "project_id", projectText, "event_name", "$identify", "event_type", "identify", "distinct_id", "u",
			"anonymous_id", "anon", "user_id", "u", "session_id", "s", "url", "https://x/p", "referrer", "r", "page_title", "T", "page_path", "/p", "device_type", "mobile",
			"browser", "Mobile Safari", "browser_version", "18", "os", "iOS", "os_version", "18.1", "screen_width", "390", "screen_height", "70000", "language", "en", "timezone", "Europe/Lisbon",
			"sdk_name", "js", "sdk_version", "1", "ip", "198.51.100.7", "user_agent", "Safari", "properties", `{"a": 1.0}`, "user_properties", `{"email":"é","$set_once":{"b":1}}`,
			"batch_id", "import-1", "timestamp", "2026-01-15T09:00:00.000Z"), full},
		{"the same as one JSON field of texts", entry("data", `{"schema_version":"1","event_id":"e1","project_id":"`+projectText+`","event_name":"$identify","event_type":"identify","distinct_id":"u","anonymous_id":"anon","user_id":"u","session_id":"s","url":"https://x/p","referrer":"r","page_title":"T","page_path":"/p","device_type":"mobile","browser":"Mobile Safari","browser_version":"18","os":"iOS","os_version":"18.1","screen_width":"390","screen_height":"70000","language":"en","timezone":"Europe/Lisbon","sdk_name":"js","sdk_version":"1","ip":"198.51.100.7","user_agent":"Safari","properties":"{\"a\": 1.0}","user_properties":"{\"email\":\"\u00e9\",\"$set_once\":{\"b\":1}}","batch_id":"import-1","timestamp":"2026-01-15T09:00:00.000Z"}`), full},
		{"the same as a payload with nested objects and numbers", payload(` {"event_id":"e1","project_id":"` + projectText + `","event_name":"$identify","distinct_id":"u","anonymous_id":"anon","session_id":"s","url":"https://x/p","referrer":"r","page_title":"T","page_path":"/p","device_type":"mobile","browser":"Mobile Safari","browser_version":18,"os":"iOS","os_version":18.1,"screen_width":390,"screen_height":70000,"language":"en","timezone":"Europe/Lisbon","sdk_name":"js","sdk_version":1,"ip":"198.51.100.7","user_agent":"Safari","properties":{"a": 1.0},"user_properties":{"email":"é","$set_once":{"b":1}},"batch_id":"import-1","timestamp":1768467600000}`), full},
		{"the least that producers write", entry("project_id", projectText, "event_name", "a", "distinct_id", "u"), small},
		{"empty is absent", entry("project_id", projectText, "event_name", "a", "distinct_id", "u", "event_id", "", "event_type", "", "timestamp", "", "properties", "", "user_properties", "", "screen_width", ""), small},
		{"a payload beside flat fields is not read", func() *tidemill.Message {
			msg := entry("project_id", projectText, "event_name", "a", "distinct_id", "u")
			msg.Payload = []byte("\x00anything")
			return msg
		}(), small},
		{"the type follows from the name", entry("project_id", projectText, "event_name", "$pageleave", "distinct_id", "u"), lines("name=$pageleave", "type=pageleave", "distinct=u")},
		{"a type of its own is kept", entry("project_id", projectText, "event_name", "a", "distinct_id", "u", "event_type", "custom"), lines("name=a", "type=custom", "distinct=u")},
		{"user properties that are no JSON object are none", entry("project_id", projectText, "event_name", "a", "distinct_id", "u", "user_properties", "[1]", "properties", `{"a":`), small},
		{"junk screens are nothing", entry("project_id", projectText, "event_name", "a", "distinct_id", "u", "screen_width", "NaN", "screen_height", "-5"), small},
		{"large screens are clamped", entry("project_id", projectText, "event_name", "a", "distinct_id", "u", "screen_width", "99999999999999999999", "screen_height", "1e9"), small + "screen=65535x65535\n"},
		{"an alias in the properties", entry("project_id", projectText, "event_name", "$create_alias", "distinct_id", "u", "properties", `{"alias":"old"}`),
			lines("name=$create_alias", "type=track", "distinct=u", `properties={"alias":"old"}`, "merge=alias", "other=old")},
		{"bytes that are no UTF-8 become U+FFFD in columns, and stay in properties", entry("project_id", projectText, "event_name", "a\xff", "distinct_id", "u", "properties", "{\"a\":\"\xff\"}"),
			lines("name=a\ufffd", "type=track", "distinct=u", "properties={\"a\":\"\xff\"}")},
	} {
		t.Run(c.name, func(t *testing.T) {
			same(t, show(taken(t, c.msg)), c.want)
		})
	}
}

func TestStreamRefusals(t *testing.T) {
	for _, c := range []struct {
		name   string
		msg    *tidemill.Message
		reason string
		says   string
	}{
		{"an entry of nothing", entry(), Invalid, "none of the fields"},
		{"an entry of something else", entry("foo", "bar"), Invalid, "none of the fields"},
		{"a payload that is broken JSON", payload(`{"event_name":"a"`), Invalid, "no JSON"},
		{"a payload that is an array", payload(`[{"event_name":"a"}]`), Invalid, "none of the fields"},
		{"no project", entry("event_name", "a", "distinct_id", "u"), Invalid, "project_id: missing"},
		{"a project that is no UUID", entry("project_id", "p1", "event_name", "a", "distinct_id", "u"), Invalid, `project_id: "p1" is no UUID`},
		{"the zero project", entry("project_id", uuid.Nil.String(), "event_name", "a", "distinct_id", "u"), Invalid, "project_id: missing"},
		{"no name", entry("project_id", projectText, "distinct_id", "u"), Invalid, "event_name: missing"},
		{"no distinct id", entry("project_id", projectText, "event_name", "a"), Invalid, "distinct_id: missing"},
		{"an illegal distinct id", entry("project_id", projectText, "event_name", "a", "distinct_id", " NaN "), Illegal, "distinct_id"},
		{"a time that cannot be read", entry("project_id", projectText, "event_name", "a", "distinct_id", "u", "timestamp", "soon"), Invalid, "timestamp"},
		{"a time that is an object", payload(`{"project_id":"` + projectText + `","event_name":"a","distinct_id":"u","timestamp":{}}`), Invalid, "timestamp: an object"},
		{"a header that is damaged", entry(MetaHeader, "\x01\x02"), "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := DecodeMessage(c.msg, Clock{}, new(Event))
			if tidemill.KindOf(err) != tidemill.Validation {
				t.Fatalf("error %v; want one of kind validation", err)
			}
			if c.reason == "" {
				return
			}
			if r := refusal(t, err); r.Reason != c.reason || !strings.Contains(r.Detail, c.says) {
				t.Errorf("refused with %q; want %s and %q in it", r, c.reason, c.says)
			}
		})
	}
}

func TestWhatAnEntryDoesNotSayComesFromWhereItLies(t *testing.T) {
	fields := []string{"project_id", projectText, "event_name", "a", "distinct_id", "u"}
	msg := entry(fields...)
	first := taken(t, msg)
	if !first.Derived || !first.Timestamp.Equal(now) {
		t.Errorf("derived %v, time %v", first.Derived, first.Timestamp)
	}
	msg.Mark.Epoch, msg.Handed = 7, 3
	if again := taken(t, msg); again.ID != first.ID || again.Origin != first.Origin || !again.Timestamp.Equal(first.Timestamp) {
		t.Errorf("a redelivery is another event: %v %d, then %v %d", first.ID, first.Origin, again.ID, again.Origin)
	}
	if fixed := "592c6dc4-2b9e-56f7-86d7-86aa8d69217e"; first.ID.String() != fixed {
		t.Errorf("the id is %v; it must be %s for ever", first.ID, fixed)
	}
	next := entry(fields...)
	next.ID, next.Mark.Lo = "1768471323456-1", 1
	if e := taken(t, next); e.ID == first.ID || e.Origin == first.Origin {
		t.Error("two entries are one event")
	}
	other := entry(fields...)
	other.To = "events:overflow"
	if e := taken(t, other); e.ID == first.ID {
		t.Error("entries of two streams are one event")
	}
	a, b := entry(fields...), entry(fields...)
	a.ID, b.ID, b.Mark.Lo = "", "", 9
	if taken(t, a).ID == taken(t, b).ID {
		t.Error("two messages without an id are one event")
	}
	sub := entry(append(fields, "timestamp", "2026-01-15T09:00:00.123456Z", "event_id", "x")...)
	if e := taken(t, sub); e.Derived || e.ID != eventID(project, []byte("x")) || !e.Timestamp.Equal(time.Date(2026, 1, 15, 9, 0, 0, 123e6, time.UTC)) {
		t.Errorf("derived %v, id %v, time %v", e.Derived, e.ID, e.Timestamp)
	}
	sub.Time = time.Time{}
	taken(t, entry(append(fields, "timestamp", "0")...))
	none := entry(fields...)
	none.Time = time.Time{}
	refusal(t, DecodeMessage(none, Clock{}, new(Event)))
}

func TestAMessageThroughADoor(t *testing.T) {
	m := endpoint(Segment)
	m.Call, m.Batch = "page", "import-1"
	msg := payload(`{"userId":"u","name":"Home"}`)
	msg.Header = append(msg.Header, tidemill.Field{Name: []byte(MetaHeader), Value: m.Append(nil)})
	e := taken(t, msg)
	same(t, show(e), lines("name=$pageview", "type=pageview", "distinct=u", "title=Home", "ip=203.0.113.9", "agent=Mozilla/5.0", "batch=import-1", `properties={"name":"Home"}`))
	if !e.Derived || e.ID != entryID(msg) || !e.Timestamp.Equal(m.Received) {
		t.Errorf("derived %v, id %v, time %v", e.Derived, e.ID, e.Timestamp)
	}
	m.Event = uuid.UUID{5}
	msg.Header[0].Value = m.Append(nil)
	if e := taken(t, msg); e.ID != m.Event || e.Derived {
		t.Errorf("the ingest API gave %v; got %v", m.Event, e.ID)
	}
}

// TestEditedBytesAreCheckedAgain holds that what the endpoint has checked is not believed of other bytes:
// an operator may have edited them.
func TestEditedBytesAreCheckedAgain(t *testing.T) {
	raw := []byte(`{"event":"a","distinct_id":"u","properties":{"n":1}}`)
	edited := raw[:len(raw)-1]
	for _, c := range []struct {
		sum     uint64
		payload []byte
		good    bool
	}{{SumOf(raw), raw, true}, {SumOf(raw), edited, false}, {SumOf(raw), []byte(`{"event":"b","distinct_id":"u"}`), true}, {0, raw, true}} {
		m := endpoint(Native)
		m.Checked, m.Sum = true, c.sum
		msg := &tidemill.Message{ID: "1", Payload: c.payload, Header: []tidemill.Field{{Name: []byte(MetaHeader), Value: m.Append(nil)}}}
		if err := DecodeMessage(msg, Clock{}, new(Event)); (err == nil) != c.good || err != nil && tidemill.KindOf(err) != tidemill.Validation {
			t.Errorf("%s with the sum %d: %v", c.payload, c.sum, err)
		}
		if got, err := ParseMeta(m.Append(nil)); err != nil || got != m {
			t.Errorf("ParseMeta = %+v, %v; want %+v", got, err, m)
		}
		if b := m.Append(nil); c.sum != 0 {
			if _, err := ParseMeta(b[:len(b)-1]); tidemill.KindOf(err) != tidemill.Validation {
				t.Errorf("a sum that is cut off was taken: %v", err)
			}
		}
	}
}

func TestAnEventIsUsedAgain(t *testing.T) {
	e := taken(t, entry("project_id", projectText, "event_name", "$identify", "distinct_id", "u", "anonymous_id", "anon", "ip", "1.2.3.4", "user_properties", `{"a":1}`, "properties", `{"$geoip_disable":true}`))
	if err := DecodeMessage(entry("project_id", projectText, "event_name", "a", "distinct_id", "u"), Clock{}, e); err != nil {
		t.Fatal(err)
	}
	same(t, show(e), lines("name=a", "type=track", "distinct=u"))
}

func TestMeta(t *testing.T) {
	for _, m := range []Meta{{}, endpoint(PostHog), {Format: CloudEvents, Import: true, Project: project, Event: uuid.UUID{1}, Received: now, At: now.Add(-time.Hour), Order: 1<<63 + 7,
		Batch: "import-x", IP: "::1", Agent: strings.Repeat("a", 300), Call: "alias"}} {
		b := m.Append(nil)
		if got, err := ParseMeta(b); err != nil || got != m {
			t.Errorf("ParseMeta = %+v, %v; want %+v", got, err, m)
		}
		for n := range b {
			if _, err := ParseMeta(b[:n]); tidemill.KindOf(err) != tidemill.Validation {
				t.Fatalf("%d bytes of %d were taken: %v", n, len(b), err)
			}
		}
	}
}
