package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"
)

const (
	projectID = "33333333-3333-4333-8333-333333333333"
	persons   = 20_000
)

// generator makes the load of the requirements: 20,000 persons are active with a Zipf
// skew, 30% of the events are page views with a user agent, 5% name a person, 20% set
// properties. Entries have the fields that existing producers write.
type generator struct {
	rnd  *rand.Rand
	zipf *rand.Zipf
	at   time.Time
}

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

// entry returns the fields of one event, names and values in turn.
func (g *generator) entry() []string {
	g.at = g.at.Add(time.Duration(g.rnd.IntN(3)) * time.Millisecond)
	n, who := g.rnd.IntN(100), g.zipf.Uint64()
	var id uuid.UUID
	for i := range id {
		id[i] = byte(g.rnd.Uint32())
	}
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	name, agent, browser, anonymous, user := fmt.Sprint("action ", g.rnd.IntN(30)), "", "Chrome", "", "{}"
	switch {
	case n < 5:
		name, anonymous = "$identify", fmt.Sprintf("anon-%06d", who)
		user = fmt.Sprintf(`{"$set":{"email":"user%d@example.com","plan":"p%d"},"$set_once":{"first_seen":"%s"}}`, who, g.rnd.IntN(4), g.at.Format(time.RFC3339))
	case n < 35:
		name, browser = "$pageview", ""
		agent = fmt.Sprintf(agents[g.rnd.IntN(len(agents))], 100+g.rnd.IntN(40))
	case n < 55:
		name = "plan changed"
		user = fmt.Sprintf(`{"$set":{"plan":"p%d","seats":%d,"name":"Jane Doe"}}`, g.rnd.IntN(4), g.rnd.IntN(40))
	}
	return []string{
		"schema_version", "1", "event_id", id.String(), "project_id", projectID, "event_name", name, "event_type", "track",
		"distinct_id", fmt.Sprintf("user-%06d", who), "anonymous_id", anonymous, "user_id", "", "session_id", fmt.Sprintf("0190f3c2-7d1a-7aaa-8f4b-%012d", who),
		"url", fmt.Sprintf("https://app.example.com/projects/%d/settings?tab=billing", who%1000), "referrer", "https://www.example.org/",
		"page_title", "Settings", "page_path", fmt.Sprintf("/projects/%d/settings", who%1000), "device_type", "", "browser", browser, "browser_version", "",
		"os", "", "os_version", "", "screen_width", "1728", "screen_height", "1117", "language", "en-US", "timezone", "Europe/Berlin",
		"sdk_name", "web", "sdk_version", "1.4.2", "ip", fmt.Sprintf("203.0.113.%d", who%250), "user_agent", agent,
		"properties", fmt.Sprintf(`{"plan":"scale","seats":%d,"note":"caf\u00e9 \"quoted\"","$window_id":"0190f3c2-7d1a-7bbb-8f4b-1c2d3e4f5a6b"}`, g.rnd.IntN(40)),
		"user_properties", user, "batch_id", "", "timestamp", g.at.Format("2006-01-02T15:04:05.000Z"),
	}
}

// fill writes entries to a stream, 500 in a round trip.
func fill(ctx context.Context, client rueidis.Client, g *generator, stream string, entries int) error {
	for done := 0; done < entries; {
		var cmds rueidis.Commands
		for range min(500, entries-done) {
			cmds = append(cmds, client.B().Arbitrary("XADD", stream, "*").Args(g.entry()...).Build())
		}
		for _, r := range client.DoMulti(ctx, cmds...) {
			if err := r.Error(); err != nil {
				return fmt.Errorf("fill %s: %w", stream, err)
			}
		}
		done += len(cmds)
	}
	return nil
}
