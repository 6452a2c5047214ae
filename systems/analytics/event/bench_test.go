package event

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
)

// posthogEvent is a page view as a browser sends it, about 1.2 KB.
func posthogEvent(r *rand.Rand) []byte {
	i := r.IntN(1e6)
	return fmt.Appendf(nil, `{"uuid":"0190f3c2-7d1a-7c3e-8f4b-%012d","event":"$pageview","distinct_id":"user-%07d","timestamp":"2026-01-15T10:%02d:%02d.%03dZ","sent_at":"2026-01-15T10:21:33.512Z","properties":{"$os":"Mac OS X","$os_version":"14.5.0","$browser":"Chrome","$browser_version":131,"$device_type":"Desktop","$current_url":"https://app.example.com/projects/%d/settings?tab=billing&utm_source=newsletter","$host":"app.example.com","$pathname":"/projects/%d/settings","$screen_height":1117,"$screen_width":1728,"$viewport_height":992,"$viewport_width":1728,"$lib":"web","$lib_version":"1.205.0","$insert_id":"k3j5h2g7f8d%09d","$time":1736936493.512,"token":"phc_Zq1w2e3r4t5y6u7i8o9p0asdfghjklzxcvb","$session_id":"0190f3c2-7d1a-7aaa-8f4b-%012d","$window_id":"0190f3c2-7d1a-7bbb-8f4b-1c2d3e4f5a6b","$ip":"203.0.113.%d","$referrer":"https://www.google.com/","$referring_domain":"www.google.com","$is_identified":true,"$groups":{"company":"acme-%d"},"plan":"scale","seats":%d,"note":"caf\u00e9 \"quoted\"","$set":{"email":"user%d@example.com","name":"Jane Doe","role":"admin"},"$set_once":{"$initial_referrer":"https://www.google.com/","$initial_utm_source":"newsletter"}}}`,
		i, i, i%60, (i/60)%60, i%1000, i%997, i%997, i, i, i%250, i%50, i%40, i)
}

// nativeEvent is the same page view of a native SDK, about 0.9 KB.
func nativeEvent(r *rand.Rand) []byte {
	i := r.IntN(1e6)
	return fmt.Appendf(nil, `{"event_id":"0190f3c2-7d1a-7c3e-8f4b-%012d","event":"$pageview","distinct_id":"user-%07d","anonymous_id":"0190f3c2-7d1a-7ccc-8f4b-%012d","timestamp":"2026-01-15T10:%02d:%02d.%03dZ","context":{"session_id":"0190f3c2-7d1a-7aaa-8f4b-%012d","url":"https://app.example.com/projects/%d/settings?tab=billing","referrer":"https://www.google.com/","page_title":"Settings","page_path":"/projects/%d/settings","device_type":"desktop","browser":"Chrome","browser_version":"131","os":"macOS","os_version":"14.5","screen_width":1728,"screen_height":1117,"language":"en-GB","timezone":"Europe/Lisbon","sdk_name":"browser","sdk_version":"1.4.0"},"properties":{"plan":"scale","seats":%d,"note":"caf\u00e9 \"quoted\"","experiment":"b","feature":"billing","ms":%d},"user_properties":{"email":"user%d@example.com","name":"Jane Doe","role":"admin"}}`,
		i, i, i, i%60, (i/60)%60, i%1000, i, i%997, i%997, i%40, i%5000, i)
}

func segmentEvent(r *rand.Rand) []byte {
	i := r.IntN(1e6)
	return fmt.Appendf(nil, `{"type":"track","event":"Order Completed","messageId":"node-next-1768472493512-0190f3c2-7d1a-7c3e-8f4b-%012d","userId":"user-%07d","anonymousId":"0190f3c2-7d1a-7ccc-8f4b-%012d","timestamp":"2026-01-15T10:%02d:%02d.%03dZ","properties":{"order_id":"o-%d","total":%d.5,"currency":"EUR","products":[{"sku":"a-1","quantity":2},{"sku":"b-2","quantity":1}]},"integrations":{},"context":{"library":{"name":"analytics.js","version":"npm:next-1.84.3"},"page":{"path":"/checkout","referrer":"https://www.google.com/","search":"","title":"Checkout","url":"https://shop.example.com/checkout"},"userAgent":"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36","locale":"en-GB","timezone":"Europe/Lisbon"}}`,
		i, i, i, i%60, (i/60)%60, i%1000, i, i%900)
}

// seeded makes 256 events that are the same in every run.
func seeded(event func(*rand.Rand) []byte) [][]byte {
	r := rand.New(rand.NewPCG(1, 2))
	events := make([][]byte, 256)
	for i := range events {
		events[i] = event(r)
	}
	return events
}

var benchMeta = Meta{
	Project:  uuid.MustParse("33333333-3333-4333-8333-333333333333"),
	Received: time.Date(2026, 1, 15, 10, 21, 34, 0, time.UTC),
	Sent:     time.Date(2026, 1, 15, 10, 21, 33, 0, time.UTC),
	IP:       "203.0.113.9",
	Agent:    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36",
}

func BenchmarkDecode(b *testing.B) {
	for _, c := range []struct {
		name   string
		format Format
		event  func(*rand.Rand) []byte
	}{
		{"posthog", PostHog, posthogEvent},
		{"native", Native, nativeEvent},
		{"segment", Segment, segmentEvent},
	} {
		b.Run(c.name, func(b *testing.B) {
			events := seeded(c.event)
			m, e := benchMeta, new(Event)
			m.Format = c.format
			b.ReportAllocs()
			b.SetBytes(int64(len(events[0])))
			for i := 0; b.Loop(); i++ {
				if err := Decode(&m, events[i%len(events)], e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkValid(b *testing.B) {
	events := seeded(posthogEvent)
	b.SetBytes(int64(len(events[0])))
	for i := 0; b.Loop(); i++ {
		if !valid(events[i%len(events)]) {
			b.Fatal("invalid")
		}
	}
}

func BenchmarkDecodeMessage(b *testing.B) {
	m := benchMeta
	m.Format = PostHog
	endpoint := make([]*tidemill.Message, 256)
	for i, raw := range seeded(posthogEvent) {
		endpoint[i] = &tidemill.Message{Payload: raw, Header: []tidemill.Field{{Name: []byte(MetaHeader), Value: m.Append(nil)}}}
	}
	flat := make([]*tidemill.Message, 256)
	for i, raw := range seeded(nativeEvent) {
		var e Event
		m.Format = Native
		if err := Decode(&m, raw, &e); err != nil {
			b.Fatal(err)
		}
		flat[i] = entryOf(&e)
	}
	for _, c := range []struct {
		name     string
		messages []*tidemill.Message
	}{{"posthog through a door", endpoint}, {"flat entry of a stream", flat}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			e := new(Event)
			for i := 0; b.Loop(); i++ {
				if err := DecodeMessage(c.messages[i%len(c.messages)], Clock{}, e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkRow(b *testing.B) {
	m := benchMeta
	m.Format = PostHog
	var e Event
	if err := Decode(&m, seeded(posthogEvent)[0], &e); err != nil {
		b.Fatal(err)
	}
	row := e.AppendJSON(nil)
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			row = e.AppendJSON(row[:0])
		}
	})
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		back := new(Event)
		for b.Loop() {
			if err := ParseRow(row, back); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// entryOf is the flat stream entry that a producer would write of an event.
func entryOf(e *Event) *tidemill.Message {
	msg := &tidemill.Message{ID: "1768472493512-0", To: "events:incoming", Time: e.Timestamp}
	add := func(name, value string) {
		msg.Header = append(msg.Header, tidemill.Field{Name: []byte(name), Value: []byte(value)})
	}
	add("schema_version", "1")
	add("event_id", e.ID.String())
	add("project_id", e.Project.String())
	add("event_name", e.Name)
	add("event_type", e.Type)
	add("distinct_id", e.DistinctID)
	add("anonymous_id", e.AnonymousID)
	add("user_id", e.UserID)
	add("session_id", e.SessionID)
	add("url", e.URL)
	add("referrer", e.Referrer)
	add("page_title", e.PageTitle)
	add("page_path", e.PagePath)
	add("device_type", e.DeviceType)
	add("browser", e.Browser)
	add("browser_version", e.BrowserVersion)
	add("os", e.OS)
	add("os_version", e.OSVersion)
	add("screen_width", fmt.Sprint(e.ScreenWidth))
	add("screen_height", fmt.Sprint(e.ScreenHeight))
	add("language", e.Language)
	add("timezone", e.Timezone)
	add("sdk_name", e.SDKName)
	add("sdk_version", e.SDKVersion)
	add("ip", e.IP)
	add("user_agent", e.UserAgent)
	add("properties", string(e.Properties))
	add("user_properties", string(e.UserProperties))
	add("batch_id", e.BatchID)
	add("timestamp", e.Timestamp.Format(time.RFC3339Nano))
	return msg
}
