package analyticsapi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/analytics"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// Finder finds and explains what analytics has by its ids.
type Finder struct {
	*answer.Common
	Persons person.Store
	Events  warehouse.Reader
	Letters deadletter.Store
	Queues  queue.Store // that events wait in; nil: they wait in a stream or topic, which knows none by its id
	Now     func() time.Time
}

// projectsTried is in how many projects something is looked for whose project is not said: each costs
// a few questions.
const projectsTried = 50

// Lookups implements answer.Finder.
func (f *Finder) Lookups(id, owner string) []answer.Lookup {
	each := func(where string, do func(context.Context, project.Project) ([]api.Thing, error)) answer.Lookup {
		return answer.Lookup{Where: where, Do: func(ctx context.Context) (hits []api.Thing, err error) {
			all, err := f.projects(ctx, owner)
			for _, p := range all {
				var more []api.Thing
				if err == nil {
					more, err = do(ctx, p)
				}
				hits = append(hits, more...)
			}
			return hits, err
		}}
	}
	waiting := answer.Lookup{Where: "events that wait", Not: "a stream or topic does not find an event by its id"}
	if f.Queues != nil {
		waiting = each("events that wait", func(ctx context.Context, p project.Project) ([]api.Thing, error) {
			j, err := f.job(ctx, p.ID, event.IDOf(p.ID, id))
			if j == nil || err != nil {
				return nil, err
			}
			return []api.Thing{eventHit(p.Name, event.IDOf(p.ID, id), j.Type)}, nil
		})
	}
	return []answer.Lookup{
		each("warehouse", func(ctx context.Context, p project.Project) ([]api.Thing, error) {
			e, err := f.Events.Find(ctx, p.ID, event.IDOf(p.ID, id))
			if errors.Is(err, warehouse.ErrUnknown) {
				return nil, nil
			} else if err != nil {
				return nil, err
			}
			return []api.Thing{eventHit(p.Name, e.ID, e.Name)}, nil
		}),
		waiting,
		each("dead letters of events", func(ctx context.Context, p project.Project) ([]api.Thing, error) {
			l, err := f.letter(ctx, p.ID, event.IDOf(p.ID, id))
			if l == nil || err != nil {
				return nil, err
			}
			return []api.Thing{eventHit(p.Name, event.IDOf(p.ID, id), l.Type)}, nil
		}),
		each("persons", func(ctx context.Context, p project.Project) ([]api.Thing, error) { return f.person(ctx, p, id) }),
	}
}

// projects are those that something is looked for in.
func (f *Finder) projects(ctx context.Context, owner string) ([]project.Project, error) {
	if owner != "" {
		id, err := f.Find(ctx, owner)
		if err != nil {
			return nil, answer.Answerable(err)
		}
		names, err := f.ProjectNames(ctx)
		return []project.Project{{ID: id, Name: names[id]}}, err
	}
	all, err := f.Projects.List(ctx)
	if err == nil && len(all) > projectsTried {
		return nil, fmt.Errorf("there are %d projects, and it is looked for in at most %d at once: say which project", len(all), projectsTried)
	}
	return all, err
}

// job is an event's own, in either queue; nil: neither has it (any more).
func (f *Finder) job(ctx context.Context, p, id uuid.UUID) (*queue.Job, error) {
	for _, name := range []string{analytics.Name, analytics.OverflowName} {
		j, err := f.Queues.Look(ctx, queue.Name{Queue: name, Tenant: p.String(), ID: id.String()})
		if err == nil || !errors.Is(err, queue.ErrNotFound) {
			return j, err
		}
	}
	return nil, nil
}

// letter is an event's dead letter; nil: it has none.
func (f *Finder) letter(ctx context.Context, p, id uuid.UUID) (*deadletter.Letter, error) {
	for l, err := range f.Letters.List(ctx, deadletter.Filter{Pipeline: analytics.Name, Tenant: p.String(), IDs: []string{id.String()}, Max: 1}) {
		return l, err
	}
	return nil, nil
}

// person is one of that distinct id, or of that id of its own.
func (f *Finder) person(ctx context.Context, p project.Project, id string) ([]api.Thing, error) {
	who, err := f.Persons.Show(ctx, person.Ref{Project: p.ID, Distinct: id})
	if own, bad := uuid.Parse(id); bad == nil && errors.Is(err, person.ErrUnknown) {
		who, err = f.Persons.ShowID(ctx, p.ID, own)
	}
	if errors.Is(err, person.ErrUnknown) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return []api.Thing{personHit(p.Name, who)}, nil
}

func eventHit(project string, id uuid.UUID, name string) api.Thing {
	return answer.EventHit(analytics.Name, "event", project, id.String(), fmt.Sprintf("event %s of project %s", name, project))
}

// personHit is a person, who is shown by one of their distinct ids.
func personHit(project string, who *person.Person) api.Thing {
	h := api.Thing{Kind: "person", System: analytics.Name, Owner: project, ID: who.ID.String(), Operation: GetPerson.ID, Parameters: map[string]string{"project": project},
		Text: fmt.Sprintf("person of project %s with %s", project, answer.Many(len(who.Distinct), "distinct id", "distinct ids"))}
	if len(who.Distinct) > 0 {
		h.Parameters["distinct_id"] = who.Distinct[0]
	}
	return h
}
