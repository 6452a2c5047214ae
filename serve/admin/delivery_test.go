package admin_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/delivery"
	"github.com/tidemill/tidemill/systems/delivery/deliveryapi"
	"github.com/tidemill/tidemill/systems/delivery/deliveryconfig"
)

// partners are two, of which the API moves the circuits, and one event.
type partners struct {
	open time.Duration
	all  []delivery.PartnerHealth
}

func newPartners() *partners {
	return &partners{all: []delivery.PartnerHealth{
		{Partner: "dv360", SuccessRate: 0.975, P50: 12345 * time.Microsecond, P99: 2 * time.Second, Jobs: queue.Stats{Waiting: 7}, LastError: "answered 503", LastErrorAt: day, LastSuccessAt: day.Add(time.Hour)},
		{Partner: "yahoo", SuccessRate: -1, Paused: true, Dead: 3},
	}}
}

func (p *partners) Event(_ context.Context, site, id string) (*delivery.EventStatus, error) {
	if (site != "shop" || id != "e1/x") && id != "both" {
		return nil, tidemill.Fail(tidemill.NotFound, "event: %w", queue.ErrNotFound)
	}
	return &delivery.EventStatus{ID: id, Site: site, Type: "purchase", Received: day, State: delivery.StateDelivering, Queue: "ingest.high", Partners: []delivery.PartnerStatus{
		{Partner: "dv360", State: delivery.StateDelayed, Why: "it is tried again", Tries: 1, Next: day.Add(time.Minute), Attempts: []queue.Failure{{At: day, Kind: tidemill.Timeout, Cause: "no answer"}}},
		{Partner: "yahoo", State: delivery.StateDelivered, Ended: day},
	}}, nil
}

func (p *partners) Partners(context.Context) ([]delivery.PartnerHealth, error) { return p.all, nil }

func (p *partners) OpenCircuit(_ context.Context, partner string, d time.Duration) error {
	for i := range p.all {
		if p.all[i].Partner == partner {
			p.open, p.all[i].Circuit, p.all[i].Until, p.all[i].Why = d, policy.Open, day, "opened by hand"
			return nil
		}
	}
	return fmt.Errorf("partner %q: %w; there are: dv360, yahoo", partner, delivery.ErrNoPartner)
}

func (p *partners) CloseCircuit(_ context.Context, partner string) error {
	p.all[0].Circuit, p.all[0].Until, p.all[0].Why = policy.Closed, time.Time{}, ""
	return nil
}

func (p *partners) SwitchOff(_ context.Context, partner string) error {
	p.all[0].Off, p.all[0].Paused = time.Unix(1_800_000_000, 0), true
	return nil
}

// deliveryDesk is an API over what a test has of delivery.
func deliveryDesk(t *testing.T, a *deliveryapi.API) *desk {
	t.Helper()
	a.Common = &answer.Common{}
	return newDesk(t, admin.Parts{Common: a.Common, Rooms: only(delivery.Name, a.Operations())})
}

func TestPartnersAreListedInTheWordsOfProgramsOutside(t *testing.T) {
	d := deliveryDesk(t, &deliveryapi.API{Delivery: newPartners()})
	got := d.get("partners")
	want := `{"partner":"dv360","circuitState":"closed","successRate":0.975,"latencyP50":12.345,"latencyP99":2000,"queueDepth":7,"lastError":"answered 503","lastSuccessAt":"2026-03-01T13:00:00Z","lastErrorAt":"2026-03-01T12:00:00Z"}
{"partner":"yahoo","circuitState":"closed","successRate":null,"latencyP50":null,"latencyP99":null,"queueDepth":0,"lastError":null,"lastSuccessAt":null,"paused":true,"deadLetters":3}
`
	if got != want {
		t.Errorf("partners are\n%swant\n%s", got, want)
	}
}

func TestCircuitsAreMovedByHand(t *testing.T) {
	p := newPartners()
	d := deliveryDesk(t, &deliveryapi.API{Delivery: p})
	if got := d.post("partners/dv360/open?for=10m", ""); d.field(got, "circuitState") != "open" || d.field(got, "openReason") != "opened by hand" || d.field(got, "openUntil") == nil || p.open != 10*time.Minute {
		t.Errorf("opened for %v: %s", p.open, got)
	}
	d.logged("circuit moved by hand", "partner=dv360", "what=open")
	if d.post("partners/dv360/open", ""); p.open != 0 {
		t.Errorf("opened for %v, want the system's own time", p.open)
	}
	if got := d.post("partners/dv360/close", ""); d.field(got, "circuitState") != "closed" || d.field(got, "openUntil") != nil {
		t.Errorf("closed: %s", got)
	}
	refused(t, d.ask("POST", "partners/nix/open", ""), http.StatusNotFound, "there are: dv360, yahoo")
	for _, wrong := range []string{"soon", "-1s", "0"} {
		refused(t, d.ask("POST", "partners/dv360/open?for="+wrong, ""), http.StatusBadRequest, "is no time to wait")
	}
}

func TestAnEventIsFoundWithWhatBecameOfIt(t *testing.T) {
	d := deliveryDesk(t, &deliveryapi.API{Delivery: newPartners()})
	got := d.get("delivery/events/shop/e1%2Fx")
	want := `{"id":"e1/x","site":"shop","type":"purchase","received_at":"2026-03-01T12:00:00Z","state":"delivering","queue":"ingest.high","partners":[` +
		`{"partner":"dv360","state":"delayed","why":"it is tried again","tries":1,"next_at":"2026-03-01T12:01:00Z","attempts":[{"at":"2026-03-01T12:00:00Z","kind":"timeout","cause":"no answer"}]},` +
		`{"partner":"yahoo","state":"delivered","tries":0,"ended_at":"2026-03-01T12:00:00Z"}]}` + "\n"
	if got != want {
		t.Errorf("the event is\n%swant\n%s", got, want)
	}
	refused(t, d.ask("GET", "delivery/events/shop/e2", ""), http.StatusNotFound, "nothing is known of event e2 of site shop")
	refused(t, d.ask("GET", "delivery/events/e2", ""), http.StatusBadRequest, "say of which site the event is")
	cfg := loaded(t)
	d = deliveryDesk(t, &deliveryapi.API{Delivery: newPartners(), Config: constant(cfg)})
	deliveryconfig.Of(cfg).Sites = []deliveryconfig.Site{{ID: "blog"}, {ID: "shop"}}
	if found := d.get("delivery/events/e1%2Fx"); found != want {
		t.Errorf("without its site the event is\n%swant\n%s", found, want)
	}
	if found := d.get("delivery/events/E1%2FX"); found != want {
		t.Errorf("by its id in capitals the event is\n%swant\n%s", found, want)
	}
	refused(t, d.ask("GET", "delivery/events/e2", ""), http.StatusNotFound, "nothing is known of event e2 of site blog, shop")
	refused(t, d.ask("GET", "delivery/events/both", ""), http.StatusConflict, "several sites have an event both: say which, of blog, shop")
	deliveryconfig.Of(cfg).Sites, cfg.Projects = nil, []config.Project{{Name: "shop"}}
	if found := d.get("delivery/events/e1%2Fx"); found != want {
		t.Errorf("of a project the event is\n%swant\n%s", found, want)
	}
	refused(t, d.ask("GET", "delivery/events/e2", ""), http.StatusNotFound, "nothing is known of event e2 of site shop, default")
	deliveryconfig.Of(cfg).Sites = make([]deliveryconfig.Site, 101)
	refused(t, d.ask("GET", "delivery/events/e2", ""), http.StatusBadRequest, "there are 101")
}
