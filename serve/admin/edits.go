package admin

import (
	"bytes"
	"errors"
	"net/http"

	"github.com/tidemill/tidemill/serve/api/operation"
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
	said.Now = bytes.TrimSpace(rec.body.Bytes())
	return &said
}
