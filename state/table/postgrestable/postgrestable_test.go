package postgrestable_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/postgrestable"
	"github.com/tidemill/tidemill/state/table/tabletest"
)

type record = tabletest.Record

func TestConformance(t *testing.T) {
	testenv.Need(t)
	pooled, _ := testenv.PgBouncer(t)
	for name, url := range map[string]string{"direct": testenv.Postgres(t), "behind a pooler": pooled} {
		t.Run(name, func(t *testing.T) { conforms(t, url+"&synchronous_commit=off") }) // thousands of commits, without a crash
	}
}

func conforms(t *testing.T, url string) {
	testenv.Fewer(t, "30")
	db := connect(t, url)
	if _, err := db.Exec(t.Context(), "CREATE TABLE effect(name text NOT NULL)"); err != nil {
		t.Fatal(err)
	}
	tabletest.Run(t, func(t testing.TB) tabletest.Harness[pgx.Tx] {
		h := of(t, db)
		h.Effect = func(raw pgx.Tx, name string) error {
			_, err := raw.Exec(t.Context(), "INSERT INTO effect VALUES($1)", name)
			return err
		}
		h.Effects = func(t testing.TB) (names []string) {
			t.Helper()
			if err := db.Query(t.Context(), func(rows pgx.Rows) error {
				var s string
				err := rows.Scan(&s)
				names = append(names, s)
				return err
			}, "SELECT name FROM effect"); err != nil {
				t.Fatal(err)
			}
			return names
		}
		return h
	})
}

func of(t testing.TB, db *postgresdb.DB) tabletest.Harness[pgx.Tx] {
	return tabletest.Harness[pgx.Tx]{
		Open: func(ctx context.Context, spec table.Spec[record]) (table.Store[record, pgx.Tx], error) {
			s, err := postgrestable.New(ctx, db, spec)
			if err != nil {
				return nil, err
			}
			return s, nil
		},
		In: func(s table.Store[record, pgx.Tx], raw pgx.Tx) table.Tx[record] {
			return s.(*postgrestable.Store[record]).In(t.Context(), raw)
		},
		Grows: true,
		Crash: func(testing.TB) {}, // a process keeps nothing that the server does not
	}
}

func TestLostAnswers(t *testing.T) {
	testenv.Need(t)
	url := testenv.Postgres(t)
	host := url[strings.Index(url, "@")+1 : strings.LastIndex(url, "/")]
	link := testenv.NewLink(t, host)
	tabletest.Lost(t, link, of(t, connect(t, strings.Replace(url, host, link.Addr, 1))), of(t, connect(t, url)))
}

func TestKilled(t *testing.T) {
	testenv.Need(t)
	place := func(t *testing.T) string { return testenv.Postgres(t) }
	tabletest.Killed(t, place, func(t testing.TB, url string) tabletest.Harness[pgx.Tx] {
		return of(t, connect(t, url))
	})
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

// TestAViewIsReadBySQL: other programs read what the view says.
func TestAViewIsReadBySQL(t *testing.T) {
	testenv.Need(t)
	db := connect(t, testenv.Postgres(t))
	spec := tabletest.Spec("t")
	spec.Views = []table.View{{Name: "seen", SQLite: "SELECT 1", Postgres: `SELECT convert_from("key", 'UTF8') AS name FROM @tidemill_t WHERE "state"=1`}}
	newest := spec.Fields[len(spec.Fields)-1]
	spec.Fields = spec.Fields[:len(spec.Fields)-1]
	for i := range 3 { // made, opened again, and opened with one field more
		if i == 2 {
			spec.Fields = append(spec.Fields, newest)
			spec.Views[0].SQLite, spec.Views[0].Postgres = more(spec.Views[0].SQLite), more(spec.Views[0].Postgres)
		}
		s, err := postgrestable.New(t.Context(), db, spec)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Update(t.Context(), func(tx table.Tx[record], _ pgx.Tx) error {
			return tx.Put([]*record{{Key: "a", State: 1}, {Key: "b", State: 2}})
		}); err != nil {
			t.Fatal(err)
		}
	}
	var name string
	var n int // with the newest field, which is 0
	if err := db.Query(t.Context(), func(r pgx.Rows) error { return r.Scan(&name, &n) }, "SELECT max(name), max(newest)+count(*) FROM tidemill_seen"); err != nil || name != "a" || n != 1 {
		t.Errorf("the view has %d rows, the last %q (%v); want 1, \"a\"", n, name, err)
	}
}

// more is the SELECT of a view with the field call too.
func more(query string) string { return strings.Replace(query, " FROM", `, "call" AS newest FROM`, 1) }
