package redisdeadletter

import (
	"cmp"
	"context"
	"fmt"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
)

// Replay implements deadletter.Store, page by page. A dead letter that changed since it was
// read has died again, and is not the one that was seen.
func (s *Store) Replay(ctx context.Context, f deadletter.Filter) (n int, err error) {
	n, err = s.change(ctx, f, func(r stored) (change, bool) {
		return change{kind: "set", r: r.Record, old: r.old}, r.Replay()
	})
	if err != nil {
		return n, fmt.Errorf("replay dead letters, %d are marked: %w", n, err)
	}
	return n, nil
}

// Delete implements deadletter.Store, like Replay.
func (s *Store) Delete(ctx context.Context, f deadletter.Filter) (n int, err error) {
	n, err = s.change(ctx, f, func(r stored) (change, bool) {
		return change{kind: "del", r: r.Record, old: r.old, book: "skipped"}, r.State == deadletter.Held
	})
	if err != nil {
		return n, fmt.Errorf("discard dead letters, %d are gone: %w", n, err)
	}
	return n, nil
}

// change changes dead letters that f chooses, at most f.Max of those that to wants.
func (s *Store) change(ctx context.Context, f deadletter.Filter, to func(stored) (change, bool)) (n int, err error) {
	if f.State == deadletter.Replaying { // those cannot be moved
		return 0, f.Check()
	}
	most := f.Max
	f.Max, f.State = 0, deadletter.Held
	err = s.scan(ctx, f, func(page []stored) error {
		var c commit
		for _, r := range page {
			if most > 0 && n+len(c.changes) == most {
				break
			}
			if ch, ok := to(r); ok {
				c.changes = append(c.changes, ch)
			}
		}
		if len(c.changes) > 0 {
			made, err := c.run(ctx, s)
			if err != nil {
				return err
			}
			for _, m := range made {
				if m {
					n++
				}
			}
		}
		if most > 0 && n >= most {
			return errEnough
		}
		return nil
	})
	if err == errEnough {
		err = nil
	}
	return n, err
}

// Edit implements deadletter.Store: the dead letter gets another entry in the stream.
func (s *Store) Edit(ctx context.Context, n deadletter.Name, payload []byte, seen string) error {
	for range tries {
		done, err := s.edit(ctx, n, payload, seen)
		if err != nil {
			return fmt.Errorf("edit a dead letter: %w", err)
		}
		if done {
			return nil
		}
	}
	return tidemill.Fail(tidemill.Transient, "edit dead letter %q: others change it all the time", n.ID)
}

// edit tries once. It does nothing where the dead letter changed meanwhile.
func (s *Store) edit(ctx context.Context, n deadletter.Name, payload []byte, seen string) (done bool, err error) {
	if err := cmp.Or(ctx.Err(), s.adopt(ctx)); err != nil {
		return false, err
	}
	field := idField(n.Pipeline, n.ID)
	found, err := s.find(ctx, []string{field})
	if err != nil {
		return false, err
	}
	known, ok := found[field].of(n.Tenant)
	if !ok {
		return false, deadletter.NotFound(n)
	}
	letters, err := s.whole(ctx, []int64{known.Seq}, 1)
	if err != nil || len(letters) == 0 {
		return false, err
	}
	r := letters[0]
	changed, err := r.Edit(payload, seen, s.o.Now())
	if err != nil || !changed {
		return !changed, err
	}
	c := commit{changes: []change{{kind: "set", r: r.Record, old: r.old, fields: encodeEntry(r.Record)}}}
	made, err := c.run(ctx, s)
	return err == nil && made[0], err
}
