package page

import (
	"context"
	"net/http"
	"net/url"

	"github.com/tidemill/tidemill/serve/api/operation"
)

// Lines answers with all of a listing as a file, which has one JSON object a line. Why there is none is an
// error; where it cannot be read to its end the file is cut off, and the browser says so.
func Lines[Q, A any](v *Visit, name string, l operation.Listing[Q, A], q *Q) error {
	ctx, cancel := context.WithCancel(v.R.Context())
	defer cancel()
	begun := false
	begin := func() {
		if !begun {
			v.asFile(name)
			begun = true
		}
	}
	for line, err := range l.Raw(ctx, v.API, q) {
		switch {
		case err != nil && begun:
			panic(http.ErrAbortHandler)
		case err != nil:
			return err
		}
		begin()
		if _, err := v.W.Write(line); err != nil {
			return nil // the browser is gone
		}
	}
	begin()
	return nil
}

// Unpaged is a query without what says which part of a list a page shows, and how.
func (v *Visit) Unpaged() url.Values {
	q := v.Query()
	for _, name := range append([]string{"cursor", "limit", "count", "max", "check"}, own...) {
		q.Del(name)
	}
	return q
}
