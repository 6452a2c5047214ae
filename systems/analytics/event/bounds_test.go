package event

import (
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
)

// TestTimesBeyondTheBounds reads each event as an endpoint does and then as a reader of the
// queue, and as a stream's entry that did not come through an endpoint.
func TestTimesBeyondTheBounds(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name, at, want, beyond string
		clock                  Clock
	}{
		{name: "the first instant of the month that lies five years back", at: "2021-11-01T00:00:00.000Z", want: "2021-11-01T00:00:00.000Z"},
		{name: "a millisecond before it", at: "2021-10-31T23:59:59.999Z", want: "2021-11-01T00:00:00.000Z", beyond: TooOld},
		{name: "a day from now", at: "2026-11-22T12:00:00.000Z", want: "2026-11-22T12:00:00.000Z"},
		{name: "a millisecond more", at: "2026-11-22T12:00:00.001Z", want: "2026-11-22T12:00:00.000Z", beyond: TooNew},
		{name: "the first year", at: "0001-01-01T00:00:00.000Z", want: "2021-11-01T00:00:00.000Z", beyond: TooOld},
		{name: "the last year", at: "9999-12-31T23:59:59.999Z", want: "2026-11-22T12:00:00.000Z", beyond: TooNew},
		{name: "history, where the bound is raised", at: "1996-12-01T00:00:00.000Z", want: "1996-12-01T00:00:00.000Z", clock: Clock{EventsBehind: 30 * 365 * 24 * time.Hour}},
		{name: "older history", at: "1996-10-31T23:59:59.999Z", want: "1996-11-01T00:00:00.000Z", beyond: TooOld, clock: Clock{EventsBehind: 30 * 365 * 24 * time.Hour}},
		{name: "the future, where the bound is raised", at: "2026-11-23T12:00:00.000Z", want: "2026-11-23T12:00:00.000Z", clock: Clock{EventsAhead: 48 * time.Hour}},
	} {
		given := ""
		if c.beyond != "" {
			given = `,"$given_timestamp":"` + c.at + `"}`
		}
		check := func(t *testing.T, e *Event) {
			t.Helper()
			if got := e.Timestamp.Format("2006-01-02T15:04:05.000Z"); got != c.want {
				t.Errorf("%s is stored with %s, want %s", c.at, got, c.want)
			}
			if p := string(e.Properties); !strings.HasPrefix(p, `{"a":1`) || !strings.HasSuffix(p, given) || strings.Contains(p, GivenTimestamp) != (given != "") {
				t.Errorf("its properties are %s, want them to end with %q", p, given)
			}
		}
		for format, raw := range map[Format]string{
			Native:      `{"event":"e","distinct_id":"u","timestamp":"AT","properties":{"a":1}}`,
			PostHog:     `{"event":"e","distinct_id":"u","timestamp":"AT","properties":{"a":1}}`,
			Segment:     `{"type":"track","event":"e","userId":"u","timestamp":"AT","properties":{"a":1}}`,
			CloudEvents: `{"specversion":"1.0","id":"1","source":"/s","type":"e","subject":"u","time":"AT","data":{"a":1}}`,
		} {
			t.Run(c.name+"/"+[...]string{"", "native", "PostHog", "Segment", "CloudEvents"}[format], func(t *testing.T) {
				m := endpoint(format)
				m.Import, m.Received, m.Clock = true, noon, c.clock
				raw := []byte(strings.ReplaceAll(raw, "AT", c.at))
				var e Event
				if err := Decode(&m, raw, &e); err != nil {
					t.Fatal(err)
				}
				times := []Timing{e.Timing()}
				m.Clock.Together(times, noon)
				if times[0].Beyond != c.beyond {
					t.Errorf("it is said to be %q, want %q", times[0].Beyond, c.beyond)
				}
				if c.beyond != "" && !strings.Contains(times[0].Warning(), "analytics.events_") {
					t.Errorf("the warning names no setting: %s", times[0].Warning())
				}
				m.At, m.Order, m.Beyond = times[0].At, times[0].Order, times[0].Beyond != ""
				msg := &tidemill.Message{Header: []tidemill.Field{{Name: []byte(MetaHeader), Value: m.Append(nil)}}, Payload: raw}
				later := Clock{EventsBehind: time.Hour} // the endpoint's decision stays
				if err := DecodeMessage(msg, later, &e); err != nil {
					t.Fatal(err)
				}
				check(t, &e)
			})
		}
		t.Run(c.name+"/stream", func(t *testing.T) {
			for _, msg := range []*tidemill.Message{
				entry("project_id", projectText, "event_name", "e", "distinct_id", "u", "timestamp", c.at, "properties", `{"a":1}`),
				entry("data", `{"project_id":"`+projectText+`","event_name":"e","distinct_id":"u","timestamp":"`+c.at+`","properties":{"a":1}}`),
			} {
				msg.Time = noon
				var e Event
				if err := DecodeMessage(msg, c.clock, &e); err != nil {
					t.Fatal(err)
				}
				if e.Timing().Beyond != c.beyond {
					t.Errorf("it is said to be %q, want %q", e.Timing().Beyond, c.beyond)
				}
				check(t, &e)
			}
		})
	}
}
