package servers

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/bench/load"
)

const projectID = "33333333-3333-4333-8333-333333333333"

// entry draws an event and returns its fields as existing producers write them, names and
// values in turn.
func entry(g *load.Generator) []string {
	e := g.Next()
	name, agent, browser, anonymous, user := "", "", "Chrome", "", "{}"
	switch e.Kind {
	case load.Identify:
		name, anonymous = "$identify", fmt.Sprintf("anon-%06d", e.Person)
		user = fmt.Sprintf(`{"$set":{"email":"user%d@example.com","plan":"p%d"},"$set_once":{"first_seen":"%s"}}`, e.Person, g.IntN(4), e.At.Format(time.RFC3339))
	case load.PageView:
		name, browser, agent = "$pageview", "", g.UserAgent()
	case load.SetPlan:
		name = "plan changed"
		user = fmt.Sprintf(`{"$set":{"plan":"p%d","seats":%d,"name":"Jane Doe"}}`, g.IntN(4), g.IntN(40))
	case load.Action:
		name = fmt.Sprint("action ", g.IntN(30))
	}
	return []string{
		"schema_version", "1", "event_id", e.ID.String(), "project_id", projectID, "event_name", name, "event_type", "track",
		"distinct_id", fmt.Sprintf("user-%06d", e.Person), "anonymous_id", anonymous, "user_id", "", "session_id", fmt.Sprintf("0190f3c2-7d1a-7aaa-8f4b-%012d", e.Person),
		"url", fmt.Sprintf("https://app.example.com/projects/%d/settings?tab=billing", e.Person%1000), "referrer", "https://www.example.org/",
		"page_title", "Settings", "page_path", fmt.Sprintf("/projects/%d/settings", e.Person%1000), "device_type", "", "browser", browser, "browser_version", "",
		"os", "", "os_version", "", "screen_width", "1728", "screen_height", "1117", "language", "en-US", "timezone", "Europe/Berlin",
		"sdk_name", "web", "sdk_version", "1.4.2", "ip", fmt.Sprintf("203.0.113.%d", e.Person%250), "user_agent", agent,
		"properties", fmt.Sprintf(`{"plan":"scale","seats":%d,"note":"caf\u00e9 \"quoted\"","$window_id":"0190f3c2-7d1a-7bbb-8f4b-1c2d3e4f5a6b"}`, g.IntN(40)),
		"user_properties", user, "batch_id", "", "timestamp", e.At.Format("2006-01-02T15:04:05.000Z"),
	}
}

// fill writes entries to a stream, 500 in a round trip.
func fill(ctx context.Context, client rueidis.Client, g *load.Generator, stream string, entries int) error {
	for done := 0; done < entries; {
		var cmds rueidis.Commands
		for range min(500, entries-done) {
			cmds = append(cmds, client.B().Arbitrary("XADD", stream, "*").Args(entry(g)...).Build())
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
