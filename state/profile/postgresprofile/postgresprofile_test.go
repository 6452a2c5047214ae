package postgresprofile_test

import (
	"context"
	"flag"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/postgresledger"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/profile/postgresprofile"
	"github.com/tidemill/tidemill/state/profile/profiletest"
)

func TestConformance(t *testing.T) {
	testenv.Need(t)
	if before := flag.Lookup("rapid.checks").Value.String(); before == "100" { // no number was asked for: each commit takes its time
		t.Cleanup(func() { _ = flag.Set("rapid.checks", before) })
		_ = flag.Set("rapid.checks", "40")
	}
	url := testenv.Postgres(t) + "&synchronous_commit=off" // thousands of commits, without a crash
	db := connect(t, url)
	profiletest.Run(t, func(t *testing.T, o profile.Options) profiletest.Harness { return harness(t, db, url, o) })
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

func open(t testing.TB, db *postgresdb.DB, o profile.Options) *postgresprofile.Store {
	t.Helper()
	s, err := postgresprofile.New(t.Context(), db, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// harness empties the database, one for all cases, since making one takes longer than a
// case. A ledger's entries are the effects.
func harness(t *testing.T, db *postgresdb.DB, url string, o profile.Options) profiletest.Harness {
	t.Helper()
	s := open(t, db, o)
	exec(t, db, "DELETE FROM tidemill_profile")
	exec(t, db, "DELETE FROM tidemill_profile_identity")
	l, err := postgresledger.New(t.Context(), db, postgresledger.Options{Name: testenv.Name("l")})
	if err != nil {
		t.Fatal(err)
	}
	return profiletest.Harness{Store: s,
		Reopen: func(t *testing.T) profile.Store { return open(t, db, o) },
		Other:  func(t *testing.T) profile.Store { return open(t, connect(t, url), o) },
		Within: func(ctx context.Context, effect string, do func(context.Context, profile.Profiles) error) error {
			e := &ledger.Entry{Key: effect}
			if err := l.Begin(ctx, []*ledger.Entry{e}, ledger.Begin{}); err != nil {
				return err
			}
			return l.Within(ctx, []*ledger.Entry{e}, func(ctx context.Context, tx pgx.Tx) error {
				e.State = ledger.Done
				return do(ctx, s.In(tx))
			})
		},
		Effects: func(t *testing.T) (done []string) {
			t.Helper()
			for e, err := range l.Range(t.Context(), ledger.Filter{State: ledger.Done}) {
				if err != nil {
					t.Fatal(err)
				}
				done = append(done, e.Key)
			}
			return done
		},
		Whole: func(t *testing.T) { t.Helper(); whole(t, db) },
	}
}

func exec(t testing.TB, db *postgresdb.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.Exec(context.Background(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func count(t testing.TB, db *postgresdb.DB, query string) (n int) {
	t.Helper()
	if err := db.Query(context.Background(), func(r pgx.Rows) error { return r.Scan(&n) }, query); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// whole checks what always holds, and that no transaction ever met a deadlock.
func whole(t *testing.T, db *postgresdb.DB) {
	t.Helper()
	for name, query := range map[string]string{
		"identities of no profile":     "SELECT count(*) FROM tidemill_profile_identity i WHERE NOT EXISTS (SELECT FROM tidemill_profile p WHERE p.tenant=i.tenant AND p.id=i.profile)",
		"profiles without an identity": "SELECT count(*) FROM tidemill_profile p WHERE NOT EXISTS (SELECT FROM tidemill_profile_identity i WHERE i.tenant=p.tenant AND i.profile=p.id)",
		"deadlocks":                    "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()",
	} {
		if n := count(t, db, query); n != 0 {
			t.Errorf("%d %s", n, name)
		}
	}
}
