package tableproject_test

import (
	"testing"

	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/internal/sqlitedb/sqlitedbtest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/project/projecttest"
	"github.com/tidemill/tidemill/state/project/tableproject"
	"github.com/tidemill/tidemill/state/table/servertest"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
)

func TestInMemory(t *testing.T) {
	projecttest.Run(t, func(*testing.T) projecttest.Harness {
		return projecttest.Harness{Projects: tableproject.Memory()}
	})
}

func onSQLite(t *testing.T, db *sqlitedb.DB) project.Store {
	t.Helper()
	s, err := sqlitetable.New(t.Context(), db, tableproject.Spec())
	if err != nil {
		t.Fatal(err)
	}
	return tableproject.New(s)
}

func TestInSQLite(t *testing.T) {
	projecttest.Run(t, func(t *testing.T) projecttest.Harness {
		file := sqlitedbtest.NewFile(t, sqlitedb.Options{})
		open := func() project.Store { return onSQLite(t, file.Open()) }
		return projecttest.Harness{Projects: open(), Reopen: open}
	})
}

func TestInPostgreSQL(t *testing.T) {
	testenv.Need(t)
	url := testenv.Postgres(t)
	projecttest.Run(t, func(t *testing.T) projecttest.Harness {
		table := servertest.InPostgreSQL(t, url, tableproject.Spec())
		open := func() project.Store { return tableproject.New(table()) }
		return projecttest.Harness{Projects: open(), Reopen: open}
	})
}

func TestInRedis(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client redistest.Client) {
		projecttest.Run(t, func(t *testing.T) projecttest.Harness {
			table := servertest.InRedis(t, client, tableproject.Spec())
			open := func() project.Store { return tableproject.New(table()) }
			return projecttest.Harness{Projects: open(), Reopen: open}
		})
	})
}
