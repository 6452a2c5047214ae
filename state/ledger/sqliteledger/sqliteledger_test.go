package sqliteledger_test

import (
	"path/filepath"
	"testing"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/ledgertest"
	"github.com/tidemill/tidemill/state/ledger/sqliteledger"
)

func TestConformance(t *testing.T) { ledgertest.Run(t, harness) }

func harness(t *testing.T) ledgertest.Harness {
	t.Helper()
	c := ledgertest.NewClock()
	path := filepath.Join(t.TempDir(), "t.db")
	var db *sqlitedb.DB
	shut := func() {
		if db == nil {
			return
		}
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	open := func(t *testing.T) ledger.Ledger {
		t.Helper()
		shut()
		var err error
		if db, err = sqlitedb.Open(t.Context(), path, sqlitedb.Options{Readers: 1, CacheMiB: 4}); err != nil {
			t.Fatal(err)
		}
		l, err := sqliteledger.New(t.Context(), db, sqliteledger.Options{Now: c.Now})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	t.Cleanup(shut)
	return ledgertest.Harness{Ledger: open(t), Clock: c, Reopen: open, Close: shut}
}
