package tableinstance_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/internal/sqlitedb/sqlitedbtest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/instance"
	"github.com/tidemill/tidemill/state/instance/instancetest"
	"github.com/tidemill/tidemill/state/instance/tableinstance"
	"github.com/tidemill/tidemill/state/table/postgrestable"
	"github.com/tidemill/tidemill/state/table/redistable"
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
		db, err := postgresdb.Open(t.Context(), tidemill.NewSecret(url), postgresdb.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(db.Close)
		spec := tableinstance.Spec()
		spec.Name = testenv.Name("i")
		s, err := postgrestable.New(t.Context(), db, spec)
		if err != nil {
			t.Fatal(err)
		}
		return tableinstance.New(s, now)
	})
}

func TestInRedis(t *testing.T) {
	testenv.Need(t)
	redistest.Each(t, func(t *testing.T, client rueidis.Client) {
		instancetest.Run(t, func(t *testing.T, now func() time.Time) instance.Store {
			spec := tableinstance.Spec()
			spec.Name = testenv.Name("i")
			s, err := redistable.New(t.Context(), client, spec, redistable.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				tag := "{table:" + spec.Name + "}:" + spec.Name + ":"
				keys := []string{tag + "spec", tag + "rows", tag + "version", tag + "by:", tag + "by:end", tag + "by:start"}
				if err := client.Do(context.WithoutCancel(t.Context()), client.B().Del().Key(keys...).Build()).Error(); err != nil {
					t.Error(err)
				}
			})
			return tableinstance.New(s, now)
		})
	})
}
