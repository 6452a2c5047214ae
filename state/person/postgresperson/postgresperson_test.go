package postgresperson

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/person/internal/known"
	"github.com/tidemill/tidemill/state/person/persontest"
)

func TestConformance(t *testing.T) {
	testenv.Need(t)
	for _, c := range []struct {
		name   string
		url    func() string
		o      Options
		checks string // of each random case: a commit takes its time
	}{
		{"with the default cache", func() string { return testenv.Postgres(t) }, Options{}, "60"},
		{"with a cache that always misses", func() string { return testenv.Postgres(t) }, Options{CacheMiB: -1}, "20"},
		{"behind a pooler", func() string { pooled, _ := testenv.PgBouncer(t); return pooled }, Options{}, "20"},
	} {
		t.Run(c.name, func(t *testing.T) {
			url := c.url() + "&synchronous_commit=off" // thousands of commits, without a crash
			testenv.Fewer(t, c.checks)
			persontest.Run(t, func(t *testing.T) persontest.Harness { return harness(t, url, c.o) })
		})
	}
}

// harness empties the database: it is one for all cases, since making one takes longer
// than a case.
func harness(t *testing.T, url string, o Options) persontest.Harness {
	db, store := open(t, url, o)
	exec(t, db, "DELETE FROM person_distinct_ids; DELETE FROM persons; DELETE FROM tidemill_person_overrides; DELETE FROM tidemill_kept_merges")
	return persontest.Harness{
		Store: store,
		Reopen: func(t *testing.T) person.Store {
			db.Close()
			db, store = open(t, url, o)
			return store
		},
		Project: func(t *testing.T) uuid.UUID { return newProject(t, db) },
	}
}

// open opens a Store on a pool of its own. A negative CacheMiB is a cache of one person.
func open(t testing.TB, url string, o Options) (*postgresdb.DB, *Store) {
	t.Helper()
	tiny := o.CacheMiB < 0
	o.CacheMiB = max(o.CacheMiB, 0)
	db, err := postgresdb.Open(t.Context(), tidemill.NewSecret(url), postgresdb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	s, err := New(t.Context(), db, o)
	if err != nil {
		t.Fatal(err)
	}
	if tiny {
		s.cache = known.New(0)
	}
	return db, s
}

func newProject(t testing.TB, db *postgresdb.DB) uuid.UUID {
	t.Helper()
	id := uuid.New()
	if _, err := db.Exec(context.Background(), "INSERT INTO projects(id, name, token) VALUES ($1, 'p', $2)", id, id.String()); err != nil {
		t.Fatal(err)
	}
	return id
}

// written is how many rows of persons were inserted or updated, as PostgreSQL counts.
func written(t testing.TB, s *Store) (n int) {
	t.Helper()
	if err := s.db.Do(context.Background(), func(ctx context.Context, c *pgx.Conn) error {
		if _, err := c.Exec(ctx, "SELECT pg_stat_force_next_flush(), pg_stat_clear_snapshot()"); err != nil {
			return err
		}
		return c.QueryRow(ctx, "SELECT n_tup_ins + n_tup_upd FROM pg_stat_user_tables WHERE relname = 'persons'").Scan(&n)
	}); err != nil {
		t.Fatal(err)
	}
	return n
}
