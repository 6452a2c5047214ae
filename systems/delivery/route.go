package delivery

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

// Reasons of events that go to no partner.
const (
	NoRoute   = "no_route" // no partner wants it
	NoConsent = "consent"  // no partner may have it
)

// routes makes the pipelines that turn each event into a job for each of its partners, one for
// each queue of the ingest API, and their replays.
func (s *System) routes() ([]*flow.Engine, error) {
	var all []*flow.Engine
	work := flow.Steps[routed]{Decode: s.decode, Stages: []flow.Stage[routed]{{Name: "route", Do: s.route, Repeat: true}}}.Lane
	for _, endpoint := range EventQueues() {
		p := s.pipeline(s.sources, endpoint, s.open(endpoint, 0, false))
		p.Work, p.Dead = work, s.p.DeadLetters
		p.Lanes, p.Batch, p.Runs = s.o.Workers, s.o.Batch, s.o.Batch
		if !p.Source.Traits().Forwards {
			p.Emits = queue.Sink(s.p.Queues)
		}
		e, err := flow.New(p)
		if err != nil {
			return nil, err
		}
		again := s.pipeline(s.sources, ReplayOf(endpoint), s.p.DeadLetters.Open(endpoint))
		again.Work, again.Lanes, again.Batch, again.Emits = work, 1, s.o.Batch, queue.Sink(s.p.Queues)
		r, err := flow.New(again)
		if err != nil {
			return nil, err
		}
		all = append(all, e, r)
	}
	return all, nil
}

// routed is an event with its questions.
type routed struct{ event *partner.Event }

func (s *System) decode(m *tidemill.Message, r *routed) (err error) {
	r.event, err = partner.ReadEvent(m, m.ID)
	return err
}

// route emits a job for each partner that the event is for. The jobs become durable in the same
// transaction as the event's own end, or before it under names that the queues then know: a
// crash neither loses nor doubles a partner's job.
func (s *System) route(_ context.Context, batch []*flow.Item[routed]) error {
	for _, it := range batch {
		s.fanOut(it)
	}
	return nil
}

func (s *System) fanOut(it *flow.Item[routed]) {
	e := it.Value.event
	wanted := s.match(it.Tenant, e, saidGPC(&it.Message), func(t *target, err error) {
		j := s.job(&it.Message, t)
		if err != nil { // a failure of this partner's condition alone
			j.Header = append(j.Header, undecided)
		}
		it.Emit(j)
	})
	switch {
	case len(it.Emitted()) > 0:
		it.Deliver()
	case !wanted:
		it.Skip(NoRoute)
	default:
		it.Skip(NoConsent)
	}
}

// saidGPC is whether the request of an event said Sec-GPC.
func saidGPC(m *tidemill.Message) bool { return string(m.Get(GPCHeader)) == "1" }

// match calls to with each partner that the event is for, and with the error of a condition
// that failed. It reports whether any partner wants the event, even one that may not have it.
func (s *System) match(site string, e *partner.Event, gpc bool, to func(*target, error)) (wanted bool) {
	may := s.may(site, e, gpc)
	for _, t := range s.now().targets {
		takes, err := t.Route.Takes(e)
		wanted = wanted || takes || err != nil
		if (takes || err != nil) && may && vendorMay(e, t.Route.Vendor) {
			to(t, err)
		}
	}
	return wanted
}

// Matching names the partners that an event of a site would be sent to now, by its bytes and by
// whether its request said Sec-GPC.
func (s *System) Matching(site, id string, raw []byte, gpc bool) ([]string, error) {
	e, err := partner.ReadEvent(&tidemill.Message{Tenant: site, Payload: raw}, id)
	if err != nil {
		return nil, err
	}
	var names []string
	s.match(site, e, gpc, func(t *target, _ error) { names = append(names, t.Name) })
	return names, nil
}

// UndecidedHeader marks the job of an event whose partner's condition failed. The condition is
// asked again before the job is sent. If it fails again, the job becomes a dead letter of that
// partner. The other partners have the event by then, and a replay after the condition was
// mended decides anew.
const UndecidedHeader = "undecided"

var undecided = tidemill.Field{Name: []byte(UndecidedHeader), Value: []byte("1")}

// decideLate ends the undecided jobs, except those that are to be sent after all.
func (t *target) decideLate(_ context.Context, batch []*flow.Item[struct{}]) error {
	for _, it := range batch {
		if it.Get(UndecidedHeader) == nil {
			continue
		}
		e, err := partner.ReadEvent(&it.Message, EventOf(&it.Message))
		takes := false
		if err == nil {
			takes, err = t.Route.Takes(e)
		}
		switch {
		case err != nil:
			it.Fail(err)
		case !takes:
			it.Skip(NoRoute)
		}
	}
	return nil
}

// job is the job of an event for a partner: the same bytes under a name made of both.
func (s *System) job(m *tidemill.Message, t *target) *tidemill.Message {
	j := &tidemill.Message{ID: JobOf(m.ID, t.Name), To: t.place(), Tenant: m.Tenant, Type: m.Type, Key: m.Key, Payload: m.Payload, Time: m.Time, Priority: max(m.Priority, urgency(m.To)),
		Header: slices.Clone(queue.Sent(m))} // its failures are those of routing
	if t.maxAge(m) > 0 {
		j.Header = append(j.Header, tidemill.Field{Name: []byte(QueuedHeader), Value: strconv.AppendInt(nil, s.o.Now().UnixMilli(), 10)})
	}
	return j
}

// urgency is the priority of a job by the queue that its event waited in. Purchases and
// conversions go before page views to a partner too. Batches come last, by weight.
func urgency(endpoint string) uint8 {
	switch endpoint {
	case High:
		return 2
	case Standard:
		return 1
	}
	return 0
}

// JobOf names the job of an event for a partner. EventOf finds the event's name in it: partners
// get that name, and de-duplicate by it.
func JobOf(event, partner string) string { return event + "/" + partner }

// EventOf is the name of the event of a partner's job.
func EventOf(m *tidemill.Message) string {
	if i := strings.LastIndexByte(m.ID, '/'); i >= 0 {
		return m.ID[:i]
	}
	return m.ID
}
