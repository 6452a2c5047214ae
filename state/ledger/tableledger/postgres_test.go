package tableledger_test

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
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/table/postgrestable"
)

func TestConformanceOnPostgreSQL(t *testing.T) {
	testenv.Need(t)
	testenv.Fewer(t, "40")
	pooled, _ := testenv.PgBouncer(t)
	for name, url := range map[string]string{"direct": testenv.Postgres(t), "behind a pooler": pooled} {
		t.Run(name, func(t *testing.T) {
			db := connect(t, url+"&synchronous_commit=off") // thousands of commits, without a crash
			ledgertest.Run(t, func(t *testing.T) ledgertest.Harness { return onPostgres(t, db) })
		})
	}
}

func TestSameOnPostgreSQLAsInMemory(t *testing.T) {
	testenv.Need(t)
	testenv.Fewer(t, "60")
	db := connect(t, testenv.Postgres(t)+"&synchronous_commit=off")
	ledgertest.Same(t, func(t *testing.T) ledgertest.Harness { return onPostgres(t, db) }, inMemory)
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

func openPostgres(t testing.TB, db *postgresdb.DB, name string, now func() time.Time) *tableledger.Ledger[pgx.Tx] {
	t.Helper()
	s, err := postgrestable.New(t.Context(), db, tableledger.Spec(name))
	if err != nil {
		t.Fatal(err)
	}
	return tableledger.New(s, tableledger.Options{Now: now})
}

// onPostgres is a ledger of its own in db.
func onPostgres(t *testing.T, db *postgresdb.DB) ledgertest.Harness {
	t.Helper()
	c, name := ledgertest.NewClock(), testenv.Name("l")
	l := openPostgres(t, db, name, c.Now)
	exec(t, db, "CREATE TABLE IF NOT EXISTS effect(ledger text NOT NULL, name text NOT NULL)")
	return ledgertest.Harness{
		Ledger: l, Clock: c,
		Reopen: func(t *testing.T) ledger.Store { return openPostgres(t, db, name, c.Now) },
		Other:  func(t *testing.T) ledger.Store { return openPostgres(t, db, name+"_2", c.Now) },
		Within: func(ctx context.Context, es []*ledger.Entry, do func(context.Context, func(string) error) error) error {
			return l.Within(ctx, es, func(ctx context.Context, tx pgx.Tx) error {
				return do(ctx, func(effect string) error {
					_, err := tx.Exec(ctx, "INSERT INTO effect VALUES ($1, $2)", name, effect)
					return err
				})
			})
		},
		Effects: func(t *testing.T) (names []string) {
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
		},
	}
}

func exec(t testing.TB, db *postgresdb.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.Exec(context.Background(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}
