package tableinstance_test

import (
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/internal/sqlitedb/sqlitedbtest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/instance"
	"github.com/tidemill/tidemill/state/instance/instancetest"
	"github.com/tidemill/tidemill/state/instance/tableinstance"
	"github.com/tidemill/tidemill/state/table/servertest"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
)

func TestInMemory(t *testing.T) {
	instancetest.Run(t, func(_ *testing.T, now func() time.Time) instance.Store { return tableinstance.Memory(now) })
}

func TestInSQLite(t *testing.T) {
	instancetest.Run(t, func(t *testing.T, now func() time.Time) instance.Store {
		s, err := sqlitetable.New(t.Context(), sqlitedbtest.NewFile(t, sqlitedb.Options{}).Open(), tableinstance.Spec())
		if err != nil {
			t.Fatal(err)
		}
		return tableinstance.New(s, now)
	})
}

func TestInPostgreSQL(t *testing.T) {
	testenv.Need(t)
	url := testenv.Postgres(t)
	instancetest.Run(t, func(t *testing.T, now func() time.Time) instance.Store {
		return tableinstance.New(servertest.InPostgreSQL(t, url, tableinstance.Spec())(), now)
	})
}

func TestInRedis(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client redistest.Client) {
		instancetest.Run(t, func(t *testing.T, now func() time.Time) instance.Store {
			return tableinstance.New(servertest.InRedis(t, client, tableinstance.Spec())(), now)
		})
	})
}
