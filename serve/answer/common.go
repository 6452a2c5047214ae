// Package answer is what operations of several systems make their answers of: which project is meant,
// dead letters and jobs as the API shows them, listings, and errors as problems.
package answer

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/giveway"
	times "github.com/tidemill/tidemill/internal/when"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/queue"
)

// Common is what operations of several systems need. It is filled while systems are built, and read
// by requests.
type Common struct {
	Projects project.Store // whose keys are taken; nil: no system that runs has any
	Queues   queue.Store   // of all systems; nil: none has any
	Log      *slog.Logger
	Stopping context.Context // ends when this instance stops, and listings that follow with it; nil: never
	Readers  *giveway.Gate   // before what reads a page, which gives way to endpoints; nil: it does not
}

// ProjectOf is the project of a name or an id, which must exist; empty: the only one.
func (c *Common) ProjectOf(ctx context.Context, in api.InProject) (uuid.UUID, error) {
	if in.Project != "" {
		return c.Find(ctx, in.Project)
	}
	ps, err := c.Projects.List(ctx)
	if err != nil {
		return uuid.Nil, err
	}
	if len(ps) == 1 {
		return ps[0].ID, nil
	}
	return uuid.Nil, operation.Refuse(http.StatusBadRequest, "say which project, of %s", names("", ps))
}

// Find finds a project by its name or id.
func (c *Common) Find(ctx context.Context, name string) (uuid.UUID, error) {
	id := project.ID(name)
	if _, err := c.Projects.Find(ctx, id); errors.Is(err, project.ErrUnknown) {
		ps, _ := c.Projects.List(ctx)
		return uuid.Nil, operation.Refuse(http.StatusNotFound, "there is no project %q; there are %s", name, names(name, ps))
	} else if err != nil {
		return uuid.Nil, err
	}
	return id, nil
}

// ProjectNames are the names of projects by their ids.
func (c *Common) ProjectNames(ctx context.Context) (map[uuid.UUID]string, error) {
	names := map[uuid.UUID]string{project.ID("default"): "default"}
	if c.Projects == nil {
		return names, nil
	}
	all, err := c.Projects.List(ctx)
	for _, p := range all {
		names[p.ID] = p.Name
	}
	return names, err
}

// For reads how long something is to last; empty: 0, until somebody ends it or for the usual time.
func For(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := times.Duration(text)
	if err != nil || d <= 0 {
		return 0, operation.Refuse(http.StatusBadRequest, "for=%.60q is no time to wait: write 10m or 2h", text)
	}
	return d, nil
}

// Span reads since and until: the beginning of a time, and the end of it, which is not in it
// itself. Empty: none.
func Span(s api.Span) (begin, end time.Time, err error) {
	read := func(text, name string, as func(string, time.Time) (time.Time, error)) (t time.Time) {
		if text == "" || err != nil {
			return t
		}
		var bad error
		if t, bad = as(text, time.Now()); bad != nil {
			err = operation.Refuse(http.StatusBadRequest, "%s=%v", name, bad)
		}
		return t
	}
	begin, end = read(s.Since, "since", times.Start), read(s.Until, "until", times.End)
	if err == nil && !begin.IsZero() && !end.IsZero() && !end.After(begin) {
		err = operation.Refuse(http.StatusBadRequest, "until=%s is not after since=%s: nothing is between them", s.Until, s.Since)
	}
	return begin, end, err
}
