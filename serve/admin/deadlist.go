package admin

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/state/deadletter"
)

// dead lists dead letters.
func (a *API) dead(ctx context.Context, q *api.DeadFilter) (iter.Seq2[api.ListedDead, error], error) {
	f, stores, err := a.chosenIn(ctx, q.IDs, &q.Dead)
	if err != nil {
		return nil, err
	}
	f.State = deadletter.State(q.State)
	most, err := q.Most(q.Max)
	if err != nil {
		return nil, err
	}
	switch {
	case q.Text == "":
	case q.Counts():
		return nil, operation.Refuse(http.StatusBadRequest, "what has a text is not counted: leave count out")
	case unfiltered(&f) && q.System == "":
		return nil, operation.Refuse(http.StatusBadRequest, "text looks at each dead letter that other filters choose: say where to look, by a system, pipeline, partner, kind, cause, owner or time")
	}
	if f.Back = q.Back(); f.Back {
		slices.Reverse(stores)
	}
	if stores, f.AfterSeq, err = a.behind(q.After(), stores); err != nil {
		return nil, err
	}
	if q.Text != "" {
		return a.deadWith(ctx, q, f, stores, most), nil
	}
	return func(yield func(api.ListedDead, error) bool) {
		n := 0
		for _, s := range stores {
			if most > 0 {
				if f.Max = most - n; f.Max <= 0 { // of those before
					return
				}
			}
			for l, err := range lettersOf(ctx, s, f) {
				var out api.ListedDead
				if err == nil {
					out = a.asListed(q, s, l)
				}
				if n++; !yield(out, err) || err != nil {
					return
				}
			}
			f.AfterSeq = 0
		}
	}, nil
}

// asListed is a dead letter of a listing, in the form that is asked for.
func (a *API) asListed(q *api.DeadFilter, s deadletter.Store, l *deadletter.Letter) (out api.ListedDead) {
	out.Position = a.keyOf(s, l)
	if q.Format == "export" {
		out.System, out.Export = a.systemOf(l.Pipeline), a.export(l)
	} else {
		out.DeadLetter = a.show(l, false)
	}
	return out
}

// countDead counts dead letters, without reading their payloads.
func (a *API) countDead(ctx context.Context, q *api.DeadFilter, most int) (n int, err error) {
	f, stores, err := a.chosenIn(ctx, q.IDs, &q.Dead)
	f.State = deadletter.State(q.State)
	for _, s := range stores {
		if err != nil || most > 0 && n >= most {
			break
		}
		if f.Max = 0; most > 0 {
			f.Max = most - n
		}
		some := 0
		some, err = s.Count(ctx, f)
		n += some
	}
	return n, err
}

// lettersOf lists dead letters of a store, fewer than the filter's Max only if there are no more. A
// store leaves out those that are gone by the time it reads them; a page that is shorter for that
// would be taken for the last.
func lettersOf(ctx context.Context, s deadletter.Store, f deadletter.Filter) iter.Seq2[*deadletter.Letter, error] {
	return func(yield func(*deadletter.Letter, error) bool) {
		for {
			n := 0
			for l, err := range s.List(ctx, f) {
				if !yield(l, err) || err != nil {
					return
				}
				n, f.AfterSeq = n+1, l.Seq
			}
			if f.Max <= n { // or it is not bounded
				return
			}
			f.Max -= n
			more := f
			more.Max = 1
			if left, err := s.Count(ctx, more); err != nil {
				yield(nil, err)
				return
			} else if left == 0 {
				return
			}
		}
	}
}

// keyOf is where a dead letter is in a listing: in which store, then its number there.
func (a *API) keyOf(s deadletter.Store, l *deadletter.Letter) string {
	return fmt.Sprintf("%s/%d", a.nameOf(s), l.Seq)
}

// nameOf is the system that has a store of its own; empty: it is that of all others.
func (a *API) nameOf(s deadletter.Store) string {
	for _, o := range a.OwnLetters {
		if o.Store == s {
			return o.System
		}
	}
	return ""
}

// behind are the stores from that of a key on, and the number in the first of them.
func (a *API) behind(key string, stores []deadletter.Store) ([]deadletter.Store, int64, error) {
	if key == "" {
		return stores, 0, nil
	}
	name, number, _ := strings.Cut(key, "/")
	seq, _ := strconv.ParseInt(number, 10, 64) // it was written so
	for i, s := range stores {
		if a.nameOf(s) == name {
			return stores[i:], seq, nil
		}
	}
	return nil, 0, operation.Refuse(http.StatusBadRequest, "the cursor is among dead letters that this instance does not have: begin without one")
}
