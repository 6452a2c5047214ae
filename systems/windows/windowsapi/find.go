package windowsapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/systems/windows"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// Finder finds and explains windows by their ids.
type Finder struct {
	*API
	Now func() time.Time
}

const (
	projectsTried = 50   // in how many projects a window is looked for
	batchTried    = 1000 // windows among which those of a batch id are looked for, the newest
)

// Lookups implements answer.Finder.
func (f *Finder) Lookups(id, owner string) []answer.Lookup {
	one := answer.Lookup{Where: "windows", Not: "the id of a window is a batch id, a slash and a number"}
	if batch, revision, ok := window.ParseID(id); ok {
		one = answer.Lookup{Where: "windows", Do: func(ctx context.Context) ([]api.Thing, error) { return f.window(ctx, batch, revision, owner) }}
	}
	return []answer.Lookup{one, {Where: "batch ids", Do: func(ctx context.Context) ([]api.Thing, error) { return f.batch(ctx, id, owner) }}}
}

// projects are those that a window is looked for in.
func (f *Finder) projects(ctx context.Context, owner string) ([]uuid.UUID, error) {
	if owner != "" {
		id, err := f.windowsProject(ctx, owner)
		return []uuid.UUID{id}, err
	}
	names, err := f.ProjectNames(ctx)
	if err == nil && len(names) > projectsTried {
		return nil, fmt.Errorf("there are %d projects, and a window is looked for in at most %d at once: say which project", len(names), projectsTried)
	}
	all := []uuid.UUID{f.Windows.Project()}
	for id := range names {
		if id != all[0] {
			all = append(all, id)
		}
	}
	return all, err
}

// window looks for a window by its id, in each project.
func (f *Finder) window(ctx context.Context, batch string, revision uint64, owner string) (hits []api.Thing, err error) {
	found, err := f.named(ctx, batch, revision, owner)
	if err != nil {
		return nil, answer.Answerable(err)
	}
	names, err := f.ProjectNames(ctx)
	for _, i := range found {
		hits = append(hits, windowThing(i, names))
	}
	return hits, err
}

// named are the windows of an id, of one project or of several.
func (f *Finder) named(ctx context.Context, batch string, revision uint64, owner string) (found []*window.Info, err error) {
	projects, err := f.projects(ctx, owner)
	for _, p := range projects {
		if err != nil {
			break
		}
		var i *window.Info
		i, err = f.Windows.Windows().Look(ctx, window.ID(record.NewBatch(p, batch).String(), revision))
		if errors.Is(err, window.ErrNotFound) {
			err = nil
		} else if err == nil {
			found = append(found, i)
		}
	}
	return found, err
}

// batch looks for the windows of a batch id, among the newest.
func (f *Finder) batch(ctx context.Context, id, owner string) (hits []api.Thing, err error) {
	names, err := f.ProjectNames(ctx)
	if err != nil {
		return nil, err
	}
	c := windowChoice{batch: id}
	if owner != "" {
		p, err := f.windowsProject(ctx, owner)
		if err != nil {
			return nil, answer.Answerable(err)
		}
		c.project = &p
	}
	n := 0
	for i, err := range f.Windows.Windows().List(ctx, window.Filter{Back: true, Max: batchTried}) {
		if err != nil {
			return hits, err
		}
		if n++; c.has(i) {
			hits = append(hits, windowThing(i, names))
		}
	}
	if n == batchTried {
		err = fmt.Errorf("it was looked for among the newest %d windows; an id with its revision (batch/revision) is found among all", batchTried)
	}
	return hits, err
}

func windowThing(i *window.Info, names map[uuid.UUID]string) api.Thing {
	owner, id := nameOf(record.ParseBatch(i.Batch), names), shownID(i.ID)
	return answer.EventHit(windows.Name, "window", owner, id, fmt.Sprintf("window of project %s, %s, with %s", owner, i.State, answer.Many(i.Records, "record", "records")))
}

// Explain implements answer.Finder.
func (f *Finder) Explain(ctx context.Context, owner, id string) (api.Explanation, error) {
	batch, revision, ok := window.ParseID(id)
	if !ok {
		return api.Explanation{}, answer.Answerable(window.NotFound(id))
	}
	s := answer.NewStory(windows.Name, "window", owner, id, f.Now())
	found, err := f.named(ctx, batch, revision, owner)
	if len(found) > 1 {
		return api.Explanation{}, operation.Refuse(http.StatusConflict, "several projects have a window %s: say which (owner=…)", id)
	}
	if s.Asked("window store", err) && len(found) == 1 {
		names, err := f.ProjectNames(ctx)
		if err != nil {
			return api.Explanation{}, err
		}
		s.Owner = nameOf(record.ParseBatch(found[0].Batch), names)
		st, err := f.Windows.Stand(ctx, found[0].ID)
		if s.Asked("window store", err) {
			s.Type = answer.Many(st.Records, "record", "records")
			collected(s, st)
			f.stands(s, st)
			s.Forgot("which of its records are in the index: documents do not carry the batch id; `tidemill search` finds them by their fields")
		}
	}
	return s.Tell()
}

// collected says what happened to a window until now.
func collected(s *answer.Story, w *windows.Standing) {
	const store = "window store"
	s.Step(w.Opened, "accepted", store, "its first record came, and opened it")
	if w.Expect > 0 {
		s.Step(time.Time{}, "record", store, fmt.Sprintf("it has %s of %d that were announced, %s", answer.Many(w.Records, "record", "records"), w.Expect, answer.Many(w.Bytes, "byte", "bytes")))
	} else {
		s.Step(time.Time{}, "record", store, fmt.Sprintf("it has %s, %s", answer.Many(w.Records, "record", "records"), answer.Many(w.Bytes, "byte", "bytes")))
	}
	if w.Lost > 0 {
		s.Step(time.Time{}, "record", store, fmt.Sprintf("%d of its records are gone from the store, and count as dead", w.Lost))
	}
	why := map[window.Why]string{window.ByTime: "its time was over", window.ByCount: "all announced records had come", window.ByHand: "somebody closed it"}[w.Why]
	if !w.Closed.IsZero() {
		s.Step(w.Closed, "closed", store, "it was closed, because "+why)
	}
	if w.Handed > 0 {
		s.Step(time.Time{}, "running", store, fmt.Sprintf("it was handed out %s, and %s failed", answer.Many(w.Handed, "time", "times"), answer.Many(w.Tries, "try", "tries")))
	}
	if !w.Failed.IsZero() {
		s.Step(w.Failed, "tried", store, fmt.Sprintf("a try failed, %v: %s", w.Kind, w.Cause))
	}
	if w.Tries > 1 {
		s.Forgot("the failures before the last one: a window keeps the newest")
	}
	if w.Replays > 0 {
		s.Step(time.Time{}, "replaying", store, fmt.Sprintf("it was replayed %s by hand", answer.Many(w.Replays, "time", "times")))
	}
}

// stands says what a window waits for, and what comes next.
func (f *Finder) stands(s *answer.Story, w *windows.Standing) {
	const store = "window store"
	now := func(format string, args ...any) { s.Step(time.Time{}, "waiting", store, fmt.Sprintf(format, args...)) }
	s.Ends(api.FateInFlight, "it is %s", w.State)
	switch w.Waits {
	case windows.ForRecords:
		now("it collects records")
		s.Then(w.Until, "it is closed")
	case windows.ForRetry:
		now("it waits for its next try")
		s.Then(w.Until, "it is tried again")
	case windows.ForOlder:
		now("an older window of its batch id goes first: %s", shownID(w.Behind))
		s.Then(time.Time{}, "it is delivered when window %s has been", shownID(w.Behind))
	case windows.ForStart:
		now("the delivery does not run in this instance")
		s.Then(time.Time{}, "it is delivered when an instance runs")
	case windows.ForResume:
		now("the delivery is paused in this instance")
		s.Then(time.Time{}, "it is delivered when the delivery is resumed")
	case windows.ForTopics:
		now("nothing can be sent: %s", w.Because)
		s.Then(w.Until, "it is tried again")
	case windows.ForTurn:
		now("it waits for its turn")
		s.Then(time.Time{}, "it is delivered when those before it have been")
	case windows.ForDelivery:
		now("instance %s has it, processes its records and sends them", w.Owner)
		s.Then(w.Due, "its lease ends, if it is not renewed")
	case windows.ForLease:
		now("instance %s had it, and is gone", w.Owner)
		s.Then(time.Time{}, "it is handed out anew")
	case windows.ForReplay:
		s.Ends(api.FateDead, "it is parked: %v", w.Kind)
		now("somebody has to decide")
		s.Then(time.Time{}, "nothing by itself: replay the window")
	}
}
