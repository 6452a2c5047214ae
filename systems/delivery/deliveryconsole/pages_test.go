package deliveryconsole_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/serve/console"
	"github.com/tidemill/tidemill/serve/console/consoletest"
	"github.com/tidemill/tidemill/serve/console/page"
	"github.com/tidemill/tidemill/sink/httpsink"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/state/trail/tabletrail"
	"github.com/tidemill/tidemill/systems/delivery"
	"github.com/tidemill/tidemill/systems/delivery/deliveryapi"
	"github.com/tidemill/tidemill/systems/delivery/deliveryconsole"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

// world is a partner whose every field has a text.
type world struct {
	*consoletest.Browser
	said string
	more int // partners beside it
	health
	sent []string
}

type health = delivery.PartnerHealth

func (w *world) Partners(context.Context) ([]delivery.PartnerHealth, error) {
	all := []delivery.PartnerHealth{w.health}
	for n := range w.more {
		all = append(all, delivery.PartnerHealth{Partner: fmt.Sprint("partner-", n), SuccessRate: .975, P50: 40 * time.Millisecond, P99: time.Second, LastError: fmt.Sprint("answered 503 to ", n), LastErrorAt: time.Now()})
	}
	return all, nil
}

func (*world) Event(context.Context, string, string) (*delivery.EventStatus, error) {
	return nil, delivery.ErrNoPartner
}

func (w *world) OpenCircuit(_ context.Context, _ string, d time.Duration) error {
	w.Circuit, w.Until, w.Why = policy.Open, time.Now().Add(d), "opened by hand"
	return nil
}

func (w *world) CloseCircuit(context.Context, string) error {
	w.Circuit, w.Until, w.Why = policy.Closed, time.Time{}, ""
	return nil
}

func (w *world) SwitchOff(context.Context, string) error {
	w.Off = time.Now()
	return nil
}

func (w *world) Describe(_ context.Context, name string) (*delivery.Description, error) {
	if name != "ads" {
		return nil, fmt.Errorf("partner %q: %w; there are: ads", name, delivery.ErrNoPartner)
	}
	return &delivery.Description{Partner: partner.Partner{Name: name, Endpoint: "https://ads.test/" + w.said, When: "true" + w.said, Sites: []string{"shop" + w.said}, Auth: partner.Auth{Type: "bearer", Credentials: "ADS_TOKEN"}, Mapping: []partner.Field{{Field: "order" + w.said, Value: "event.orderId" + w.said, Required: true}}},
		Credentials: "set", Health: w.health, Failures: []delivery.Failure{{At: time.Now(), Took: time.Second, Status: 401, Kind: tidemill.Credentials, Cause: "answered 401" + w.said}}}, nil
}

func (w *world) Try(_, _ string, raw []byte) (*delivery.Trial, error) {
	if string(raw) == "[]" {
		return nil, tidemill.Fail(tidemill.Validation, "the event is no object")
	}
	return &delivery.Trial{ID: "e1", Takes: w.said == "", Why: "its condition" + w.said, Request: &httpsink.Shown{Method: "POST", URL: "https://ads.test/" + w.said, Header: http.Header{"X-A": {"b" + w.said}}, Body: raw, Signed: true}}, nil
}

func (w *world) SendTest(_ context.Context, name, site string, raw []byte) (*delivery.Trial, error) {
	t, err := w.Try(name, site, raw)
	if err == nil {
		w.sent = append(w.sent, string(raw))
		t.Sent = &partner.Attempt{At: time.Now(), Took: 20 * time.Millisecond, Status: 422, Body: []byte("no" + w.said), Err: tidemill.Fail(tidemill.Validation, "answered 422%s", w.said)}
	}
	return t, err
}

func newWorld(t *testing.T, said, base string) *world {
	w := &world{said: said, health: delivery.PartnerHealth{Partner: "ads", SuccessRate: .5, P50: 40 * time.Millisecond, P99: time.Second, Dead: 3, LastError: "answered 401" + said, LastErrorAt: time.Now(), Circuit: policy.Open, Until: time.Now().Add(time.Hour), Why: "it failed" + said}}
	ahead := time.Duration(0)
	store := memoryqueue.New(memoryqueue.Options{Now: func() time.Time { return time.Now().Add(ahead) }})
	common := &answer.Common{Queues: store}
	a := admin.Parts{Common: common, Trail: tabletrail.Memory(), Now: func() time.Time { return time.Now().Add(ahead) }, Rooms: []admin.Room{{Does: (&deliveryapi.API{Common: common, Delivery: w, Trials: w, Config: func() *config.Loaded { return &config.Loaded{} }}).Operations()}}}
	w.Browser = consoletest.New(t, a, console.Parts{Parts: page.Parts{Base: base}, Systems: []console.System{{Pages: deliveryconsole.Pages, Runs: true}}})
	for range 3 { // what came in within half a minute
		if err := store.Add(t.Context(), []*tidemill.Message{{ID: fmt.Sprint(ahead), To: "ads"}}, nil); err != nil {
			t.Fatal(err)
		}
		if err := w.API.Sample().Do(t.Context()); err != nil {
			t.Fatal(err)
		}
		ahead += 10 * time.Second
	}
	return w
}

func everyPage(string) []string {
	return []string{"/console/partners", "/console/partners/ads", "/console/partners/ads/open", "/console/partners/ads/close", "/console/partners/ads/off", "/console/partners/ads/try", "/console/partners/ads/test"}
}

func TestWhatHoldsOfAllPages(t *testing.T) {
	actions := everyPage("")[2:]
	consoletest.Holds(t, consoletest.Stage{
		Open: func(t *testing.T, said, base string) *consoletest.Browser {
			return newWorld(t, said, base).Browser
		},
		Pages: everyPage, Seen: 2, Forms: actions, Viewers: actions,
	})
}

func TestAListOfPartnersIsSmall(t *testing.T) {
	w := newWorld(t, "", "")
	w.more = 50
	if n := consoletest.Zipped([]byte(w.Page("/console/partners"))); n > consoletest.MostOfAList {
		t.Errorf("it has %d bytes zipped", n)
	}
}

func TestAPartnerIsSteered(t *testing.T) {
	w := newWorld(t, "", "")
	w.Has(w.Page("/console/partners"), "ads", "open", "it failed", "50.0%", "answered 401")
	w.Has(w.Page("/console/partners/ads"), "bearer", "refused", "ADS_TOKEN", "event.orderId", "answered 401", "Close the circuit",
		"The last hour", "in 2", "out 0", "died 0", "the oldest waits 20 s")
	if to := w.Confirm("/console/partners/ads/close", nil); to != "/console/partners/ads?done=closed" || w.Circuit != policy.Closed {
		t.Errorf("closing leads to %s, and it is %v", to, w.Circuit)
	}
	if page := w.Page("/console/partners/ads?done=closed"); strings.Contains(page, "/close") {
		t.Error("what is closed can be closed")
	}
	if to := w.Confirm("/console/partners/ads/open", url.Values{"for": {"2h"}}); to != "/console/partners/ads?done=opened" || w.Circuit != policy.Open || time.Until(w.Until) < time.Hour {
		t.Errorf("opening leads to %s, and it is %v until %v", to, w.Circuit, w.Until)
	}
	w.Has(w.Page("/console/partners/ads"), "Last changes", "ada: openCircuit")
	if rec := w.Ask(http.MethodPost, "/console/partners/ads/open", url.Values{"for": {"soon"}}); rec.Code != http.StatusUnprocessableEntity || !strings.Contains(rec.Body.String(), "is no time to wait") || !strings.Contains(rec.Body.String(), `value="soon"`) {
		t.Errorf("a time that is none is answered %d", rec.Code)
	}
	if to := w.Confirm("/console/partners/ads/off", nil); to != "/console/partners/ads?done=off" || w.Off.IsZero() {
		t.Errorf("switching off leads to %s", to)
	}
	if page := w.Page("/console/partners/ads?done=off"); strings.Contains(page, "/off\"") || !strings.Contains(page, "Switch it on") {
		t.Error("what is off can be switched off, or not on")
	}
	if rec := w.Ask(http.MethodGet, "/console/partners/nix", nil); rec.Code != http.StatusNotFound {
		t.Errorf("a partner that there is not is answered %d", rec.Code)
	}
	w.Who.Rights = caller.All(caller.Viewer)
	if page := w.Page("/console/partners/ads"); strings.Contains(page, "/test\"") || strings.Contains(page, "/open\"") {
		t.Error("a viewer is shown what operators may do")
	}
}

func TestAnEventIsTriedOnPages(t *testing.T) {
	w := newWorld(t, "", "")
	send := func(verb, event string) (int, string) {
		rec := w.Ask(http.MethodPost, "/console/partners/ads/"+verb, url.Values{"payload": {event}, "key": {"k" + verb + event}})
		return rec.Code, rec.Body.String()
	}
	code, said := send("try", `{"n":1.10}`)
	if w.Has(said, "Nothing was sent", "POST https://ads.test/", "X-A b", `"n": 1.10`, "are added when it is sent", "Send a test event"); code != http.StatusOK || len(w.sent) != 0 {
		t.Errorf("trying is answered %d, sent %q", code, w.sent)
	}
	code, said = send("test", `{"n":1.10}`)
	if w.Has(said, "The partner did not take it: answered 422 (validation)", "Answer", "no", `"n": 1.10`); code != http.StatusOK || len(w.sent) != 1 || w.sent[0] != `{"n":1.10}` {
		t.Errorf("sending is answered %d, sent %q", code, w.sent)
	}
	for _, event := range []string{"[]", ""} {
		if code, said = send("test", event); code != http.StatusUnprocessableEntity || len(w.sent) != 1 {
			t.Errorf("%q is answered %d: %s", event, code, consoletest.Text(said))
		}
	}
	w.said = consoletest.Hostile
	if _, said = send("test", "{}"); strings.Contains(said, "<script>alert") || strings.Contains(said, "<img") {
		t.Error("a text of the partner is a part of the page")
	}
}

// TestAQueueIsOfAPartner holds that pages of queues and jobs know whose they are.
func TestAQueueIsOfAPartner(t *testing.T) {
	at := deliveryconsole.Pages.Described["partner"]
	if name, is := at.Of("s2s.ads"); !is || at.At(name) != "/console/partners/ads" {
		t.Errorf("the queue is of %q, %v", name, is)
	}
	if name, is := at.Of("analytics"); is {
		t.Errorf("the queue of another system is of %q", name)
	}
}
