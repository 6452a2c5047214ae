package sqliteprogress_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/systems/windows/gdelt/progress"
	"github.com/tidemill/tidemill/systems/windows/gdelt/progress/progresstest"
	"github.com/tidemill/tidemill/systems/windows/gdelt/progress/sqliteprogress"
)

func TestConformance(t *testing.T) {
	progresstest.Run(t, func(t *testing.T, now func() time.Time) progresstest.Harness {
		path := filepath.Join(t.TempDir(), "t.db")
		var db *sqlitedb.DB
		t.Cleanup(func() { _ = db.Close() })
		open := func(feed string) progress.Store {
			s, err := sqliteprogress.New(t.Context(), db, feed, now)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		start := func() {
			var err error
			if db, err = sqlitedb.Open(t.Context(), path, sqlitedb.Options{}); err != nil {
				t.Fatal(err)
			}
		}
		start()
		return progresstest.Harness{Store: open("one"), Other: open("other"), Reopen: func() progress.Store {
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			start()
			return open("one")
		}}
	})
}

func TestAFeedNeedsAName(t *testing.T) {
	if _, err := sqliteprogress.New(t.Context(), nil, "", nil); err == nil {
		t.Error("a feed without a name is taken")
	}
}
