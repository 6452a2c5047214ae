package admin

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
)

// explain has the system of an event tell its life.
func (a *API) explain(ctx context.Context, q *api.OneEvent) (out api.Explanation, err error) {
	if q.ID == "" || q.System == "" {
		return out, operation.Refuse(http.StatusBadRequest, "say which event: system=… and id=…, and owner=… where it has one")
	}
	finds := a.findsFor(ctx)
	i := slices.IndexFunc(finds, func(f answer.Finds) bool { return f.System == q.System })
	if i < 0 {
		return out, noSystem(q.System, finds)
	}
	f := finds[i]
	if f.Finder == nil {
		return out, operation.Refuse(http.StatusNotFound, "%s", cmp.Or(f.Missing, "it has nothing to explain"))
	}
	ctx, cancel := context.WithTimeout(ctx, findWithin)
	defer cancel()
	out, err = f.Finder.Explain(ctx, q.Owner, q.ID)
	out.AsText = q.Format == "text"
	return out, answer.Answerable(err)
}
