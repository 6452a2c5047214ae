package analyticstest_test

import (
	"path/filepath"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/definition/tabledefinition"
	"github.com/tidemill/tidemill/state/lock/tablelock"
	"github.com/tidemill/tidemill/state/person/tableperson"
	"github.com/tidemill/tidemill/state/project/tableproject"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/sqlitequeue"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
	"github.com/tidemill/tidemill/systems/analytics"
	"github.com/tidemill/tidemill/systems/analytics/analyticstest"
	"github.com/tidemill/tidemill/systems/analytics/warehouse/sqlitewarehouse"
)

func TestSQLite(t *testing.T) { analyticstest.Run(t, sqlite) }

// sqlite is all backends on one file, as in the embedded instance.
func sqlite(t *testing.T) analyticstest.Harness {
	f := &file{t: t, path: filepath.Join(t.TempDir(), "tidemill.db")}
	t.Cleanup(f.close)
	return f.open()
}

type file struct {
	t    *testing.T
	path string
	db   *sqlitedb.DB
}

func (f *file) close() {
	if err := f.db.Close(); err != nil {
		f.t.Errorf("close the database: %v", err)
	}
}

func (f *file) open() analyticstest.Harness {
	t, ctx := f.t, f.t.Context()
	t.Helper()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	db, err := sqlitedb.Open(ctx, f.path, sqlitedb.Options{})
	ok(err)
	f.db = db
	queues, err := sqlitequeue.New(ctx, db, sqlitequeue.Options{})
	ok(err)
	records, err := sqlitetable.New(ctx, db, tableperson.Spec())
	ok(err)
	moves, err := sqlitetable.New(ctx, db, tableperson.MoveSpec())
	ok(err)
	lists, err := sqlitetable.New(ctx, db, tableperson.ListSpec())
	ok(err)
	persons, err := tableperson.New(records, moves, lists, tableperson.Options{})
	ok(err)
	events, err := sqlitewarehouse.New(ctx, db, sqlitewarehouse.Options{})
	ok(err)
	definitions, err := sqlitetable.New(ctx, db, tabledefinition.Spec())
	ok(err)
	dead, err := sqlitetable.New(ctx, db, tabledeadletter.Spec())
	ok(err)
	letters, err := tabledeadletter.New(ctx, dead, tabledeadletter.Options{})
	ok(err)
	locks, err := sqlitetable.New(ctx, db, tablelock.Spec())
	ok(err)
	projects, err := sqlitetable.New(ctx, db, tableproject.Spec())
	ok(err)
	return open(t, analyticstest.Harness{
		Intake: queues, Source: func() tidemill.Source { return queues.Open(analytics.Name, queue.Options{}) },
		Persons: persons, Warehouse: events, Definitions: tabledefinition.New(definitions), Letters: letters, Locks: tablelock.New(locks, tablelock.Options{}), Projects: tableproject.New(projects),
		Reopen: func() analyticstest.Harness { f.close(); return f.open() },
	})
}
