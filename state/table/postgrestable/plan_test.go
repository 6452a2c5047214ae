package postgrestable

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/internal/layout"
	"github.com/tidemill/tidemill/state/table/tabletest"
)

type record = tabletest.Record

func open(t *testing.T) *Store[record] {
	t.Helper()
	testenv.Need(t)
	db, err := postgresdb.Open(t.Context(), tidemill.NewSecret(testenv.Postgres(t)+"&synchronous_commit=off"), postgresdb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	s, err := New(t.Context(), db, tabletest.Spec("job"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestPagesReadAnIndexInItsOrder holds that a page whose conditions are on the first fields of its
// order is a search in an index: no scan of the table, nothing sorted, and nothing filtered.
func TestPagesReadAnIndexInItsOrder(t *testing.T) {
	s := open(t)
	type q = table.Query[record]
	after := &record{Key: "k", State: 1, Group: "g", Flag: true}
	after.At = after.At.AddDate(2025, 0, 0)
	state := []table.Cond{{Field: "state", Op: "=", Value: uint8(1)}}
	for _, c := range []struct {
		q    q
		want string // the condition of the index
	}{
		{q{After: after}, "(key > "},
		{q{After: after, Back: true}, "(key < "},
		{q{By: "at", After: after}, "(ROW(at, key) > "},
		{q{By: "at", After: after, Back: true}, "(ROW(at, key) < "},
		{q{By: "state", Where: state, After: after}, "(ROW(at, key) > "},
		{q{By: "state", Where: append(state, table.Cond{Field: "at", Op: "<=", Value: after.At}), Back: true}, "(at <= "},
		{q{By: "group", Where: []table.Cond{{Field: "flag", Op: "=", Value: true}, {Field: "group", Op: "=", Value: "g"}}, After: after}, "(ROW(no, key) > "},
	} {
		c.q.Most = 10
		p, err := s.of.Plan(c.q)
		if err != nil {
			t.Fatal(err)
		}
		query, args := p.SQL(layout.Names(p.Only), s.sql.name, true, mark, value)
		var plan []string
		if err := s.db.Query(t.Context(), func(rows pgx.Rows) error {
			var line string
			err := rows.Scan(&line)
			plan = append(plan, line)
			return err
		}, "EXPLAIN (COSTS OFF) "+query+" FOR UPDATE", args...); err != nil {
			t.Fatal(err)
		}
		got := strings.Join(plan, "\n")
		if !strings.Contains(got, "Index Cond: ") || !strings.Contains(got, c.want) || strings.Contains(got, "Sort") || strings.Contains(got, "Seq Scan") || strings.Contains(got, "Filter") {
			t.Errorf("%s:\n%s\nwant a search by %s", query, got, c.want)
		}
	}
}

// TestChangesOfCountersAreFolded holds that counters stay right, and few rows, while they are read
// and folded beside their writers.
func TestChangesOfCountersAreFolded(t *testing.T) {
	s := open(t)
	const writers, times = 4, 100
	var g sync.WaitGroup
	for i := range writers {
		g.Go(func() {
			for j := range times {
				if err := s.Update(t.Context(), func(tx table.Tx[record], _ pgx.Tx) error {
					return tx.Put([]*record{{Key: fmt.Sprint(i, "-", j), State: 1}, {Key: fmt.Sprint("own ", i), State: uint8(j%2) + 2}})
				}); err != nil {
					t.Error(err)
				}
				if _, err := s.Counts(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	g.Wait()
	counts, err := s.Counts(t.Context())
	if err != nil || len(counts) != 2 || counts["/1"] != writers*times || counts["/3"] != writers {
		t.Errorf("the counts are %v, %v", counts, err)
	}
	rows := 0
	if err := s.db.Query(t.Context(), func(r pgx.Rows) error { return r.Scan(&rows) }, `SELECT count(*) FROM "tidemill__job_counts"`); err != nil || rows > fold+10 {
		t.Errorf("%d rows keep two counters, %v; want at most about %d", rows, err, fold)
	}
}
