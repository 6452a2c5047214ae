package event

import (
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
)

func TestARowReadsBackAsTheEvent(t *testing.T) {
	for name, e := range map[string]*Event{
		"a page view":      decoded(t, endpoint(PostHog), string(seeded(posthogEvent)[7])),
		"a native event":   decoded(t, endpoint(Native), string(seeded(nativeEvent)[7])),
		"a Segment event":  decoded(t, endpoint(Segment), string(seeded(segmentEvent)[7])),
		"a merge":          decoded(t, endpoint(Native), `{"event":"$identify","distinct_id":"u","anonymous_id":"anon","user_properties":{"$unset":["a"],"b":1}}`),
		"a Segment alias":  decoded(t, endpoint(Segment), `{"type":"alias","userId":"u","previousId":"old","properties":{"x":1}}`),
		"a refused merge":  decoded(t, endpoint(PostHog), `{"event":"$merge_dangerously","distinct_id":"u","properties":{"alias":"guest"}}`),
		"no profile":       decoded(t, endpoint(PostHog), `{"event":"$identify","distinct_id":"u","options":{"process_person_profile":false},"properties":{"$anon_distinct_id":"anon","$set":{"a":1}}}`),
		"a CloudEvent":     decoded(t, endpoint(CloudEvents), `{"specversion":"1.0","id":"1","source":"s","type":"a","subject":"u","$set":{"a":1}}`),
		"a strange text":   decoded(t, endpoint(Native), `{"event":"a\u0000\"\\\u2028","distinct_id":"</u>\u001f"}`),
		"no geography":     decoded(t, endpoint(PostHog), `{"event":"a","distinct_id":"u","properties":{"$geoip_disable":true}}`),
		"a stream's entry": taken(t, entry("project_id", projectText, "event_name", "a", "distinct_id", "u", "event_type", "own", "user_id", "x")),
	} {
		t.Run(name, func(t *testing.T) {
			e.Person, e.Country, e.Region, e.City, e.Origin = uuid.UUID{7}, "PT", "11", "Lisboa", 1<<63+1
			row := e.AppendJSON(nil)
			if !jsontext.Value(row).IsValid() {
				t.Errorf("%s is not JSON", row)
			}
			var back Event
			if err := ParseRow(row, &back); err != nil {
				t.Fatalf("ParseRow(%s): %v", row, err)
			}
			e.Derived, e.timing = false, Timing{} // it has an id and a time now
			if len(back.Changes) == 0 {
				back.Changes = e.Changes
			}
			if !reflect.DeepEqual(*e, back) {
				t.Errorf("row %s\nread back as\n%+v\nwant\n%+v", row, back, *e)
			}
		})
	}
}

func TestARowIsOneLineOfColumns(t *testing.T) {
	e := decoded(t, endpoint(PostHog), "{\"event\":\"a\",\"distinct_id\":\"u\",\"uuid\":\"0190f3c2-7d1a-7c3e-8f4b-1c2d3e4f5a6b\",\"properties\":{\r\n\t\"a\" : 1.00,\n\"a\":\"\\n\"}}")
	e.Person, e.Order = uuid.UUID{15: 1}, 7
	same(t, string(e.AppendJSON([]byte("x"))), `x{"event_id":"0190f3c2-7d1a-7c3e-8f4b-1c2d3e4f5a6b","project_id":"33333333-3333-4333-8333-333333333333","event_name":"a","event_type":"track","distinct_id":"u","person_id":"00000000-0000-0000-0000-000000000001","timestamp":"2026-01-15T10:00:00.000Z","ingested_at":"2026-01-15T10:00:00.000Z","ip":"203.0.113.9","user_agent":"Mozilla/5.0","properties":{  `+"\t"+`"a" : 1.00, "a":"\n"},"order":"7"}`)
	if e.Properties[1] != '\r' {
		t.Error("the event's own bytes were changed")
	}
}

func TestARowOfAnotherWriter(t *testing.T) {
	row := `{"event_id":"0190f3c2-7d1a-7c3e-8f4b-1c2d3e4f5a6b","project_id":"` + projectText + `","person_id":"857a5cfd-7172-5851-8048-0530d6e898c0","event_name":"$identify","event_type":"identify","distinct_id":"u","anonymous_id":"anon","user_id":"u","screen_width":1440,"screen_height":"900","country":"PT","properties":"{\"a\":\"\\u00e9\"}","user_properties":"{\"email\":\"e\"}","timestamp":"2026-01-15 09:00:00.123","unknown":[]}`
	var e Event
	if err := ParseRow([]byte(row), &e); err != nil {
		t.Fatal(err)
	}
	same(t, show(&e), lines("name=$identify", "type=identify", "distinct=u", "anonymous=anon", "user=u", "screen=1440x900", `properties={"a":"\u00e9"}`, `user_properties={"email":"e"}`, `changes=set email:"e"`, "merge=identify", "other=anon"))
	if e.Person.String() != "857a5cfd-7172-5851-8048-0530d6e898c0" || e.Country != "PT" || e.Timestamp.Format("15:04:05.000") != "09:00:00.123" {
		t.Errorf("person %v, country %q, time %v", e.Person, e.Country, e.Timestamp)
	}
	for _, part := range []string{`"event_id"`, `"project_id"`, `"event_name"`, `"distinct_id"`, `"timestamp"`} {
		r := refusal(t, ParseRow([]byte(strings.Replace(row, part, `"x"`, 1)), new(Event)))
		if !strings.Contains(r.Detail, strings.Trim(part, `"`)) {
			t.Errorf("without %s it says %q", part, r)
		}
	}
	refusal(t, ParseRow([]byte(`{`), new(Event)))
	refusal(t, ParseRow([]byte(`[]`), new(Event)))
}
