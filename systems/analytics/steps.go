package analytics

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/systems/analytics/enrich"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// A draft is an event on its way to becoming a row.
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

// steps are the stages of one event.
func (s *System) steps(decode func(*tidemill.Message, *draft) error) flow.Steps[draft] {
	return flow.Steps[draft]{
		Decode: decode,
		Stages: []flow.Stage[draft]{
			{Name: "validate", Do: s.validate, Retry: policy.Database, Repeat: true},
			{Name: "merge", Do: s.merge, InOrder: claims, Retry: policy.Database, Repeat: true},
			{Name: "resolve", Do: s.resolve, Retry: policy.Database, Repeat: true},
			{Name: "enrich", Do: s.enrich, Repeat: true},
			{Name: "persons", Do: s.profiles, Retry: policy.Database, Repeat: true},
			{Name: "events", Do: s.events, Retry: policy.Warehouse, Repeat: true},
		},
	}
}

// decode reads a message of any origin. A refusal is noted for the project's owner.
func (s *System) decode(m *tidemill.Message, d *draft) error {
	err := event.DecodeMessage(m, s.options.Clock, &d.Event)
	if t := d.Timing(); err != nil {
		s.warnRefused(&d.Event, err)
	} else if t.Beyond != "" { // the endpoint has warned already
		s.Warnings.Add(warning(&d.Event, t.Beyond, t.Warning()))
	}
	return err
}

// decodeLetter reads the finished row of a dead letter. If the row is missing or damaged, it
// decodes the event as received.
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

// validate refuses events that may not be stored. One refusal stops no other event.
func (s *System) validate(ctx context.Context, batch []*item) error {
	known := make(map[uuid.UUID]bool, 1)
	var later []*item // of projects that could not be looked up
	var away error
	for _, it := range batch {
		e := &it.Value.Event
		err := event.Validate(e)
		if err == nil && s.parts.Projects != nil {
			ok, seen := known[e.Project]
			if !seen && away == nil {
				if ok, away = s.exists(ctx, e.Project); away == nil {
					known[e.Project], seen = ok, true
				}
			}
			if !seen {
				later = append(later, it)
				continue
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
	switch {
	case away == nil:
		s.projects.answered()
		return nil
	case ctx.Err() != nil:
		return away
	}
	return s.comeAgain(ctx, later, &s.projects, away)
}

func (s *System) exists(ctx context.Context, id uuid.UUID) (bool, error) {
	_, err := s.parts.Projects.Find(ctx, id)
	if errors.Is(err, project.ErrUnknown) {
		return false, nil
	}
	return err == nil, err
}

// claims reports whether an event claims a distinct id. The first claim gets it, so the event
// that was acknowledged first has to come first.
func claims(it *item) bool { return it.Value.Merge != event.NoMerge }

// forces reports whether an event also merges identified persons.
func (s *System) forces(e *event.Event) bool {
	return s.options.MergeIdentified == MergeAlways || s.options.MergeIdentified == MergeByEvent && e.Merge == event.Force
}

// merge does the merges of $identify and its kin before it resolves any event of the batch:
// events in the same batch under the old id go to the survivor too.
func (s *System) merge(ctx context.Context, batch []*item) error {
	var merges []person.Merge
	var of []*item
	for _, it := range batch {
		e := &it.Value.Event
		if e.MergeRefused != "" {
			s.Warnings.Add(warning(e, e.MergeRefused, "the other id of a merge is not one of a person: "+e.Other))
		}
		if e.Merge != event.NoMerge {
			merges = append(merges, person.Merge{Ref: e.Ref(), Other: e.Other, Event: e.ID, At: e.Timestamp, Force: s.forces(e)})
			of = append(of, it)
		}
	}
	if len(merges) == 0 {
		return nil
	}
	left, err := s.mergeKeptFirst(ctx)
	if err != nil {
		return err
	}
	outcomes := make([]person.Outcome, len(merges))
	if err := s.mergeAll(ctx, merges, left, outcomes); err != nil {
		return err
	}
	// The warehouse is told before the events are settled, so that they show under the survivor
	// from then on. If that fails now, the loop does it.
	if err := s.relay(ctx); err != nil && ctx.Err() == nil {
		// Logged when persons were merged, and the warehouse could not be told yet; a loop does it.
		// To do: see whether the warehouse is well, if it goes on.
		s.options.Log.WarnContext(ctx, "overrides not copied yet", "error", err)
	}
	for i, o := range outcomes {
		if o == person.Refused {
			s.Warnings.Add(refusedMerge(&merges[i], of[i].Value.Name))
		}
	}
	return nil
}

// mergeAll merges. It keeps for later the merges that cannot be done now, or have to follow
// kept ones: left is what these are about. When the list of kept merges is full the batch
// waits: none is dropped.
func (s *System) mergeAll(ctx context.Context, merges []person.Merge, left contested, outcomes []person.Outcome) error {
	var todo, keep []person.Merge
	var of []int
	for i := range merges {
		if left.by(&merges[i]) {
			left.add(&merges[i])
			continue
		}
		todo, of = append(todo, merges[i]), append(of, i)
	}
	var err error
	if len(todo) > 0 {
		done := make([]person.Outcome, len(todo))
		err = retry(ctx, policy.Database, func() error { return s.parts.Persons.Merge(ctx, todo, done) })
		if err != nil && ctx.Err() != nil {
			return err
		}
		for k, i := range of {
			outcomes[i] = done[k]
		}
	}
	for i, o := range outcomes {
		if o == 0 {
			keep = append(keep, merges[i])
		}
	}
	if len(keep) == 0 { // all were done, the answer may be lost
		return nil
	}
	kept := s.parts.Persons.Keep(ctx, keep)
	s.keeps.Store(true)
	if kept != nil {
		// Logged when neither the store of persons nor that of failed merges answers; events wait at
		// the source.
		// To do: make one of them answer; then it goes on by itself, and nothing is lost.
		s.options.Log.ErrorContext(ctx, "merges can neither be done nor kept, flushing waits", "count", len(keep), "error", errors.Join(kept, err))
		return &tidemill.Error{Kind: tidemill.RateLimit, After: mergesWait, Err: errors.Join(kept, err)}
	}
	// Logged when merges failed and were kept; they are done when the store of persons answers.
	// To do: see whether the store of persons is well.
	s.options.Log.WarnContext(ctx, "merges kept for later", "count", len(keep), "behind_kept", len(merges)-len(todo), "error", err)
	return nil
}

// resolve finds the person of each event. Events whose person cannot be looked up now come
// again: a *tidemill.Partial names them; any other error concerns all.
func (s *System) resolve(ctx context.Context, batch []*item) error {
	refs := make([]person.Ref, len(batch))
	for i, it := range batch {
		refs[i] = it.Value.Ref()
	}
	ids := make([]uuid.UUID, len(batch))
	err := s.parts.Persons.Resolve(ctx, refs, ids)
	later := batch
	if partly, ok := errors.AsType[*tidemill.Partial](err); ok {
		later = nil
		for _, f := range partly.Failed {
			if f.Index < 0 || f.Index >= len(batch) {
				return tidemill.Fail(tidemill.Internal, "distinct id %d of %d not resolved: %w", f.Index, len(batch), f.Err)
			}
			later = append(later, batch[f.Index])
		}
	} else if err == nil {
		later = nil
	}
	for i, it := range batch {
		it.Value.Person = ids[i]
	}
	switch {
	case len(later) < len(batch):
		s.persons.answered()
	case ctx.Err() != nil:
		return err
	}
	if len(later) == 0 {
		return nil
	}
	return s.comeAgain(ctx, later, &s.persons, err)
}

// enrich adds what the SDK did not send. A finished row of a dead letter has it already.
func (s *System) enrich(_ context.Context, batch []*item) error {
	for _, it := range batch {
		if it.Value.finished {
			continue
		}
		e := &it.Value.Event
		if s.parts.Agent != nil && e.UserAgent != "" && (e.Browser == "" || e.BrowserVersion == "" || e.OS == "" || e.OSVersion == "" || e.DeviceType == "") {
			fillAgent(e, s.parts.Agent(e.UserAgent))
		}
		if s.parts.Country != nil && e.IP != "" && !e.NoGeo && e.Country == "" {
			e.Country = s.parts.Country(e.IP)
		}
	}
	return nil
}

// fillAgent fills in missing fields from a user agent. The SDK's values count, and a version
// belongs to the name beside it: a name without a version gets one only if the user agent has
// the same name; a version without a name leaves both unchanged.
func fillAgent(e *event.Event, a enrich.Agent) {
	fill := func(name, version *string, parsed, parsedVersion string) {
		if *name == "" && *version == "" {
			*name = parsed
		}
		if *name == parsed && *version == "" {
			*version = parsedVersion
		}
	}
	fill(&e.Browser, &e.BrowserVersion, a.Browser, a.BrowserVersion)
	fill(&e.OS, &e.OSVersion, a.OS, a.OSVersion)
	if e.DeviceType == "" {
		e.DeviceType = a.Device
	}
}

// profiles folds the events' changes into their persons.
func (s *System) profiles(ctx context.Context, batch []*item) error {
	changes := make([]person.Change, 0, len(batch))
	for _, it := range batch {
		if e := &it.Value.Event; e.Profile {
			changes = append(changes, person.Change{Ref: e.Ref(), Event: e.ID, At: e.Timestamp, Order: e.Order, Properties: e.Changes})
		}
	}
	if len(changes) == 0 {
		return nil
	}
	if err := s.parts.Persons.Apply(ctx, changes); err != nil {
		finished(batch)
		return err
	}
	return nil
}

// finished notes the rows as they are: a replay need not enrich them again.
func finished(batch []*item) {
	for _, it := range batch {
		it.Row(it.Value.AppendJSON(nil))
	}
}

// events makes the rows durable. An event that was stored from another message is a duplicate.
func (s *System) events(ctx context.Context, batch []*item) error {
	now := s.options.Now().UTC()
	rows := make([]*event.Event, len(batch))
	for i, it := range batch {
		it.Value.IngestedAt = now
		rows[i] = &it.Value.Event
	}
	took := make([]warehouse.Outcome, len(rows))
	if err := s.parts.Warehouse.Insert(ctx, rows, took); err != nil {
		finished(batch)
		return err
	}
	for i, it := range batch {
		if took[i] == warehouse.Duplicate {
			it.Skip("duplicate")
			continue
		}
		if err := s.see(ctx, &it.Value.Event); err != nil {
			return err
		}
	}
	return nil
}
