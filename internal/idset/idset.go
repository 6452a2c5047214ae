// Package idset keeps a large set of random ids in a SQLite file, and where the thing of each lies.
// It is a log-structured set: in one ordered table each new id would rewrite a page of 4 KB of its
// own. Measured side by side up to two million random ids: such a table alone cost 11 to 29 µs of
// processor time an id, growing; a whole Add of a job without payload 3 to 4 µs (Sweep not counted).
//
//   - New ids go to a table in memory, and in the caller's own transaction to the table NAME_log,
//     from which they are read back at the start.
//   - A full table is written as a run: its ids in order, in blocks of NAME_block, and for each run
//     a filter in memory (2 bytes an id) that tells from most ids that they are not in it, so that
//     a new id is looked up on disk once in a thousand runs.
//   - Sweep merges runs, and drops those that are old.
//
// Adding has three steps, so that an id is known exactly if its thing is stored: Claim says which
// ids are new and keeps them from other callers, Group.Log writes them in the transaction of the things,
// and Resolve ends the claim.
package idset

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/tidemill/tidemill/internal/blocks"
	"github.com/tidemill/tidemill/internal/sqlitedb"
)

// ID is an id in 16 bytes. Ids of one Hash cost time; ids of one Hash and Check are the same, so one
// of them must be beyond what senders can choose.
type ID struct{ Hash, Check uint64 }

// Entry is an id and the position of its thing, which is not 0.
type Entry struct {
	ID
	Pos int64
}

// Options tune a Set.
type Options struct {
	// Name is before the names of its tables, which Schema makes.
	Name string
	// Table is how many ids a table in memory has, about 50 bytes each, before it is written; up to
	// four are held. 0 means 128 Ki.
	Table int
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Schema makes the tables of a set of that name.
func Schema(name string) string {
	return strings.ReplaceAll(`
CREATE TABLE NAME_log(id INTEGER PRIMARY KEY, ids BLOB NOT NULL);
CREATE TABLE NAME_run(
	no INTEGER PRIMARY KEY, level INTEGER NOT NULL, newest INTEGER NOT NULL, count INTEGER NOT NULL,
	fences BLOB NOT NULL, filter BLOB NOT NULL);
CREATE TABLE NAME_block(id INTEGER PRIMARY KEY, ids BLOB NOT NULL);
`, "NAME", name)
}

// Set is a set of ids. It is safe for concurrent use; a name in a file must have only one.
type Set struct {
	db  *sqlitedb.DB
	o   Options
	sql statements

	mu     sync.Mutex
	tables []*table // the last one accepts new ids; those before it are being written
	runs   []*run   // newest first; replaced, never changed

	numbers *blocks.Numbers // of runs

	// Each is held by one. A merge takes long, and tables are written meanwhile. Who holds sweeping
	// may take flushing.
	flushing *semaphore.Weighted // held by the writer of tables
	sweeping *semaphore.Weighted // held by Sweep
}

// statements are those of a name.
type statements struct{ log, forget, block, blocks, addBlock, addRun, dropRun string }

func statementsOf(name string) statements {
	return statements{
		log:      "INSERT INTO " + name + "_log(id,ids) VALUES(?,?)",
		forget:   "DELETE FROM " + name + "_log WHERE id<?",
		block:    "SELECT ids FROM " + name + "_block WHERE id=?",
		blocks:   "SELECT ids FROM " + name + "_block WHERE id>=? AND id<? ORDER BY id",
		addBlock: "INSERT INTO " + name + "_block(id,ids) VALUES ",
		addRun:   "INSERT INTO " + name + "_run(no,level,newest,count,fences,filter) VALUES(?,?,?,?,?,?)",
		dropRun:  "DELETE FROM " + name + "_run WHERE no=?",
	}
}

// Open reads a set back.
func Open(ctx context.Context, db *sqlitedb.DB, o Options) (*Set, error) {
	if o.Table <= 0 {
		o.Table = 128 << 10
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Set{db: db, o: o, sql: statementsOf(o.Name), numbers: blocks.New(db, o.Name+"_block"), flushing: semaphore.NewWeighted(1), sweeping: semaphore.NewWeighted(1)}
	t := s.newTable(1, 0)
	err := db.Read(ctx, func(tx *sqlitedb.Tx) error {
		if err := s.readLog(tx, t); err != nil {
			return err
		}
		if err := s.readRuns(tx); err != nil {
			return err
		}
		var runs []int64
		for _, r := range s.runs {
			runs = append(runs, r.no)
		}
		return s.numbers.Read(tx, runs)
	})
	s.tables = []*table{t}
	if err != nil {
		return nil, fmt.Errorf("open the ids of %s: %w", o.Name, err)
	}
	return s, nil
}

// readLog reads the log back into a table, which is the log's next.
func (s *Set) readLog(tx *sqlitedb.Tx, into *table) error {
	rows, err := tx.Query("SELECT id, ids FROM " + s.o.Name + "_log ORDER BY id")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		var block sql.RawBytes
		if err := rows.Scan(&id, &block); err != nil {
			return err
		}
		into.gen = id>>logBits + 1
		for ; len(block) >= entryBytes; block = block[entryBytes:] {
			into.insert(slot{Entry: readEntry(block)})
		}
	}
	return rows.Err()
}

func (s *Set) readRuns(tx *sqlitedb.Tx) error {
	rows, err := tx.Query("SELECT no, level, newest, count, fences, filter FROM " + s.o.Name + "_run ORDER BY newest DESC, no DESC")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		r := new(run)
		var fences, filter []byte
		if err := rows.Scan(&r.no, &r.level, &r.newest, &r.count, &fences, &filter); err != nil {
			return err
		}
		r.fences, r.filter = words(fences), words(filter)
		s.runs = append(s.runs, r)
	}
	return rows.Err()
}

// logID is where the ids of a transaction are logged: tables in order, and in each the transactions.
func logID(gen, seq int64) int64 { return gen<<logBits | seq }

const logBits = 32

// Knows says which ids are known.
func (s *Set) Knows(ctx context.Context, want []ID, says []bool) error {
	return s.unmerged(func() ([]*run, error) { return s.knows(ctx, want, says) })
}

func (s *Set) knows(ctx context.Context, want []ID, says []bool) (runs []*run, err error) {
	s.mu.Lock()
	runs = s.runs
	for i, id := range want {
		says[i] = false
		for _, t := range s.tables {
			e := t.find(id)
			says[i] = says[i] || e != nil && e.claim == nil
		}
	}
	s.mu.Unlock()
	return runs, s.search(ctx, runs, want, func(i int) bool { return !says[i] }, func(i int, _ int64) { says[i] = true })
}

// At are the positions of all ids of a hash.
func (s *Set) At(ctx context.Context, hash uint64) (at []int64, err error) {
	err = s.unmerged(func() (runs []*run, err error) {
		at, runs, err = s.at(ctx, hash)
		return runs, err
	})
	return at, err
}

func (s *Set) at(ctx context.Context, hash uint64) (at []int64, runs []*run, err error) {
	s.mu.Lock()
	runs = s.runs
	for _, t := range s.tables {
		t.each(hash, func(e *slot) {
			if e.Pos != 0 {
				at = append(at, e.Pos)
			}
		})
	}
	s.mu.Unlock()
	err = s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		for _, r := range runs {
			if !r.filter.maybe(hash) {
				continue
			}
			if err := s.find(tx, r, hash, func(e Entry) { at = append(at, e.Pos) }); err != nil {
				return err
			}
		}
		return nil
	})
	return at, runs, err
}

// unmerged reads again as long as a run was merged away while it was read. Where all the runs that it
// read are still there, a block is missing.
func (s *Set) unmerged(read func() (runs []*run, err error)) error {
	for {
		if runs, err := read(); !errors.Is(err, sql.ErrNoRows) || slices.Equal(runs, s.snapshot()) {
			return err
		}
	}
}

// search looks up the open ids in the runs, and tells which it found. It fails with sql.ErrNoRows
// where a run was merged away meanwhile.
func (s *Set) search(ctx context.Context, runs []*run, want []ID, open func(i int) bool, found func(i int, pos int64)) error {
	var maybe []question
	for i, id := range want {
		if !open(i) {
			continue
		}
		for _, r := range runs {
			if r.filter.maybe(id.Hash) {
				maybe = append(maybe, question{i, r})
			}
		}
	}
	if len(maybe) == 0 {
		return nil
	}
	return s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		for _, q := range maybe {
			if !open(q.i) {
				continue
			}
			var pos int64
			err := s.find(tx, q.run, want[q.i].Hash, func(e Entry) {
				if e.ID == want[q.i] {
					pos = e.Pos
				}
			})
			if err != nil {
				return err
			}
			if pos != 0 {
				found(q.i, pos)
			}
		}
		return nil
	})
}

// question is whether an id of a call is in a run.
type question struct {
	i   int
	run *run
}
