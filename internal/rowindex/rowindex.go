// Package rowindex finds the rows of a SQLite table by keys, in the order of their times. Rows are
// only appended, with ids that grow, and removed.
//
// An index of SQLite would rewrite a page for each key of a row. This one is sorted runs:
//
//   - The newest rows are in memory, in no order. They need no log: Options.Read reads them from the
//     table, after a crash as well as what another transaction has stored meanwhile.
//   - So many of them are written as a run: an entry for each key of each row, in order, packed in
//     blocks. A run has the rows of one range of ids, and each row is in one run, or in memory.
//   - Sweep merges runs of neighbouring ranges, and drops the entries of rows that were removed.
//
// A search positions itself in each run by the first entries of its blocks, which are in memory (24
// bytes for 512 entries), and reads the blocks that it passes.
package rowindex

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/tidemill/tidemill/internal/blocks"
	"github.com/tidemill/tidemill/internal/sqlitedb"
)

// Keys is how many keys a row has.
const Keys = 4

// Row is a row of the table: its id, its time, and its keys, which are hashes.
type Row struct {
	ID, At int64
	Keys   [Keys]uint64
}

// Position is where a row is in the order: by time, rows of one time by id.
type Position struct{ At, Row int64 }

// Compare says which of two comes first: -1 this one, 0 neither, 1 the other.
func (p Position) Compare(o Position) int {
	if p.At != o.At {
		return cmp.Compare(p.At, o.At)
	}
	return cmp.Compare(p.Row, o.Row)
}

// Options tune an Index.
type Options struct {
	// Name is before the names of its tables, which Schema makes.
	Name string
	// Read reads rows from the table, those with the lowest ids after one, and says up to which id it
	// has read all. It reads so many that a snapshot is held for some milliseconds; where nothing is
	// left, upto is after.
	Read func(tx *sqlitedb.Tx, after int64) (rows []Row, upto int64, err error)
	// Rows is how many rows are held in memory, 48 bytes each, before they are written. Up to four
	// times as many are held. 0 means 64 Ki.
	Rows int

	block int // as blockEntries
}

// Schema makes the tables of an index of that name.
func Schema(name string) string {
	return strings.ReplaceAll(`
CREATE TABLE NAME_run(
	no INTEGER PRIMARY KEY, level INTEGER NOT NULL,
	first INTEGER NOT NULL, last INTEGER NOT NULL, -- ids of the table: all rows of this range are in the run
	count INTEGER NOT NULL,                        -- rows
	fences BLOB NOT NULL);                         -- the first entry of each block
CREATE TABLE NAME_block(id INTEGER PRIMARY KEY, entries BLOB NOT NULL);
CREATE TABLE NAME_gone(first INTEGER PRIMARY KEY, last INTEGER NOT NULL, count INTEGER NOT NULL, ids BLOB NOT NULL); -- rows that were removed, and are in runs
`, "NAME", name)
}

// Index is an index. It is safe for concurrent use; a name in a file must have only one.
type Index struct {
	db  *sqlitedb.DB
	o   Options
	sql statements

	mu      sync.Mutex
	runs    []*run          // by their ranges; replaced, never changed
	rows    []Row           // those after the runs' up to upto, by id; appended to, or replaced
	upto    int64           // the index has all rows up to this id
	waiting map[int64][]Row // were stored, but some before them are missing; by the id before the first

	numbers *blocks.Numbers // of runs

	// Each is held by one. A merge takes long, and rows are written meanwhile.
	flushing *semaphore.Weighted // held by the writer of rows
	sweeping *semaphore.Weighted // held by Sweep
}

type statements struct{ block, blocks, addBlock, addRun, dropRun, gone, dropGone, addGone string }

func statementsOf(name string) statements {
	return statements{
		block:    "SELECT entries FROM " + name + "_block WHERE id=?",
		blocks:   "SELECT entries FROM " + name + "_block WHERE id>=? AND id<? ORDER BY id",
		addBlock: "INSERT INTO " + name + "_block(id,entries) VALUES ",
		addRun:   "INSERT INTO " + name + "_run(no,level,first,last,count,fences) VALUES(?,?,?,?,?,?)",
		dropRun:  "DELETE FROM " + name + "_run WHERE no=?",
		gone:     "SELECT first, last, count, ids FROM " + name + "_gone WHERE first>=? AND first<=? ORDER BY first",
		dropGone: "DELETE FROM " + name + "_gone WHERE first=?",
		addGone:  "INSERT INTO " + name + "_gone(first,last,count,ids) VALUES(?,?,?,?)",
	}
}

// Open reads an index back. Rows that are not in it yet are taken in.
func Open(ctx context.Context, db *sqlitedb.DB, o Options) (*Index, error) {
	if o.Rows <= 0 {
		o.Rows = 64 << 10
	}
	if o.block <= 0 {
		o.block = blockEntries
	}
	x := &Index{db: db, o: o, sql: statementsOf(o.Name), waiting: map[int64][]Row{}, numbers: blocks.New(db, o.Name+"_block"), flushing: semaphore.NewWeighted(1), sweeping: semaphore.NewWeighted(1)}
	if err := db.Read(ctx, func(tx *sqlitedb.Tx) error {
		if err := x.readRuns(tx); err != nil {
			return err
		}
		var runs []int64
		for _, r := range x.runs {
			runs = append(runs, r.no)
		}
		return x.numbers.Read(tx, runs)
	}); err != nil {
		return nil, fmt.Errorf("open the index %s: %w", o.Name, err)
	}
	if n := len(x.runs); n > 0 {
		x.upto = x.runs[n-1].last
	}
	for more := true; more; {
		var err error
		if more, err = x.read(ctx); err == nil {
			err = x.Relieve(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("open the index %s: take in rows: %w", o.Name, err)
		}
	}
	return x, nil
}

func (x *Index) readRuns(tx *sqlitedb.Tx) error {
	rows, err := tx.Query("SELECT no, level, first, last, count, fences FROM " + x.o.Name + "_run ORDER BY last")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		r := new(run)
		var fences []byte
		if err := rows.Scan(&r.no, &r.level, &r.first, &r.last, &r.count, &fences); err != nil {
			return err
		}
		r.fences = readFences(fences)
		x.runs = append(x.runs, r)
	}
	return rows.Err()
}

// Stored takes in rows after they were stored: all of one transaction that has given ids one by one
// after an id. It saves reading them: rows that it was not told of are read from the table.
func (x *Index) Stored(after int64, rows []Row) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if after > x.upto { // others, stored before these, are still to come
		x.waiting[after] = rows
		return
	}
	for ok := true; ok; rows, ok = x.waiting[x.upto] {
		delete(x.waiting, x.upto)
		x.take(rows)
	}
}

// take appends the rows that are new. mu is held.
func (x *Index) take(rows []Row) {
	for _, r := range rows {
		if r.ID > x.upto {
			x.rows = append(x.rows, r)
			x.upto = r.ID
		}
	}
}

// read takes in rows from the table; more says that there may be more.
func (x *Index) read(ctx context.Context) (more bool, err error) {
	x.mu.Lock()
	after := x.upto
	x.mu.Unlock()
	var rows []Row
	upto := after
	err = x.db.Read(ctx, func(tx *sqlitedb.Tx) (err error) {
		rows, upto, err = x.o.Read(tx, after)
		return err
	})
	if err != nil || upto <= after {
		return false, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.take(rows)
	x.upto = max(x.upto, upto)
	for from, rows := range x.waiting {
		if from < x.upto {
			delete(x.waiting, from)
			x.take(rows)
		}
	}
	return true, nil
}

// CatchUp takes in rows from the table until all up to an id are there.
func (x *Index) CatchUp(ctx context.Context, id int64) error {
	for more := true; more; {
		x.mu.Lock()
		more = x.upto < id
		x.mu.Unlock()
		if more {
			var err error
			if more, err = x.read(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// Relieve writes a run where enough rows are in memory, for a caller that is about to store more.
// While another caller does that it returns, unless there are too many.
func (x *Index) Relieve(ctx context.Context) error {
	x.mu.Lock()
	held := len(x.rows)
	for _, rows := range x.waiting {
		held += len(rows)
	}
	x.mu.Unlock()
	if held < x.o.Rows {
		return nil
	}
	if held >= 4*x.o.Rows {
		if err := x.flushing.Acquire(ctx, 1); err != nil {
			return err
		}
		defer x.flushing.Release(1)
		return x.flush(ctx)
	}
	if !x.flushing.TryAcquire(1) {
		return nil
	}
	defer x.flushing.Release(1)
	return x.flush(ctx)
}

// flush writes the rows in memory as a run. Its caller holds the lock.
func (x *Index) flush(ctx context.Context) error {
	x.mu.Lock()
	runs, rows, upto := x.runs, x.rows, x.upto
	x.mu.Unlock()
	if len(rows) < x.o.Rows {
		return nil
	}
	entries := make([]entry, 0, Keys*len(rows))
	for i := range rows {
		for _, k := range rows[i].Keys {
			entries = append(entries, entry{k, Position{rows[i].At, rows[i].ID}})
		}
	}
	slices.SortFunc(entries, entry.compare)
	first := rows[0].ID
	if n := len(runs); n > 0 {
		first = runs[n-1].last + 1 // those between were removed before they were in a run
	}
	r, err := x.write(ctx, &run{first: first, last: upto, count: len(rows)}, inOrder(entries), func(*sqlitedb.Tx) error { return nil })
	if err != nil {
		return fmt.Errorf("write %d rows of the index %s: %w", len(rows), x.o.Name, err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.runs = append(slices.Clone(x.runs), r)
	x.rows = append(make([]Row, 0, x.o.Rows), x.rows[len(rows):]...)
	return nil
}
