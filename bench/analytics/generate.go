package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
)

// generator makes a seeded, realistic mix: 20,000 persons are active with a Zipf skew,
// 30% of the events are page views with a user agent, 5% name a person, 20% set
// properties, and bodies are about 900 bytes as SDKs in browsers send them.
type generator struct {
	rnd  *rand.Rand
	zipf *rand.Zipf
	at   time.Time
}

const (
	persons = 20_000
	perBody = 100
)

func newGenerator(seed uint64, at time.Time) *generator {
	rnd := rand.New(rand.NewPCG(seed, 1))
	return &generator{rnd: rnd, zipf: rand.NewZipf(rnd, 1.1, 50, persons-1), at: at}
}

var agents = []string{
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/%d.0.0.0 Safari/537.36",
	"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/%d.5 Safari/605.1.15",
	"Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/%d.5 Mobile/15E148 Safari/604.1",
	"Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/%d.0.0.0 Mobile Safari/537.36",
	"Mozilla/5.0 (X11; Linux x86_64; rv:%d.0) Gecko/20100101 Firefox/126.0",
}

// body makes one batch as posthog SDKs send it.
func (g *generator) body(key string) []byte {
	b := fmt.Appendf(make([]byte, 0, 100<<10), `{"api_key":%q,"sent_at":%q,"batch":[`, key, g.at.Format("2006-01-02T15:04:05.000Z"))
	for i := range perBody {
		if i > 0 {
			b = append(b, ',')
		}
		b = g.event(b)
	}
	return append(b, "]}"...)
}

func (g *generator) event(b []byte) []byte {
	g.at = g.at.Add(time.Duration(g.rnd.IntN(3)) * time.Millisecond)
	n, who := g.rnd.IntN(100), g.zipf.Uint64()
	var id uuid.UUID
	for i := range id {
		id[i] = byte(g.rnd.Uint32())
	}
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	user := fmt.Sprintf("user-%06d", who)
	b = fmt.Appendf(b, `{"uuid":"%s","timestamp":"%s",`, id, g.at.Format("2006-01-02T15:04:05.000Z"))
	common := func() {
		b = fmt.Appendf(b, `"$current_url":"https://app.example.com/projects/%d/settings?tab=billing","$host":"app.example.com","$pathname":"/projects/%d/settings","$screen_height":1117,"$screen_width":1728,"$viewport_height":992,"$viewport_width":1728,"$lib":"web","$lib_version":"1.205.0","$insert_id":"k3j5h2g7f8d%09d","$session_id":"0190f3c2-7d1a-7aaa-8f4b-%012d","$window_id":"0190f3c2-7d1a-7bbb-8f4b-1c2d3e4f5a6b","$referrer":"https://www.example.org/","$referring_domain":"www.example.org","plan":"scale","seats":%d,"note":"caf\u00e9 \"quoted\""`,
			who%1000, who%1000, g.rnd.IntN(1e9), who, g.rnd.IntN(40))
	}
	switch {
	case n < 5:
		b = fmt.Appendf(b, `"event":"$identify","distinct_id":"%s","properties":{"$anon_distinct_id":"anon-%06d",`, user, who)
		common()
		b = fmt.Appendf(b, `,"$set":{"email":"user%d@example.com","plan":"p%d"},"$set_once":{"first_seen":"%s"}}}`, who, g.rnd.IntN(4), g.at.Format(time.RFC3339))
	case n < 35:
		b = fmt.Appendf(b, `"event":"$pageview","distinct_id":"%s","properties":{"$raw_user_agent":"`, user)
		b = fmt.Appendf(b, agents[g.rnd.IntN(len(agents))], 100+g.rnd.IntN(40))
		b = append(b, `",`...)
		common()
		b = append(b, "}}"...)
	case n < 55:
		b = fmt.Appendf(b, `"event":"plan changed","distinct_id":"%s","properties":{"$browser":"Chrome","$os":"macOS",`, user)
		common()
		b = fmt.Appendf(b, `,"$set":{"plan":"p%d","seats":%d,"name":"Jane Doe"}}}`, g.rnd.IntN(4), g.rnd.IntN(40))
	default:
		b = fmt.Appendf(b, `"event":"action %d","distinct_id":"%s","properties":{"$browser":"Chrome","$os":"macOS","$device_type":"Desktop",`, g.rnd.IntN(30), user)
		common()
		b = append(b, "}}"...)
	}
	return b
}
