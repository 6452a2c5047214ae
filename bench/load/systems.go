package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/redisconn"
)

// Key is what every system lets its senders in with.
const Key = "bench-key-of-sixteen"

// System is one of the product's, as it is loaded in bulk.
type System struct {
	Name     string // what the binary runs
	Config   string // its settings, in which PARTNER is where a partner answers
	Path     string // where requests go
	Pipeline string // that is paused: what waits, waits for it
	Servers  string // the names of its set

	perBody int
	event   func(*rand.Rand) string
	body    func(events string) string // what a request is, of events with commas between; nil: they are written to a stream
}

// Streams says that events are not sent in requests, but written to a stream.
func (s *System) Streams() bool { return s.body == nil }

func plain(events string) string { return "[" + events + "]" }

// at is when the events happen: an hour ago, a millisecond apart.
var at = time.Now().Add(-time.Hour).UTC()

func random(r *rand.Rand) uuid.UUID {
	var id uuid.UUID
	for i := range id {
		id[i] = byte(r.Uint32())
	}
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id
}

func when(r *rand.Rand) string {
	return at.Add(time.Duration(r.IntN(3_600_000)) * time.Millisecond).Format("2006-01-02T15:04:05.000Z")
}

// common are the properties that events of browsers have, 550 bytes of them, a tenth at random.
func common(r *rand.Rand) string {
	return fmt.Sprintf(`"$current_url":"https://app.example.com/projects/%d/settings?tab=billing","$host":"app.example.com","$pathname":"/projects/%[1]d/settings","$screen_height":1117,"$screen_width":1728,"$viewport_height":992,"$viewport_width":1728,"$lib":"web","$lib_version":"1.205.0","$session_id":"%s","$referrer":"https://www.example.org/","$referring_domain":"www.example.org","plan":"scale","seats":%d`,
		r.IntN(1000), random(r), r.IntN(40))
}

// vocabulary is what notes are written with.
var vocabulary = strings.Fields("order paid card member visit point gold silver class coach court monday evening summer offer renew cancel invoice refund address street city phone branch locker towel parking guest friend family trial yearly monthly week access door desk")

// words are so many of them, about six bytes each.
func words(r *rand.Rand, n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = vocabulary[r.IntN(len(vocabulary))]
	}
	return strings.Join(all, " ")
}

// Systems are all five.
var Systems = []System{
	{Name: "analytics", Config: "projects: [{name: shop, key: " + Key + "}]\n", Path: "/v1/batch", perBody: 500, Pipeline: "analytics", Servers: "Redis, PostgreSQL, ClickHouse",
		body: func(e string) string { return `{"events":[` + e + `]}` },
		event: func(r *rand.Rand) string {
			return fmt.Sprintf(`{"event":"action %d","distinct_id":"user-%06d","event_id":"%s","timestamp":"%s","properties":{%s}}`, r.IntN(30), r.IntN(20_000), random(r), when(r), common(r))
		}},
	{Name: "delivery", Config: "delivery:\n  sites: [{id: shop, keys: [" + Key + "]}]\n  partners: [{name: hook, endpoint: \"PARTNER\", allowHttp: true, allowPrivate: [127.0.0.0/8], queue: {jobs: 10000000}}]\n", Path: "/v1/events", perBody: 500, Pipeline: "s2s.hook", Servers: "Redis",
		body: plain, event: func(r *rand.Rand) string {
			return fmt.Sprintf(`{"eventType":"custom_event","idempotencyKey":"%[1]s","eventId":"%[1]s","siteId":"shop","timestamp":"%[2]s","userId":"%064[3]x","properties":{"note":"%[4]s"}}`, random(r), when(r), r.IntN(20_000), words(r, 50))
		}},
	{Name: "crm", Config: "crm:\n  per_second: 0\n  tenant_per_second: 0\n  tenants: [{id: club-7, keys: [" + Key + "]}]\n  handlers: [{name: profiles, types: [\"member.*\"], attributes: [{attribute: firstName, from: payload.firstName}]}]\n", Path: "/v1/crm/events", perBody: 500, Pipeline: "crm-events", Servers: "Redis, PostgreSQL",
		body: plain, event: func(r *rand.Rand) string {
			return fmt.Sprintf(`{"id":"%s","type":"member.updated","tenantId":"club-7","identity":{"externalId":"m-%06d"},"occurredAt":"%s","payload":{"firstName":"Ann","note":"%s"}}`, random(r), r.IntN(20_000), when(r), words(r, 40))
		}},
	{Name: "windows", Config: "projects: [{name: news, key: " + Key + "}]\nwindows: {window: 1s}\n", Path: "/v1/windows/mentions", perBody: 5000, Pipeline: "windows-delivery", Servers: "Redis",
		body: plain, event: func(r *rand.Rand) string {
			id := r.IntN(1 << 30)
			return fmt.Sprintf(`{"globalEventId":%d,"eventTimeDate":20260115100000,"mentionTimeDate":20260115101500,"mentionType":1,"mentionSourceName":"example.org","mentionIdentifier":"https://example.org/news/%s","sentenceId":%d,"actor1CharOffset":-1,"actor2CharOffset":%d,"actionCharOffset":%d,"inRawText":1,"confidence":%d,"mentionDocLen":%d,"mentionDocTone":%.6f}`,
				id, random(r), r.IntN(40), r.IntN(4000), r.IntN(4000), 10*r.IntN(10), r.IntN(9000), 10*r.Float64()-5)
		}},
	{Name: "bridge", Servers: "Redis", event: func(r *rand.Rand) string {
		return fmt.Sprintf(`{"facility":"local0","severity":"info","timestamp":"%s","host":"web-%02d.example.com","app":"checkout","request":"%s","message":"order %d accepted after %d ms, 3 items, paid by card, shipping to a known address of a customer who has ordered before, see the journal"}`, when(r), r.IntN(40), random(r), r.IntN(1e9), r.IntN(900))
	}},
}

// Events are so many of them, always the same, and how many bytes one has.
func (s *System) Events(n int) (all []string, size float64) {
	r := rand.New(rand.NewPCG(1, 2))
	total := 0
	for range n {
		e := s.event(r)
		total += len(e)
		all = append(all, e)
	}
	return all, float64(total) / float64(n)
}

// Write writes so many events to the stream that the bridge reads by default, and returns how many bytes
// one has.
func (s *System) Write(ctx context.Context, client redisconn.Client, n int) (size float64, err error) {
	events, size := s.Events(n)
	for _, e := range events {
		if err := client.Do(ctx, client.B().Xadd().Key("syslog-stream").Id("*").FieldValue().FieldValue("object", e).Build()).Error(); err != nil {
			return 0, err
		}
	}
	return size, nil
}

// Bodies are the requests that carry so many events, and how many bytes an event has.
func (s *System) Bodies(n int) (all [][]byte, size float64) {
	events, size := s.Events(n)
	for some := range slices.Chunk(events, s.perBody) {
		all = append(all, []byte(s.body(strings.Join(some, ","))))
	}
	return all, size
}
