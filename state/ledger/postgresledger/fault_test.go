package postgresledger_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/postgresledger"
)

func TestProcessesNeverWaitForEachOther(t *testing.T) {
	testenv.Need(t)
	url := testenv.Postgres(t) + "&synchronous_commit=off"
	const processes, rounds, keys = 4, 40, 60
	var wg sync.WaitGroup
	for p := range processes {
		l := open(t, connect(t, url), postgresledger.Options{})
		for g := range 2 {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(uint64(p), uint64(g)))
				for range rounds {
					var es []*ledger.Entry
					for _, k := range r.Perm(keys)[:30] {
						es = append(es, &ledger.Entry{Key: fmt.Sprint(k), Holder: fmt.Sprint(p, g)})
					}
					if err := l.Begin(t.Context(), es, ledger.Begin{Lease: time.Duration(1+r.IntN(5)) * time.Millisecond}); err != nil {
						t.Error(err)
						return
					}
					mine := slices.DeleteFunc(es, func(e *ledger.Entry) bool { return e.State != ledger.Fresh })
					for _, e := range mine {
						e.State = []ledger.State{ledger.Failed, ledger.Failed, ledger.Dropped, ledger.Done}[r.IntN(4)]
					}
					r.Shuffle(len(mine), func(i, j int) { mine[i], mine[j] = mine[j], mine[i] })
					if err := l.End(t.Context(), mine); err != nil {
						t.Error(err)
						return
					}
					if _, err := l.Expire(t.Context(), time.Now(), 20); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	db := connect(t, url)
	var deadlocks int
	if err := db.Query(t.Context(), func(r pgx.Rows) error { return r.Scan(&deadlocks) },
		"SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"); err != nil || deadlocks > 0 {
		t.Errorf("%d deadlocks (%v)", deadlocks, err)
	}
}

// link opens a ledger behind a link that can be cut, and one beside it.
func link(t *testing.T) (l *testenv.Link, far *postgresledger.Ledger, near *postgresdb.DB) {
	t.Helper()
	url := testenv.Postgres(t)
	host := url[strings.Index(url, "@")+1 : strings.LastIndex(url, "/")]
	l = testenv.NewLink(t, host)
	far = open(t, connect(t, strings.Replace(url, host, l.Addr, 1)), postgresledger.Options{})
	return l, far, connect(t, url+"&application_name=other")
}

// again calls do until it succeeds.
func again(t *testing.T, do func() error) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		err := do()
		if err == nil {
			return
		}
		if k := tidemill.KindOf(err); k != tidemill.Transient && k != tidemill.Timeout || time.Now().After(deadline) {
			t.Fatalf("%v is %v", err, k)
		}
	}
}

func TestLostAnswersAreFoundOut(t *testing.T) {
	testenv.Need(t)
	link, far, db := link(t)
	near := open(t, db, postgresledger.Options{})
	warm := []*ledger.Entry{{Key: "warm"}} // the statements are known, so that it is the answer which is lost
	if err := far.Begin(t.Context(), warm, ledger.Begin{}); err != nil {
		t.Fatal(err)
	}
	warm[0].State = ledger.Done
	if err := far.End(t.Context(), warm); err != nil {
		t.Fatal(err)
	}
	es := []*ledger.Entry{{Key: "a", Call: 7}, {Key: "b", Call: 7}}
	link.LoseAnswers(1)
	if err := far.Begin(t.Context(), es, ledger.Begin{}); err == nil || tidemill.KindOf(err) != tidemill.Transient {
		t.Fatalf("Begin: %v is %v, want transient", err, tidemill.KindOf(err))
	}
	link.Heal()
	before := []*ledger.Entry{{Key: "a"}, {Key: "b"}}
	until(t, func() bool { // its connection is gone, its statement goes on
		if err := near.Find(t.Context(), before); err != nil {
			t.Fatal(err)
		}
		return before[0].State == ledger.Running
	})
	again(t, func() error { return far.Begin(t.Context(), es, ledger.Begin{}) })
	for i, e := range es {
		if e.State != ledger.Fresh || e.Broken || e.Tries != 1 || e.Token != before[i].Token {
			t.Errorf("sent again: %+v, want what %+v was", e, before[i])
		}
		e.State = ledger.Done
	}
	if err := far.End(t.Context(), es); err != nil || es[0].Stale {
		t.Fatal(err, es[0].Stale)
	}
	first := es[0].Ended
	link.LoseAnswers(1)
	if err := far.End(t.Context(), es); err == nil {
		t.Fatal("End: no error")
	}
	link.Heal()
	again(t, func() error { return far.End(t.Context(), es) })
	if es[0].Stale || !es[0].Ended.Equal(first) {
		t.Errorf("ended again: %+v, want as at first, %v", es[0], first)
	}
}

// until waits for what another session does.
func until(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatal("it does not happen")
		}
	}
}

// slowCommit makes each commit with an effect take so long that something can happen in it.
const slowCommit = `CREATE TABLE effect(name text); CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.3); RETURN NULL; END $$;
	CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON effect DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow()`

func TestACommitWhoseAnswerIsLostHasOneEffect(t *testing.T) {
	testenv.Need(t)
	for name, cut := range map[string]func(link *testenv.Link, db *postgresdb.DB) error{
		"its answer is lost": func(link *testenv.Link, _ *postgresdb.DB) error { link.Refuse(); return nil },
		"the session is ended in it": func(_ *testenv.Link, db *postgresdb.DB) error {
			_, err := db.Exec(context.Background(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'tidemill'")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			link, far, db := link(t)
			if err := db.Do(t.Context(), func(ctx context.Context, c *pgx.Conn) error {
				_, err := c.Exec(ctx, slowCommit, pgx.QueryExecModeSimpleProtocol)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			count := func(query string) (n int) {
				if err := db.Query(context.Background(), func(r pgx.Rows) error { return r.Scan(&n) }, query); err != nil {
					t.Error(err)
				}
				return n
			}
			const committing = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' AND query ILIKE 'commit%'"
			e := &ledger.Entry{Key: "k"}
			if err := far.Begin(t.Context(), []*ledger.Entry{e}, ledger.Begin{}); err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			wg.Go(func() {
				for deadline := time.Now().Add(20 * time.Second); count(committing) == 0; {
					if time.Now().After(deadline) {
						t.Error("no commit was seen")
						return
					}
				}
				if err := cut(link, db); err != nil {
					t.Error(err)
				}
			})
			calls := 0
			within := func() error {
				return far.Within(t.Context(), []*ledger.Entry{e}, func(ctx context.Context, tx pgx.Tx) error {
					calls++
					e.State = ledger.Done
					_, err := tx.Exec(ctx, "INSERT INTO effect VALUES ('x')")
					return err
				})
			}
			err := within()
			wg.Wait()
			if err == nil || tidemill.KindOf(err) != tidemill.Transient {
				t.Fatalf("Within: %v is %v, want transient", err, tidemill.KindOf(err))
			}
			until(t, func() bool { return count(committing) == 0 }) // it ends by itself
			done := count("SELECT count(*) FROM effect")
			link.Heal()
			again(t, within)
			if n := count("SELECT count(*) FROM effect"); n != 1 || e.Stale || calls != 2-done {
				t.Errorf("%d effects, %d calls, stale %v; want one effect, called again only where there was none", n, calls, e.Stale)
			}
		})
	}
}

func TestTheServersClockDecides(t *testing.T) {
	testenv.Need(t)
	db := connect(t, testenv.Postgres(t))
	l := open(t, db, postgresledger.Options{})
	begin := func(holder string) *ledger.Entry {
		e := &ledger.Entry{Key: "k", Holder: holder}
		if err := l.Begin(t.Context(), []*ledger.Entry{e}, ledger.Begin{Lease: time.Hour}); err != nil {
			t.Fatal(err)
		}
		return e
	}
	begin("a")
	if e := begin("b"); e.State != ledger.Running {
		t.Errorf("got %v, want running", e.State)
	}
	// An hour passes there, whatever the clock here says.
	exec(t, db, "UPDATE tidemill_ledger SET until = until - interval '1 hour'")
	if e := begin("b"); e.State != ledger.Fresh || !e.Broken {
		t.Errorf("got %+v, want it taken over", e)
	}
}
