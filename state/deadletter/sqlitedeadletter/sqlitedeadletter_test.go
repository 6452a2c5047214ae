package sqlitedeadletter_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/source/sourcetest"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/deadlettertest"
	"github.com/tidemill/tidemill/state/deadletter/sqlitedeadletter"
)

func TestConformance(t *testing.T) { deadlettertest.Run(t, harness) }

// The file's goroutines live in the bubble too, so that time is exact.
func TestSource(t *testing.T) {
	sourcetest.Run(t, func(t *testing.T) sourcetest.Harness {
		h := harness(t, deadletter.Options{})
		return deadlettertest.Source(t, h.Store, 30*time.Second, h.Reopen)
	})
}

func harness(t *testing.T, o deadletter.Options) deadlettertest.Harness {
	t.Helper()
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
	open := func(t *testing.T) deadletter.Store {
		t.Helper()
		shut()
		db = openDB(t, path)
		s, err := sqlitedeadletter.New(t.Context(), db, o)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	t.Cleanup(shut)
	return deadlettertest.Harness{Store: open(t), Reopen: open, Close: shut}
}

func openDB(t *testing.T, path string) *sqlitedb.DB {
	t.Helper()
	db, err := sqlitedb.Open(t.Context(), path, sqlitedb.Options{Readers: 2, CacheMiB: 4})
	if err != nil {
		t.Fatal(err)
	}
	return db
}
