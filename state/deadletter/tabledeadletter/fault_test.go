package tabledeadletter_test

import (
	"context"
	"iter"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sqlitedb/sqlitedbtest"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/deadlettertest"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
)

// again makes each call again that fails by a fault.
type again struct {
	s deadletter.Store
	f *sqlitedbtest.Faults
}

func (a again) Put(ctx context.Context, ls []tidemill.DeadLetter) error {
	return a.f.Again(func() error { return a.s.Put(ctx, ls) })
}

func (a again) Has(ctx context.Context, pipeline string, ids []string, marks []tidemill.Mark) ([]bool, error) {
	return sqlitedbtest.Get(a.f, func() ([]bool, error) { return a.s.Has(ctx, pipeline, ids, marks) })
}

func (a again) List(ctx context.Context, f deadletter.Filter) iter.Seq2[*deadletter.Letter, error] {
	return sqlitedbtest.Rows(a.f, func() iter.Seq2[*deadletter.Letter, error] { return a.s.List(ctx, f) })
}

func (a again) Count(ctx context.Context, f deadletter.Filter) (int, error) {
	return sqlitedbtest.Get(a.f, func() (int, error) { return a.s.Count(ctx, f) })
}

func (a again) Groups(ctx context.Context, only func(string) bool) (deadletter.Groups, error) {
	return sqlitedbtest.Get(a.f, func() (deadletter.Groups, error) { return a.s.Groups(ctx, only) })
}

func (a again) Owners(ctx context.Context, only func(string) bool) ([]deadletter.Owner, error) {
	return sqlitedbtest.Get(a.f, func() ([]deadletter.Owner, error) { return a.s.Owners(ctx, only) })
}

func (a again) Replay(ctx context.Context, f deadletter.Filter) (int, error) {
	return sqlitedbtest.Sum(a.f, func() (int, error) { return a.s.Replay(ctx, f) })
}

func (a again) Delete(ctx context.Context, f deadletter.Filter) (int, error) {
	return sqlitedbtest.Sum(a.f, func() (int, error) { return a.s.Delete(ctx, f) })
}

func (a again) Edit(ctx context.Context, n deadletter.Name, payload []byte, seen string) error {
	return a.f.Again(func() error { return a.s.Edit(ctx, n, payload, seen) })
}

func (a again) Open(pipeline string) tidemill.Source {
	return sqlitedbtest.Source{F: a.f, Of: a.s.Open(pipeline)}
}

func TestConformanceWhereStatementsFail(t *testing.T) {
	f := sqlitedbtest.New(t)
	deadlettertest.Run(t, func(t *testing.T, o deadletter.Options) deadlettertest.Harness {
		db := f.Open(t)
		s, err := sqlitedbtest.Get(f, func() (deadletter.Store, error) {
			tab, err := sqlitetable.New(t.Context(), db, tabledeadletter.Spec())
			if err != nil {
				return nil, err
			}
			return tabledeadletter.New(t.Context(), tab, tabledeadletter.Options{Options: o})
		})
		if err != nil {
			t.Fatal(err)
		}
		return deadlettertest.Harness{Store: again{s, f}}
	})
}
