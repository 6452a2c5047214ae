package postgresledger_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/ledgertest"
	"github.com/tidemill/tidemill/state/ledger/postgresledger"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
)

func TestConformance(t *testing.T) {
	testenv.Need(t)
	testenv.Fewer(t, "40")
	db := connect(t, testenv.Postgres(t)+"&synchronous_commit=off") // thousands of commits, without a crash
	ledgertest.Run(t, func(t *testing.T) ledgertest.Harness { return harness(t, db) })
}

func connect(t testing.TB, url string) *postgresdb.DB {
	t.Helper()
	db, err := postgresdb.Open(t.Context(), tidemill.NewSecret(url), postgresdb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

func open(t testing.TB, db *postgresdb.DB, o postgresledger.Options) *postgresledger.Ledger {
	t.Helper()
	l, err := postgresledger.New(t.Context(), db, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// harness is a ledger of its own in db.
func harness(t *testing.T, db *postgresdb.DB) ledgertest.Harness {
	t.Helper()
	c, name := ledgertest.NewClock(), testenv.Name("l")
	named := func(t *testing.T, name string) *postgresledger.Ledger {
		t.Helper()
		return open(t, db, postgresledger.Options{Name: name, Now: c.Now})
	}
	l := named(t, name)
	exec(t, db, "CREATE TABLE IF NOT EXISTS effect(ledger text NOT NULL, name text NOT NULL)")
	return ledgertest.Harness{
		Ledger: l, Clock: c,
		Reopen: func(t *testing.T) ledger.Store { return named(t, name) },
		Other:  func(t *testing.T) ledger.Store { return named(t, name+"_other") },
		Within: func(ctx context.Context, es []*ledger.Entry, do func(context.Context, func(string) error) error) error {
			return l.Within(ctx, es, func(ctx context.Context, tx pgx.Tx) error {
				return do(ctx, func(effect string) error {
					_, err := tx.Exec(ctx, "INSERT INTO effect VALUES ($1, $2)", name, effect)
					return err
				})
			})
		},
		Effects: func(t *testing.T) []string { t.Helper(); return effects(t, db, name) },
	}
}

func effects(t testing.TB, db *postgresdb.DB, name string) (names []string) {
	t.Helper()
	if err := db.Query(t.Context(), func(rows pgx.Rows) error {
		var s string
		err := rows.Scan(&s)
		names = append(names, s)
		return err
	}, "SELECT name FROM effect WHERE ledger = $1 ORDER BY name", name); err != nil {
		t.Fatal(err)
	}
	return names
}

func exec(t testing.TB, db *postgresdb.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.Exec(context.Background(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func TestNewRefusesNonsense(t *testing.T) {
	testenv.Need(t)
	if _, err := postgresledger.New(t.Context(), connect(t, testenv.Postgres(t)), postgresledger.Options{Name: "A"}); err == nil {
		t.Error("a ledger of that name was opened")
	}
}

func TestSameAsInMemory(t *testing.T) {
	testenv.Need(t)
	testenv.Fewer(t, "60")
	db := connect(t, testenv.Postgres(t)+"&synchronous_commit=off")
	ledgertest.Same(t, func(t *testing.T) ledgertest.Harness { return harness(t, db) }, func(now func() time.Time) ledger.Store {
		return tableledger.Memory(tableledger.Options{Now: now})
	})
}
