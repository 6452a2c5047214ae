package tablebulk_test

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
	"github.com/tidemill/tidemill/state/bulk"
	"github.com/tidemill/tidemill/state/bulk/bulktest"
	"github.com/tidemill/tidemill/state/bulk/tablebulk"
	"github.com/tidemill/tidemill/state/table/postgrestable"
	"github.com/tidemill/tidemill/state/table/redistable"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
)

func TestInMemory(t *testing.T) {
	bulktest.Run(t, func(*testing.T) bulktest.Harness { return bulktest.Harness{Store: tablebulk.Memory()} })
}

func TestInSQLite(t *testing.T) {
	bulktest.Run(t, func(t *testing.T) bulktest.Harness {
		file := sqlitedbtest.NewFile(t, sqlitedb.Options{})
		open := func() bulk.Store {
			s, err := sqlitetable.New(t.Context(), file.Open(), tablebulk.Spec())
			if err != nil {
				t.Fatal(err)
			}
			return tablebulk.New(s)
		}
		return bulktest.Harness{Store: open(), Reopen: open}
	})
}

func TestInPostgreSQL(t *testing.T) {
	testenv.Need(t)
	url := testenv.Postgres(t)
	bulktest.Run(t, func(t *testing.T) bulktest.Harness {
		var db *postgresdb.DB
		open := func() bulk.Store {
			var err error
			if db, err = postgresdb.Open(t.Context(), tidemill.NewSecret(url), postgresdb.Options{}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(db.Close)
			s, err := postgrestable.New(t.Context(), db, tablebulk.Spec())
			if err != nil {
				t.Fatal(err)
			}
			return tablebulk.New(s)
		}
		h := bulktest.Harness{Store: open(), Reopen: open}
		if _, err := db.Exec(t.Context(), "TRUNCATE tidemill_operation"); err != nil {
			t.Fatal(err)
		}
		return h
	})
}

func TestInRedis(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client rueidis.Client) {
		bulktest.Run(t, func(t *testing.T) bulktest.Harness {
			spec := tablebulk.Spec()
			spec.Name = testenv.Name("o")
			open := func() bulk.Store {
				s, err := redistable.New(t.Context(), client, spec, redistable.Options{})
				if err != nil {
					t.Fatal(err)
				}
				return tablebulk.New(s)
			}
			t.Cleanup(func() {
				tag := "{table:" + spec.Name + "}:" + spec.Name + ":"
				keys := []string{tag + "spec", tag + "rows", tag + "version", tag + "by:", tag + "by:made", tag + "by:state", tag + "by:expires"}
				if err := client.Do(context.WithoutCancel(t.Context()), client.B().Del().Key(keys...).Build()).Error(); err != nil {
					t.Error(err)
				}
			})
			return bulktest.Harness{Store: open(), Reopen: open}
		})
	})
}
