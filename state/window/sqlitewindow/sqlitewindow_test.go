package sqlitewindow_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/source/sourcetest"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/sqlitewindow"
	"github.com/tidemill/tidemill/state/window/windowtest"
)

func TestConformance(t *testing.T) {
	windowtest.Run(t, func(t *testing.T, o window.Options) windowtest.Harness {
		t.Helper()
		clock := windowtest.NewClock()
		o.Now = clock.Now
		h := harness(t, o)
		h.Advance = clock.Advance
		return h
	})
}

// The file's goroutines live in the bubble too, so that time is exact.
func TestSource(t *testing.T) {
	sourcetest.Run(t, func(t *testing.T) sourcetest.Harness {
		h := harness(t, window.Options{})
		return windowtest.Source(t, h.Store, 30*time.Second, h.Reopen)
	})
}

// harness is a store in a file of its own.
func harness(t *testing.T, o window.Options) windowtest.Harness {
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
	open := func(t *testing.T) window.Store {
		t.Helper()
		shut()
		var err error
		if db, err = sqlitedb.Open(t.Context(), path, sqlitedb.Options{Readers: 2, CacheMiB: 4}); err != nil {
			t.Fatal(err)
		}
		s, err := sqlitewindow.New(t.Context(), db, o)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	run := func(t *testing.T, id, query string) {
		t.Helper()
		_, revision, _ := window.ParseID(id)
		err := db.Write(t.Context(), func(tx *sqlitedb.Tx) error {
			n, err := tx.Exec(query, revision)
			if n == 0 && err == nil {
				t.Errorf("%s changed nothing of %q", query, id)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(shut)
	return windowtest.Harness{Store: open(t), Reopen: open, Close: shut,
		Lose: func(t *testing.T, id string) { run(t, id, "DELETE FROM window_record WHERE revision=?") },
		Damage: func(t *testing.T, id string) {
			run(t, id, "UPDATE window_record SET body=cast('damaged' AS BLOB) WHERE (revision, key) IN (SELECT revision, key FROM window_record WHERE revision=? ORDER BY key LIMIT 1)")
		}}
}
