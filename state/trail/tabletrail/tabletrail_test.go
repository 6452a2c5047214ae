package tabletrail_test

import (
	"testing"

	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/internal/sqlitedb/sqlitedbtest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/table/servertest"
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
		table := servertest.InPostgreSQL(t, url, tabletrail.Spec())
		open := func() trail.Trail { return tabletrail.New(table()) }
		return trailtest.Harness{Trail: open(), Reopen: open}
	})
}

func TestInRedis(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client redistest.Client) {
		trailtest.Run(t, func(t *testing.T) trailtest.Harness {
			table := servertest.InRedis(t, client, tabletrail.Spec())
			open := func() trail.Trail { return tabletrail.New(table()) }
			return trailtest.Harness{Trail: open(), Reopen: open}
		})
	})
}
