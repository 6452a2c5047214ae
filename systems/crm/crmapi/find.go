package crmapi

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/crm"
)

// Finder finds and explains what CRM has by its ids.
type Finder struct {
	CRM     *crm.System
	Queues  queue.Store
	Tenants func(context.Context) ([]string, error) // those that are configured
	Now     func() time.Time
}

// Lookups implements answer.Finder.
func (f *Finder) Lookups(id, owner string) []answer.Lookup {
	return []answer.Lookup{
		{Where: "sync log and queue", Do: func(ctx context.Context) ([]api.Thing, error) {
			tenants, err := f.tenants(ctx, owner)
			if err != nil {
				return nil, err
			}
			having, err := f.CRM.Having(ctx, id, tenants)
			return events(id, having), err
		}},
		{Where: "dead letters of events", Do: func(ctx context.Context) ([]api.Thing, error) {
			dying, err := f.CRM.Dying(ctx, id)
			if owner != "" {
				dying = slices.DeleteFunc(dying, func(t string) bool { return t != owner })
			}
			return events(id, dying), err
		}},
		{Where: "external ids of profiles", Do: func(ctx context.Context) ([]api.Thing, error) { return f.profiles(ctx, id, owner) }},
		{Where: "tenants", Do: func(ctx context.Context) ([]api.Thing, error) {
			all, err := f.Tenants(ctx)
			if err != nil || !slices.Contains(all, id) {
				return nil, err
			}
			return []api.Thing{{Kind: "owner", System: crm.Name, Owner: id, ID: id, Text: "tenant " + id, Operation: ListSyncLog.ID, Parameters: map[string]string{"tenant": id}}}, nil
		}},
		{Where: "replays", Do: func(ctx context.Context) ([]api.Thing, error) {
			p, err := f.CRM.ReplayOf(ctx, id)
			if err != nil {
				return nil, err
			}
			return []api.Thing{{Kind: "replay", System: crm.Name, ID: id, Text: fmt.Sprintf("replay of the sync log, %s, asked for %s", p.State, p.Asked.UTC().Format(time.RFC3339)), Operation: GetReplay.ID, Parameters: map[string]string{"id": id}}}, nil
		}},
	}
}

// tenants are those for which an event is looked for.
func (f *Finder) tenants(ctx context.Context, owner string) ([]string, error) {
	if owner != "" {
		return []string{owner}, nil
	}
	all, err := f.Tenants(ctx)
	if err == nil && len(all) > answer.MostOwners {
		return nil, fmt.Errorf("there are %d tenants, and it is looked for in at most %d at once: say which tenant", len(all), answer.MostOwners)
	}
	return all, err
}

func events(id string, tenants []string) (hits []api.Thing) {
	for _, t := range tenants {
		hits = append(hits, answer.EventHit(crm.Name, "event", t, id, "event of tenant "+t))
	}
	return hits
}

// profilesTried is of how many tenants a profile is looked for: each costs a question.
const profilesTried = 20

func (f *Finder) profiles(ctx context.Context, id, owner string) (hits []api.Thing, err error) {
	tenants, err := f.tenants(ctx, owner)
	if err == nil && len(tenants) > profilesTried {
		err = fmt.Errorf("there are %d tenants, and a profile is looked for in at most %d: say which tenant", len(tenants), profilesTried)
	}
	for _, t := range tenants {
		if err != nil {
			break
		}
		p, perr := f.CRM.Profile(ctx, t, profile.Identity{Kind: profile.External, Value: id})
		switch kind := tidemill.KindOf(perr); {
		case perr == nil:
			hits = append(hits, api.Thing{Kind: "profile", System: crm.Name, Owner: t, ID: p.ID.String(), Text: "profile of tenant " + t + " with that external id", Operation: GetProfile.ID, Parameters: map[string]string{"tenant": t, "externalId": id}})
		case kind != tidemill.NotFound && kind != tidemill.Validation: // nobody may be called so
			err = perr
		}
	}
	return hits, err
}

// Explain implements answer.Finder.
func (f *Finder) Explain(ctx context.Context, tenant, id string) (api.Explanation, error) {
	if tenant == "" {
		if all, err := f.Tenants(ctx); err == nil && len(all) == 1 {
			tenant = all[0]
		}
	}
	s := &life{Story: answer.NewStory(crm.Name, "event", tenant, id, f.Now()), f: f}
	var err error
	if s.job, err = f.CRM.Queued(ctx, tenant, id); s.Asked("queue", err) {
		s.queued(ctx)
	}
	if s.letter, err = f.CRM.Died(ctx, tenant, id); s.Asked("dead letters", err) && s.letter != nil {
		s.Type = s.letter.Type
		s.Letter(s.letter)
	}
	if s.record, err = f.CRM.Recorded(ctx, tenant, id); s.Asked("sync log", err) {
		s.recorded()
	}
	if s.record != nil || s.letter != nil {
		later, err := f.CRM.Later(ctx, tenant, id, s.letter)
		if s.Asked("jobs of replays", err) {
			s.again(ctx, later)
		}
	}
	s.fate()
	return s.Tell()
}

// life is the story of an event, while it is told.
type life struct {
	*answer.Story
	f      *Finder
	record *crm.Record
	job    *queue.Job
	letter *deadletter.Letter
	open   bool // a later job has not ended
}

// queued says what its own job tells.
func (s *life) queued(ctx context.Context) {
	j := s.job
	if j == nil {
		s.Forgot("its job: the queue keeps ended jobs as crm.kept_completed and crm.kept_failed say, and remembers their names for at least %s", answer.Long(queue.Remember))
		return
	}
	s.Type = j.Type
	s.Step(j.Added, "accepted", "queue "+crm.Queue, fmt.Sprintf("it came in and was queued, priority %s", priorityNames[j.Priority]), answer.JobHit(crm.Name, j.To, j.Tenant, j.ID, "its job"))
	s.Tried("queue "+crm.Queue, j.Failures)
	switch {
	case j.State.Held():
		s.Waiting(ctx, s.f.Queues, j)
	case j.Fate == tidemill.Skipped:
		s.Step(j.Ended, "skipped", "queue "+crm.Queue, "nothing was to be done: "+j.Cause)
	}
}

// recorded says what the sync log tells.
func (s *life) recorded() {
	r := s.record
	if r == nil {
		s.Forgot("what the sync log had of it, if anything: it keeps events that have ended for %s", answer.Long(s.f.CRM.LogFor()))
		return
	}
	s.Type = r.Type
	const log = "sync log"
	hit := api.Thing{Kind: "event", System: crm.Name, Owner: r.Tenant, ID: r.ID, Text: "its record in the sync log", Operation: GetCRMEvent.ID, Parameters: map[string]string{"tenant": r.Tenant, "id": r.ID}}
	s.Step(r.Created, "record", log, "it was first taken up"+s.handled(r.Type), hit)
	if r.Attempts > 1 {
		s.Step(r.Started, "record", log, fmt.Sprintf("it was begun for the %d. time", r.Attempts))
	}
	switch r.State {
	case crm.IsCompleted:
		s.Step(r.Completed, "delivered", log, "completed: its handler has taken it")
	case crm.IsFailed:
		s.Step(r.Failed, "tried", log, fmt.Sprintf("failed, %s: %s", r.Kind, r.Error))
	}
}

// handled names who handles a type.
func (s *life) handled(typ string) string {
	if name := s.f.CRM.HandlerOf(typ); name != "" {
		return ", by handler " + name
	}
	return "; no handler is for its type"
}

// again says what its later jobs tell.
func (s *life) again(ctx context.Context, jobs []*queue.Job) {
	for _, j := range jobs {
		what := "a retry of its dead letter was queued"
		var related []api.Thing
		if r := crm.RequestOf(&j.Message); r != "" {
			what = "replay " + r + " queued it again"
			related = append(related, api.Thing{Kind: "replay", System: crm.Name, ID: r, Text: "replay " + r, Operation: GetReplay.ID, Parameters: map[string]string{"id": r}})
		}
		s.Step(j.Added, "replaying", "queue "+crm.Queue, what, append(related, answer.JobHit(crm.Name, j.To, j.Tenant, j.ID, "the later job"))...)
		s.Tried("queue "+crm.Queue, j.Failures)
		if j.State.Held() {
			s.open = true
			s.Waiting(ctx, s.f.Queues, j)
		}
	}
}

// fate says what became of it.
func (s *life) fate() {
	held := s.job != nil && s.job.State.Held()
	switch r := s.record; {
	case s.open:
		s.Ends(api.FateInFlight, "it is being handled again")
	case r != nil && r.State == crm.IsCompleted:
		s.Ends(api.FateDelivered, "its handler has taken it")
	case s.letter != nil:
		s.GivenUp(s.letter, "nothing by itself: retry the event, or discard its dead letter")
	case held && r != nil && s.job.State == queue.Leased:
		s.Ends(api.FateInFlight, "a handler has it")
	case held && r != nil:
		s.Ends(api.FateInFlight, "it was taken up, and is tried again")
	case held:
		s.Ends(api.FateInFlight, "it waits for its turn")
	case r != nil && r.Kind == "skipped":
		s.Ends(api.FateSkipped, "nothing was to be done: %s", r.Error)
	case r != nil && r.State == crm.IsFailed:
		s.Ends(api.FateDead, "it failed for good: %s", r.Kind)
	case s.job != nil && s.job.Fate == tidemill.Skipped:
		s.Ends(api.FateSkipped, "nothing was to be done: %s", s.job.Cause)
	case s.job != nil && s.job.Fate == tidemill.Delivered:
		s.Ends(api.FateDelivered, "its handler has taken it")
	case s.job != nil:
		s.Ends(api.FateDead, "it died, and its dead letter is gone: it was discarded")
	case r != nil:
		s.Ends(api.FateInFlight, "a handler has it")
	}
}
