package analyticsapi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/analytics"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// life is the story of an event, while it is told.
type life struct {
	*answer.Story
	f       *Finder
	project uuid.UUID
	id      uuid.UUID
	job     *queue.Job
	letter  *deadletter.Letter
	row     *event.Event
	nowhere bool // the warehouse says that it has no row
}

// Explain implements answer.Finder. An event may be named as its sender calls it.
func (f *Finder) Explain(ctx context.Context, owner, id string) (api.Explanation, error) {
	p, err := f.ProjectOf(ctx, api.InProject{Project: owner})
	if err != nil {
		return api.Explanation{}, err
	}
	names, err := f.ProjectNames(ctx)
	if err != nil {
		return api.Explanation{}, err
	}
	s := &life{f: f, project: p, id: event.IDOf(p, id)}
	s.Story = answer.NewStory(analytics.Name, "event", names[p], s.id.String(), f.Now())
	s.waited(ctx)
	if s.letter, err = f.letter(ctx, p, s.id); s.Asked("dead letters", err) && s.letter != nil {
		s.Type = s.letter.Type
		s.Letter(s.letter)
	}
	s.row, err = f.Events.Find(ctx, p, s.id)
	if errors.Is(err, warehouse.ErrUnknown) {
		s.nowhere, err = true, nil
	}
	if s.Asked("warehouse", err) {
		s.stored(ctx)
	}
	s.fate()
	return s.Tell()
}

// waited says what its queue tells.
func (s *life) waited(ctx context.Context) {
	if s.f.Queues == nil {
		s.Forgot("whether it waits to be processed: a stream or topic does not find an event by its id")
		return
	}
	j, err := s.f.job(ctx, s.project, s.id)
	if !s.Asked("queue of events", err) {
		return
	}
	if s.job = j; j == nil {
		s.Forgot("its job: the queue forgets jobs when they have ended, and remembers their names for at least %s", answer.Long(queue.Remember))
		return
	}
	s.Type = j.Type
	where := "queue " + j.To
	s.Step(j.Added, "accepted", where, fmt.Sprintf("it came in and was queued, priority %d", j.Priority), answer.JobHit(analytics.Name, j.To, j.Tenant, j.ID, "its job"))
	s.Tried(where, j.Failures)
	switch {
	case j.State.Held():
		s.Waiting(ctx, s.f.Queues, j)
	case j.Fate == tidemill.Skipped:
		s.Step(j.Ended, "skipped", where, j.Cause)
	}
}

// stored says what the warehouse tells, and whose the event is.
func (s *life) stored(ctx context.Context) {
	e := s.row
	if e == nil {
		return
	}
	s.Type = e.Name
	if s.job == nil {
		s.Step(e.IngestedAt, "accepted", "ingest API", "it came in")
	}
	s.Step(time.Time{}, "stored", "warehouse", fmt.Sprintf("its row is there, of the time %s; when it was written is not kept", e.Timestamp.UTC().Format(time.RFC3339)))
	ref := e.Ref()
	who, err := s.f.Persons.Show(ctx, ref)
	if errors.Is(err, person.ErrUnknown) {
		s.Step(time.Time{}, "person", "persons", "no person is stored of its distinct id; its person id is "+e.Person.String())
		return
	}
	if !s.Asked("persons", err) {
		return
	}
	hit := personHit(s.Owner, who)
	known := "anonymous"
	if who.Identified {
		known = "identified"
	}
	s.Step(time.Time{}, "person", "persons", fmt.Sprintf("it is of person %v, %s, with %s", who.ID, known, answer.Many(len(who.Distinct), "distinct id", "distinct ids")), hit)
	if own := person.ID(ref); own != who.ID {
		s.Step(time.Time{}, "merged", "persons", "its distinct id was merged into that person", hit)
	}
	if e.Person != who.ID {
		s.Step(time.Time{}, "merged", "warehouse", fmt.Sprintf("its row is still of person %v: the merge is on its way to the warehouse", e.Person))
		s.Then(time.Time{}, "the warehouse learns of the merge within seconds")
	}
}

// fate says what became of it.
func (s *life) fate() {
	switch {
	case s.letter != nil && s.row == nil:
		next := "it is replayed with other failed ones, every few minutes"
		if s.letter.Kind == tidemill.Validation || s.letter.Kind == tidemill.Internal {
			next = "nothing by itself: it would fail again. Edit and replay its dead letter, or discard it"
		}
		s.GivenUp(s.letter, next)
	case s.row != nil:
		s.Ends(api.FateDelivered, "it is in the warehouse")
	case s.job != nil && s.job.State.Held():
		s.Ends(api.FateInFlight, "it waits to be processed, or is being processed")
	case s.job != nil && s.job.Fate == tidemill.Skipped:
		s.Ends(api.FateSkipped, "it was skipped: %s", s.job.Cause)
	case s.job != nil && s.nowhere:
		s.Ends(api.FateUnknown, "its job has ended, and the warehouse does not have it: its row has expired, or its dead letter was discarded")
	}
}
