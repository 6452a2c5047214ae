package tableaccess_test

import (
	"testing"

	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/internal/sqlitedb/sqlitedbtest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/access/accesstest"
	"github.com/tidemill/tidemill/state/access/tableaccess"
	"github.com/tidemill/tidemill/state/table/servertest"
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
		table := servertest.InPostgreSQL(t, url, tableaccess.Spec())
		open := func() accesstest.Store { return tableaccess.New(table()) }
		return accesstest.Harness{Store: open(), Reopen: open}
	})
}

func TestInRedis(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client redistest.Client) {
		accesstest.Run(t, func(t *testing.T) accesstest.Harness {
			table := servertest.InRedis(t, client, tableaccess.Spec())
			open := func() accesstest.Store { return tableaccess.New(table()) }
			return accesstest.Harness{Store: open(), Reopen: open}
		})
	})
}
