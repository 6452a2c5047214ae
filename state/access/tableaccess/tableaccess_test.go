package tableaccess_test

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
	"github.com/tidemill/tidemill/state/access/accesstest"
	"github.com/tidemill/tidemill/state/access/tableaccess"
	"github.com/tidemill/tidemill/state/table/postgrestable"
	"github.com/tidemill/tidemill/state/table/redistable"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
)

func TestInMemory(t *testing.T) {
	accesstest.Run(t, func(*testing.T) accesstest.Harness { return accesstest.Harness{Store: tableaccess.Memory()} })
}

func TestInSQLite(t *testing.T) {
	accesstest.Run(t, func(t *testing.T) accesstest.Harness {
		file := sqlitedbtest.NewFile(t, sqlitedb.Options{})
		open := func() accesstest.Store {
			s, err := sqlitetable.New(t.Context(), file.Open(), tableaccess.Spec())
			if err != nil {
				t.Fatal(err)
			}
			return tableaccess.New(s)
		}
		return accesstest.Harness{Store: open(), Reopen: open}
	})
}

func TestInPostgreSQL(t *testing.T) {
	testenv.Need(t)
	url := testenv.Postgres(t)
	accesstest.Run(t, func(t *testing.T) accesstest.Harness {
		var db *postgresdb.DB
		open := func() accesstest.Store {
			var err error
			if db, err = postgresdb.Open(t.Context(), tidemill.NewSecret(url), postgresdb.Options{}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(db.Close)
			s, err := postgrestable.New(t.Context(), db, tableaccess.Spec())
			if err != nil {
				t.Fatal(err)
			}
			return tableaccess.New(s)
		}
		h := accesstest.Harness{Store: open(), Reopen: open}
		if _, err := db.Exec(t.Context(), "TRUNCATE tidemill_access"); err != nil {
			t.Fatal(err)
		}
		return h
	})
}

func TestInRedis(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client rueidis.Client) {
		accesstest.Run(t, func(t *testing.T) accesstest.Harness {
			spec := tableaccess.Spec()
			spec.Name = testenv.Name("a")
			open := func() accesstest.Store {
				s, err := redistable.New(t.Context(), client, spec, redistable.Options{})
				if err != nil {
					t.Fatal(err)
				}
				return tableaccess.New(s)
			}
			t.Cleanup(func() {
				tag := "{table:" + spec.Name + "}:" + spec.Name + ":"
				keys := []string{tag + "spec", tag + "rows", tag + "version", tag + "by:", tag + "by:named", tag + "by:end"}
				if err := client.Do(context.WithoutCancel(t.Context()), client.B().Del().Key(keys...).Build()).Error(); err != nil {
					t.Error(err)
				}
			})
			return accesstest.Harness{Store: open(), Reopen: open}
		})
	})
}
