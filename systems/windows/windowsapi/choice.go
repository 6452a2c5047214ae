package windowsapi

import (
	"context"
	"iter"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// windowChoice are the windows that a request means. Batch ids and ids are as people know
// them, without a project: several projects may have windows of one.
type windowChoice struct {
	state   window.State
	project *uuid.UUID // nil: any
	batch   string
	ids     []string
	after   string // the window that they follow
	back    bool
	max     int
}

// windowsOf reads which windows are meant.
func (a *API) windowsOf(ctx context.Context, q *WindowFilter) (c windowChoice, err error) {
	c = windowChoice{state: window.State(q.State), batch: q.Batch, ids: q.IDs, after: q.After(), back: q.Back()}
	if c.max, err = q.Most(q.Max); err != nil {
		return c, err
	}
	for _, id := range c.ids {
		if _, _, ok := window.ParseID(id); !ok {
			return c, operation.Refuse(http.StatusBadRequest, "id=%q names no window: an id is a batch id, a slash and a number; batch=… (--batch) means all of a batch id", id)
		}
	}
	if q.Project != "" {
		id, err := a.windowsProject(ctx, q.Project)
		if _, given := uuid.Parse(q.Project); err != nil && given != nil {
			return c, err
		}
		c.project = &id // also of one that there is not any more
	}
	return c, nil
}

// windowsProject is the project of that name or id; empty: that of records sent by hand.
func (a *API) windowsProject(ctx context.Context, name string) (uuid.UUID, error) {
	id := project.ID(name)
	if name == "" {
		id = a.Windows.Project()
	}
	if a.Projects != nil && id != a.Windows.Project() {
		if _, err := a.Find(ctx, name); err != nil {
			return id, err
		}
	}
	return id, nil
}

// has says whether a window is meant.
func (c *windowChoice) has(i *window.Info) bool {
	b := record.ParseBatch(i.Batch)
	return (c.project == nil || *c.project == b.Project()) && (c.batch == "" || c.batch == b.ID()) && (len(c.ids) == 0 || slices.Contains(c.ids, shownID(i.ID)))
}

// windowsChosen yields the windows that are meant.
func (a *API) windowsChosen(ctx context.Context, c windowChoice) iter.Seq2[*window.Info, error] {
	return func(yield func(*window.Info, error) bool) {
		n := 0
		for i, err := range a.Windows.Windows().List(ctx, window.Filter{State: c.state, After: c.after, Back: c.back}) {
			if err == nil && !c.has(i) {
				continue
			}
			if n++; !yield(i, err) || n == c.max {
				return
			}
		}
	}
}

// windowsFound are the windows that are meant. It is refused where a batch id or an id is one of
// several projects, and which one is not said.
func (a *API) windowsFound(ctx context.Context, c windowChoice) (all []*window.Info, err error) {
	names, err := a.ProjectNames(ctx)
	if err != nil {
		return nil, answer.Answerable(err)
	}
	most := c.max
	c.max = 0 // those beyond may be another project's
	whose := map[string][]string{}
	for i, err := range a.windowsChosen(ctx, c) {
		if err != nil {
			return nil, answer.Answerable(err)
		}
		b := record.ParseBatch(i.Batch)
		what := shownID(i.ID)
		if c.batch != "" {
			what = b.ID()
		}
		if name := nameOf(b, names); !slices.Contains(whose[what], name) {
			whose[what] = append(whose[what], name)
		}
		if len(whose[what]) > 1 && (c.batch != "" || len(c.ids) > 0) {
			slices.Sort(whose[what])
			return nil, operation.Refuse(http.StatusConflict, "%s is in the projects %s: say which one is meant (--project NAME, project=…)", what, strings.Join(whose[what], " and "))
		}
		if most == 0 || len(all) < most {
			all = append(all, i)
		}
	}
	return all, nil
}

// windowID is what the window store calls a window.
func (a *API) windowID(ctx context.Context, q *OneWindow) (string, error) {
	batch, revision, ok := window.ParseID(q.ID)
	if !ok {
		return "", answer.Answerable(window.NotFound(q.ID))
	}
	c, err := a.windowsOf(ctx, &WindowFilter{IDs: []string{q.ID}, Project: q.Project})
	if err != nil {
		return "", err
	}
	if c.project != nil {
		return window.ID(record.NewBatch(*c.project, batch).String(), revision), nil
	}
	all, err := a.windowsFound(ctx, c)
	if err != nil {
		return "", err
	}
	if len(all) == 0 {
		return "", answer.Answerable(window.NotFound(q.ID))
	}
	return all[0].ID, nil
}

// shownID is a window's id as people know it.
func shownID(id string) string {
	batch, revision, ok := window.ParseID(id)
	if !ok {
		return id
	}
	return window.ID(record.ParseBatch(batch).ID(), revision)
}

// nameOf is the name of a batch's project, or its id where that is not known.
func nameOf(b record.Batch, names map[uuid.UUID]string) string {
	id := b.Project()
	if name, ok := names[id]; ok {
		return name
	}
	return id.String()
}
