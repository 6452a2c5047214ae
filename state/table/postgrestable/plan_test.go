package postgrestable

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

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
		plan := explain(t, s, "COSTS OFF", query+forUpdate, args)
		if !strings.Contains(plan, "Index Cond: ") || !strings.Contains(plan, c.want) || strings.Contains(plan, "Sort") || strings.Contains(plan, "Seq Scan") || strings.Contains(plan, "Filter") {
			t.Errorf("%s:\n%s\nwant a search by %s", query, plan, c.want)
		}
	}
}

func explain(t *testing.T, s *Store[record], options, query string, args []any) string {
	t.Helper()
	var plan []string
	if err := s.db.Query(t.Context(), func(rows pgx.Rows) error {
		var line string
		err := rows.Scan(&line)
		plan = append(plan, line)
		return err
	}, "EXPLAIN ("+options+") "+query, args...); err != nil {
		t.Fatal(err)
	}
	return strings.Join(plan, "\n")
}

// TestAPageOfAnUnknownTableReadsWhatItShows holds that a page with a filter reads the records that it
// shows and those between them, in each order, on and back, while the server knows nothing of the
// table: it then expects few records, which it would rather find by any index and sort.
func TestAPageOfAnUnknownTableReadsWhatItShows(t *testing.T) {
	s := open(t)
	for _, q := range []string{
		"ALTER TABLE tidemill_job SET (autovacuum_enabled = off)", // it would look
		`INSERT INTO tidemill_job(key, "group", state, at, until, no, tries, body)
			SELECT int4send(i), 'g', 1, to_timestamp(i % 97), to_timestamp(i % 89), i, i % 2, int4send(i % 83) FROM generate_series(1, 20000) i`,
	} {
		if _, err := s.db.Exec(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	is := func(field string, value any) table.Cond { return table.Cond{Field: field, Op: "=", Value: value} }
	all := []table.Cond{is("group", "g"), is("flag", false), is("state", uint8(1)), {Field: "no", Op: ">", Value: uint64(0)}, {Field: "until", Op: ">=", Value: time.UnixMilli(0)}}
	const most = 50
	orders := append(tabletest.Spec("job").Orders, table.Order{})
	for _, o := range orders {
		for _, back := range []bool{false, true} {
			where := all
			if o.Name != "tries" {
				where = append(where[:len(where):len(where)], is("tries", 1)) // every second
			}
			p, err := s.of.Plan(table.Query[record]{By: o.Name, Back: back, Where: where, Most: most})
			if err != nil {
				t.Fatal(err)
			}
			query, args := p.SQL(layout.Names(p.Only), s.sql.name, true, mark, value)
			plan := explain(t, s, "ANALYZE, COSTS OFF, TIMING OFF", query, args)
			if n := visited(t, plan); n < most || n > 6*most || strings.Contains(plan, "Sort") {
				t.Errorf("a page of %d of every second record by %q, back %t, reads %d:\n%s", most, o.Name, back, n, plan)
			}
		}
	}
}

// visited is how many rows the plan of a page has read: those that it shows, and those that a filter
// or the page's end has left out.
func visited(t *testing.T, plan string) (n int) {
	t.Helper()
	for _, m := range regexp.MustCompile(`Scan.*\(actual rows=(\d+)|Removed by .*: (\d+)`).FindAllStringSubmatch(plan, -1) {
		i, err := strconv.Atoi(m[1] + m[2])
		if err != nil {
			t.Fatal(err)
		}
		n += i
	}
	return n
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
