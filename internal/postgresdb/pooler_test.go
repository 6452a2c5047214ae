package postgresdb_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/testenv"
)

// raw is a connection through the pooler that asks for nothing but statements as texts.
func raw(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url+"&default_query_exec_mode=simple_protocol")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// nothingLeft holds that no session of the server behind the pooler keeps anything of ours. The
// pooler has three.
func nothingLeft(t *testing.T, url string) {
	t.Helper()
	for i := range 3 {
		c := raw(t, url)
		if _, err := c.Exec(t.Context(), "BEGIN"); err != nil { // the session is ours until it ends
			t.Fatal(err)
		}
		var left string
		if err := c.QueryRow(t.Context(), `SELECT concat_ws(' ', (SELECT string_agg(name || '=' || setting, ' ') FROM pg_settings WHERE source = 'session' AND name IN
			('statement_timeout','lock_timeout','idle_in_transaction_session_timeout','jit','plan_cache_mode','enable_seqscan','enable_bitmapscan','enable_hashjoin','enable_mergejoin','synchronous_commit')),
			(SELECT string_agg(name, ' ') FROM pg_prepared_statements), (SELECT string_agg(locktype, ' ') FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'))`).Scan(&left); err != nil {
			t.Fatal(err)
		}
		if left != "" {
			t.Errorf("session %d has %s", i, left)
		}
	}
}

func TestSettingsHoldBehindAPooler(t *testing.T) {
	pooled, direct := testenv.PgBouncer(t)
	for name, url := range map[string]string{"pooled": pooled, "direct": direct} {
		t.Run(name, func(t *testing.T) {
			db := open(t, url+"&synchronous_commit=off&search_path=pg_catalog,public", postgresdb.Options{Timeout: 2 * time.Second, Conns: 6})
			const ask = "SELECT concat_ws(' ', current_setting('statement_timeout'), current_setting('lock_timeout'), current_setting('plan_cache_mode'), current_setting('enable_seqscan'), " +
				"current_setting('synchronous_commit'), current_setting('search_path'), current_setting('timezone'), current_setting('application_name'), $1::text)"
			const want = "2s 666ms force_generic_plan off off pg_catalog,public UTC tidemill x"
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					var got [4]string
					errs := []error{
						db.Query(t.Context(), func(r pgx.Rows) error { return r.Scan(&got[0]) }, ask, "x"),
						db.Do(t.Context(), func(ctx context.Context, c *pgx.Conn) error { return c.QueryRow(ctx, ask, "x").Scan(&got[1]) }),
						db.Tx(t.Context(), func(ctx context.Context, tx pgx.Tx) error { return tx.QueryRow(ctx, ask, "x").Scan(&got[2]) }),
						db.TxAs(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(ctx context.Context, tx pgx.Tx) error {
							var as string
							if err := tx.QueryRow(ctx, "SELECT current_setting('transaction_isolation') || current_setting('transaction_read_only')").Scan(&as); err != nil || as != "repeatable readon" {
								return fmt.Errorf("%q, %w", as, err)
							}
							return tx.QueryRow(ctx, ask, "x").Scan(&got[3])
						}),
					}
					for i, err := range errs {
						if err != nil || got[i] != want {
							t.Errorf("%d: %q, %v; want %q", i, got[i], err, want)
						}
					}
				})
			}
			wg.Wait()
			if _, err := db.Exec(t.Context(), "SELECT pg_sleep(20)"); tidemill.KindOf(err) != tidemill.Timeout {
				t.Errorf("Exec of what takes too long: %v is %v", err, tidemill.KindOf(err))
			}
			if n, err := db.Exec(t.Context(), "CREATE TABLE IF NOT EXISTS public.t(n bigint)"); n != 0 || err != nil {
				t.Error(n, err)
			}
			if n, err := db.Exec(t.Context(), "INSERT INTO public.t SELECT * FROM unnest($1::bigint[])", []int64{1, 2, 3}); n != 3 || err != nil {
				t.Errorf("Exec: %d, %v; want 3 rows", n, err)
			}
			if _, err := db.Exec(t.Context(), "INSERT INTO public.t SELECT 1/$1::int", 0); tidemill.KindOf(err) != tidemill.Validation {
				t.Errorf("Exec of what fails: %v is %v", err, tidemill.KindOf(err))
			}
		})
	}
	nothingLeft(t, pooled)
}

func TestMigrationsBehindAPooler(t *testing.T) {
	pooled, _ := testenv.PgBouncer(t)
	var wg sync.WaitGroup
	for range 3 {
		db := open(t, pooled, postgresdb.Options{Conns: 2})
		wg.Go(func() {
			if err := db.Migrate(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	nothingLeft(t, pooled)
}

// privatePooler is a PgBouncer of this test before a database of its own.
func privatePooler(t *testing.T, settings string) (*testenv.Server, string) {
	t.Helper()
	u, err := url.Parse(testenv.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	p := testenv.Start(t, testenv.PrivatePgBouncer, "POSTGRES_PORT="+u.Port(), "PGBOUNCER_SETTINGS="+settings)
	u.Host = p.Addr
	return p, u.String()
}

// A pooler may be told to overlook what it does not know: then nobody says that settings are not
// kept.
func TestAPoolerThatIgnoresSettingsIsFoundOut(t *testing.T) {
	testenv.Need(t)
	_, url := privatePooler(t, "ignore_startup_parameters = statement_timeout,lock_timeout,idle_in_transaction_session_timeout,jit,plan_cache_mode,enable_seqscan,enable_bitmapscan,enable_hashjoin,enable_mergejoin")
	db := open(t, url, postgresdb.Options{})
	if got := one(t, db, "SELECT current_setting('enable_seqscan') || current_setting('plan_cache_mode')"); got != "offforce_generic_plan" {
		t.Errorf("the settings are %s", got)
	}
	nothingLeft(t, url)
}

func TestAPoolerIsStartedAgain(t *testing.T) {
	testenv.Need(t)
	p, url := privatePooler(t, "")
	db := open(t, url, postgresdb.Options{Conns: 4})
	exec(t, db, "CREATE TABLE t(n bigint)")
	p.Kill()
	if _, err := db.Exec(t.Context(), "SELECT 1"); tidemill.KindOf(err) != tidemill.Transient {
		t.Errorf("without the pooler: %v is %v", err, tidemill.KindOf(err))
	}
	p.Restart()
	exec(t, db, "INSERT INTO t VALUES (1)")
}

// What doctor says: whether there is a pooler, as that decides what the server must have.
func TestInspectFindsThePooler(t *testing.T) {
	pooled, direct := testenv.PgBouncer(t)
	for url, want := range map[string]string{pooled: "another session", direct: "its own"} {
		said := ""
		for _, f := range postgresdb.Inspect(t.Context(), open(t, url, postgresdb.Options{})) {
			if f.Check == "postgres: sessions" {
				said = f.Detail
			}
		}
		if !strings.Contains(said, want) {
			t.Errorf("Inspect says %q, want %q", said, want)
		}
	}
}
