package sqlitelock_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/lock"
	"github.com/tidemill/tidemill/state/lock/locktest"
	"github.com/tidemill/tidemill/state/lock/sqlitelock"
)

func TestConformance(t *testing.T) {
	locktest.Run(t, func(t *testing.T, now func() time.Time) locktest.Harness {
		path := filepath.Join(t.TempDir(), "t.db")
		var db *sqlitedb.DB
		closeDB := func() {
			if db != nil {
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			}
		}
		t.Cleanup(func() { closeDB() })
		open := func() lock.Locks {
			closeDB()
			var err error
			if db, err = sqlitedb.Open(t.Context(), path, sqlitedb.Options{}); err != nil {
				t.Fatal(err)
			}
			l, err := sqlitelock.New(t.Context(), db, sqlitelock.Options{Now: now})
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		return locktest.Harness{Locks: open(), Reopen: open}
	})
}
