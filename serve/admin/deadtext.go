package admin

import (
	"bytes"
	"context"
	"iter"
	"strings"
	"time"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/state/deadletter"
)

// lettersLooked bounds a page of dead letters that have a text.
var lettersLooked = lookBound{10_000, 200 * time.Millisecond}

// lettersAtOnce is how many dead letters are read at once to be looked at.
const lettersAtOnce = 500

// deadWith lists dead letters that have a text. A page ends early after many that do not have it, and says
// where it goes on.
func (a *API) deadWith(ctx context.Context, q *api.DeadFilter, f deadletter.Filter, stores []deadletter.Store, most int) iter.Seq2[api.ListedDead, error] {
	return func(yield func(api.ListedDead, error) bool) {
		n, look := 0, lettersLooked.begin(a.Now)
		text := []byte(q.Text)
		for _, s := range stores {
			for l, err := range inParts(ctx, s, f) {
				if err != nil {
					yield(api.ListedDead{}, err)
					return
				}
				if a.hasText(ctx, l, text) {
					if n++; !yield(a.asListed(q, s, l), nil) || n == most {
						return
					}
					continue
				}
				if q.Limit > 0 && look.enough(1) { // lines are all that match
					yield(api.ListedDead{}, look.rest(a.keyOf(s, l)))
					return
				}
			}
			f.AfterSeq = 0
		}
	}
}

// inParts lists all dead letters of a store that a filter chooses, so many at a time: who stops early has not
// made it look for the others.
func inParts(ctx context.Context, s deadletter.Store, f deadletter.Filter) iter.Seq2[*deadletter.Letter, error] {
	return func(yield func(*deadletter.Letter, error) bool) {
		f.Max = lettersAtOnce
		for n := f.Max; n == f.Max; {
			n = 0
			for l, err := range lettersOf(ctx, s, f) {
				if !yield(l, err) || err != nil {
					return
				}
				n, f.AfterSeq = n+1, l.Seq
			}
		}
	}
}

// hasText says whether a dead letter has a text that the caller may see there.
func (a *API) hasText(ctx context.Context, l *deadletter.Letter, text []byte) bool {
	return strings.Contains(l.Cause, string(text)) || bytes.Contains(l.Payload, text) && !operation.Covers(ctx, a.show(l, false), l.Payload)
}
