package postgrestable

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

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

// TestTwoBatchesDoNotWaitForEachOther holds that records are locked in the order of their keys,
// in whatever order a batch has them.
func TestTwoBatchesDoNotWaitForEachOther(t *testing.T) {
	s := open(t)
	var g sync.WaitGroup
	for i := range 4 {
		g.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 1))
			for range 25 {
				rows, keys := make([]*record, 40), make([]string, 40)
				for j, k := range rnd.Perm(len(rows)) {
					keys[j] = fmt.Sprint(k)
					rows[j] = &record{Key: keys[j], Tries: i}
				}
				err := s.db.Do(t.Context(), func(ctx context.Context, c *pgx.Conn) error {
					return pgx.BeginTxFunc(ctx, c, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(raw pgx.Tx) error {
						if _, err := s.In(ctx, raw).Get(keys); err != nil {
							return err
						}
						return s.In(ctx, raw).Put(rows)
					})
				})
				if e, ok := errors.AsType[*pgconn.PgError](err); err != nil && (!ok || e.Code != "40001") {
					t.Errorf("a transaction failed: %v", err)
				}
			}
		})
	}
	g.Wait()
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
