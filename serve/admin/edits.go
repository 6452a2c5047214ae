package admin

import (
	"bytes"
	"errors"
	"net/http"

	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/state/trail"
)

// withNow adds what is there now to the refusal of an edit of something else, as its caller may see it.
func (a *API) withNow(r *http.Request, d *operation.Description, err error) error {
	p, ok := errors.AsType[*operation.Problem](err)
	if !ok || p.Status != http.StatusPreconditionFailed || d.Edits == nil {
		return err
	}
	rec := &recorder{kept: kept{Status: http.StatusOK}, header: http.Header{}}
	a.inside(rec, operation.From(d.Edits, r))
	if rec.Status != http.StatusOK || rec.body.Len() > operation.MaxJSON {
		return err
	}
	said := *p
	said.Now, said.Changed = bytes.TrimSpace(rec.body.Bytes()), a.changedBy(r, d)
	return &said
}

// editsLooked is how many of the last edits of a thing are looked at for who made one: those of a queue are of
// all its jobs.
const editsLooked = 50

// changedBy is who made the last edit of what a request is to edit; nil: that is not known.
func (a *API) changedBy(r *http.Request, d *operation.Description) (by *operation.Changed) {
	if a.Trail == nil {
		return nil
	}
	own := a.entryFor(r, d)
	f := trail.Filter{Operation: d.ID, Thing: own.Thing, Outcome: trail.Done}
	_, err := a.newest(r.Context(), f, editsLooked, func(e *trail.Entry) bool {
		if d.Body() == nil || e.Filter == own.Filter { // without a body the parameters say to what it is changed
			by = &operation.Changed{By: e.Who, At: e.At}
		}
		return by == nil
	})
	if err != nil { // the refusal stands without it
		return nil
	}
	return by
}
