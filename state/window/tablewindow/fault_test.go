package tablewindow

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/internal/sqlitedb/sqlitedbtest"
	"github.com/tidemill/tidemill/state/window"
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
		s, err := sqlitedbtest.Get(f, func() (window.Store, error) { return inDB(t, db, o) })
		if err != nil {
			t.Fatal(err)
		}
		return windowtest.Harness{Store: again{s, f}, Advance: clock.Advance}
	})
}

// A window of which nothing is there any more ends as it is closed, or handed out, and no
// statement on the way fails unsaid.
func TestWindowsWithoutRecordsEndWhereStatementsFail(t *testing.T) {
	ctx, f, clock := t.Context(), sqlitedbtest.New(t), windowtest.NewClock()
	db := f.Open(t)
	s := onFile(t, db, window.Options{Window: time.Minute, Now: clock.Now})
	store := again{s, f}
	lose := func() {
		t.Helper()
		if err := db.Write(ctx, func(tx *sqlitedb.Tx) error { _, err := tx.Exec("DELETE FROM window_blob"); return err }); err != nil {
			t.Fatal(err)
		}
	}
	put := func() {
		t.Helper()
		if err := store.Put(ctx, []window.Record{{Batch: "b", Kind: "event", ID: "1"}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 3 { // each statement fails twice
		put()
		lose()
		if _, err := store.CloseNow(ctx, "b"); err != nil {
			t.Fatal(err)
		}
		put()
		lose()
		clock.Advance(time.Hour)
		if _, err := store.Sweep(ctx); err != nil {
			t.Fatal(err)
		}
		put()
		if closed, err := store.CloseNow(ctx, "b"); !closed || err != nil {
			t.Fatal(closed, err)
		}
		lose()
		put()
		if closed, err := store.CloseNow(ctx, "b"); !closed || err != nil {
			t.Fatal(closed, err)
		}
		source, m := store.Open(), []*tidemill.Message{{}}
		if _, err := source.Receive(ctx, m); err != nil {
			t.Fatal(err)
		}
		if err := source.Settle(ctx, []tidemill.Settlement{{ID: m[0].ID, Mark: m[0].Mark, Fate: tidemill.Delivered}}); err != nil {
			t.Fatal(err)
		}
		stats, err := store.Stats(ctx)
		if err != nil || stats.Lost != uint64(3*(round+1)) {
			t.Fatalf("%+v, %v; want %d lost", stats, err, 3*(round+1))
		}
	}
}
