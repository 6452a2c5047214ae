package analytics

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// A draft is an event on its way to the row that it becomes.
type draft struct {
	event.Event
	finished bool // it comes from a dead letter's row: nothing is left to enrich
}

// Reset empties the draft for the next message.
func (d *draft) Reset() {
	d.Event.Reset()
	d.finished = false
}

type item = flow.Item[draft]

// steps is the way of one event.
func (s *System) steps(decode func(*tidemill.Message, *draft) error) flow.Steps[draft] {
	return flow.Steps[draft]{
		Decode: decode,
		Stages: []flow.Stage[draft]{
			{Name: "validate", Do: s.validate, Repeat: true},
			{Name: "merge", Do: s.merge, Retry: policy.Database, Repeat: true},
			{Name: "resolve", Do: s.resolve, Repeat: true},
			{Name: "enrich", Do: s.enrich, Repeat: true},
			{Name: "persons", Do: s.persons, Retry: policy.Database, Repeat: true},
			{Name: "events", Do: s.events, Retry: policy.Warehouse, Repeat: true},
		},
	}
}

// decode reads a message of any door. What is refused is noted for the project's owner.
func (s *System) decode(m *tidemill.Message, d *draft) error {
	err := event.DecodeMessage(m, &d.Event)
	if err != nil {
		s.warnRefused(&d.Event, err)
	}
	return err
}

// decodeLetter reads the finished row of a dead letter; where there is none, or a damaged
// one, what was received is still there.
func (s *System) decodeLetter(m *tidemill.Message, d *draft) error {
	if row := m.Get(deadletter.RowHeader); row != nil {
		if err := event.ParseRow(row, &d.Event); err == nil {
			d.finished = true
			return nil
		}
		d.Reset()
	}
	return s.decode(m, d)
}

// validate refuses what cannot be an event. One refusal stops nobody else.
func (s *System) validate(ctx context.Context, batch []*item) error {
	known := make(map[uuid.UUID]bool, 1)
	for _, it := range batch {
		e := &it.Value.Event
		err := event.Validate(e)
		if err == nil && s.parts.Projects != nil {
			ok, seen := known[e.Project]
			if !seen {
				_, found := s.parts.Projects.Find(ctx, e.Project)
				if found != nil && !errors.Is(found, project.ErrUnknown) {
					return s.comeAgain(ctx, batch, "projects", found)
				}
				ok = found == nil
				known[e.Project] = ok
			}
			if !ok {
				err = event.Refuse(event.UnknownProject, "there is no project %s", e.Project)
			}
		}
		if err != nil {
			s.warnRefused(e, err)
			it.Fail(err)
		}
	}
	s.answered.Store(0)
	return nil
}

// merge does what $identify and its kin say, before anything of the batch is resolved:
// events that wait in the same batch under the old id go to the survivor too.
func (s *System) merge(ctx context.Context, batch []*item) error {
	var merges []person.Merge
	var of []*item
	for _, it := range batch {
		e := &it.Value.Event
		if e.MergeRefused != "" {
			s.Warnings.Add(warning(e, e.MergeRefused, "the other id of a merge is not one of a person: "+e.Other))
		}
		if e.Merge != event.NoMerge {
			merges = append(merges, person.Merge{Ref: e.Ref(), Other: e.Other, Event: e.ID, At: e.Timestamp, Force: e.Merge == event.Force})
			of = append(of, it)
		}
	}
	if len(merges) == 0 {
		return nil
	}
	outcomes := make([]person.Outcome, len(merges))
	if err := s.mergeAll(ctx, merges, outcomes); err != nil {
		return err
	}
	// The warehouse is told before the events are settled, so that whoever sees them there
	// sees them under the survivor. If that fails now, the loop does it.
	if err := s.relay(ctx); err != nil && ctx.Err() == nil {
		s.options.Log.WarnContext(ctx, "overrides not copied yet", "error", err)
	}
	for i, o := range outcomes {
		if o == person.Refused {
			s.Warnings.Add(warning(&of[i].Value.Event, "cannot_merge_already_identified", "the other id belongs to an identified person: "+merges[i].Other))
		}
	}
	return nil
}

// mergeAll merges, and keeps for later what cannot be merged now. When the list of kept
// ones is full the batch waits: nothing is cut off.
func (s *System) mergeAll(ctx context.Context, merges []person.Merge, outcomes []person.Outcome) error {
	var err error
	for try := 0; ; try++ {
		if err = s.parts.Persons.Merge(ctx, merges, outcomes); err == nil || ctx.Err() != nil {
			return err
		}
		wait, more := policy.Database.Next(try, 0.5)
		if !more {
			break
		}
		if !sleep(ctx, wait) {
			return ctx.Err()
		}
	}
	var left []person.Merge
	for i, o := range outcomes {
		if o == 0 {
			left = append(left, merges[i])
		}
	}
	if kept := s.parts.Persons.Keep(ctx, left); kept != nil {
		return &tidemill.Error{Kind: tidemill.RateLimit, After: 5 * time.Second, Err: errors.Join(kept, err)}
	}
	s.options.Log.WarnContext(ctx, "merges kept for later", "count", len(left), "error", err)
	return nil
}

// resolve finds whose each event is. Where that cannot be asked now, the events come
// again: nobody is to blame, and the hand-outs are counted.
func (s *System) resolve(ctx context.Context, batch []*item) error {
	refs := make([]person.Ref, len(batch))
	for i, it := range batch {
		refs[i] = it.Value.Ref()
	}
	ids := make([]uuid.UUID, len(batch))
	if err := s.parts.Persons.Resolve(ctx, refs, ids); err != nil {
		if ctx.Err() != nil {
			return err
		}
		s.options.Log.WarnContext(ctx, "persons not resolved, the events come again", "count", len(batch), "error", err)
		for _, it := range batch {
			it.Again(time.Second)
		}
		return nil
	}
	for i, it := range batch {
		it.Value.Person = ids[i]
	}
	return nil
}

// enrich adds what the SDK did not say. A finished row of a dead letter has it already.
func (s *System) enrich(_ context.Context, batch []*item) error {
	for _, it := range batch {
		e := &it.Value
		if it.Get(deadletter.RowHeader) != nil {
			continue
		}
		if s.parts.Agent != nil && e.UserAgent != "" && e.Browser == "" && e.OS == "" && e.DeviceType == "" {
			a := s.parts.Agent(e.UserAgent)
			e.Browser, e.BrowserVersion, e.OS, e.OSVersion, e.DeviceType = a.Browser, a.BrowserVersion, a.OS, a.OSVersion, a.Device
		}
		if s.parts.Country != nil && e.IP != "" && !e.NoGeo && e.Country == "" {
			e.Country = s.parts.Country(e.IP)
		}
	}
	return nil
}

// persons folds what events say of their persons.
func (s *System) persons(ctx context.Context, batch []*item) error {
	changes := make([]person.Change, 0, len(batch))
	for _, it := range batch {
		if e := &it.Value; e.Profile {
			changes = append(changes, person.Change{Ref: e.Ref(), Event: e.ID, At: e.Timestamp, Properties: e.Changes})
		}
	}
	if len(changes) == 0 {
		return nil
	}
	return s.parts.Persons.Apply(ctx, changes)
}

// events makes the rows durable. An event that is there from elsewhere is a duplicate.
func (s *System) events(ctx context.Context, batch []*item) error {
	now := s.options.Now().UTC()
	rows := make([]*event.Event, len(batch))
	for i, it := range batch {
		it.Value.IngestedAt = now
		rows[i] = &it.Value
	}
	took := make([]warehouse.Took, len(rows))
	if err := s.parts.Warehouse.Insert(ctx, rows, took); err != nil {
		for _, it := range batch { // a replay need not enrich it again
			it.Row(it.Value.AppendJSON(nil))
		}
		return err
	}
	for i, it := range batch {
		if took[i] == warehouse.Duplicate {
			it.Skip("duplicate")
			continue
		}
		s.catalog.See(&it.Value)
	}
	return nil
}

// sleep waits, or says that ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
