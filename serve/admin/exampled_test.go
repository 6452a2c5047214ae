package admin_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/connect"
	"github.com/tidemill/tidemill/serve/access"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/systems"
	"github.com/tidemill/tidemill/systems/bridge"
	"github.com/tidemill/tidemill/systems/bridge/bridgeapi"
	"github.com/tidemill/tidemill/systems/windows"
	"github.com/tidemill/tidemill/systems/windows/windowsapi"
)

// shopConfig is that of a shop with all systems: the partner ads takes all events, mail refuses them, and
// stats is away.
const shopConfig = `
projects: [{name: shop, key: shop-ingest-key-0123456789}]
admin: {key: the-token-0123456789, rates: {reads: 0, changes: 0}}
analytics: {flush_interval: 1ms}
delivery:
  sites: [{id: shop, keys: [shop-site-key-0123456789]}]
  partners:
    - {name: ads, endpoint: "%[1]s/ads", allowHttp: true, allowPrivate: ["127.0.0.0/8"]%[3]s}
    - {name: mail, endpoint: "%[1]s/mail", allowHttp: true, allowPrivate: ["127.0.0.0/8"]}
    - {name: stats, endpoint: "%[1]s/stats", allowHttp: true, allowPrivate: ["127.0.0.0/8"]}
crm:
  attempts: 1
  tenants: [{id: shop, keys: [shop-crm-key-0123456789]}]
  handlers:
    - {name: loyalty, types: ["order.*"], endpoint: {url: "%[1]s/stats", allowHttp: true, allowPrivate: ["127.0.0.0/8"], secrets: [whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=]}}
    - {name: profile, types: ["member.*"], attributes: [{attribute: points, from: payload.points, op: increment}]}
windows:
  window: 1h
  files: {folder: %[2]q}
bridge:
  broker: {listen: "127.0.0.1:0"}
`

// open starts the shop's instance.
func (e *exampling) open() (reconfigure func(string)) {
	e.Helper()
	world := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/mail":
			w.WriteHeader(http.StatusBadRequest)
		case "/stats":
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	e.Cleanup(world.Close)
	files, data, file := e.TempDir(), e.TempDir(), filepath.Join(e.TempDir(), "tidemill.yaml")
	host, err := os.Hostname()
	if err != nil {
		e.Fatal(err)
	}
	e.plain[world.URL], e.plain[files], e.plain[data], e.plain[file] = "http://partner.example", "/srv/gdelt", "/var/lib/tidemill", "/etc/tidemill/tidemill.yaml"
	e.plain[`"`+host+`"`] = `"host-1"`
	write := func(more string) {
		if err := os.WriteFile(file, fmt.Appendf(nil, shopConfig, world.URL, files, more), 0o600); err != nil {
			e.Fatal(err)
		}
	}
	write("")
	load := func() (*config.Loaded, error) {
		return systems.All().Settings().Load(config.Layers{File: file, Flags: map[string]string{"data": data}})
	}
	e.to = startWith(e.T, connect.Options{Version: "1.0.0", Load: load, Systems: []string{"analytics", "delivery", "crm", "windows", "bridge"}}, func(c *config.Loaded) {
		of, err := load()
		if err != nil {
			e.Fatal(err)
		}
		*c = *of
	}).Instance
	return write
}

// shop has an instance of all systems take events, and is asked for all that it shows and does with them.
func (e *exampling) shop() {
	reconfigure := e.open()
	e.look("GET", "live", "") // which keeps what comes from now on
	e.taken()
	e.shown()
	e.queues()
	e.letters()
	e.partners()
	e.windows()
	e.replays()
	e.ownKeys()
	e.views()
	reconfigure(", timeout: 5s")
	e.get("config/reload")
	e.post("config/reload", "")
	e.described()
	e.post("pipelines/analytics/pause", "")
	e.post("pipelines/analytics/resume", "")
	e.get("audit")
	e.get("audit-trail")
	e.get("audit-trail/check")
	e.get("changes")
}

// purchase is an event of the shop's site.
var purchase = fmt.Sprintf(`{"eventType":"purchase","eventId":"5b8f3c1e-2f7a-4c7e-9d51-000000001001","siteId":"shop","timestamp":%q,"orderId":"o-1001","value":59.9,"currency":"EUR","items":[{"id":"shoe-42","quantity":1,"price":59.9}],"context":{"page":{"url":"https://shop.example/thanks"}}}`, time.Now().UTC().Format(time.RFC3339))

// eventID is its.
const eventID = "5b8f3c1e-2f7a-4c7e-9d51-000000001001"

// taken sends events to all systems, and waits until they have come to an end.
func (e *exampling) taken() {
	at := time.Now().UTC().Format(time.RFC3339)
	e.post("events?project=shop", `{"event_id":"0190f3c2-7d1a-7c3e-8f4b-1c2d3e4f5a6b","event":"order placed","distinct_id":"ada","properties":{"order":"o-1001","total":59.9,"currency":"EUR"}}`)
	e.look("POST", "events?project=shop", `{"event":"order placed","properties":{"order":"o-1002"}}`)
	e.post("delivery/events", "["+purchase+"]")
	e.post("crm/events", `{"id":"order-1001","type":"order.placed","tenantId":"shop","identity":{"externalId":"ada","email":"ada@example.com"},"occurredAt":"`+at+`","payload":{"total":59.9}}`)
	e.look("POST", "crm/events", `{"id":"member-7","type":"member.scored","tenantId":"shop","identity":{"externalId":"ada","email":"ada@example.com"},"occurredAt":"`+at+`","payload":{"points":60}}`)
	e.post("bridge/entries", `{"text":"disk 90% full","host":"till-3"}`)
	e.post("windows/records?kind=event&project=shop&batch=20260115100000", `{"globalEventId":1001,"day":20260115,"eventCode":"141","actor1Name":"BERLIN","numMentions":3}`)
	e.until("dead", `"crm-events"`)
	e.until("dead/groups", `"s2s.mail"`)
	e.until("queues/s2s.stats/jobs", `"delayed"`)
	e.until("events?project=shop", "o-1001")
	e.until("crm/profiles?tenant=shop&externalId=ada", "points")
	e.until("live", `"s2s.mail"`)
	e.until("partners/ads", `"lastSuccessAt":"`)
}

// shown reads what there is of them.
func (e *exampling) shown() {
	for _, path := range []string{"", "bridge", "config", "crm/handlers", "crm/log", "crm/status", "crm/events?tenant=shop&id=member-7", "crm/events/payload?tenant=shop&id=member-7",
		"definitions", "delivery/events/" + eventID, "delivery/events/shop/" + eventID, "descriptions", "descriptions/partner", "doctor", "events/0190f3c2-7d1a-7c3e-8f4b-1c2d3e4f5a6b?project=shop",
		"explain?system=delivery&owner=shop&id=" + eventID, "find?q=" + eventID, "find/scan?q=o-1001", "history", "instances", "overview", "partners",
		"persons?distinct_id=ada", "problems", "problems/not-found", "projects", "queues", "status", "warnings"} {
		e.get(path)
	}
	var person struct{ ID string }
	e.into(e.get("persons?distinct_id=ada"), &person)
	e.get("persons/" + person.ID + "?project=shop")
	e.streamed("stream?topic=queue:s2s.stats")
}

// into reads an answer.
func (e *exampling) into(answer string, v any) {
	e.Helper()
	if err := json.Unmarshal([]byte(answer), v); err != nil {
		e.Fatalf("%v: %s", err, answer)
	}
}

// streamed keeps the first event of a stream.
func (e *exampling) streamed(path string) {
	e.Helper()
	server := httptest.NewServer(e.to)
	defer server.Close()
	ctx, end := context.WithCancel(e.Context())
	defer end()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+admin.Prefix+path, nil)
	if err != nil {
		e.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		e.Fatal(err)
	}
	defer resp.Body.Close()
	_, _, first := (&streamed{body: bufio.NewReader(resp.Body)}).event(e.T)
	text, err := json.Marshal(first)
	if err != nil {
		e.Fatal(err)
	}
	e.keep("getStream", "", string(text))
}

// queues changes the queue of the partner that is away.
func (e *exampling) queues() {
	const q = "queues/s2s.stats"
	e.post(q+"/pause?for=10m", "") // so that it is not tried meanwhile
	e.until(q, `"leased":0`)       // nor being tried since before
	e.get(q + "/job?id=" + eventID + "%2Fstats&tenant=shop")
	e.get(q + "/job/payload?id=" + eventID + "%2Fstats&tenant=shop")
	e.ask("PUT", q+"/job/payload?id="+eventID+"%2Fstats&tenant=shop", strings.Replace(purchase, "shoe-42", "shoe-43", 1))
	e.post(q+"/settings", `{"max":100000}`)
	e.post(q+"/promote?tenant=shop", "")
	e.until("owners", `"shop"`)
	e.get("owners/shop")
	e.post(q+"/resume", "")
	e.post(q+"/clean?state=completed&until=24h", "")
	e.post(q+"/retry?all=true", "")
	e.post(q+"/remove?tenant=shop&dry_run=true", "")
	e.post("queues/crm-events/drain", "")
	e.look("POST", "queues/crm-events/resume", "")
}

// letters changes the dead letter of the partner that refuses.
func (e *exampling) letters() {
	e.get("dead/" + eventID + "%2Fmail?pipeline=s2s.mail")
	e.get("dead/" + eventID + "%2Fmail/payload?pipeline=s2s.mail")
	e.ask("PUT", "dead/"+eventID+"%2Fmail/payload?pipeline=s2s.mail", strings.Replace(purchase, "59.9", "49.9", 1))
	e.get("dead/" + eventID + "%2Fmail/original?pipeline=s2s.mail")
	e.post("operations/preview?what=dead.delete&partner=mail", "")
	var started struct{ ID string }
	e.into(e.post("operations?what=dead.delete&partner=mail&expect_at_most=10", ""), &started)
	e.get("operations")
	e.get("operations/" + started.ID)
	e.post("operations/"+started.ID+"/stop", "")
	e.post("dead/replay?pipeline=s2s.mail&dry_run=true", "")
	e.post("dead/delete?id="+eventID+"%2Fmail&pipeline=s2s.mail", "")
}

// partners steers one, and sends it an event by hand.
func (e *exampling) partners() {
	e.post("partners/ads/open?for=10m", "")
	e.post("partners/ads/close", "")
	e.post("partners/ads/off", "")
	e.look("POST", "partners/ads/close", "")
	e.post("partners/ads/try?site=shop", purchase)
	e.post("partners/ads/test?site=shop", purchase)
}

// windows closes one, and finds what was in it.
func (e *exampling) windows() {
	var all struct{ Items []struct{ ID string } }
	e.into(e.get("windows"), &all)
	id := strings.Replace(all.Items[0].ID, "/", "%2F", 1)
	e.get("windows/" + id)
	e.get("windows/" + id + "/records")
	e.get("windows/" + all.Items[0].ID)
	e.get("windows/" + all.Items[0].ID + "/records")
	e.get("windows/status")
	e.get("windows/files")
	e.post("windows/20260115100000/close?project=shop", "")
	e.until("search?q=berlin", "BERLIN")
	e.post("windows/replay?all=true", "")
}

// replays has the CRM system handle events again.
func (e *exampling) replays() {
	e.post("crm/retry?tenant=shop&id=order-1001", "")
	e.post("crm/replays", `{"id":"members-again","since":"7d","type":"member.scored","tenant":"shop"}`)
	e.get("crm/replays")
	e.until("crm/replays/members-again", `"done"`)
	e.post("crm/replays", `{"id":"orders-again","all":true,"type":"order.placed"}`)
	e.post("crm/replays/orders-again/stop", "")
}

// ownKeys makes and revokes an ingest key.
func (e *exampling) ownKeys() {
	var made struct{ ID string }
	e.into(e.secret("projects/shop/keys", "secret", "an-invented-ingest-key"), &made)
	e.get("projects/shop/keys")
	e.post("projects/shop/keys/"+made.ID+"/revoke", "")
}

// views saves one of the console.
func (e *exampling) views() {
	var saved struct{ ID string }
	e.into(e.post("views?name=Refused+by+mail&address=%2Fconsole%2Fdead%3Fpipeline%3Ds2s.mail%26since%3D24h&shared=true", ""), &saved)
	e.get("views")
	e.get("views/" + saved.ID)
	e.post("views/"+saved.ID+"/change?name=Refused+by+mail,+last+week&address=%2Fconsole%2Fdead%3Fpipeline%3Ds2s.mail%26since%3D7d", "")
	e.post("views/"+saved.ID+"/remove", "")
}

// described has a partner in the database.
func (e *exampling) described() {
	const at = "descriptions/partner/search"
	e.post(at+"/add", `{"endpoint":"https://search.example/events","timeout":"10s"}`)
	e.get(at)
	e.post(at+"/change", `{"timeout":"5s"}`)
	e.post(at+"/remove", "")
}

// people adds users and tokens.
func (e *exampling) people() {
	d := withPeople(e.T)
	e.to = d.api
	e.look("POST", "users", `{"name":"root","role":"admin","password":"an invented pass phrase"}`)
	e.post("users", `{"name":"ada","role":"operator","password":"an invented pass phrase"}`)
	e.get("users")
	e.get("users/ada")
	e.post("users/ada/role?role=viewer+operator:crm", "")
	e.post("users/ada/password", `{"password":"another invented phrase"}`)
	e.secret("tokens?name=ci&role=operator", "secret", "an-invented-secret")
	e.secret("console/link", "path", "/console/login#an-invented-secret")
	var all struct{ Items []struct{ ID string } }
	e.into(e.get("tokens"), &all)
	e.post("tokens/"+all.Items[0].ID+"/revoke", "")
	e.self(d)
	e.post("users/ada/remove", "")
}

// self is what ada does for herself.
func (e *exampling) self(d *desk) {
	enter := func(phrase string) { e.as = d.enter(access.Proof{Name: "ada", Password: phrase}) }
	var mine struct {
		Items []struct {
			ID   string
			This bool
		}
	}
	enter("another invented phrase")
	e.get("me")
	e.post("me/password", `{"old":"another invented phrase","new":"a third invented phrase"}`)
	enter("a third invented phrase")
	e.into(e.get("me/sessions"), &mine)
	e.post("me/sessions/"+mine.Items[0].ID+"/end", "")
	enter("a third invented phrase")
	e.as = nil
	e.into(e.get("sessions"), &mine)
	e.post("sessions/"+mine.Items[0].ID+"/end", "")
}

// elsewhere is what instances do whose stream and whose windows are on a Redis.
func (e *exampling) elsewhere() {
	gone := bridgeapi.Consumer{BridgeConsumer: bridgeapi.BridgeConsumer{Name: "host-2", Pending: 1, Idle: 95}, Entries: []bridgeapi.ConsumerEntry{{ID: "1768471200000-0", Idle: 95, Handed: 1}}}
	e.to = newDesk(e.T, admin.Parts{Rooms: only(bridge.Name, (&bridgeapi.API{
		Consumer: func(context.Context, string) (bridgeapi.Consumer, error) { return gone, nil },
		TakeOver: func(context.Context, string) (int, error) { return len(gone.Entries), nil },
	}).Operations())}).api
	e.get("bridge/consumers/host-2")
	e.post("bridge/consumers/host-2/take-over", "")
	e.history()
	withWindows(e.T, func(d *windowDesk) {
		adopts := func(context.Context, string, uuid.UUID, bool) (windowsapi.AdoptedWindows, error) {
			return windowsapi.AdoptedWindows{Batches: 2, Records: 840}, nil
		}
		in, common := *e, &answer.Common{}
		in.T, in.to = d.T, newDesk(d.T, admin.Parts{Common: common, Rooms: only(windows.Name, (&windowsapi.API{Common: common, Windows: d.sys, Adopt: adopts}).Operations())}).api
		in.post("windows/adopt", "")
	})
}

// history is of what was counted for a while.
func (e *exampling) history() {
	synctest.Test(e.T, func(t *testing.T) {
		later := time.Until(time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)) // in the bubble it is the year 2000
		now := func() time.Time { return time.Now().Add(later) }
		s := memoryqueue.New(memoryqueue.Options{Now: now})
		d := newDesk(t, admin.Parts{Now: now, Common: &answer.Common{Queues: s}})
		defer d.api.Close()
		loop := d.api.Sample()
		for n := range 3 {
			if err := s.Add(t.Context(), []*tidemill.Message{{To: "orders", ID: fmt.Sprint(n)}}, nil); err != nil {
				t.Fatal(err)
			}
			if err := loop.Do(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(loop.Every) // in the bubble
		}
		in := *e
		in.T, in.to = t, d.api
		in.get("history/queue:orders")
	})
}
