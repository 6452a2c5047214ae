package sqlitedbtest

import (
	"context"
	"iter"

	"github.com/tidemill/tidemill"
)

// Rows is Again for a listing. It begins anew if it fails before the first row; later the
// caller would have to.
func Rows[T any](f *Faults, list func() iter.Seq2[T, error]) iter.Seq2[T, error] {
	f.t.Helper()
	return func(yield func(T, error) bool) {
		began, stopped := false, false
		if err := f.Again(func() error {
			for row, err := range list() {
				if err != nil && !began {
					return err
				}
				began = true
				if !yield(row, err) {
					stopped = true
					return nil
				}
			}
			return nil
		}); err != nil && !stopped {
			var none T
			yield(none, err)
		}
	}
}

// Sum is Again for a call that works in parts: it adds what was done before each error.
func Sum(f *Faults, do func() (int, error)) (n int, err error) {
	f.t.Helper()
	err = f.Again(func() error { k, err := do(); n += k; return err })
	return n, err
}

// Source treats a source whose statements fail as an engine does: it asks again, and repeats
// unanswered settlements. The source must be a Keeper and a Bookkeeper.
type Source struct {
	F  *Faults
	Of tidemill.Source
}

// Traits implements tidemill.Source.
func (s Source) Traits() tidemill.Traits { return s.Of.Traits() }

// Receive implements tidemill.Source.
func (s Source) Receive(ctx context.Context, into []*tidemill.Message) (int, error) {
	return Get(s.F, func() (int, error) { return s.Of.Receive(ctx, into) })
}

// Settle implements tidemill.Source.
func (s Source) Settle(ctx context.Context, ends []tidemill.Settlement) error {
	rest, of := ends, []int(nil)
	return s.F.Again(func() error {
		err := s.Of.Settle(ctx, rest)
		for i, at := range of {
			ends[at] = rest[i]
		}
		rest, of = nil, nil // for the next time
		for i := range ends {
			if ends[i].Outcome == tidemill.Unanswered {
				rest, of = append(rest, ends[i]), append(of, i)
			}
		}
		return err
	})
}

// Keep implements tidemill.Keeper.
func (s Source) Keep(ctx context.Context) error {
	return s.F.Again(func() error { return s.Of.(tidemill.Keeper).Keep(ctx) })
}

// Books implements tidemill.Bookkeeper.
func (s Source) Books(ctx context.Context) (tidemill.Books, error) {
	return Get(s.F, func() (tidemill.Books, error) { return s.Of.(tidemill.Bookkeeper).Books(ctx) })
}
