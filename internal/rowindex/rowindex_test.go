package rowindex

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/sqlitedb"
)

// table is a table with an index, and a model of it.
type table struct {
	db *sqlitedb.DB
	x  *Index
	o  Options

	mu   sync.Mutex
	rows []Row // that are there
	last int64
}

func read(tx *sqlitedb.Tx, after int64) (all []Row, upto int64, err error) {
	rows, err := tx.Query("SELECT id, at, k0, k1, k2, k3 FROM things WHERE id > ? ORDER BY id LIMIT 7", after)
	if err != nil {
		return nil, 0, err
	}
	defer rows.Close()
	for upto = after; rows.Next(); {
		var r Row
		var k [Keys]int64
		if err := rows.Scan(&r.ID, &r.At, &k[0], &k[1], &k[2], &k[3]); err != nil {
			return nil, 0, err
		}
		for i := range k {
			r.Keys[i] = uint64(k[i])
		}
		all, upto = append(all, r), r.ID
	}
	return all, upto, rows.Err()
}

func newTable(t *testing.T, fault func(*sqlitedb.Tx) sqlitedb.Fault) *table {
	t.Helper()
	db, err := sqlitedb.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), sqlitedb.Options{Fault: fault})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := db.Migrate(t.Context(), "t", []string{"CREATE TABLE things(id INTEGER PRIMARY KEY, at INTEGER, k0 INTEGER, k1 INTEGER, k2 INTEGER, k3 INTEGER);" + Schema("x")}); err != nil {
		t.Fatal(err)
	}
	tb := &table{db: db, o: Options{Name: "x", Rows: 20, Read: read, block: 5}}
	tb.open(t)
	return tb
}

func (tb *table) open(t *testing.T) {
	t.Helper()
	var err error
	if tb.x, err = Open(t.Context(), tb.db, tb.o); err != nil {
		t.Fatal(err)
	}
}

// store stores n rows; told: the index is told of them.
func (tb *table) store(ctx context.Context, r *rand.Rand, n int, told bool) error {
	if err := tb.x.Relieve(ctx); err != nil {
		return err
	}
	var rows []Row
	var after int64
	err := tb.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		if err := tx.QueryRow("SELECT coalesce(max(id), 0) FROM things").Scan(&after); err != nil {
			return err
		}
		rows = rows[:0]
		for i := range n {
			row := Row{ID: after + int64(i) + 1, At: int64(r.IntN(40)) - 20, Keys: [Keys]uint64{1, 2 + r.Uint64N(3), math.MaxUint64 - r.Uint64N(20), 100 + r.Uint64N(1000)}}
			if _, err := tx.Exec("INSERT INTO things VALUES(?,?,?,?,?,?)", row.ID, row.At, row.Keys[0], row.Keys[1], row.Keys[2], row.Keys[3]); err != nil {
				return err
			}
			rows = append(rows, row)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if told {
		tb.x.Stored(after, rows)
	}
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.rows = append(tb.rows, rows...)
	tb.last = max(tb.last, after+int64(n))
	return nil
}

// remove removes rows of a range of ids, but never the last one.
func (tb *table) remove(ctx context.Context, which func(Row) bool) error {
	var ids []int64
	gone := func(r Row) bool { return r.ID != tb.last && which(r) }
	for _, r := range tb.rows {
		if gone(r) {
			ids = append(ids, r.ID)
		}
	}
	slices.Sort(ids)
	err := tb.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		for _, id := range ids {
			if _, err := tx.Exec("DELETE FROM things WHERE id=?", id); err != nil {
				return err
			}
		}
		return tb.x.Removed(tx, ids)
	})
	if err == nil {
		tb.rows = slices.DeleteFunc(tb.rows, gone)
	}
	return err
}

// search are the rows that a search yields and that are there.
func (tb *table) search(ctx context.Context, s Search, most int) (at []Position, dead int, err error) {
	if err := tb.x.CatchUp(ctx, tb.last); err != nil {
		return nil, 0, err
	}
	err = tb.x.Search(ctx, s, most, func(tx *sqlitedb.Tx, some []Position) (int, error) {
		for _, p := range some {
			n := 0
			if err := tx.QueryRow("SELECT count(*) FROM things WHERE id=?", p.Row).Scan(&n); err != nil {
				return 0, err
			}
			if n == 0 {
				dead++
			} else {
				at = append(at, p)
			}
		}
		return most, nil
	})
	return at, dead, err
}

func (tb *table) want(s Search) (at []Position) {
	for _, r := range tb.rows {
		p := Position{r.At, r.ID}
		if p.Compare(s.Low) > 0 && p.Compare(s.High) < 0 && slices.ContainsFunc(s.Keys, func(k uint64) bool { return slices.Contains(r.Keys[:], k) }) {
			at = append(at, p)
		}
	}
	slices.SortFunc(at, Position.Compare)
	if s.Back {
		slices.Reverse(at)
	}
	return at
}

// check compares searches with the model.
func (tb *table) check(t *testing.T, r *rand.Rand) {
	t.Helper()
	for range 12 {
		s := Search{Low: Position{int64(r.IntN(50)) - 30, int64(r.IntN(100))}, High: Position{int64(r.IntN(50)) - 10, int64(r.IntN(100))}, Back: r.IntN(2) == 0}
		if r.IntN(3) == 0 {
			s.Low, s.High = Position{At: math.MinInt64}, Position{At: math.MaxInt64}
		}
		for range 1 + r.IntN(3) {
			s.Keys = append(s.Keys, []uint64{1, 2 + r.Uint64N(4), math.MaxUint64 - r.Uint64N(22), 100 + r.Uint64N(1000)}[r.IntN(4)])
		}
		got, _, err := tb.search(t.Context(), s, 1+r.IntN(30))
		if err != nil {
			t.Fatal(err)
		}
		if want := tb.want(s); !slices.Equal(got, want) {
			i := 0
			for i < min(len(got), len(want)) && got[i] == want[i] {
				i++
			}
			t.Fatalf("%+v: %d rows, want %d; they differ at %d: %v, want %v", s, len(got), len(want), i, got[i:min(i+3, len(got))], want[i:min(i+3, len(want))])
		}
	}
}

func TestSearchesFindEachRowOnceInOrder(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			tb := newTable(t, nil)
			for range 60 {
				var err error
				switch n := r.IntN(20); {
				case n < 12:
					err = tb.store(t.Context(), r, 1+r.IntN(30), r.IntN(4) > 0)
				case n < 14:
					low := r.Int64N(tb.last + 1)
					err = tb.remove(t.Context(), func(row Row) bool { return row.ID >= low && row.ID < low+200 && row.At < 0 })
				case n < 15:
					upto := r.Int64N(tb.last + 1)
					err = tb.remove(t.Context(), func(row Row) bool { return row.ID < upto })
				case n < 18:
					err = tb.x.Sweep(t.Context())
				default:
					tb.open(t)
				}
				if err != nil {
					t.Fatal(err)
				}
				if r.IntN(4) == 0 {
					tb.check(t, r)
				}
			}
			tb.check(t, r)
		})
	}
}

// Rows that were removed leave the index: their entries, and what was noted of them.
func TestRemovedRowsLeaveTheIndex(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	tb := newTable(t, nil)
	for range 100 {
		if err := tb.store(t.Context(), r, 25, true); err != nil {
			t.Fatal(err)
		}
	}
	sweep := func() {
		t.Helper()
		if err := tb.x.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	sweep()
	if err := tb.remove(t.Context(), func(row Row) bool { return row.ID <= 2000 && row.At < 10 }); err != nil {
		t.Fatal(err)
	}
	sweep()
	all := Search{Keys: []uint64{1}, Low: Position{At: math.MinInt64}, High: Position{At: math.MaxInt64}}
	got, dead, err := tb.search(t.Context(), all, 50)
	if want := tb.want(all); err != nil || !slices.Equal(got, want) {
		t.Fatalf("%d rows, %v; want %d", len(got), err, len(want))
	}
	if dead > len(got)/goneShare+50 {
		t.Errorf("%d rows that are gone are looked at beside %d", dead, len(got))
	}
	if err := tb.remove(t.Context(), func(Row) bool { return true }); err != nil {
		t.Fatal(err)
	}
	sweep()
	if err := tb.store(t.Context(), r, 100, true); err != nil {
		t.Fatal(err)
	}
	sweep()
	counts := func() (runs, blocks, gone int) {
		if err := tb.db.Read(t.Context(), func(tx *sqlitedb.Tx) error {
			return tx.QueryRow("SELECT (SELECT count(*) FROM x_run), (SELECT count(*) FROM x_block), (SELECT count(*) FROM x_gone)").Scan(&runs, &blocks, &gone)
		}); err != nil {
			t.Fatal(err)
		}
		return runs, blocks, gone
	}
	if runs, blocks, _ := counts(); runs > 1 || blocks > 60 {
		t.Errorf("%d runs of %d blocks are left of rows that are gone", runs, blocks)
	}
	tb.check(t, r)
}

// Whatever statement fails, as a crash would have it, index and table are consistent afterwards.
func TestAFaultAtAnyStatementLosesNothing(t *testing.T) {
	for at := 1; at < 120; at += 3 {
		n, armed := 0, false
		var mu sync.Mutex
		tb := newTable(t, func(*sqlitedb.Tx) sqlitedb.Fault {
			mu.Lock()
			defer mu.Unlock()
			if armed {
				n++
			}
			if armed && n >= at {
				return sqlitedb.Refused
			}
			return sqlitedb.None
		})
		arm := func(on bool) { mu.Lock(); armed = on; mu.Unlock() }
		r := rand.New(rand.NewPCG(uint64(at), 2))
		for range 10 {
			if err := tb.store(t.Context(), r, 25, true); err != nil {
				t.Fatal(err)
			}
		}
		if err := tb.remove(t.Context(), func(row Row) bool { return row.ID%3 == 0 }); err != nil {
			t.Fatal(err)
		}
		arm(true)
		_ = tb.store(t.Context(), r, 25, true)
		_ = tb.x.Sweep(t.Context())
		_ = tb.store(t.Context(), r, 25, true)
		arm(false)
		if at%2 > 0 {
			tb.open(t) // the process was started again
		}
		tb.check(t, r)
		for range 10 {
			if err := tb.store(t.Context(), r, 25, true); err != nil {
				t.Fatal(err)
			}
		}
		if err := tb.x.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		tb.check(t, r)
		tb.whole(t)
	}
}

// Runs are merged for as long as that takes, and rows are stored and written meanwhile.
func TestRowsAreWrittenWhileRunsAreMerged(t *testing.T) {
	tb := newTable(t, nil)
	if !tb.x.sweeping.TryAcquire(1) { // somebody merges
		t.Fatal("a new index is being swept")
	}
	r := rand.New(rand.NewPCG(7, 8))
	for range 40 {
		if err := tb.store(t.Context(), r, 20, true); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(tb.x.snapshot()); n < 30 {
		t.Errorf("%d runs were written meanwhile", n)
	}
	tb.x.sweeping.Release(1)
	if err := tb.x.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	tb.check(t, r)
	tb.whole(t)
}

// whole holds that each block is of a run, and that between the ranges of runs there is no row that
// something could be noted of.
func (tb *table) whole(t *testing.T) {
	t.Helper()
	var blocks int
	if err := tb.db.Read(t.Context(), func(tx *sqlitedb.Tx) error {
		return tx.QueryRow("SELECT count(*) FROM x_block WHERE id >> 24 NOT IN (SELECT no FROM x_run)").Scan(&blocks)
	}); err != nil || blocks > 0 {
		t.Errorf("%d blocks are of no run: %v", blocks, err)
	}
	runs := tb.x.snapshot()
	for i := 1; i < len(runs); i++ {
		if runs[i].first != runs[i-1].last+1 {
			t.Errorf("a run ends at row %d, and the next begins at %d", runs[i-1].last, runs[i].first)
		}
	}
}

// TestADamagedIndexSaysSo has a block of a run be gone that nobody replaced.
func TestADamagedIndexSaysSo(t *testing.T) {
	tb, r := newTable(t, nil), rand.New(rand.NewPCG(1, 2))
	for range 3 {
		if err := tb.store(t.Context(), r, 25, true); err != nil {
			t.Fatal(err)
		}
	}
	if err := tb.db.Write(t.Context(), func(tx *sqlitedb.Tx) error {
		_, err := tx.Exec("DELETE FROM x_block")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	if _, _, err := tb.search(ctx, Search{Keys: []uint64{1}, Low: Position{math.MinInt64, 0}, High: Position{math.MaxInt64, math.MaxInt64}}, 50); err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "of the index x") {
		t.Errorf("a search says %v", err)
	}
}

// Searches see all that was stored before them while others store and merge.
func TestSearchesWhileOthersStoreAndMerge(t *testing.T) {
	tb := newTable(t, nil)
	var work, sweeps sync.WaitGroup
	done := make(chan struct{})
	for w := range 3 {
		work.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 3))
			for range 60 {
				if err := tb.store(t.Context(), r, 1+r.IntN(10), w > 0); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	work.Go(func() {
		all := Search{Keys: []uint64{1}, Low: Position{At: math.MinInt64}, High: Position{At: math.MaxInt64}}
		for range 60 {
			tb.mu.Lock()
			want, last := tb.want(all), tb.last
			tb.mu.Unlock()
			if err := tb.x.CatchUp(t.Context(), last); err != nil {
				t.Error(err)
				return
			}
			found := map[Position]int{}
			if err := tb.x.Search(t.Context(), all, 10, func(_ *sqlitedb.Tx, at []Position) (int, error) {
				for _, p := range at {
					found[p]++
				}
				return 10, nil
			}); err != nil {
				t.Error(err)
				return
			}
			for _, p := range want {
				if found[p] != 1 {
					t.Errorf("%+v is found %d times", p, found[p])
					return
				}
			}
		}
	})
	sweeps.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				if err := tb.x.Sweep(t.Context()); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	work.Wait()
	close(done)
	sweeps.Wait()
	tb.check(t, rand.New(rand.NewPCG(9, 9)))
}
