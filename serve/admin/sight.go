package admin

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/state/bulk"
)

// sight is which systems a request may look at, or change: those for which its caller has the role
// that its operation needs. What is of no system that is known is for those who have it for all.
type sight struct {
	who    string
	rights caller.Rights
	role   caller.Role
}

type sightKey struct{}

func withSight(ctx context.Context, s sight) context.Context {
	return context.WithValue(ctx, sightKey{}, s)
}

// sightOf is that of a context; without one it has no system.
func sightOf(ctx context.Context) sight {
	s, _ := ctx.Value(sightKey{}).(sight)
	return s
}

func (s sight) of(system string) bool { return s.role > caller.Nobody && s.rights.May(s.role, system) }

func (s sight) all() bool { return s.of("") }

// looking is that of the same caller who only looks.
func (s sight) looking() sight { return sight{s.who, s.rights, min(s.role, caller.Viewer)} }

// some is the systems, as a text of names with a space around each; empty: all.
func (s sight) some() string {
	if s.all() {
		return ""
	}
	return " " + strings.Join(s.rights.Systems(s.role), " ") + " "
}

// over is whether all systems of a list are in it; an empty list: all that there are.
func (s sight) over(systems string) bool {
	names := strings.Fields(systems)
	return len(names) == 0 && s.all() || len(names) > 0 && !slices.ContainsFunc(names, func(name string) bool { return !s.of(name) })
}

// refuse refuses a thing of a system: one that the caller may not look at as one that there is not.
func (s sight) refuse(system, thing, name string) error {
	switch {
	case s.of(system):
		return nil
	case s.looking().of(system):
		return operation.Refuse(http.StatusForbidden, "%s %q is of %s: this needs the role %v for it, and %s has the role %v", thing, name, system, s.role, s.who, s.rights)
	}
	return operation.Refuse(http.StatusNotFound, "there is no %s %q", thing, name)
}

// operated refuses an operation, or a preview, as refuse does.
func (s sight) operated(o *bulk.Operation) error {
	switch {
	case s.over(o.Systems):
		return nil
	case s.looking().over(o.Systems):
		return operation.Refuse(http.StatusForbidden, "operation %s is of %s: this needs the role %v for it, and %s has the role %v", o.ID, strings.Join(strings.Fields(o.Systems), " and "), s.role, s.who, s.rights)
	}
	return bulk.ErrNotFound
}

// pipelines says whether a pipeline is of one of the systems; nil: any is.
func (a *API) pipelines(s sight) func(string) bool {
	if s.all() {
		return nil
	}
	return func(pipeline string) bool { return s.of(a.systemOf(pipeline)) }
}

// queueNames are the queues of the systems that a request may look at or change.
func (a *API) queueNames(ctx context.Context, s sight) ([]string, error) {
	names, err := a.Queues.Queues(ctx)
	if err != nil || s.all() {
		return names, err
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !s.of(a.systemOf(name)) }), nil
}

// seen are the systems that a request may look at, as they are now.
func (a *API) seen(ctx context.Context) []System {
	s := sightOf(ctx)
	return slices.DeleteFunc(a.systems(), func(sys System) bool { return !s.of(sys.Name) })
}
