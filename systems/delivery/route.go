package delivery

import (
	"context"
	"strconv"
	"strings"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

// Reasons of events that no partner gets.
const (
	NoRoute   = "no_route" // none wants it
	NoConsent = "consent"  // none may have it
)

// routes makes the pipelines that turn each event into a job for each of its partners, one
// for each queue of the door, and their replays.
func (s *System) routes() ([]*flow.Engine, error) {
	var all []*flow.Engine
	work := flow.Steps[routed]{Decode: s.decode, Stages: []flow.Stage[routed]{{Name: "route", Do: s.route, Repeat: true}}}.Lane
	for i, door := range Doors() {
		p := s.pipeline(door, s.open(door, 0, false), uint64(i))
		p.Work, p.Dead = work, s.p.Letters
		p.Lanes, p.Batch, p.Runs = s.o.Workers, s.o.Batch, s.o.Batch
		if !p.Source.Traits().Forwards {
			p.Emits = queue.Sink(s.p.Queues)
		}
		e, err := flow.New(p)
		if err != nil {
			return nil, err
		}
		again := s.pipeline(ReplayOf(door), s.p.Letters.Open(door), uint64(len(Doors())+i))
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

// route emits a job for each partner that is to have the event. What is emitted becomes
// durable in the same stroke as the event's own end, or before it under names that are
// known then: no partner's job is lost or doubled by a crash.
func (s *System) route(_ context.Context, batch []*flow.Item[routed]) error {
	for _, it := range batch {
		s.fanOut(it)
	}
	return nil
}

func (s *System) fanOut(it *flow.Item[routed]) {
	e := it.Value.event
	wanted := s.match(it.Tenant, e, string(it.Get(GPCHeader)) == "1", func(t *target, err error) {
		j := s.job(&it.Message, t)
		if err != nil { // its own failure, and nobody else's
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

// match calls to with each partner that is to have an event, and with the error of one whose condition
// could not say. It returns whether any partner wants the event, also one that may not have it.
func (s *System) match(site string, e *partner.Event, gpc bool, to func(*target, error)) (wanted bool) {
	may := s.may(site, e, gpc)
	for _, t := range s.targets {
		takes, err := t.Route.Takes(e)
		wanted = wanted || takes || err != nil
		if (takes || err != nil) && may && vendorMay(e, t.Route.Vendor) {
			to(t, err)
		}
	}
	return wanted
}

// Matching names the partners that an event of a site would be sent to now, by its bytes and by
// whether the request that brought it said Sec-GPC.
func (s *System) Matching(site, id string, raw []byte, gpc bool) ([]string, error) {
	e, err := partner.ReadEvent(&tidemill.Message{Tenant: site, Payload: raw}, id)
	if err != nil {
		return nil, err
	}
	var names []string
	s.match(site, e, gpc, func(t *target, _ error) { names = append(names, t.Name) })
	return names, nil
}

// UndecidedHeader marks the job of an event of which a partner's condition could not say
// whether it is for that partner. It is asked again before the job is sent, and makes a dead
// letter of that partner's where it fails again: other partners have the event by then, and
// a replay after the condition was mended decides anew.
const UndecidedHeader = "undecided"

var undecided = tidemill.Field{Name: []byte(UndecidedHeader), Value: []byte("1")}

// decideLate ends the jobs that are undecided, but for those that are to be sent after all.
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

// job is what a partner's queue gets of an event: the same bytes under a name of both.
func (s *System) job(m *tidemill.Message, t *target) *tidemill.Message {
	j := &tidemill.Message{ID: JobOf(m.ID, t.Name), To: t.place(), Tenant: m.Tenant, Type: m.Type, Key: m.Key, Payload: m.Payload, Time: m.Time, Priority: max(m.Priority, urgency(m.To))}
	for _, f := range m.Header {
		if name := string(f.Name); name != queue.FailuresHeader { // those are of the routing
			j.Header = append(j.Header, f)
		}
	}
	if t.maxAge(m) > 0 {
		j.Header = append(j.Header, tidemill.Field{Name: []byte(QueuedHeader), Value: strconv.AppendInt(nil, s.o.Now().UnixMilli(), 10)})
	}
	return j
}

// urgency is the priority of jobs by the door's queue that their event waited in: purchases
// and conversions go before page views to a partner too, and batches come last, by weight.
func urgency(door string) uint8 {
	switch door {
	case High:
		return 2
	case Standard:
		return 1
	}
	return 0
}

// JobOf names the job of an event for a partner, and EventOf finds the event's name in it:
// partners are told that one, by which they de-duplicate.
func JobOf(event, partner string) string { return event + "/" + partner }

// EventOf is the name of the event that a partner's job is of.
func EventOf(m *tidemill.Message) string {
	if i := strings.LastIndexByte(m.ID, '/'); i >= 0 {
		return m.ID[:i]
	}
	return m.ID
}
