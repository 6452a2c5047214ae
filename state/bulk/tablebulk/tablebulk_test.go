package tablebulk_test

import (
	"testing"

	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/internal/sqlitedb/sqlitedbtest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/bulk"
	"github.com/tidemill/tidemill/state/bulk/bulktest"
	"github.com/tidemill/tidemill/state/bulk/tablebulk"
	"github.com/tidemill/tidemill/state/table/servertest"
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
		table := servertest.InPostgreSQL(t, url, tablebulk.Spec())
		open := func() bulk.Store { return tablebulk.New(table()) }
		return bulktest.Harness{Store: open(), Reopen: open}
	})
}

func TestInRedis(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client redistest.Client) {
		bulktest.Run(t, func(t *testing.T) bulktest.Harness {
			table := servertest.InRedis(t, client, tablebulk.Spec())
			open := func() bulk.Store { return tablebulk.New(table()) }
			return bulktest.Harness{Store: open(), Reopen: open}
		})
	})
}
