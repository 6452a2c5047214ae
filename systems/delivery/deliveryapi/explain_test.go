package deliveryapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/answer/answertest"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/delivery"
	"github.com/tidemill/tidemill/systems/delivery/accept"
	"github.com/tidemill/tidemill/systems/delivery/event"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

// stage is delivery that does not run: the test moves its jobs.
type stage struct {
	*answertest.Stage
	*Finder
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{Stage: answertest.New(t)}
	sys, err := delivery.New(delivery.Parts{Queues: s.Stage.Queues, DeadLetters: s.Letters, Sent: tableledger.Memory(tableledger.Options{Now: s.Stage.Now}), Partners: []partner.Partner{
		{Name: "ads", Endpoint: "https://ads.test/"}, {Name: "carts", Endpoint: "https://carts.test/", When: `event.eventType == "add_to_cart"`}}}, delivery.Options{Now: s.Stage.Now})
	if err != nil {
		t.Fatal(err)
	}
	s.Keeps(delivery.Standard, ads) // as a running system sets them
	acceptor, err := accept.New(tableledger.Memory(tableledger.Options{Now: s.Stage.Now}), s.Stage.Queues, accept.Options{Now: s.Stage.Now})
	if err != nil {
		t.Fatal(err)
	}
	s.Finder = &Finder{Common: &answer.Common{Queues: s.Stage.Queues}, Delivery: sys, Accept: acceptor, Sites: func() []string { return []string{"shop", "other"} }, Now: s.Stage.Now}
	return s
}

var ads = delivery.QueueOf("ads")

const viewed = `{"eventType":"page_view","timestamp":"2026-03-01T11:59:00Z","siteId":"%s","eventId":"%s","context":{"page":{"url":"https://shop.example/secret"}}}`

// sends accepts an event, under a key that is made of its id unless it has an order.
func (s *stage) sends(site, id, order string) {
	s.Helper()
	rules, err := event.New(event.Options{})
	if err != nil {
		s.Fatal(err)
	}
	raw := fmt.Appendf(nil, viewed, site, id)
	if order != "" {
		raw = fmt.Appendf(nil, `{"eventType":"purchase","timestamp":"2026-03-01T11:59:00Z","siteId":%q,"eventId":%q,"orderId":%q,"value":39.90,"currency":"EUR","items":[{"id":"lamp","name":"Lamp","quantity":1,"price":39.90}]}`, site, id, order)
	}
	r := &accept.Request{Site: site, Scope: "events", Key: "key of " + id, Body: raw, Items: []accept.Item{{Raw: raw}}}
	if err := rules.Decode(raw, event.Given{}, &r.Items[0].Event); err != nil {
		s.Fatal(err)
	}
	if _, err := s.Accept.Accept(s.Context(), r); err != nil {
		s.Fatal(err)
	}
}

// routes has an event's job for the partner ads made, as the routing pipeline makes it.
func (s *stage) routes() {
	s.Helper()
	m := s.Takes(delivery.Standard)
	job := &tidemill.Message{ID: delivery.JobOf(m.ID, "ads"), To: delivery.QueueOf("ads"), Tenant: m.Tenant, Type: m.Type, Payload: m.Payload, Priority: 1}
	s.Adds(job)
	s.Ends(delivery.Standard, m, tidemill.Settlement{End: tidemill.Done, Fate: tidemill.Delivered})
}

const id = "5b8f3c1e-2f7a-4c7e-9d51-0c3f6f1f0a01"

// TestEachStateOfAnEventIsExplained: the texts are what people read.
func TestEachStateOfAnEventIsExplained(t *testing.T) {
	told := func(state, fate string, do func(*stage)) answertest.Told {
		return answertest.Told{State: state, Fate: fate, Of: func(t *testing.T) (answer.Finder, string, string) {
			s := newStage(t)
			s.sends("shop", id, "")
			do(s)
			return s, "shop", strings.ToUpper(id) // as it may stand in somebody's log
		}}
	}
	routed := func(state, fate string, do func(*stage, *tidemill.Message)) answertest.Told {
		return told(state, fate, func(s *stage) { s.routes(); do(s, s.Takes(ads)) })
	}
	answertest.Tells(t, "testdata/explain.golden", []answertest.Told{
		told("queued", api.FateInFlight, func(*stage) {}),
		told("queued, and the queue is paused", api.FateInFlight, func(s *stage) { s.Sets(delivery.Standard, func(q *queue.Settings) { q.Paused = true }) }),
		told("being routed", api.FateInFlight, func(s *stage) { s.Takes(delivery.Standard) }),
		told("for no partner", api.FateSkipped, func(s *stage) {
			s.Ends(delivery.Standard, s.Takes(delivery.Standard), tidemill.Settlement{End: tidemill.Done, Fate: tidemill.Skipped, Cause: delivery.NoRoute})
		}),
		told("not routable", api.FateDead, func(s *stage) {
			s.Dies(delivery.Standard, s.Takes(delivery.Standard), tidemill.Validation, "the event is no object")
		}),
		told("waiting for a partner", api.FateInFlight, func(s *stage) { s.routes() }),
		routed("being sent", api.FateInFlight, func(*stage, *tidemill.Message) {}),
		routed("tried again later", api.FateInFlight, func(s *stage, m *tidemill.Message) {
			s.Ends(ads, m, tidemill.Settlement{End: tidemill.Again, After: 12 * time.Second, CountTry: true, Kind: tidemill.Partner, Cause: "answered 503"})
		}),
		routed("delivered", api.FateDelivered, func(s *stage, m *tidemill.Message) {
			s.Ends(ads, m, tidemill.Settlement{End: tidemill.Done, Fate: tidemill.Delivered})
		}),
		routed("given up by a partner", api.FateDead, func(s *stage, m *tidemill.Message) {
			s.Dies(ads, m, tidemill.Business, "answered 400 \x1b[2J")
		}),
		routed("replayed", api.FateInFlight, func(s *stage, m *tidemill.Message) {
			s.Dies(ads, m, tidemill.Business, "answered 400")
			if n, err := s.Letters.Replay(s.Context(), deadletter.Filter{Pipeline: ads}); n != 1 || err != nil {
				s.Fatal(n, err)
			}
		}),
	})
}

func TestWhatIsFoundByItsID(t *testing.T) {
	s := newStage(t)
	s.sends("shop", id, "o/1 ✓𝄞")
	s.sends("other", id, "")
	for _, c := range []struct{ id, owner, want string }{
		{id, "", "queues of events: event " + id + " of shop, queues of events: event " + id + " of other, ids of events at the ingest API: event " + id + " of shop, ids of events at the ingest API: event " + id + " of other"},
		{strings.ToUpper(id), "other", "queues of events: event " + id + " of other, ids of events at the ingest API: event " + id + " of other"},
		{id + "/ads", "shop", "queues of events: event " + id + " of shop, ids of events at the ingest API: event " + id + " of shop"},
		{"o/1 ✓𝄞", "", "orders: order " + id + " of shop"},
		{"ads", "", "partners: partner ads of "},
		{"shop", "", "sites: owner shop of shop"},
		{"nobody", "", ""},
		{strings.Repeat("𝄞/ ", 100), "", ""},
		{"\x00\xff", "", ""},
	} {
		if got := strings.Join(answertest.Found(t, s, c.id, c.owner), ", "); got != c.want {
			t.Errorf("%q of %q:\n%s\nwant\n%s", c.id, c.owner, got, c.want)
		}
	}
}

// broken is a ledger that is away.
type broken struct{ ledger.Store }

var errAway = &tidemill.Error{Kind: tidemill.Transient, Err: errors.New("the ledger is away")}

func (broken) Find(_ context.Context, _ []*ledger.Entry) error { return errAway }

func TestAPartThatIsAwayIsSaidAndTheOthersStay(t *testing.T) {
	s := newStage(t)
	s.sends("shop", id, "")
	var err error
	if s.Accept, err = accept.New(broken{tableledger.Memory(tableledger.Options{})}, s.Stage.Queues, accept.Options{}); err != nil {
		t.Fatal(err)
	}
	x, err := s.Explain(t.Context(), "shop", id)
	if err != nil {
		t.Fatal(err)
	}
	if len(x.Failed) != 1 || x.Failed[0].Why != errAway.Error() || x.Fate != api.FateInFlight {
		t.Errorf("%+v", x)
	}
	if !strings.Contains(x.Text(), "could not be asked\n  ids of events at the ingest API: the ledger is away") {
		t.Errorf("the text does not say so: %s", x.Text())
	}
}

func TestWhatNobodyKnowsIsNotFound(t *testing.T) {
	s := newStage(t)
	for _, id := range []string{"none", strings.Repeat("x", 300), "a/b c𝄞", "\xff"} {
		_, err := s.Explain(t.Context(), "shop", id)
		if p, ok := errors.AsType[*operation.Problem](err); !ok || p.Status != http.StatusNotFound {
			t.Errorf("%q: %v", id, err)
		}
	}
}
