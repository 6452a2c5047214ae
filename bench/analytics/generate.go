package analytics

import (
	"fmt"
	"time"

	"github.com/tidemill/tidemill/bench/load"
)

// PerBody is how many events a request carries.
const PerBody = 100

// Body makes one batch as PostHog's SDKs in browsers send it; as history its events keep the times that
// they have, however old.
func Body(g *load.Generator, history bool) []byte {
	b := fmt.Appendf(make([]byte, 0, 100<<10), `{"api_key":%q,"sent_at":%q,"historical_migration":%t,"batch":[`, load.Key, g.Now().Format("2006-01-02T15:04:05.000Z"), history)
	for i := range PerBody {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendEvent(b, g)
	}
	return append(b, "]}"...)
}

// Distinct is the distinct id of a person.
func Distinct(person uint64) string { return fmt.Sprintf("user-%06d", person) }

// appendEvent draws an event of about 800 bytes.
func appendEvent(b []byte, g *load.Generator) []byte {
	e := g.Next()
	user := Distinct(e.Person)
	b = fmt.Appendf(b, `{"uuid":"%s","timestamp":"%s",`, e.ID, e.At.Format("2006-01-02T15:04:05.000Z"))
	common := func() {
		b = fmt.Appendf(b, `"$current_url":"https://app.example.com/projects/%d/settings?tab=billing","$host":"app.example.com","$pathname":"/projects/%d/settings","$screen_height":1117,"$screen_width":1728,"$viewport_height":992,"$viewport_width":1728,"$lib":"web","$lib_version":"1.205.0","$insert_id":"k3j5h2g7f8d%09d","$session_id":"0190f3c2-7d1a-7aaa-8f4b-%012d","$window_id":"0190f3c2-7d1a-7bbb-8f4b-1c2d3e4f5a6b","$referrer":"https://www.example.org/","$referring_domain":"www.example.org","plan":"scale","seats":%d,"note":"caf\u00e9 \"quoted\""`,
			e.Person%1000, e.Person%1000, g.IntN(1e9), e.Person, g.IntN(40))
	}
	switch e.Kind {
	case load.Identify:
		b = fmt.Appendf(b, `"event":"$identify","distinct_id":"%s","properties":{"$anon_distinct_id":"anon-%06d",`, user, e.Person)
		common()
		b = fmt.Appendf(b, `,"$set":{"email":"user%d@example.com","plan":"p%d"},"$set_once":{"first_seen":"%s"}}}`, e.Person, g.IntN(4), e.At.Format(time.RFC3339))
	case load.PageView:
		b = fmt.Appendf(b, `"event":"$pageview","distinct_id":"%s","properties":{"$raw_user_agent":"%s",`, user, g.UserAgent())
		common()
		b = append(b, "}}"...)
	case load.SetPlan:
		b = fmt.Appendf(b, `"event":"plan changed","distinct_id":"%s","properties":{"$browser":"Chrome","$os":"macOS",`, user)
		common()
		b = fmt.Appendf(b, `,"$set":{"plan":"p%d","seats":%d,"name":"Jane Doe"}}}`, g.IntN(4), g.IntN(40))
	case load.Action:
		b = fmt.Appendf(b, `"event":"action %d","distinct_id":"%s","properties":{"$browser":"Chrome","$os":"macOS","$device_type":"Desktop",`, g.IntN(30), user)
		common()
		b = append(b, "}}"...)
	}
	return b
}
