package postgresdb

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/testenv"
)

func steps(texts ...string) fstest.MapFS {
	files := fstest.MapFS{}
	for i, text := range texts {
		files["migrations/000"+string(rune('1'+i))+"_x.sql"] = &fstest.MapFile{Data: []byte(text)}
	}
	return files
}

const (
	first  = "-- oldest program: 1\nCREATE TABLE a(n bigint)"
	second = "-- oldest program: 1\nALTER TABLE a ADD COLUMN m bigint; INSERT INTO a VALUES (1, 2)"
	third  = "-- oldest program: 2\nALTER TABLE a DROP COLUMN n"
)

func opened(t *testing.T, url string) *DB {
	t.Helper()
	db, err := Open(t.Context(), tidemill.NewSecret(url), Options{Conns: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

// While instances are replaced one by one, both versions work; two later the first is refused.
func TestAProgramGoesOnAsFarAsAStepAllows(t *testing.T) {
	testenv.Need(t)
	db := opened(t, testenv.Postgres(t))
	for _, c := range []struct {
		program fstest.MapFS
		refused bool
	}{
		{steps(first), false}, {steps(first, second), false}, {steps(first), false}, {steps(first, second, third), false}, {steps(first, second), false}, {steps(first), true},
	} {
		if err := db.migrate(t.Context(), c.program); (err != nil) != c.refused || err != nil && !strings.Contains(err.Error(), "use the newer program") {
			t.Errorf("a program of %d steps: %v; want it refused: %v", len(c.program), err, c.refused)
		}
	}
}

func TestProcessesOfTwoVersionsMigrateTogether(t *testing.T) {
	testenv.Need(t)
	url := testenv.Postgres(t)
	var wg sync.WaitGroup
	for i := range 6 {
		db := opened(t, url)
		wg.Go(func() {
			if err := db.migrate(t.Context(), []fstest.MapFS{steps(first, second), steps(first, second, third)}[i%2]); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	var rows int
	if err := opened(t, url).Query(t.Context(), func(r pgx.Rows) error { return r.Scan(&rows) }, "SELECT count(m) FROM a"); err != nil || rows != 1 {
		t.Errorf("a step that adds a row has added %d, %v", rows, err)
	}
}

// A step that fails leaves nothing, and those before it stay.
func TestAStepIsWhole(t *testing.T) {
	testenv.Need(t)
	db := opened(t, testenv.Postgres(t))
	for _, bad := range []string{second + "; SELEKT", "ALTER TABLE a ADD COLUMN m bigint", "-- oldest program: 9\nSELECT 1"} {
		if err := db.migrate(t.Context(), steps(first, bad)); err == nil {
			t.Errorf("%q was done", bad)
		}
		if version, _, err := db.version(t.Context()); version != 1 || err != nil {
			t.Errorf("after %q the tables are of version %d, %v; want 1", bad, version, err)
		}
	}
	if err := db.migrate(t.Context(), steps(first, second)); err != nil {
		t.Error(err)
	}
}

// A step must not hold up all others while it waits for a long transaction.
func TestAStepWaitsForALockInTurns(t *testing.T) {
	testenv.Need(t)
	url := testenv.Postgres(t)
	db, other := opened(t, url), opened(t, url)
	if err := db.migrate(t.Context(), steps(first)); err != nil {
		t.Fatal(err)
	}
	migrated := make(chan error, 1)
	if err := other.Tx(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT FROM a"); err != nil {
			return err
		}
		go func() { migrated <- db.migrate(t.Context(), steps(first, second)) }()
		const waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
		until := func(waiting int) (err error) {
			for n := -1; n != waiting && err == nil; {
				err = other.Query(ctx, func(r pgx.Rows) error { return r.Scan(&n) }, waits)
			}
			return err
		}
		for range 2 { // it has waited, given up, and waits again
			if err := errors.Join(until(0), until(1)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := <-migrated; err != nil {
		t.Error(err)
	}
}
