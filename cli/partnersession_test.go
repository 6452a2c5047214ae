package cli

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/delivery"
)

// partners are dv360, in trouble, and yahoo, of which nothing is known.
type partners struct{ open bool }

func (p *partners) Event(_ context.Context, site, id string) (*delivery.EventStatus, error) {
	e := &delivery.EventStatus{ID: id, Site: site, Type: "purchase", Received: day, Queue: "ingest.high", State: id}
	switch {
	case site != "shop":
		return nil, tidemill.Fail(tidemill.NotFound, "event: %w", queue.ErrNotFound)
	case id == "queued":
		e.Why = "queue ingest.high is paused"
	case id == "done":
	case id == "skipped":
		e.Why = "consent"
	case id == "settled":
		e.Why = "its dead letter was discarded"
	case id == "dead":
		e.Why = "validation: no\x1b[2J"
	default:
		tried := []queue.Failure{{At: day, Kind: tidemill.Partner, Cause: "answered 503\x1b[2J"}, {At: day.Add(time.Second), Kind: tidemill.Timeout, Cause: "no answer"}}
		e.State, e.Partners = "delivering", []delivery.PartnerStatus{
			{Partner: "a", State: delivery.StateWaiting, Why: "the circuit is open until 2026-03-01T12:00:30Z: 5 failures in a row"},
			{Partner: "b", State: delivery.StateDelayed, Why: "it is tried again at 2026-03-01T12:01:00Z, after: no answer", Tries: 2, Next: day.Add(time.Minute), Attempts: tried},
			{Partner: "c", State: delivery.StateSending},
			{Partner: "d", State: delivery.StateDelivered, Ended: day, Tries: 1, Attempts: tried[:1]},
			{Partner: "e", State: delivery.StateSkipped, Why: "no_route"},
			{Partner: "f", State: delivery.StateDead, Why: "validation: answered 400", Ended: day, Tries: 1},
			{Partner: "g", State: delivery.StateHeld, Why: "unknown: the line was cut"},
			{Partner: "h", State: delivery.StateSettled, Why: "its dead letter was discarded"},
			{Partner: "i", State: delivery.StateDelayed, Why: "queue s2s.i is paused", Next: day.Add(time.Minute)},
			{Partner: "j", State: delivery.StateDelivered, Why: "by a replay of its dead letter", Ended: day.Add(time.Hour), Tries: 1},
		}
	}
	return e, nil
}

func (p *partners) Partners(context.Context) ([]delivery.PartnerHealth, error) {
	h := delivery.PartnerHealth{Partner: "dv360", SuccessRate: 0.975, P50: 12345 * time.Microsecond, P99: 2 * time.Second, Jobs: queue.Stats{Waiting: 7}, Dead: 3, LastError: "answered 503\x1b[2J", LastSuccessAt: day}
	if p.open {
		h.Circuit, h.Until = policy.Open, day.Add(time.Hour)
	}
	return []delivery.PartnerHealth{h, {Partner: "yahoo", SuccessRate: -1, Paused: true}, {Partner: "amazon", SuccessRate: -1, Until: day.Add(time.Minute)}}, nil
}

func (p *partners) OpenCircuit(_ context.Context, partner string, d time.Duration) error {
	if partner != "dv360" || d != time.Hour {
		return fmt.Errorf("partner %q: %w; there are: dv360", partner, delivery.ErrNoPartner)
	}
	p.open = true
	return nil
}

func (p *partners) CloseCircuit(context.Context, string) error { p.open = false; return nil }
func (p *partners) SwitchOff(context.Context, string) error    { p.open = true; return nil }

func TestASessionAboutPartners(t *testing.T) {
	s := newSession(t)
	s.types("partner list", `
PARTNER  CIRCUIT                                            SUCCESS  P50   P99     QUEUE  DEAD  LAST SUCCESS          LAST ERROR
dv360    closed                                             97.5%    12ms  2000ms  7      3     2026-03-01T12:00:00Z  answered 503`+"<U+001B>"+`[2J
yahoo    closed, paused                                     -        -     -       0      0     -
amazon   closed, asked for less until 2026-03-01T12:01:00Z  -        -     -       0      0     -
`)
	s.types("partner open dv360 --for 1h", "The circuit of dv360 is open until 2026-03-01T13:00:00Z; 7 jobs are in its queue.")
	s.types("partner close dv360", "The circuit of dv360 is closed; 7 jobs are in its queue.")
	s.types("partner close dv360 --json", `~\{"partner":"dv360","circuitState":"closed","successRate":0\.975,.*\}`)
	s.fails("partner open nix", "there are: dv360")
}

func TestASessionAboutAnEvent(t *testing.T) {
	s := newSession(t)
	s.types("event show e1", `
event       e1
site        shop
type        purchase
received    2026-03-01T12:00:00Z
delivering  it was routed to 10 partners; 4 do not have it yet

a  it waits: the circuit is open until 2026-03-01T12:00:30Z: 5 failures in a row
b  it waits: it is tried again at 2026-03-01T12:01:00Z, after: no answer
     try 1 failed 2026-03-01T12:00:00Z: partner_error, answered 503`+"<U+001B>"+`[2J
     try 2 failed 2026-03-01T12:00:01Z: timeout, no answer
c  it is being sent now
d  delivered 2026-03-01T12:00:00Z after 1 failed try
     try 1 failed 2026-03-01T12:00:00Z: partner_error, answered 503`+"<U+001B>"+`[2J
e  not sent, on purpose: no partner's route matches it (no_route)
f  given up 2026-03-01T12:00:00Z after 1 failed try: validation: answered 400
     `+"`tidemill dead show e1/f`"+`
g  it may have arrived, and the partner would count it twice: you decide: unknown: the line was cut
     `+"`tidemill dead show e1/g`"+`
h  settled by hand: its dead letter was discarded
i  it waits: queue s2s.i is paused; its time is 2026-03-01T12:01:00Z
j  delivered 2026-03-01T13:00:00Z after 1 failed try: by a replay of its dead letter
`)
	s.types("event show queued --site shop", `
event     queued
site      shop
type      purchase
received  2026-03-01T12:00:00Z
queued    it waits in ingest.high to be routed to partners: queue ingest.high is paused
`)
	s.types("event show skipped", `
event     skipped
site      shop
type      purchase
received  2026-03-01T12:00:00Z
skipped   it went to no partner, on purpose: there is no consent to pass it on (consent)
`)
	s.types("event show done", `
event     done
site      shop
type      purchase
received  2026-03-01T12:00:00Z
done      nothing is left to do; what became of it at its partners is no longer known
`)
	s.types("event show dead", `
event     dead
site      shop
type      purchase
received  2026-03-01T12:00:00Z
dead      it could not be routed and is a dead letter: validation: no`+"<U+001B>"+`[2J
            `+"`tidemill dead show dead`"+`
`)
	s.types("event show settled", `
event     settled
site      shop
type      purchase
received  2026-03-01T12:00:00Z
settled   settled by hand: its dead letter was discarded
`)
	s.types("event show e1 --json", `~\{"id":"e1","site":"shop",.*\}`)
	s.fails("event show e1 --site blog", "nothing is known of event e1 of site blog")
}
