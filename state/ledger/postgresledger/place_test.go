package postgresledger_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/postgresledger"
)

// Rows are ended where they were begun, but only if they are still there: the table may have
// been rewritten, so that other rows are in their places.
func TestRowsThatHaveMovedAreFound(t *testing.T) {
	testenv.Need(t)
	db := connect(t, testenv.Postgres(t))
	l := open(t, db, postgresledger.Options{})
	es := make([]*ledger.Entry, 60)
	for i := range es {
		es[i] = &ledger.Entry{Key: fmt.Sprintf("%02d", i), Payload: make([]byte, 100)}
	}
	if err := l.Begin(t.Context(), es, ledger.Begin{}); err != nil {
		t.Fatal(err)
	}
	exec(t, db, "DELETE FROM tidemill_ledger WHERE key < '10'")
	exec(t, db, "VACUUM FULL tidemill_ledger")
	for i, e := range es {
		e.State, e.Result, e.Err = []ledger.State{ledger.Failed, ledger.Held, ledger.Done}[i%3], []byte(e.Key), "of "+e.Key
	}
	if err := l.End(t.Context(), es); err != nil {
		t.Fatal(err)
	}
	for i, e := range es {
		found := &ledger.Entry{Key: e.Key}
		if err := l.Find(t.Context(), []*ledger.Entry{found}); err != nil {
			t.Fatal(err)
		}
		switch {
		case i < 10:
			if !e.Stale || found.State != 0 {
				t.Errorf("%s is %v and stale: %v; it is gone", e.Key, found.State, e.Stale)
			}
		case e.Stale || found.State != e.State || string(found.Result) != e.Key || found.Err != "of "+e.Key || !found.Ended.Equal(e.Ended):
			t.Errorf("%s is %+v and stale: %v; want %+v", e.Key, found, e.Stale, e)
		}
	}
}

// What another has begun since is in another place, and the old one says nothing.
func TestRowsThatAnotherHasBegunAreStale(t *testing.T) {
	testenv.Need(t)
	db := connect(t, testenv.Postgres(t))
	l, other := open(t, db, postgresledger.Options{}), open(t, db, postgresledger.Options{})
	begin := func(l *postgresledger.Ledger) *ledger.Entry {
		e := &ledger.Entry{Key: "k", Holder: "same"}
		if err := l.Begin(t.Context(), []*ledger.Entry{e}, ledger.Begin{}); err != nil || e.State != ledger.Fresh {
			t.Fatalf("%v, %v", e.State, err)
		}
		return e
	}
	first, second := begin(l), begin(other)
	for _, c := range []struct {
		l     *postgresledger.Ledger
		e     *ledger.Entry
		stale bool
	}{{l, first, true}, {l, first, true}, {other, second, false}, {other, second, false}, {l, first, true}} {
		c.e.State = ledger.Done
		if err := c.l.End(t.Context(), []*ledger.Entry{c.e}); err != nil || c.e.Stale != c.stale {
			t.Errorf("under token %d of %d: stale %v (%v), want %v", c.e.Token, second.Token, c.e.Stale, err, c.stale)
		}
	}
}

// An end that waits for a row finds it changed then: by who has taken the entry over, whose
// it is now, or by its own holder, who had its lease prolonged.
func TestAnEndThatWaitedJudgesWhatIsThereThen(t *testing.T) {
	testenv.Need(t)
	db := connect(t, testenv.Postgres(t))
	for _, c := range []struct {
		name, change string
		stale        bool
	}{
		{"taken over", "token = nextval('tidemill_ledger_token')", true},
		{"prolonged", "until = until + interval '1 hour'", false},
		{"done", "state = 3, ended = now()", false},
	} {
		for _, known := range []bool{true, false} {
			l := open(t, db, postgresledger.Options{})
			e := &ledger.Entry{Key: fmt.Sprint(c.name, known)}
			if err := l.Begin(t.Context(), []*ledger.Entry{e}, ledger.Begin{}); err != nil {
				t.Fatal(err)
			}
			if !known {
				l = open(t, db, postgresledger.Options{})
			}
			ended := make(chan error, 1)
			if err := db.Tx(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
				if _, err := tx.Exec(ctx, "UPDATE tidemill_ledger SET "+c.change+" WHERE key = $1", []byte(e.Key)); err != nil {
					return err
				}
				go func() {
					e.State = ledger.Done
					ended <- l.End(t.Context(), []*ledger.Entry{e})
				}()
				for waits := 0; waits == 0; {
					if err := tx.QueryRow(ctx, "SELECT count(*) FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))").Scan(&waits); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; err != nil || e.Stale != c.stale {
				t.Errorf("%s, its place is known: %v: stale %v (%v), want %v", c.name, known, e.Stale, err, c.stale)
			}
			found := &ledger.Entry{Key: e.Key}
			if err := l.Find(t.Context(), []*ledger.Entry{found}); err != nil || (found.State == ledger.Done) == c.stale {
				t.Errorf("%s, its place is known: %v: it is %v (%v)", c.name, known, found.State, err)
			}
		}
	}
}
