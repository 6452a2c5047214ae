package tableperson

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/sqlitedb/sqlitedbtest"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/person/persontest"
)

// again makes each call again that fails by a fault.
type again struct {
	s person.Store
	f *sqlitedbtest.Faults
}

func (a again) Resolve(ctx context.Context, refs []person.Ref, into []uuid.UUID) error {
	return a.f.Again(func() error { return a.s.Resolve(ctx, refs, into) })
}

func (a again) Apply(ctx context.Context, changes []person.Change) error {
	return a.f.Again(func() error { return a.s.Apply(ctx, changes) })
}

// Merge goes on with those that were not done.
func (a again) Merge(ctx context.Context, merges []person.Merge, outcomes []person.Outcome) error {
	done := 0
	return a.f.Again(func() error {
		err := a.s.Merge(ctx, merges[done:], outcomes[done:])
		for done < len(outcomes) && outcomes[done] != 0 {
			done++
		}
		return err
	})
}

func (a again) Overrides(ctx context.Context, max int) ([]person.Override, error) {
	return sqlitedbtest.Get(a.f, func() ([]person.Override, error) { return a.s.Overrides(ctx, max) })
}

func (a again) Relayed(ctx context.Context, seq int64) error {
	return a.f.Again(func() error { return a.s.Relayed(ctx, seq) })
}

func (a again) Keep(ctx context.Context, merges []person.Merge) error {
	return a.f.Again(func() error { return a.s.Keep(ctx, merges) })
}

func (a again) Oldest(ctx context.Context, max int) ([]person.Merge, error) {
	return sqlitedbtest.Get(a.f, func() ([]person.Merge, error) { return a.s.Oldest(ctx, max) })
}

func (a again) Done(ctx context.Context, merges []person.Merge) error {
	return a.f.Again(func() error { return a.s.Done(ctx, merges) })
}

func (a again) Show(ctx context.Context, r person.Ref) (*person.Person, error) {
	return sqlitedbtest.Get(a.f, func() (*person.Person, error) { return a.s.Show(ctx, r) })
}

func (a again) ShowID(ctx context.Context, project, id uuid.UUID) (*person.Person, error) {
	return sqlitedbtest.Get(a.f, func() (*person.Person, error) { return a.s.ShowID(ctx, project, id) })
}

func TestConformanceWhereStatementsFail(t *testing.T) {
	f := sqlitedbtest.New(t)
	persontest.Run(t, func(t *testing.T) persontest.Harness {
		db := f.Open(t)
		s, err := sqlitedbtest.Get(f, func() (person.Store, error) { return inDB(t, db, Options{CacheMiB: misses}) })
		if err != nil {
			t.Fatal(err)
		}
		return persontest.Harness{Store: again{s, f}}
	})
}
