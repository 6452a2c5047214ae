package analytics

import (
	"context"
	"errors"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/state/person"
)

// contested is what the claims of kept merges are about.
type contested struct {
	users  map[person.Ref]bool // that claim
	others map[person.Ref]bool // that are claimed
}

// add notes the claim of a merge that is not done.
func (c *contested) add(m *person.Merge) {
	if c.users == nil {
		c.users, c.others = map[person.Ref]bool{}, map[person.Ref]bool{}
	}
	c.users[m.Ref], c.others[other(m)] = true, true
}

// by reports whether a merge must come after the noted ones: it claims what they claim, or one
// of their users, or is by a user that they claim. All other merges end the same in any order
// (see package person).
func (c *contested) by(m *person.Merge) bool {
	return c.others[other(m)] || c.others[m.Ref] || c.users[other(m)] && !m.Force
}

func other(m *person.Merge) person.Ref { return person.Ref{Project: m.Project, Distinct: m.Other} }

// mergeKeptFirst tries the kept merges before newer ones, which were acknowledged later, and
// returns what the remaining ones are about. After an error that is not known, so nothing newer
// may be done.
func (s *System) mergeKeptFirst(ctx context.Context) (contested, error) {
	if !s.keeps.Swap(false) {
		return contested{}, nil
	}
	var left contested
	var failed error
	err := retry(ctx, policy.Database, func() (err error) {
		left, failed, err = s.mergeKept(ctx)
		return err
	})
	if err != nil || failed != nil {
		s.keeps.Store(true)
	}
	if err != nil && ctx.Err() == nil {
		// Logged when merges that were kept for later cannot be read, although that was tried again;
		// events wait at the source.
		// To do: make the store of persons answer; then it goes on by itself, and nothing is lost.
		s.options.Log.ErrorContext(ctx, "kept merges cannot be read, flushing waits", "error", err)
		return left, &tidemill.Error{Kind: tidemill.RateLimit, After: mergesWait, Err: err}
	}
	if failed != nil {
		// Logged when merges that were kept for later failed again; they stay.
		// To do: see whether the store of persons is well.
		s.options.Log.WarnContext(ctx, "kept merges cannot be done yet", "error", failed)
	}
	return left, err
}

// mergesWait is how long a batch waits if its merges can neither be done nor kept.
const mergesWait = 5 * time.Second

// mergeKeptLater is mergeKept, as a loop.
func (s *System) mergeKeptLater(ctx context.Context) error {
	_, failed, err := s.mergeKept(ctx)
	return errors.Join(failed, err)
}

// mergeKept tries the kept merges again, the oldest first, each by itself: a failed one only
// blocks those about the same ids. After keptAtOnce failures it leaves the rest. It returns
// what the remaining ones are about, and why they failed; err: the list cannot be read. One
// call runs at a time, so that none repeats a merge that another has done and younger ones have
// followed.
func (s *System) mergeKept(ctx context.Context) (left contested, failed, err error) {
	select {
	case s.keeping <- struct{}{}:
		defer func() { <-s.keeping }()
	case <-ctx.Done():
		return left, nil, ctx.Err()
	}
	kept, err := s.parts.Persons.Oldest(ctx, person.MaxKept)
	if err != nil {
		return left, nil, err
	}
	var errs []error
	var done []person.Merge
	for i, failures := 0, 0; i < len(kept); i++ {
		m, outcome := kept[i:i+1], [1]person.Outcome{}
		if failures == keptAtOnce || ctx.Err() != nil || left.by(&m[0]) {
			left.add(&m[0])
			continue
		}
		if err := s.parts.Persons.Merge(ctx, m, outcome[:]); err != nil {
			errs = append(errs, err)
			failures++
			left.add(&m[0])
			continue
		}
		if outcome[0] == person.Refused {
			s.Warnings.Add(refusedMerge(&m[0], ""))
		}
		if done = append(done, m[0]); len(done) == keptAtOnce {
			errs = append(errs, s.mergedKept(ctx, done))
			done = done[:0]
		}
	}
	if len(done) > 0 {
		errs = append(errs, s.mergedKept(ctx, done))
	}
	return left, errors.Join(errs...), ctx.Err()
}

// keptAtOnce is how many kept merges leave the list together, and how many may fail before
// the rest is left for the next time.
const keptAtOnce = 10

func (s *System) mergedKept(ctx context.Context, done []person.Merge) error {
	return errors.Join(s.parts.Persons.Done(ctx, done), s.relay(ctx))
}
