package event

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/person"
)

var (
	project = uuid.MustParse("33333333-3333-4333-8333-333333333333")
	now     = time.Date(2026, 1, 15, 10, 0, 0, 0, time.UTC)
)

// endpoint is the Meta of an endpoint in these tests.
func endpoint(f Format) Meta {
	return Meta{Format: f, Project: project, Received: now, IP: "203.0.113.9", Agent: "Mozilla/5.0"}
}

// refusal finds the Refusal in an error and checks its kind.
func refusal(t *testing.T, err error) *Refusal {
	t.Helper()
	r, ok := errors.AsType[*Refusal](err)
	if !ok {
		t.Fatalf("error %v; want a Refusal", err)
	}
	if k := tidemill.KindOf(err); k != tidemill.Validation {
		t.Errorf("kind %v; want validation", k)
	}
	return r
}

// show writes the parts of an event that differ from those of an empty one, in a form
// that tables compare.
func show(e *Event) string {
	var b strings.Builder
	add := func(name string, v any) {
		if s := fmt.Sprint(v); s != "" && s != "0" && s != "false" {
			fmt.Fprintf(&b, "%s=%s\n", name, s)
		}
	}
	add("name", e.Name)
	add("type", e.Type)
	add("distinct", e.DistinctID)
	add("anonymous", e.AnonymousID)
	add("user", e.UserID)
	add("session", e.SessionID)
	add("url", e.URL)
	add("referrer", e.Referrer)
	add("title", e.PageTitle)
	add("path", e.PagePath)
	add("device", e.DeviceType)
	add("browser", strings.TrimSpace(e.Browser+" "+e.BrowserVersion))
	add("os", strings.TrimSpace(e.OS+" "+e.OSVersion))
	if e.ScreenWidth > 0 || e.ScreenHeight > 0 {
		add("screen", fmt.Sprintf("%dx%d", e.ScreenWidth, e.ScreenHeight))
	}
	add("language", e.Language)
	add("timezone", e.Timezone)
	add("sdk", strings.TrimSpace(e.SDKName+" "+e.SDKVersion))
	add("ip", e.IP)
	add("agent", e.UserAgent)
	add("batch", e.BatchID)
	add("properties", string(e.Properties))
	add("user_properties", string(e.UserProperties))
	add("changes", changesOf(e))
	if !e.Profile {
		add("profile", "none")
	}
	add("merge", [...]string{"", "identify", "alias", "force"}[e.Merge])
	add("other", e.Other)
	add("refused", e.MergeRefused)
	add("nogeo", e.NoGeo)
	return b.String()
}

func changesOf(e *Event) string {
	var s []string
	for _, c := range e.Changes {
		s = append(s, fmt.Sprintf("%s %s%s", map[person.Op]string{person.Set: "set", person.Once: "once", person.Unset: "unset"}[c.Op],
			c.Key, strings.TrimSuffix(":"+string(c.Value), ":")))
	}
	return strings.Join(s, ", ")
}

// lines joins its arguments to the form of show.
func lines(s ...string) string { return strings.Join(s, "\n") + "\n" }

func same(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// decoded reads an event that must be valid.
func decoded(t *testing.T, m Meta, raw string) *Event {
	t.Helper()
	var e Event
	if err := Decode(&m, []byte(raw), &e); err != nil {
		t.Fatalf("Decode(%s): %v", raw, err)
	}
	if err := Validate(&e); err != nil {
		t.Errorf("Decode took what Validate refuses: %v", err)
	}
	if e.Project != m.Project || e.ID == uuid.Nil || e.Timestamp.IsZero() || e.Timestamp.Location() != time.UTC || !e.IngestedAt.Equal(m.Received) {
		t.Errorf("project %v, id %v, time %v, ingested %v", e.Project, e.ID, e.Timestamp, e.IngestedAt)
	}
	return &e
}

func TestRefusals(t *testing.T) {
	long := strings.Repeat("x", 401)
	for _, c := range []struct {
		name   string
		format Format
		raw    string
		reason string
		says   string
	}{
		{"bytes that are no JSON", Native, `{"event":`, Invalid, "no JSON"},
		{"JSON with something behind it", PostHog, `{"event":"a","distinct_id":"u"} x`, Invalid, "no JSON"},
		{"a broken escape in a member nobody reads", PostHog, `{"event":"a","distinct_id":"u","x":{"y":"\q"}}`, Invalid, "no JSON"},
		{"a line break in a text", PostHog, "{\"event\":\"a\nb\",\"distinct_id\":\"u\"}", Invalid, "no JSON"},
		{"an array", Segment, `[{"event":"a"}]`, Invalid, "an array; an object is required"},
		{"null", Segment, `null`, Invalid, "an object is required"},

		{"a native event without a name", Native, `{"distinct_id":"u"}`, Invalid, "event: missing or empty; a text of 1 to 255"},
		{"a name that is a number", Native, `{"event":7,"distinct_id":"u"}`, Invalid, "event: a number"},
		{"a name of 256 characters", Native, `{"event":"` + strings.Repeat("é", 256) + `","distinct_id":"u"}`, Invalid, "event: 256 characters long"},
		{"a native event without a distinct id", Native, `{"event":"a"}`, Invalid, "distinct_id: missing"},
		{"an empty distinct id", Native, `{"event":"a","distinct_id":""}`, Invalid, "distinct_id: missing"},
		{"a native distinct id of 256 characters", Native, `{"event":"a","distinct_id":"` + strings.Repeat("é", 256) + `"}`, Invalid, "distinct_id: 256 characters long; 1 to 255"},
		{"a blank distinct id", Native, `{"event":"a","distinct_id":" \t "}`, Illegal, "stands for nobody"},
		{"a quoted placeholder", Native, `{"event":"a","distinct_id":"\"NULL\""}`, Illegal, "stands for nobody"},
		{"the number 0", Native, `{"event":"a","distinct_id":0}`, Illegal, "stands for nobody"},
		{"the boolean true", PostHog, `{"event":"a","distinct_id":true}`, Illegal, "stands for nobody"},
		{"a native anonymous id of 256 characters", Native, `{"event":"a","distinct_id":"u","anonymous_id":"` + strings.Repeat("x", 256) + `"}`, Invalid, "anonymous_id: 256"},
		{"an anonymous id that is an object", Native, `{"event":"a","distinct_id":"u","anonymous_id":{}}`, Invalid, "anonymous_id: an object"},
		{"an event id that is an array", Native, `{"event":"a","distinct_id":"u","event_id":[]}`, Invalid, "event_id: an array; a UUID"},
		{"native properties that are an array", Native, `{"event":"a","distinct_id":"u","properties":[]}`, Invalid, "properties: an array; an object"},
		{"native user properties that are a text", Native, `{"event":"a","distinct_id":"u","user_properties":"{}"}`, Invalid, "user_properties: a text; an object"},
		{"201 native properties", Native, `{"event":"a","distinct_id":"u","properties":` + manyKeys(201) + `}`, Invalid, "properties: 201 properties; at most 200"},
		{"a native property's name of 201 characters", Native, `{"event":"a","distinct_id":"u","user_properties":{"` + strings.Repeat("k", 201) + `":1}}`, Invalid, "user_properties: the name"},
		{"a native session id of 129 characters", Native, `{"event":"a","distinct_id":"u","context":{"session_id":"` + strings.Repeat("s", 129) + `"}}`, Invalid, "context.session_id: 129 characters long; at most 128"},
		{"a native url of 2049 characters", Native, `{"event":"a","distinct_id":"u","context":{"url":"` + strings.Repeat("s", 2049) + `"}}`, Invalid, "context.url: 2049"},
		{"a native language that is an object", Native, `{"event":"a","distinct_id":"u","context":{"language":{}}}`, Invalid, "context.language: an object"},
		{"a native context that is a text", Native, `{"event":"a","distinct_id":"u","context":"x"}`, Invalid, "context: a text"},
		{"a time that cannot be read", Native, `{"event":"a","distinct_id":"u","timestamp":"yesterday"}`, Invalid, `timestamp: "yesterday" is no time`},
		{"a time that is an object", PostHog, `{"event":"a","distinct_id":"u","timestamp":{}}`, Invalid, "timestamp: an object"},
		{"a time of the year 10000", PostHog, `{"event":"a","distinct_id":"u","timestamp":253402300800000}`, Invalid, "is no time"},

		{"a PostHog event without a name", PostHog, `{"distinct_id":"u","properties":{}}`, Invalid, "event: missing"},
		{"a PostHog name that is an array", PostHog, `{"event":[],"distinct_id":"u"}`, Invalid, "event: an array"},
		{"a PostHog event without a distinct id", PostHog, `{"event":"a","properties":{"distinct_id":null}}`, Invalid, "distinct_id: missing"},
		{"a distinct id of 401 characters", PostHog, `{"event":"a","distinct_id":"` + long + `"}`, Invalid, "distinct_id: 401 characters long; 1 to 400"},
		{"PostHog properties that are a text", PostHog, `{"event":"a","distinct_id":"u","properties":"x"}`, Invalid, "properties: a text"},

		{"a Segment call of no type", Segment, `{"userId":"u"}`, Invalid, "type: missing; track, identify"},
		{"a Segment call of another type", Segment, `{"type":"delete","userId":"u"}`, Invalid, `type: "delete" is no call`},
		{"a track without an event", Segment, `{"type":"track","userId":"u"}`, Invalid, "event: missing"},
		{"a Segment call of nobody", Segment, `{"type":"page"}`, Invalid, "userId or anonymousId: missing"},
		{"a Segment call of null in text", Segment, `{"type":"page","userId":"null"}`, Illegal, "userId or anonymousId"},
		{"traits that are an array", Segment, `{"type":"identify","userId":"u","traits":[]}`, Invalid, "traits: an array"},

		{"a CloudEvent of another version", CloudEvents, `{"specversion":"0.3","id":"1","source":"s","type":"a","subject":"u"}`, Invalid, `specversion: "0.3"; 1.0 is required`},
		{"a CloudEvent without an id", CloudEvents, `{"specversion":"1.0","source":"s","type":"a","subject":"u"}`, Invalid, "id: missing"},
		{"a CloudEvent with an empty source", CloudEvents, `{"specversion":"1.0","id":"1","source":"","type":"a","subject":"u"}`, Invalid, "source: missing"},
		{"a CloudEvent without a type", CloudEvents, `{"specversion":"1.0","id":"1","source":"s","subject":"u"}`, Invalid, "type: missing"},
		{"a CloudEvent of nobody", CloudEvents, `{"specversion":"1.0","id":"1","source":"null","type":"a"}`, Illegal, "distinct id (subject,data.distinct_id,source): \"null\" stands for nobody"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := endpoint(c.format)
			var e Event
			r := refusal(t, Decode(&m, []byte(c.raw), &e))
			if r.Reason != c.reason || !strings.Contains(r.Detail, c.says) {
				t.Errorf("refused with %q; want %s and %q in it", r, c.reason, c.says)
			}
			if len(r.Detail) > 300 {
				t.Errorf("a sentence of %d bytes for the sender", len(r.Detail))
			}
		})
	}
}

func TestARefusedEventKeepsItsNameForTheWarning(t *testing.T) {
	m := endpoint(PostHog)
	var e Event
	if err := Decode(&m, []byte(`{"event":"signup","distinct_id":"null"}`), &e); err == nil {
		t.Fatal("the event was taken")
	}
	if e.Project != project || e.Name != "signup" || e.DistinctID != "null" {
		t.Errorf("left %v %q %q", e.Project, e.Name, e.DistinctID)
	}
}

func TestAnEventNeedsAProject(t *testing.T) {
	m := endpoint(Native)
	m.Project = uuid.Nil
	r := refusal(t, Decode(&m, []byte(`{"event":"a","distinct_id":"u"}`), new(Event)))
	if r.Reason != Invalid || !strings.Contains(r.Detail, "project_id") {
		t.Errorf("refused with %q", r)
	}
	for _, e := range []Event{{Name: "a", DistinctID: "u"}, {Project: project, DistinctID: "u"}, {Project: project, Name: "a"},
		{Project: project, Name: "a", DistinctID: "guest"}} {
		if Validate(&e) == nil {
			t.Errorf("Validate took %+v", e)
		}
	}
}

func TestIllegalDistinctIDs(t *testing.T) {
	for _, s := range []string{"anonymous", "null", "undefined", "none", "nil", "[object object]", "nan", "true", "false", "0", "guest",
		"NULL", "[object Object]", "NaN", " null ", "\tGuest\n", `"null"`, `'undefined'`, `" "`, `''`, ` "0" `, `"'nil'"`, `' "None" '`,
		"", " ", "\u00a0", "\ufeffnull", "\ufeff \ufeff"} {
		if !IllegalDistinctID(s) {
			t.Errorf("%q was taken", s)
		}
	}
	for _, s := range []string{"u", "00", "1", "nobody", "null1", "anonymous-user", `"u"`, "nulls", "[object]", `"`, "'", "null'", "o'null", "🙂"} {
		if IllegalDistinctID(s) {
			t.Errorf("%q was refused", s)
		}
	}
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"k%d":%d`, i, i)
	}
	return "{" + b.String()[1:] + "}"
}
