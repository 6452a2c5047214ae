package tabletrail_test

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
	"github.com/tidemill/tidemill/state/table/postgrestable"
	"github.com/tidemill/tidemill/state/table/redistable"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
	"github.com/tidemill/tidemill/state/trail"
	"github.com/tidemill/tidemill/state/trail/tabletrail"
	"github.com/tidemill/tidemill/state/trail/trailtest"
)

func TestInMemory(t *testing.T) {
	trailtest.Run(t, func(*testing.T) trailtest.Harness { return trailtest.Harness{Trail: tabletrail.Memory()} })
}

func TestInSQLite(t *testing.T) {
	trailtest.Run(t, func(t *testing.T) trailtest.Harness {
		file := sqlitedbtest.NewFile(t, sqlitedb.Options{})
		open := func() trail.Trail {
			s, err := sqlitetable.New(t.Context(), file.Open(), tabletrail.Spec())
			if err != nil {
				t.Fatal(err)
			}
			return tabletrail.New(s)
		}
		return trailtest.Harness{Trail: open(), Reopen: open}
	})
}

func TestInPostgreSQL(t *testing.T) {
	testenv.Need(t)
	url := testenv.Postgres(t)
	trailtest.Run(t, func(t *testing.T) trailtest.Harness {
		var db *postgresdb.DB
		open := func() trail.Trail {
			var err error
			if db, err = postgresdb.Open(t.Context(), tidemill.NewSecret(url), postgresdb.Options{}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(db.Close)
			s, err := postgrestable.New(t.Context(), db, tabletrail.Spec())
			if err != nil {
				t.Fatal(err)
			}
			return tabletrail.New(s)
		}
		h := trailtest.Harness{Trail: open(), Reopen: open}
		if _, err := db.Exec(t.Context(), "TRUNCATE tidemill_trail"); err != nil {
			t.Fatal(err)
		}
		return h
	})
}

func TestInRedis(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client rueidis.Client) {
		trailtest.Run(t, func(t *testing.T) trailtest.Harness {
			spec := tabletrail.Spec()
			spec.Name = testenv.Name("t")
			open := func() trail.Trail {
				s, err := redistable.New(t.Context(), client, spec, redistable.Options{})
				if err != nil {
					t.Fatal(err)
				}
				return tabletrail.New(s)
			}
			t.Cleanup(func() {
				tag := "{table:" + spec.Name + "}:" + spec.Name + ":"
				keys := []string{tag + "spec", tag + "rows", tag + "version", tag + "by:", tag + "by:all", tag + "by:by_who", tag + "by:by_operation", tag + "by:by_thing", tag + "by:by_outcome"}
				if err := client.Do(context.WithoutCancel(t.Context()), client.B().Del().Key(keys...).Build()).Error(); err != nil {
					t.Error(err)
				}
			})
			return trailtest.Harness{Trail: open(), Reopen: open}
		})
	})
}
