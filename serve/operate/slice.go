package operate

import (
	"context"
	"errors"
	"time"

	"github.com/tidemill/tidemill/state/bulk"
)

// Invalid is the error of an operation that cannot go on, however often it is tried.
type Invalid struct{ Err error }

// Error is the sentence.
func (e *Invalid) Error() string { return e.Err.Error() }

// Unwrap is what is wrong.
func (e *Invalid) Unwrap() error { return e.Err }

// notChanged is the reason of what could be changed, and was not.
const notChanged = "not_changed"

// slice does a slice of an operation that this runner has claimed: the things are noted, changed, and
// counted.
func (r *Runner) slice(ctx context.Context, o *bulk.Operation, p *pace) error {
	if p.things == nil {
		things, err := r.of(ctx, o)
		if err != nil {
			return r.unknown(ctx, o, err)
		}
		p.things = things
	}
	things := p.things
	if o.Slice.N > 0 {
		return r.recount(ctx, o, things)
	}
	page, err := r.page(ctx, o, things, r.size(o, p))
	if err != nil {
		return err
	}
	if len(page) == 0 {
		return r.end(ctx, o, "")
	}
	why, err := things.Waits(ctx, page[0].Group)
	if err != nil {
		return err
	}
	if why != "" {
		p.next = r.o.Now().Add(waitFor)
		r.waits(ctx, o, why)
		return nil
	}
	return r.move(ctx, o, things, page, p)
}

// unknown ends an operation whose things can never be told.
func (r *Runner) unknown(ctx context.Context, o *bulk.Operation, err error) error {
	if invalid, ok := errors.AsType[*Invalid](err); ok {
		return r.end(ctx, o, invalid.Error())
	}
	return err
}

// size is how many things the next slice has at most.
func (r *Runner) size(o *bulk.Operation, p *pace) int {
	n := p.size
	if of := o.Rate.Slice(); of > 0 {
		n = min(n, of)
	}
	if o.Most > 0 {
		n = min(n, o.Most-o.Through())
	}
	return n
}

// page are the things of the next slice, of one group.
func (r *Runner) page(ctx context.Context, o *bulk.Operation, things Things, most int) (page []Thing, err error) {
	if most <= 0 {
		return nil, nil
	}
	for t, err := range things.List(ctx, ParseKey(o.Cursor), most) {
		if err != nil {
			return nil, err
		}
		if len(page) > 0 && t.Group != page[0].Group {
			break
		}
		page = append(page, t)
	}
	return page, nil
}

// behind is where a part begins for an operation: behind its cursor, or at the part's beginning.
func behind(o *bulk.Operation, part string) Key {
	if k := ParseKey(o.Cursor); k.Part == part {
		return k
	}
	return Key{Part: part}
}

// move changes the things of a page.
func (r *Runner) move(ctx context.Context, o *bulk.Operation, things Things, page []Thing, p *pace) error {
	last, did, can := page[len(page)-1].Key, bulk.Progress{}, 0
	for _, t := range page {
		if t.Refused == "" {
			can++
		} else {
			fail(&did, t, t.Refused)
		}
	}
	o, err := r.store.Change(ctx, o.ID, func(o *bulk.Operation) error {
		return o.Begin(r.owner, bulk.Slice{To: last.String(), N: len(page)})
	})
	if err != nil {
		return err
	}
	begun, after := r.o.Now(), behind(o, last.Part)
	if can > 0 {
		if did.Changed, err = things.Move(ctx, page[0].Group, after, can); err != nil {
			return err // what was done is counted before it is tried again
		}
	}
	if p.took(o.Rate, did.Changed, r.o.Now().Sub(begun), r.o.Now()); did.Changed < can { // some were changed by somebody else, or could not be
		left, err := r.left(ctx, things, after, last, len(page))
		if err != nil {
			return err
		}
		for _, t := range left {
			if t.Refused == "" {
				fail(&did, t, notChanged)
			}
		}
	}
	_, err = r.store.Change(ctx, o.ID, func(o *bulk.Operation) error { return o.Count(r.owner, last.String(), did) })
	return err
}

// fail notes a thing that is not changed.
func fail(did *bulk.Progress, t Thing, reason string) {
	if did.Failed == nil {
		did.Failed = map[string]int{}
	}
	did.Failed[reason]++
	did.Failures = append(did.Failures, bulk.Failure{Key: t.Key.String(), ID: t.ID, Owner: t.Owner, Reason: reason})
}

// left are those of a slice that still match.
func (r *Runner) left(ctx context.Context, things Things, after, last Key, most int) (left []Thing, err error) {
	for t, err := range things.List(ctx, after, most) {
		if err != nil {
			return nil, err
		}
		if t.Key.Part == last.Part && t.Key.upTo(last) {
			left = append(left, t)
		}
	}
	return left, nil
}

// recount counts a slice whose end nobody knows: what does not match any more was changed. The rest
// is in the next slice.
func (r *Runner) recount(ctx context.Context, o *bulk.Operation, things Things) error {
	last := ParseKey(o.Slice.To)
	left, err := r.left(ctx, things, behind(o, last.Part), last, o.Slice.N)
	if err != nil {
		return err
	}
	_, err = r.store.Change(ctx, o.ID, func(o *bulk.Operation) error {
		return o.Count(r.owner, o.Cursor, bulk.Progress{Changed: o.Slice.N - len(left)})
	})
	return err
}

// end ends an operation: why says why it cannot go on; empty: it is done.
func (r *Runner) end(ctx context.Context, o *bulk.Operation, why string) error {
	o, err := r.store.Change(ctx, o.ID, func(o *bulk.Operation) error { return o.End(r.owner, why, r.o.Now()) })
	if err == nil {
		delete(r.pace, o.ID)
		// Logged when an operation is done, was stopped or cannot go on; `why` says so, and is empty
		// if it is done.
		r.o.Log.InfoContext(ctx, "operation ended", "operation", o.ID, "what", o.Kind, "state", o.State, "changed", o.Changed, "failed", o.FailedAll(), "gone", o.Gone, "why", why)
	}
	return err
}

// took sets the pace after a slice: others get at least as much of the store's time, and no more are
// changed than the rate allows.
func (p *pace) took(rate bulk.Rate, n int, took time.Duration, now time.Time) {
	switch {
	case took > slow:
		p.size = max(1, p.size/2)
	case took < quick:
		p.size = min(mostSlice, p.size*2)
	}
	p.next = now.Add(max(took, leastRest))
	if at := now.Add(rate.Takes(n) - took); at.After(p.next) {
		p.next = at
	}
}
