package postgresperson

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/person"
)

// until does w again and again until it is done; errors must be such that repeating is
// right.
func (w *work) until(t *testing.T, s *Store) {
	for ctx, end := context.WithTimeout(t.Context(), time.Minute); ; {
		err := w.do(ctx, s)
		if err == nil || ctx.Err() != nil {
			if end(); err != nil {
				t.Error(err)
			}
			return
		}
		if k := tidemill.KindOf(err); k != tidemill.Transient && k != tidemill.Timeout {
			t.Errorf("%v is %v; want transient", err, k)
		}
	}
}

// chaos lets stores work while hurt is called again and again, and compares.
func chaos(t *testing.T, stores []*Store, calls int, hurt func(done <-chan struct{})) {
	t.Helper()
	project := newProject(t, stores[0].db)
	r := rand.New(rand.NewPCG(3, 4))
	all := make([]work, calls)
	for i := range all {
		all[i] = randomWork(r, project, 12)
	}
	done := make(chan struct{})
	var workers, hurting sync.WaitGroup
	hurting.Go(func() { hurt(done) })
	for g, s := range stores {
		workers.Go(func() {
			for i := g; i < len(all); i += len(stores) {
				all[i].until(t, s)
			}
		})
	}
	workers.Wait()
	close(done)
	hurting.Wait()
	if _, err := stores[0].db.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Log("the last session that was hurt:", err)
	}
	sameAs(t, stores[0], project, 12, all)
}

func TestServerKilledInMidMerge(t *testing.T) {
	server := testenv.Start(t, testenv.PrivatePostgres)
	var stores []*Store
	for range 3 {
		_, s := open(t, server.URL, Options{})
		stores = append(stores, s)
	}
	chaos(t, stores, 150, func(done <-chan struct{}) {
		for range 2 {
			select {
			case <-done:
				return
			case <-time.After(150 * time.Millisecond): // into the work
			}
			server.Kill()
			server.Restart()
		}
	})
}

func TestSessionsAreEnded(t *testing.T) {
	testenv.Need(t)
	url := testenv.Postgres(t)
	var stores []*Store
	for range 3 {
		_, s := open(t, url, Options{})
		stores = append(stores, s)
	}
	admin, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(context.Background())
	ended := 0
	chaos(t, stores, 150, func(done <-chan struct{}) {
		for {
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
			}
			var n int
			if err := admin.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity
				WHERE datname = current_database() AND application_name = 'tidemill' ORDER BY random() LIMIT 1) x`).Scan(&n); err != nil {
				t.Error(err)
				return
			}
			ended += n
		}
	})
	if ended == 0 {
		t.Error("no session was ended")
	}
}

// slowCommit makes each commit of a merge take so long that something can happen in it.
const slowCommit = `CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.3); RETURN NULL; END $$;
	CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON tidemill_person_overrides DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow()`

func TestCommitsThatAreCut(t *testing.T) {
	testenv.Need(t)
	for name, c := range map[string]struct {
		cut  func(admin *pgx.Conn, link *testenv.Link) error
		then person.Outcome // of the same merge again
	}{
		"the session is ended in it": {func(admin *pgx.Conn, _ *testenv.Link) error {
			_, err := admin.Exec(context.Background(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'tidemill'")
			return err
		}, person.Merged},
		"its answer is lost": {func(_ *pgx.Conn, link *testenv.Link) error { link.Refuse(); return nil }, person.Same},
	} {
		t.Run(name, func(t *testing.T) {
			url := testenv.Postgres(t)
			host := url[strings.Index(url, "@")+1 : strings.LastIndex(url, "/")]
			link := testenv.NewLink(t, host)
			_, s := open(t, strings.Replace(url, host, link.Addr, 1), Options{})
			_, direct := open(t, url+"&application_name=other", Options{})
			exec(t, direct.db, slowCommit)
			admin, err := pgx.Connect(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			defer admin.Close(context.Background())
			merge := []person.Merge{{Ref: person.Ref{Project: newProject(t, direct.db), Distinct: "u"}, Other: "a", At: noon}}
			var wg sync.WaitGroup
			wg.Go(func() {
				for until := time.Now().Add(20 * time.Second); count(t, direct.db, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' AND query ILIKE 'commit%'") == 0; {
					if time.Now().After(until) {
						t.Error("no commit was seen")
						return
					}
				}
				if err := c.cut(admin, link); err != nil {
					t.Error(err)
				}
			})
			outcome := make([]person.Outcome, 1)
			err = s.Merge(t.Context(), merge, outcome)
			wg.Wait()
			if tidemill.KindOf(err) != tidemill.Transient || err == nil || outcome[0] != 0 {
				t.Fatalf("Merge: %v, %v (%v); want a transient error", outcome[0], err, tidemill.KindOf(err))
			}
			for count(t, direct.db, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' AND query ILIKE 'commit%'") > 0 { // it ends by itself
			}
			link.Heal()
			if err := s.Merge(t.Context(), merge, outcome); err != nil || outcome[0] != c.then {
				t.Fatalf("the same again: %v, %v; want %v", outcome[0], err, c.then)
			}
			if n := count(t, direct.db, "SELECT count(*) FROM tidemill_person_overrides"); n != 1 {
				t.Errorf("there are %d overrides, want 1", n)
			}
			whole(t, s)
		})
	}
}

func TestReadOnlyServers(t *testing.T) {
	testenv.Need(t)
	url := testenv.Postgres(t)
	_, s := open(t, url, Options{})
	project := newProject(t, s.db)
	name := url[strings.LastIndex(url, "/")+1:]
	name, _, _ = strings.Cut(name, "?")
	readOnly := func(value string) {
		exec(t, s.db, fmt.Sprintf("ALTER DATABASE %s SET default_transaction_read_only = %s", name, value))
	}
	change := []person.Change{{Ref: person.Ref{Project: project, Distinct: "a"}, At: noon}}
	exec(t, s.db, "SELECT 1")
	if _, err := s.db.Exec(t.Context(), "SET default_transaction_read_only = on"); err != nil { // of the one idle session
		t.Fatal(err)
	}
	if err := s.Apply(t.Context(), change); tidemill.KindOf(err) != tidemill.Transient || err == nil {
		t.Errorf("Apply on a server that takes no writes: %v is %v, want transient", err, tidemill.KindOf(err))
	}
	if _, err := s.db.Exec(t.Context(), "SET default_transaction_read_only = off"); err != nil {
		t.Fatal(err)
	}
	readOnly("on")
	_, later := open(t, url, Options{}) // the tables are new, so that this needs no writing
	if err := later.Apply(t.Context(), change); tidemill.KindOf(err) != tidemill.Transient || err == nil {
		t.Errorf("Apply on a server that takes no writes: %v is %v, want transient", err, tidemill.KindOf(err))
	}
	if err := s.Apply(t.Context(), change); err != nil {
		t.Errorf("Apply after it takes writes again: %v", err)
	}
}

func exec(t testing.TB, db *postgresdb.DB, statement string, args ...any) {
	t.Helper()
	if err := db.Do(context.Background(), func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, statement, append([]any{pgx.QueryExecModeSimpleProtocol}, args...)...)
		return err
	}); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}
