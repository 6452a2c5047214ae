package tableproject_test

import (
	"context"
	"testing"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/internal/sqlitedb/sqlitedbtest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/project/projecttest"
	"github.com/tidemill/tidemill/state/project/tableproject"
	"github.com/tidemill/tidemill/state/table/postgrestable"
	"github.com/tidemill/tidemill/state/table/redistable"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
)

func TestInMemory(t *testing.T) {
	projecttest.Run(t, func(*testing.T) projecttest.Harness {
		return projecttest.Harness{Projects: tableproject.Memory()}
	})
}

func onSQLite(t *testing.T, db *sqlitedb.DB) project.Projects {
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
		open := func() project.Projects { return onSQLite(t, file.Open()) }
		return projecttest.Harness{Projects: open(), Reopen: open}
	})
}

func TestInPostgreSQL(t *testing.T) {
	testenv.Need(t)
	url := testenv.Postgres(t)
	projecttest.Run(t, func(t *testing.T) projecttest.Harness {
		var db *postgresdb.DB
		open := func() project.Projects {
			var err error
			if db, err = postgresdb.Open(t.Context(), tidemill.NewSecret(url), postgresdb.Options{}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(db.Close)
			s, err := postgrestable.New(t.Context(), db, tableproject.Spec())
			if err != nil {
				t.Fatal(err)
			}
			return tableproject.New(s)
		}
		h := projecttest.Harness{Projects: open(), Reopen: open}
		if _, err := db.Exec(t.Context(), "TRUNCATE tidemill_project"); err != nil {
			t.Fatal(err)
		}
		return h
	})
}

func TestInRedis(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client rueidis.Client) {
		projecttest.Run(t, func(t *testing.T) projecttest.Harness {
			spec := tableproject.Spec()
			spec.Name = testenv.Name("p")
			open := func() project.Projects {
				s, err := redistable.New(t.Context(), client, spec, redistable.Options{})
				if err != nil {
					t.Fatal(err)
				}
				return tableproject.New(s)
			}
			t.Cleanup(func() {
				tag := "{table:" + spec.Name + "}:" + spec.Name + ":"
				keys := []string{tag + "spec", tag + "rows", tag + "version", tag + "by:"}
				if err := client.Do(context.WithoutCancel(t.Context()), client.B().Del().Key(keys...).Build()).Error(); err != nil {
					t.Error(err)
				}
			})
			return projecttest.Harness{Projects: open(), Reopen: open}
		})
	})
}
