package postgresdb_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/testenv"
)

func open(t testing.TB, url string, o postgresdb.Options) *postgresdb.DB {
	t.Helper()
	db, err := postgresdb.Open(t.Context(), tidemill.NewSecret(url), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

func exec(t testing.TB, db *postgresdb.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.Exec(context.Background(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func one(t testing.TB, db *postgresdb.DB, query string, args ...any) (s string) {
	t.Helper()
	if err := db.Query(t.Context(), func(r pgx.Rows) error { return r.Scan(&s) }, query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return s
}

const canary = "s3cr3t-canary"

func TestErrorsNeverShowThePassword(t *testing.T) {
	for _, url := range []string{
		"postgres://u:" + canary + "@127.0.0.1:1/db?sslmode=disable",    // refused
		"postgres://u:" + canary + "@host.invalid/db?connect_timeout=1", // no such host
		"postgres://u:" + canary + "%zz@127.0.0.1:1/db",                 // not readable
		"postgres://u:" + canary + "@127.0.0.1:1/db?sslmode=" + canary,  // not readable
		"postgres://u:" + canary + "@:port/db", "host=x password=" + canary + " port=nine", canary, "",
	} {
		db, err := postgresdb.Open(t.Context(), tidemill.NewSecret(url), postgresdb.Options{})
		if err == nil {
			db.Close()
			t.Errorf("Open succeeded")
			continue
		}
		for e := err; e != nil; e = errors.Unwrap(e) {
			if s := fmt.Sprintf("%v %+v %#v", e, e, e); strings.Contains(s, canary) {
				t.Errorf("the error shows the password: %s", s)
			}
		}
	}
}

func TestOpenRefusesNonsense(t *testing.T) {
	for _, o := range []postgresdb.Options{{Conns: -1}, {Timeout: -time.Second}} {
		if _, err := postgresdb.Open(t.Context(), tidemill.NewSecret("postgres://u@127.0.0.1:1/db"), o); err == nil {
			t.Errorf("Open(%+v): no error", o)
		}
	}
}

func TestKindsOfARealServer(t *testing.T) {
	testenv.Need(t)
	url := testenv.Postgres(t)
	db := open(t, url, postgresdb.Options{Timeout: 1500 * time.Millisecond, Conns: 2})
	exec(t, db, "CREATE TABLE t(n integer PRIMARY KEY CHECK (n < 9), s varchar(3))")
	exec(t, db, "INSERT INTO t VALUES (1)")
	for _, c := range []struct {
		name string
		do   string
		want tidemill.Kind
	}{
		{"text that is too long", "INSERT INTO t VALUES (2, 'long')", tidemill.Validation},
		{"what a check refuses", "INSERT INTO t VALUES (9)", tidemill.Validation},
		{"NUL in jsonb", `SELECT '"\u0000"'::jsonb`, tidemill.Validation},
		{"a number beyond all numbers", `SELECT '1e999999'::jsonb`, tidemill.Validation},
		{"a lost race for a key", "INSERT INTO t VALUES (1)", tidemill.Transient},
		{"a statement that takes too long", "SELECT pg_sleep(20)", tidemill.Timeout},
		{"a session that was ended", "SELECT pg_terminate_backend(pg_backend_pid())", tidemill.Transient},
		{"a table that is not there", "SELECT FROM nothing", tidemill.Transient},
		{"a statement that nobody understands", "SELEKT 1", tidemill.Internal},
		{"a server that takes no writes", "BEGIN READ ONLY; INSERT INTO t VALUES (3)", tidemill.Transient},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := db.Do(t.Context(), func(ctx context.Context, conn *pgx.Conn) error {
				_, err := conn.Exec(ctx, c.do, pgx.QueryExecModeSimpleProtocol)
				return err
			})
			if got := tidemill.KindOf(err); err == nil || got != c.want {
				t.Errorf("%v is %v, want %v", err, got, c.want)
			}
		})
	}
	t.Run("a table that was changed is met once", func(t *testing.T) {
		var errs []error
		if err := db.Do(t.Context(), func(ctx context.Context, conn *pgx.Conn) error {
			for range 3 {
				rows, err := conn.Query(ctx, "SELECT * FROM t WHERE n = $1", 1)
				errs = append(errs, postgresdb.Each(rows, err, func(pgx.Rows) error { return nil }))
				if _, err := conn.Exec(ctx, "ALTER TABLE t ADD COLUMN IF NOT EXISTS more integer"); err != nil {
					return err
				}
			}
			return errs[1]
		}); tidemill.KindOf(err) != tidemill.Transient || err == nil || errs[2] != nil {
			t.Errorf("%v is %v, then %v; want transient, then nothing", err, tidemill.KindOf(err), errs[2])
		}
	})
	t.Run("the end of the context is no kind", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		err := db.Do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
			time.AfterFunc(50*time.Millisecond, cancel)
			_, err := conn.Exec(ctx, "SELECT pg_sleep(20)")
			return err
		})
		if _, ok := errors.AsType[*tidemill.Error](err); ok || !errors.Is(err, context.Canceled) {
			t.Errorf("%v; want context.Canceled without a kind", err)
		}
	})
	t.Run("a wrong password is the credentials", func(t *testing.T) {
		role := testenv.Name("r")
		exec(t, db, "CREATE ROLE "+role) // which may not log in
		t.Cleanup(func() { exec(t, db, "DROP ROLE "+role) })
		_, err := postgresdb.Open(t.Context(), tidemill.NewSecret(strings.Replace(url, "postgres@", role+":"+canary+"@", 1)), postgresdb.Options{})
		if tidemill.KindOf(err) != tidemill.Credentials || strings.Contains(err.Error(), canary) {
			t.Errorf("%v is %v, want credentials", err, tidemill.KindOf(err))
		}
	})
	t.Run("a pool with nothing left is a timeout", func(t *testing.T) {
		hold, held := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		taken := make(chan struct{}, 2)
		for range 2 {
			wg.Go(func() {
				_ = db.Do(t.Context(), func(context.Context, *pgx.Conn) error { taken <- struct{}{}; <-hold.Done(); return nil })
			})
		}
		<-taken
		<-taken
		err := db.Do(t.Context(), func(context.Context, *pgx.Conn) error { return nil })
		if held(); tidemill.KindOf(err) != tidemill.Timeout {
			t.Errorf("%v is %v, want timeout", err, tidemill.KindOf(err))
		}
		wg.Wait()
	})
}

func TestFaultsOfTheLine(t *testing.T) {
	testenv.Need(t)
	url := testenv.Postgres(t)
	host := url[strings.Index(url, "@")+1 : strings.LastIndex(url, "/")]
	link := testenv.NewLink(t, host)
	db := open(t, strings.Replace(url, host, link.Addr, 1), postgresdb.Options{Timeout: time.Second, Conns: 2})
	ask := func() error {
		_, err := db.Exec(t.Context(), "SELECT 1")
		return err
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	link.BlackHole()
	began := time.Now()
	if err := ask(); tidemill.KindOf(err) != tidemill.Timeout || time.Since(began) > 10*time.Second {
		t.Errorf("a line that swallows everything: %v after %v, want timeout soon", err, time.Since(began))
	}
	link.Heal()
	link.Refuse()
	if err := ask(); tidemill.KindOf(err) != tidemill.Transient {
		t.Errorf("a server that is not there: %v is %v, want transient", err, tidemill.KindOf(err))
	}
	link.Heal()
	if err := ask(); err != nil {
		t.Errorf("after the line was mended: %v", err)
	}
}

// After a restart of the server all sessions of the pool are dead. At most one error reports
// it, not one for each.
func TestDeadSessionsAreMetOnce(t *testing.T) {
	testenv.Need(t)
	url := testenv.Postgres(t)
	db := open(t, url, postgresdb.Options{Conns: 6})
	var together, wg sync.WaitGroup
	together.Add(6)
	for range 6 {
		wg.Go(func() {
			if err := db.Do(t.Context(), func(context.Context, *pgx.Conn) error { together.Done(); together.Wait(); return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	exec(t, open(t, url, postgresdb.Options{Name: "admin"}), "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'tidemill' AND datname = current_database()")
	if _, err := db.Exec(t.Context(), "SELECT 1"); err != nil && tidemill.KindOf(err) != tidemill.Transient { // nil: the pool checks connections that were idle for a second
		t.Errorf("the first to meet a dead session: %v is %v, want transient", err, tidemill.KindOf(err))
	}
	if _, err := db.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Errorf("the second: %v", err)
	}
}

func TestInstancesMigrateTogether(t *testing.T) {
	testenv.Need(t)
	url := testenv.Postgres(t)
	var wg sync.WaitGroup
	for range 4 {
		db := open(t, url, postgresdb.Options{Conns: 2})
		for range 2 {
			wg.Go(func() {
				if err := db.Migrate(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	db := open(t, url, postgresdb.Options{})
	if got := one(t, db, "SELECT string_agg(version||file, ' ') FROM tidemill_migrations"); got != "10001_tables.sql" {
		t.Errorf("steps done: %s", got)
	}
	exec(t, db, "INSERT INTO tidemill_migrations(version, file, oldest) VALUES (2, 'newer', 1)")
	if err := db.Migrate(t.Context()); err != nil {
		t.Errorf("Migrate of tables that a newer program made, which lets this one go on: %v", err)
	}
	exec(t, db, "INSERT INTO tidemill_migrations(version, file, oldest) VALUES (99, 'newest', 2)")
	if err := open(t, url, postgresdb.Options{}).Migrate(t.Context()); err == nil || !strings.Contains(err.Error(), "newer program") {
		t.Errorf("Migrate of tables that a newer program made: %v", err)
	}
}

func TestTablesThatAreThereAreAdopted(t *testing.T) {
	testenv.Need(t)
	url := testenv.Postgres(t)
	db := open(t, url, postgresdb.Options{})
	for _, s := range strings.Split(legacy, ";\n") {
		exec(t, db, s)
	}
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		"SELECT count(*)::text FROM persons WHERE NOT identified AND registers IS NULL AND properties = '{\"plan\": \"free\"}'":         "1",
		"SELECT count(*)::text FROM person_distinct_ids WHERE version = 0":                                                              "2",
		"SELECT count(*)::text FROM pg_indexes WHERE tablename = 'person_distinct_ids' AND indexdef LIKE '%(person_id)'":                "1",
		"SELECT column_default FROM information_schema.columns WHERE table_name = 'event_properties' AND column_name = 'id'":            "gen_random_uuid()",
		"SELECT concat_ws(' ', description, tags, verified) FROM event_definitions":                                                     "paid {core} t",
		"SELECT character_maximum_length::text FROM information_schema.columns WHERE table_name = 'projects' AND column_name = 'token'": "64",
	} {
		if got := one(t, db, query); got != want {
			t.Errorf("%s = %q, want %q", query, got, want)
		}
	}
}

// legacy are the tables of the source system, with rows. Some ids are made by its program.
const legacy = `CREATE TABLE projects(id uuid PRIMARY KEY, name varchar(100) NOT NULL, token varchar(64) NOT NULL UNIQUE, plan_id uuid, timezone varchar(50), created_at timestamptz DEFAULT now(), updated_at timestamptz DEFAULT now());
CREATE TABLE persons(id uuid PRIMARY KEY, project_id uuid NOT NULL REFERENCES projects ON DELETE CASCADE, properties jsonb NOT NULL DEFAULT '{}', created_at timestamptz NOT NULL DEFAULT now(), updated_at timestamptz NOT NULL DEFAULT now());
CREATE TABLE person_distinct_ids(id uuid PRIMARY KEY, project_id uuid NOT NULL, person_id uuid NOT NULL REFERENCES persons ON DELETE CASCADE, distinct_id varchar(400) NOT NULL, created_at timestamptz NOT NULL DEFAULT now(), UNIQUE (project_id, distinct_id));
CREATE INDEX theirs ON person_distinct_ids(person_id);
CREATE TABLE event_definitions(id uuid PRIMARY KEY, project_id uuid NOT NULL, event_name varchar(500) NOT NULL, description text, tags text[] DEFAULT '{}', verified boolean DEFAULT false, last_seen_at timestamptz, created_at timestamptz DEFAULT now(), updated_at timestamptz DEFAULT now(), UNIQUE (project_id, event_name));
CREATE TABLE property_definitions(id uuid PRIMARY KEY DEFAULT gen_random_uuid(), project_id uuid NOT NULL, property_name varchar(500) NOT NULL, property_type varchar(20) NOT NULL, value_type varchar(20), is_numerical boolean DEFAULT false, description text, tags text[], verified boolean DEFAULT false, last_seen_at timestamptz, created_at timestamptz DEFAULT now(), updated_at timestamptz DEFAULT now(), UNIQUE (project_id, property_name, property_type));
CREATE TABLE event_properties(id uuid PRIMARY KEY, project_id uuid NOT NULL, event_name varchar(500) NOT NULL, property_name varchar(500) NOT NULL, property_type varchar(20) NOT NULL, last_seen_at timestamptz, UNIQUE (project_id, event_name, property_name, property_type));
INSERT INTO projects(id, name, token) VALUES ('00000000-0000-4000-8000-000000000001', 'shop', 'phc_raw');
INSERT INTO persons(id, project_id, properties) VALUES ('00000000-0000-4000-8000-000000000002', '00000000-0000-4000-8000-000000000001', '{"plan":"free"}');
INSERT INTO person_distinct_ids(id, project_id, person_id, distinct_id) VALUES (gen_random_uuid(), '00000000-0000-4000-8000-000000000001', '00000000-0000-4000-8000-000000000002', 'a'), (gen_random_uuid(), '00000000-0000-4000-8000-000000000001', '00000000-0000-4000-8000-000000000002', 'b');
INSERT INTO event_definitions(id, project_id, event_name, description, tags, verified) VALUES (gen_random_uuid(), '00000000-0000-4000-8000-000000000001', 'buy', 'paid', '{core}', true)`
