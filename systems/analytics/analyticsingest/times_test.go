package analyticsingest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/systems/analytics/event"
)

// TestTimesAndOrderOfARequest sends two events of each protocol: what the queue gets must
// say when each happened and which came first, and so must whoever reads the queue.
func TestTimesAndOrderOfARequest(t *testing.T) {
	at := func(seconds float64) string {
		return received.Add(time.Duration(seconds * float64(time.Second))).Format("2006-01-02T15:04:05.000Z")
	}
	protocols := []struct {
		name, path, timestamp, sent, event, body string
		header                                   header
	}{
		{"native", "/v1/batch", "timestamp", "sent_at", `{"event":"e","distinct_id":"u"AT}`, `{"events":[EVENTS]SENT}`, apiKey},
		{"PostHog", "/batch/", "timestamp", "sent_at", `{"event":"e","distinct_id":"u"AT}`, `{"api_key":"` + goodKey + `","batch":[EVENTS]SENT}`, nil},
		{"Segment", "/v1/batch", "timestamp", "sentAt", `{"type":"track","event":"e","userId":"u"AT}`, `{"writeKey":"` + goodKey + `","batch":[EVENTS]SENT}`, nil},
		{"CloudEvents", "/v1/cloudevents", "time", "", `{"specversion":"1.0","id":"NUMBER","source":"/s","type":"t","subject":"u"AT}`, `[EVENTS]`,
			header{"X-Api-Key": goodKey, "Content-Type": "application/cloudevents-batch+json"}},
	}
	for _, c := range []struct {
		name  string
		times [2]float64 // seconds from now
		sent  float64    // 0: not said
		want  [2]float64
	}{
		{"latency moves nothing", [2]float64{-10, -5}, -0.25, [2]float64{-10, -5}},
		{"a request that comes again moves nothing", [2]float64{-100, -95.5}, -90, [2]float64{-100, -95.5}},
		{"where the time of sending is not said, given times stay", [2]float64{-5, -10}, 0, [2]float64{-5, -10}},
		{"a slow clock is corrected", [2]float64{-3610, -3605}, -3600.25, [2]float64{-10, -5}},
		{"a fast clock is corrected", [2]float64{3590, 3595}, 3599.75, [2]float64{-10, -5}},
		{"a fast clock shows in the times alone, and keeps their differences", [2]float64{3590, 3595}, 0, [2]float64{-5, 0}},
		{"one time of the future is now", [2]float64{-10, 3600}, 0, [2]float64{-10, 0}},
		{"two equal times", [2]float64{-10, -10}, -0.25, [2]float64{-10, -10}},
	} {
		for _, p := range protocols {
			t.Run(c.name+"/"+p.name, func(t *testing.T) {
				sent := ""
				if c.sent != 0 {
					if p.sent == "" {
						t.Skip("it has no time of sending")
					}
					sent = fmt.Sprintf(`,%q:%q`, p.sent, at(c.sent))
				}
				var events []string
				for i, s := range c.times {
					events = append(events, strings.NewReplacer("AT", fmt.Sprintf(`,%q:%q`, p.timestamp, at(s)), "NUMBER", fmt.Sprint(i)).Replace(p.event))
				}
				d := newTestIngest(t)
				body := strings.NewReplacer("EVENTS", strings.Join(events, ","), "SENT", sent).Replace(p.body)
				if w := d.send(p.path, body, p.header); w.Code/100 != 2 || len(d.intake.jobs) != 2 {
					t.Fatalf("%d %s, %d jobs", w.Code, w.Body, len(d.intake.jobs))
				}
				var e [2]event.Event
				for i, j := range d.intake.jobs {
					if err := event.DecodeMessage(&j, event.Clock{}, &e[i]); err != nil {
						t.Fatal(err)
					}
					if want := received.Add(time.Duration(c.want[i] * float64(time.Second))); !e[i].Timestamp.Equal(want) {
						t.Errorf("event %d happened at %v, want %v", i, e[i].Timestamp, want)
					}
				}
				if e[0].Timestamp.Equal(e[1].Timestamp) && e[0].Order >= e[1].Order {
					t.Errorf("the second of the request has the order %d, the first %d", e[1].Order, e[0].Order)
				}
			})
		}
	}
}

// TestARequestThatIsSentLaterIsLater compares places in two requests of one client.
func TestARequestThatIsSentLaterIsLater(t *testing.T) {
	const raw = `{"event":"e","distinct_id":"u","uuid":%q,"timestamp":"2026-11-21T09:59:58.000Z"}`
	d := newTestIngest(t)
	for i, sent := range []string{"09:59:58.100", "09:59:58.000"} { // the first to be sent comes second, from a retry
		first, second := fmt.Sprintf(raw, fmt.Sprintf("00000000-0000-4000-8000-0000000000%d0", 9-i)), fmt.Sprintf(raw, fmt.Sprintf("00000000-0000-4000-8000-0000000000%d1", 9-i))
		want(t, d.send("/batch/", `{"api_key":"`+goodKey+`","sent_at":"2026-11-21T`+sent+`Z","batch":[`+first+","+second+`]}`), 200, "*")
	}
	orders := [4]uint64{d.meta(2).Order, d.meta(3).Order, d.meta(0).Order, d.meta(1).Order}
	for i := range 3 {
		if orders[i] >= orders[i+1] {
			t.Errorf("orders %d: not in the order in which they were sent", orders)
		}
	}
}

// TestAnImportOfFarTimesIsWarnedOfOnce sends an import with times beyond both bounds.
func TestAnImportOfFarTimesIsWarnedOfOnce(t *testing.T) {
	const raw = `{"event":"e","distinct_id":"u","timestamp":%q}`
	d := newTestIngest(t)
	var events []string
	for _, at := range []string{"1901-01-01T00:00:00Z", received.Format(time.RFC3339), "2298-12-01T00:00:00Z", "1902-01-01T00:00:00Z"} {
		events = append(events, fmt.Sprintf(raw, at))
	}
	want(t, d.send("/v1/import", `{"events":[`+strings.Join(events, ",")+`]}`, apiKey), 202, "*")
	earliest, latest := event.Clock{}.Bounds(received)
	for i, at := range []time.Time{earliest, received, latest, earliest} {
		var e event.Event
		if err := event.DecodeMessage(&d.intake.jobs[i], event.Clock{}, &e); err != nil {
			t.Fatal(err)
		}
		if kept := strings.Contains(string(e.Properties), event.GivenTimestamp); !e.Timestamp.Equal(at) || kept == e.Timestamp.Equal(received) {
			t.Errorf("event %d is stored with %v and the properties %s, want %v", i, e.Timestamp, e.Properties, at)
		}
	}
	if len(d.warned) != 2 || d.warned[0].typ != event.TooOld || d.warned[1].typ != event.TooNew || d.warned[0].event != "e" || d.warned[0].distinct != "u" ||
		!strings.Contains(d.warned[0].reason, "1901-01-01T00:00:00Z") || !strings.Contains(d.warned[0].reason, "1 more") {
		t.Errorf("warned %+v; want one of the two that are too old, and one of the one in the future", d.warned)
	}
}
