package tableledger_test

import (
	"context"
	"iter"
	"path/filepath"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/internal/sqlitedb/sqlitedbtest"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/ledgertest"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
)

// again makes each call again that fails by a fault.
type again struct {
	l ledger.Store
	f *sqlitedbtest.Faults
}

func (a again) Begin(ctx context.Context, es []*ledger.Entry, o ledger.Begin) error {
	given := make([]ledger.Entry, len(es))
	for i, e := range es {
		given[i] = *e
	}
	return a.f.Again(func() error {
		for i := range es {
			*es[i] = given[i]
		}
		return a.l.Begin(ctx, es, o)
	})
}

func (a again) End(ctx context.Context, es []*ledger.Entry) error {
	return a.f.Again(func() error { return a.l.End(ctx, es) })
}

func (a again) Find(ctx context.Context, es []*ledger.Entry) error {
	return a.f.Again(func() error { return a.l.Find(ctx, es) })
}

// Range tells an error before the first entry from one in the middle: it begins again where
// nothing was yielded.
func (a again) Range(ctx context.Context, f ledger.Filter) iter.Seq2[*ledger.Entry, error] {
	return func(yield func(*ledger.Entry, error) bool) {
		var all []*ledger.Entry
		if err := a.f.Again(func() error {
			all = nil
			for e, err := range a.l.Range(ctx, f) {
				if err != nil {
					return err
				}
				all = append(all, e)
			}
			return nil
		}); err != nil {
			yield(nil, err)
			return
		}
		for _, e := range all {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (a again) Expire(ctx context.Context, before time.Time, max int) (int, error) {
	return sqlitedbtest.Get(a.f, func() (int, error) { return a.l.Expire(ctx, before, max) })
}

func TestConformanceWhereStatementsFail(t *testing.T) {
	f := sqlitedbtest.New(t)
	ledgertest.Run(t, func(t *testing.T) ledgertest.Harness {
		c := ledgertest.NewClock()
		db, err := sqlitedb.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), sqlitedb.Options{Readers: 1, CacheMiB: 4, Fault: f.Fault})
		if err != nil {
			t.Fatal(err)
		}
		shut := func() { _ = db.Close() }
		t.Cleanup(shut)
		s, err := sqlitedbtest.Get(f, func() (*sqlitetable.Store[ledger.Record], error) {
			return sqlitetable.New(t.Context(), db, tableledger.Spec(""))
		})
		if err != nil {
			t.Fatal(err)
		}
		l := tableledger.New(s, tableledger.Options{Now: c.Now})
		return ledgertest.Harness{Ledger: again{l, f}, Clock: c, Close: shut}
	})
}

// What is kept as done in another's transaction says what failed, so that none of it stays.
func TestWhatIsKeptAsDoneSaysWhatFailed(t *testing.T) {
	f := sqlitedbtest.New(t)
	db := f.Open(t)
	s, err := sqlitedbtest.Get(f, func() (*sqlitetable.Store[ledger.Record], error) {
		return sqlitetable.New(t.Context(), db, tableledger.Spec(""))
	})
	if err != nil {
		t.Fatal(err)
	}
	l := tableledger.New(s, tableledger.Options{})
	for i := range 5 {
		if err := f.Again(func() error {
			return db.Write(t.Context(), func(tx *sqlitedb.Tx) error {
				return l.Keep(s.In(t.Context(), tx), []*ledger.Entry{{Key: string(rune('a' + i)), Holder: "h"}})
			})
		}); err != nil {
			t.Fatal(err)
		}
	}
}
