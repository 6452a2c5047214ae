package sqlitewindow_test

import (
	"context"
	"iter"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sqlitedb/sqlitedbtest"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/sqlitewindow"
	"github.com/tidemill/tidemill/state/window/windowtest"
)

// again makes each call again that fails by a fault.
type again struct {
	s window.Store
	f *sqlitedbtest.Faults
}

func (a again) Put(ctx context.Context, records []window.Record, kept []window.Kept) error {
	return a.f.Again(func() error { return a.s.Put(ctx, records, kept) })
}

func (a again) List(ctx context.Context, f window.Filter) iter.Seq2[*window.Info, error] {
	return sqlitedbtest.Rows(a.f, func() iter.Seq2[*window.Info, error] { return a.s.List(ctx, f) })
}

func (a again) Look(ctx context.Context, id string) (*window.Info, error) {
	return sqlitedbtest.Get(a.f, func() (*window.Info, error) { return a.s.Look(ctx, id) })
}

func (a again) Peek(ctx context.Context, id, from string, into []window.Record) (window.Page, error) {
	return sqlitedbtest.Get(a.f, func() (window.Page, error) { return a.s.Peek(ctx, id, from, into) })
}

func (a again) CloseNow(ctx context.Context, batch string) (bool, error) {
	return sqlitedbtest.Get(a.f, func() (bool, error) { return a.s.CloseNow(ctx, batch) })
}

func (a again) Replay(ctx context.Context, f window.Filter) (int, error) {
	return sqlitedbtest.Sum(a.f, func() (int, error) { return a.s.Replay(ctx, f) })
}

func (a again) Stats(ctx context.Context) (window.Stats, error) {
	return sqlitedbtest.Get(a.f, func() (window.Stats, error) { return a.s.Stats(ctx) })
}

// Sweep adds what was done before each error.
func (a again) Sweep(ctx context.Context) (all window.Swept, err error) {
	err = a.f.Again(func() error {
		done, err := a.s.Sweep(ctx)
		all.Closed, all.Lost, all.Next = all.Closed+done.Closed, all.Lost+done.Lost, done.Next
		return err
	})
	return all, err
}

func (a again) Open() tidemill.Source { return sqlitedbtest.Source{F: a.f, Of: a.s.Open()} }

func (a again) Page(ctx context.Context, m tidemill.Mark, from string, into []window.Record) (window.Page, error) {
	return sqlitedbtest.Get(a.f, func() (window.Page, error) { return a.s.Page(ctx, m, from, into) })
}

func TestConformanceWhereStatementsFail(t *testing.T) {
	f := sqlitedbtest.New(t)
	windowtest.Run(t, func(t *testing.T, o window.Options) windowtest.Harness {
		clock := windowtest.NewClock()
		o.Now = clock.Now
		db := f.Open(t)
		s, err := sqlitedbtest.Get(f, func() (*sqlitewindow.Store, error) { return sqlitewindow.New(t.Context(), db, o) })
		if err != nil {
			t.Fatal(err)
		}
		return windowtest.Harness{Store: again{s, f}, Advance: clock.Advance}
	})
}
