package tabledeadletter_test

import (
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/internal/sqlitedb/sqlitedbtest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/source/sourcetest"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/deadlettertest"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/table/postgrestable"
	"github.com/tidemill/tidemill/state/table/redistable"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
)

// A source in a bubble has exact time: the file's goroutines live in it too.
func TestInMemory(t *testing.T) {
	open := func(t *testing.T, o deadletter.Options) deadlettertest.Harness {
		t.Helper()
		s, err := tabledeadletter.Memory(o)
		if err != nil {
			t.Fatal(err)
		}
		return deadlettertest.Harness{Store: s}
	}
	deadlettertest.Run(t, open)
	sourcetest.Run(t, func(t *testing.T) sourcetest.Harness {
		return deadlettertest.Source(t, open(t, deadletter.Options{}).Store, 30*time.Second, nil)
	})
}

func TestInSQLite(t *testing.T) {
	deadlettertest.Run(t, inSQLite)
	sourcetest.Run(t, func(t *testing.T) sourcetest.Harness {
		h := inSQLite(t, deadletter.Options{})
		return deadlettertest.Source(t, h.Store, 30*time.Second, h.Reopen)
	})
}

func inSQLite(t *testing.T, o deadletter.Options) deadlettertest.Harness {
	t.Helper()
	file := sqlitedbtest.NewFile(t, options)
	open := func(t *testing.T) deadletter.Store {
		t.Helper()
		return onFile(t, file.Open(), o)
	}
	return deadlettertest.Harness{Store: open(t), Reopen: open, Close: file.Close}
}

// options are those of databases that many tests open at once.
var options = sqlitedb.Options{Readers: 2, CacheMiB: 4}

func onFile(t testing.TB, db *sqlitedb.DB, o deadletter.Options) *tabledeadletter.Store[*sqlitedb.Tx] {
	t.Helper()
	tab, err := sqlitetable.New(t.Context(), db, tabledeadletter.Spec())
	if err != nil {
		t.Fatal(err)
	}
	s, err := tabledeadletter.New(t.Context(), tab, tabledeadletter.Options{Options: o})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestInPostgreSQL(t *testing.T) {
	testenv.Need(t)
	testenv.Fewer(t, "8")
	url := testenv.Postgres(t) + "&synchronous_commit=off" // thousands of commits, without a crash
	deadlettertest.Run(t, func(t *testing.T, o deadletter.Options) deadlettertest.Harness { return inPostgres(t, url, o) })
	sourcetest.RunLive(t, 8, func(t *testing.T) sourcetest.Harness {
		const lease = 2 * time.Second
		h := inPostgres(t, url, deadletter.Options{Lease: lease})
		return deadlettertest.Source(t, h.Store, lease, h.Reopen)
	})
}

func inPostgres(t *testing.T, url string, o deadletter.Options) deadlettertest.Harness {
	t.Helper()
	spec := tabledeadletter.Spec()
	spec.Name = testenv.Name("d")
	open := func(t *testing.T) deadletter.Store {
		t.Helper()
		db, err := postgresdb.Open(t.Context(), tidemill.NewSecret(url), postgresdb.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(db.Close)
		tab, err := postgrestable.New(t.Context(), db, spec)
		if err != nil {
			t.Fatal(err)
		}
		s, err := tabledeadletter.New(t.Context(), tab, tabledeadletter.Options{Options: o, Look: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	return deadlettertest.Harness{Store: open(t), Reopen: open, Shared: true}
}

func TestInRedis(t *testing.T) {
	testenv.Need(t)
	testenv.Fewer(t, "8")
	redistest.Each(t, func(t *testing.T, client rueidis.Client) {
		t.Parallel()
		deadlettertest.Run(t, func(t *testing.T, o deadletter.Options) deadlettertest.Harness { return inRedis(t, client, o) })
		sourcetest.RunLive(t, 8, func(t *testing.T) sourcetest.Harness {
			const lease = 2 * time.Second
			h := inRedis(t, client, deadletter.Options{Lease: lease})
			return deadlettertest.Source(t, h.Store, lease, h.Reopen)
		})
	})
}

func inRedis(t *testing.T, client rueidis.Client, o deadletter.Options) deadlettertest.Harness {
	t.Helper()
	spec := tabledeadletter.Spec()
	spec.Name = testenv.Name("d")
	open := func(t *testing.T) deadletter.Store {
		t.Helper()
		tab, err := redistable.New(t.Context(), client, spec, redistable.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := tabledeadletter.New(t.Context(), tab, tabledeadletter.Options{Options: o, Look: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	return deadlettertest.Harness{Store: open(t), Reopen: open, Shared: true}
}
