package postgresledger

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/ledger"
)

// A plan that is made while nothing is known of the table is kept while it grows. It must
// not go by the time of creation, through all entries, where a key is asked for, nor collect
// and sort what is listed.
func TestPlansAreRightBeforeTheTableIsKnown(t *testing.T) {
	testenv.Need(t)
	db, err := postgresdb.Open(t.Context(), tidemill.NewSecret(testenv.Postgres(t)), postgresdb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	l, err := New(t.Context(), db, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(t.Context(), "ALTER TABLE tidemill_ledger SET (autovacuum_enabled = off)"); err != nil { // it would look
		t.Fatal(err)
	}
	const byKey, byPlace, inOrder = "tidemill_ledger_pkey", "Tid Scan on", "tidemill_ledger_listing"
	for _, rows := range []int{0, 1, 1000, 20_000} {
		if rows > 0 {
			es := make([]*ledger.Entry, rows)
			for i := range es {
				es[i] = &ledger.Entry{Key: fmt.Sprint(rows, "/", i), Payload: make([]byte, 500)}
			}
			if err := l.Begin(t.Context(), es, ledger.Begin{}); err != nil {
				t.Fatal(err)
			}
		}
		for _, q := range []struct {
			name, statement string
			want            []string // ways to rows
		}{
			{"find", find, []string{byKey}},
			{"lock", lock, []string{byKey}},
			{"find ends", findEnds, []string{byKey}},
			{"lock ends", lockEnds, []string{byKey}},
			{"write", write, []string{byKey, byPlace}},
			{"write where they are", writeThere, []string{byPlace}},
			{"drop", drop, []string{byKey}},
			{"remove", remove, []string{byKey, byPlace}},
			{"lock what is over", lockOver, []string{byKey}},
			{"find what is over", findOver, []string{inOrder}},
			{"list", list, []string{inOrder}},
			{"list back", listBack, []string{inOrder}},
		} {
			plan := explain(t, db, q.statement)
			for _, way := range []string{byKey, byPlace, inOrder} {
				want := 0
				if strings.Contains(strings.Join(q.want, ","), way) {
					want = 1
				}
				if got := strings.Count(plan, way); got != want {
					t.Errorf("%d rows, %s goes %d times by %s, want %d\n%s", rows, q.name, got, way, want, plan)
				}
				if way == byKey && want > 0 && !strings.Contains(plan, "AND (key = ") {
					t.Errorf("%d rows, %s does not ask by key\n%s", rows, q.name, plan)
				}
				if way == inOrder && want > 0 && (strings.Contains(plan, "Sort") || strings.Contains(plan, "Bitmap") || !strings.Contains(plan, "Index Scan using "+inOrder) && !strings.Contains(plan, "Index Scan Backward using "+inOrder)) {
					t.Errorf("%d rows, %s collects before it answers\n%s", rows, q.name, plan)
				}
			}
			if strings.HasPrefix(q.name, "list") && !regexp.MustCompile(`Index Cond: .*\(ROW\(created, key\) [<>] ROW\(`).MatchString(plan) {
				t.Errorf("%d rows, a page does not begin where the last one ended\n%s", rows, plan)
			}
			if strings.Contains(plan, "Seq Scan") {
				t.Errorf("%d rows, %s reads all\n%s", rows, q.name, plan)
			}
		}
	}
}

// explain returns the plan that is kept for a statement, whatever its arguments.
func explain(t *testing.T, db *postgresdb.DB, statement string) string {
	t.Helper()
	arguments := 0
	for strings.Contains(statement, fmt.Sprint("$", arguments+1)) {
		arguments++
	}
	var plan strings.Builder
	if err := db.Tx(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "PREPARE explained AS "+db.Own(statement)); err != nil {
			return err
		}
		lines, err := tx.Query(ctx, "EXPLAIN EXECUTE explained(NULL"+strings.Repeat(", NULL", arguments-1)+")", pgx.QueryExecModeSimpleProtocol)
		if err := postgresdb.Each(lines, err, func(r pgx.Rows) error {
			var line string
			err := r.Scan(&line)
			fmt.Fprintln(&plan, line)
			return err
		}); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "DEALLOCATE explained")
		return err
	}); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return plan.String()
}

// Entries of one millisecond, and pages that hold nothing which is asked for.
func TestListingGoesOnBehindWhatItHasLookedAt(t *testing.T) {
	testenv.Need(t)
	db, err := postgresdb.Open(t.Context(), tidemill.NewSecret(testenv.Postgres(t)), postgresdb.Options{Conns: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	now := time.UnixMilli(1_700_000_000_000)
	l, err := New(t.Context(), db, Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	const rows = 2*reach + 3*page
	es := make([]*ledger.Entry, rows)
	for i := range es {
		es[i] = &ledger.Entry{Key: fmt.Sprintf("%06d", i), Type: "common"}
	}
	es[1].Type, es[rows-2].Type = "rare", "rare"
	if err := l.Begin(t.Context(), es, ledger.Begin{}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name        string
		f           ledger.Filter
		n           int
		first, last string
	}{
		{"all", ledger.Filter{}, rows, es[0].Key, es[rows-1].Key},
		{"rare", ledger.Filter{Type: "rare"}, 2, es[1].Key, es[rows-2].Key},
		{"none", ledger.Filter{Type: "none"}, 0, "", ""},
		{"the first rare", ledger.Filter{Type: "rare", Max: 1}, 1, es[1].Key, es[1].Key},
		{"a page and a half", ledger.Filter{Type: "common", Max: page + page/2}, page + page/2, es[0].Key, es[page+page/2].Key},
		{"behind the first rare", ledger.Filter{Type: "rare", From: now, After: es[1].Key}, 1, es[rows-2].Key, es[rows-2].Key},
	} {
		var keys []string
		for e, err := range l.Range(t.Context(), c.f) {
			if err != nil {
				t.Fatal(err)
			}
			if n := len(keys); n > 0 && keys[n-1] >= e.Key {
				t.Fatalf("%s: %s after %s", c.name, e.Key, keys[n-1])
			}
			keys = append(keys, e.Key)
		}
		if len(keys) != c.n || c.n > 0 && (keys[0] != c.first || keys[c.n-1] != c.last) {
			t.Errorf("%s: %d entries, want %d from %s to %s", c.name, len(keys), c.n, c.first, c.last)
		}
	}
}
