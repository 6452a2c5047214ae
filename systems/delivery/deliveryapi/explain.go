package deliveryapi

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/delivery"
)

// ingest is where events come in.
const ingest = "ingest API"

// life is the story of an event, while it is told.
type life struct {
	*answer.Story
	f     *Finder
	event *delivery.EventStatus
	bytes *tidemill.Message // the event's bytes, of any job; nil: nobody has them any more
	open  int               // partners that do not have it yet
	dead  int
	done  int // that have it
}

// Explain implements answer.Finder.
func (f *Finder) Explain(ctx context.Context, site, id string) (api.Explanation, error) {
	id, _ = f.split(id)
	if sites := f.Sites(); site == "" && len(sites) == 1 {
		site = sites[0]
	}
	s := &life{Story: answer.NewStory(delivery.Name, "event", site, id, f.Now()), f: f}
	s.received(ctx)
	routed, known, err := f.Delivery.Routing(ctx, site, id)
	if s.event = routed; s.Asked("queues of events", err) && known {
		s.routing(ctx)
	}
	names := f.Delivery.PartnerNames()
	var has []string
	for _, name := range names {
		p, err := f.Delivery.Delivering(ctx, routed, name)
		if s.Asked("queue of partner "+name, err) && p != nil {
			has = append(has, name)
			s.partner(ctx, p)
		}
	}
	s.Type = routed.Type
	s.passedOver(has)
	s.fate(has)
	return s.Tell()
}

// received says how the event came in.
func (s *life) received(ctx context.Context) {
	rs, err := s.f.Accept.Event(ctx, s.ID, []string{s.Owner})
	if !s.Asked("ids of events at the ingest API", err) {
		return
	}
	switch {
	case len(rs) == 0:
		s.Forgot("how it came in: the ingest API remembers the ids of accepted events for %s. Of a duplicate by its order it keeps the answer to its request, and not its id", answer.Long(s.f.Accept.Keep()))
	case rs[0].Job == "":
		s.Step(rs[0].At, "accepted", ingest, "it came in, and is being accepted")
	default:
		s.Step(rs[0].At, "accepted", ingest, "it came in, and was accepted")
	}
}

// routing says how the event was routed.
func (s *life) routing(ctx context.Context) {
	e := s.event
	if j := e.Job; j != nil {
		s.bytes = &j.Message
		s.Step(j.Added, "queued", e.Queue, fmt.Sprintf("it was queued for routing, priority %d", j.Priority), answer.JobHit(delivery.Name, e.Queue, e.Site, e.ID, "its job in "+e.Queue))
		if e.Letter == nil {
			s.Tried(e.Queue, j.Failures)
		}
		switch {
		case j.State.Held() && e.Letter == nil && slices.Contains(s.f.Delivery.Full(), e.Queue):
			s.Step(time.Time{}, "waiting", e.Queue, "it waits: "+e.Why)
		case j.State.Held() && e.Letter == nil:
			s.Waiting(ctx, s.f.Queues, j)
		case j.Fate == tidemill.Skipped:
			s.Step(j.Ended, "skipped", e.Queue, "it goes to no partner: "+skipWords(j.Cause))
		case j.Fate == tidemill.Delivered:
			s.Step(j.Ended, "routed", e.Queue, "it was routed to its partners")
		}
	} else {
		s.Forgot("its job in %s: ended jobs are kept as long as delivery.kept and delivery.kept_for say", e.Queue)
	}
	if e.Letter != nil {
		s.bytes = &e.Letter.Message
		s.Letter(e.Letter)
	}
}

// skipWords are why an event goes to nobody.
func skipWords(why string) string {
	switch why {
	case delivery.NoRoute:
		return "no partner's condition takes it (no_route)"
	case delivery.NoConsent:
		return "there is no consent to pass it on (consent)"
	}
	return why
}

// partner says what became of the event for a partner.
func (s *life) partner(ctx context.Context, p *delivery.PartnerStatus) {
	where := delivery.QueueOf(p.Partner)
	hit := partnerHit(p.Partner)
	if j := p.Job; j != nil {
		if s.bytes == nil {
			s.bytes = &j.Message
		}
		s.Step(j.Added, "routed", where, "a job for partner "+p.Partner+" was queued", hit, answer.JobHit(delivery.Name, j.To, j.Tenant, j.ID, "its job in "+j.To))
		if p.Letter == nil {
			s.Tried(where, j.Failures)
		}
	}
	if p.Letter != nil {
		if s.bytes == nil {
			s.bytes = &p.Letter.Message
		}
		s.Letter(p.Letter)
	}
	s.stands(p, where)
}

// stands says how the event stands with a partner.
func (s *life) stands(p *delivery.PartnerStatus, where string) {
	because := ""
	if p.Why != "" {
		because = ": " + p.Why
	}
	switch p.State {
	case delivery.StateWaiting, delivery.StateDelayed:
		s.open++
		s.Step(time.Time{}, "waiting", where, "it waits"+because)
		s.Then(p.Next, "partner %s is tried", p.Partner)
	case delivery.StateSending:
		s.open++
		s.Step(time.Time{}, "running", where, "it is being sent"+because)
		s.Then(time.Time{}, "partner %s answers, or the job is handed out again when its lease is over", p.Partner)
	case delivery.StateDelivered:
		s.done++
		s.Step(p.Ended, "delivered", where, "partner "+p.Partner+" has it"+because)
	case delivery.StateSkipped:
		s.done++
		s.Step(p.Ended, "skipped", where, "partner "+p.Partner+" does not get it: "+skipWords(p.Why))
	case delivery.StateDead:
		s.dead++
		s.Then(time.Time{}, "nothing by itself for partner %s: replay or discard its dead letter", p.Partner)
	case delivery.StateHeld:
		s.dead++
		s.Then(time.Time{}, "nothing by itself: whether partner %s has it is unknown. A replay might deliver it twice: you decide", p.Partner)
	default:
		s.done++
		s.Step(p.Ended, "settled", where, "settled by hand"+because)
	}
}

// passedOver says why the event did not go to the other partners.
func (s *life) passedOver(has []string) {
	if s.bytes == nil {
		s.Forgot("why it did not go to other partners: nobody has the event's bytes any more")
		return
	}
	if s.event.State == delivery.StateQueued || s.event.Letter != nil { // it was not routed yet
		return
	}
	choices, err := s.f.Delivery.Choices(s.bytes, s.ID)
	if err != nil {
		s.Forgot("why it did not go to other partners: %v", err)
		return
	}
	for _, c := range choices {
		if slices.Contains(has, c.Partner) {
			continue
		}
		where := delivery.QueueOf(c.Partner)
		if c.Why != "" {
			s.Step(time.Time{}, "passed_over", where, "partner "+c.Partner+" does not get it: "+c.Why, partnerHit(c.Partner))
			continue
		}
		if s.event.State == delivery.StateSkipped {
			s.Forgot("why partner %s did not get it: it would, by the configuration as it is now", c.Partner)
			continue
		}
		s.Forgot("what became of it for partner %s: it would go there by the configuration as it is now, and the queue of the partner knows nothing of it; queues remember names for at least %s", c.Partner, answer.Long(queue.Remember))
	}
}

// fate says what became of the event as a whole.
func (s *life) fate(has []string) {
	e := s.event
	count := fmt.Sprintf("of %s %d done with it, %d not yet, %d gave up", answer.Many(len(has), "partner", "partners"), s.done, s.open, s.dead)
	switch {
	case e.Letter != nil:
		s.GivenUp(e.Letter, "nothing by itself, it could not be routed: replay or discard the dead letter")
	case e.State == delivery.StateQueued:
		s.Ends(api.FateInFlight, "it waits to be routed to partners")
	case s.open > 0:
		s.Ends(api.FateInFlight, "%s", count)
	case s.dead > 0:
		s.Ends(api.FateDead, "%s", count)
	case e.State == delivery.StateSkipped:
		s.Ends(api.FateSkipped, "it went to no partner, on purpose: %s", skipWords(e.Why))
	case e.State == delivery.StateSettled && len(has) == 0:
		s.Ends(api.FateUnknown, "it was settled by hand: %s", e.Why)
	case len(has) > 0:
		s.Ends(api.FateDelivered, "%s", count)
	}
}
