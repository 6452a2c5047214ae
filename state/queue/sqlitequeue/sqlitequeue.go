// Package sqlitequeue keeps queues in one SQLite file: durable, for one process, and quick,
// because it writes jobs as a log does and not one row each.
//
// The layout of the file:
//
//   - queue: one row a queue. Its log end (next) counts accepted jobs, written by Add; its
//     books are written by Settle in the transaction of the settlements.
//   - queue_segment: up to 64 jobs of one priority and tenant (of one key, where keys are
//     kept apart) that came in together, in one row. Concurrent callers share segments,
//     transactions and the wait for the disk. An index finds the segments of each such group
//     in their order. Turns are taken in memory, between heads that were read ahead; only
//     these heads of a backlog are in memory.
//   - queue_ended: which jobs have left a segment, as bits. The last one to leave removes
//     the segment, so a job that ends in good time costs the writer a fraction of a row.
//   - queue_late: jobs that left their segment before their end (delayed, tried, handed out
//     again) and jobs added for later, one row each: the exceptions.
//   - queue_kept: jobs that are kept after their end, where the settings say so.
//   - queue_name_*: which names are known; see idset.
//   - queue_damaged: bytes that differ from what was written.
//
// Leases, turns and the use of limits are in memory: the file belongs to one process, and
// after a restart everything that was handed out waits again.
package sqlitequeue

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/giveway"
	"github.com/tidemill/tidemill/internal/idset"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/queue"
)

// Options tune a store; the zero value is ready to use.
type Options struct {
	Capacity int              // jobs that one queue may hold; 0 means 10,000,000
	Now      func() time.Time // the clock; nil means time.Now
	Log      *slog.Logger     // told of damaged jobs; nil discards

	bounds     bounds // in memory, of each queue; zero: see New
	tableNames int    // as idset.Options.Table
	next       int    // jobs that may follow from the ends of one transaction; 0: any, and nextJobs while requests wait
}

// Store keeps queues in a database. It is a queue.Store, and safe for concurrent use. A
// database must have only one.
type Store struct {
	db    *sqlitedb.DB
	o     Options
	names *idset.Set

	mu     sync.Mutex // guards queues
	queues map[string]*queueState

	committers [giveway.Lines]committer
}

var _ queue.Store = (*Store)(nil)

// steps of the schema; a released step is never edited.
var steps = []string{`
CREATE TABLE queue(
	no INTEGER PRIMARY KEY, name BLOB NOT NULL UNIQUE, next INTEGER NOT NULL DEFAULT 0,
	delivered INTEGER NOT NULL DEFAULT 0, skipped INTEGER NOT NULL DEFAULT 0, dead INTEGER NOT NULL DEFAULT 0,
	handed INTEGER NOT NULL DEFAULT 0, epoch INTEGER NOT NULL DEFAULT 0,
	settings BLOB, ordered INTEGER NOT NULL DEFAULT 0);
CREATE TABLE queue_segment(
	pos INTEGER PRIMARY KEY, n INTEGER NOT NULL, strand BLOB NOT NULL, priority INTEGER NOT NULL, jobs BLOB NOT NULL);
CREATE INDEX queue_segment_strand ON queue_segment(strand, pos, n, priority);
CREATE TABLE queue_ended(pos INTEGER PRIMARY KEY, gone INTEGER NOT NULL, bits INTEGER NOT NULL);
CREATE TABLE queue_late(
	pos INTEGER PRIMARY KEY, queue INTEGER NOT NULL, at INTEGER, tries INTEGER NOT NULL, handed INTEGER NOT NULL,
	due INTEGER NOT NULL, strand BLOB, cause BLOB, failures BLOB, job BLOB NOT NULL);
CREATE INDEX queue_late_at ON queue_late(queue, at);
CREATE INDEX queue_late_strand ON queue_late(strand, due) WHERE strand IS NOT NULL;
CREATE TABLE queue_kept(
	seq INTEGER PRIMARY KEY, pos INTEGER NOT NULL, queue INTEGER NOT NULL, state INTEGER NOT NULL,
	ended INTEGER NOT NULL, fate INTEGER NOT NULL, tries INTEGER NOT NULL, handed INTEGER NOT NULL,
	cause BLOB, failures BLOB, job BLOB NOT NULL, UNIQUE(state, pos));
CREATE INDEX queue_kept_ended ON queue_kept(queue, state, ended);
CREATE TABLE queue_damaged(pos INTEGER PRIMARY KEY, found INTEGER NOT NULL, cause TEXT NOT NULL, bytes BLOB);
CREATE TABLE queue_name_log(id INTEGER PRIMARY KEY, names BLOB NOT NULL);
CREATE TABLE queue_name_run(
	no INTEGER PRIMARY KEY, level INTEGER NOT NULL, newest INTEGER NOT NULL, count INTEGER NOT NULL,
	fences BLOB NOT NULL, filter BLOB NOT NULL);
CREATE TABLE queue_name_block(id INTEGER PRIMARY KEY, names BLOB NOT NULL);
`, `
ALTER TABLE queue_name_log RENAME COLUMN names TO ids;
ALTER TABLE queue_name_block RENAME COLUMN names TO ids;
`}

// New opens the queues in the database, and makes missing tables.
func New(ctx context.Context, db *sqlitedb.DB, o Options) (*Store, error) {
	if o.Capacity <= 0 {
		o.Capacity = 10_000_000
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.bounds == (bounds{}) {
		// Jobs of a kilobyte that were read ahead take some 4 MB, those that came due 25
		// MB, groups 15 MB.
		o.bounds = bounds{ahead: 4096, backs: 100_000, groups: 25_000}
	}
	if err := db.Migrate(ctx, "queue", steps); err != nil {
		return nil, fmt.Errorf("open the queues: %w", err)
	}
	s := &Store{db: db, o: o, queues: map[string]*queueState{}}
	var err error
	if s.names, err = idset.Open(ctx, db, idset.Options{Name: nameTables, Table: o.tableNames, Now: o.Now}); err != nil {
		return nil, fmt.Errorf("open the queues' names: %w", err)
	}
	if err := s.load(ctx); err != nil {
		return nil, fmt.Errorf("open the queues: %w", err)
	}
	return s, nil
}

// load finds the stored queues.
func (s *Store) load(ctx context.Context) error {
	return s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		rows, err := tx.Query("SELECT no, name, next, handed, epoch, settings FROM queue ORDER BY no")
		if err != nil {
			return err
		}
		defer rows.Close()
		var all []*queueState
		for rows.Next() {
			var no, end, handed, epoch int64
			var name, settings []byte
			if err := rows.Scan(&no, &name, &end, &handed, &epoch, &settings); err != nil {
				return err
			}
			q := newQueueState(uint32(no), string(name), s.o.bounds)
			is, err := readSettings(settings)
			if err != nil {
				return fmt.Errorf("settings of queue %q: %w", name, err)
			}
			q.restore(is, uint64(end), uint64(handed), uint32(epoch))
			all = append(all, q)
		}
		if err := rows.Err(); err != nil {
			return err
		}
		for _, q := range all {
			if err := q.measure(tx); err != nil {
				return fmt.Errorf("measure queue %q: %w", q.name, err)
			}
			s.queues[q.name] = q
		}
		return nil
	})
}

// state returns the queue of that name, and creates it at the first call.
func (s *Store) state(ctx context.Context, name string) (*queueState, error) {
	if q := s.find(name); q != nil {
		return q, nil
	}
	var no int64
	err := s.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		if _, err := tx.Exec("INSERT INTO queue(name) VALUES(?) ON CONFLICT DO NOTHING", []byte(name)); err != nil {
			return err
		}
		return tx.QueryRow("SELECT no FROM queue WHERE name=?", []byte(name)).Scan(&no)
	})
	if err != nil {
		return nil, fmt.Errorf("make queue %q: %w", name, err)
	}
	if no >= maxQueues {
		return nil, tidemill.Fail(tidemill.Validation, "make queue %q: there are %d queues already", name, maxQueues)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[name]
	if q == nil {
		q = newQueueState(uint32(no), name, s.o.bounds)
		s.queues[name] = q
	}
	return q, nil
}

// find returns the queue of that name, or nil.
func (s *Store) find(name string) *queueState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queues[name]
}

// A job's position in the file is its queue's number and its position in that queue, in one
// integer: each queue grows at its own end and is read as a range.
const (
	posBits   = 44
	maxQueues = 1 << (63 - posBits)
	posMask   = 1<<posBits - 1
)

func (q *queueState) filePos(n uint64) int64 { return int64(q.no)<<posBits | int64(n) }

// position is the inverse of filePos: the position within the queue.
func position(pos int64) uint64 { return uint64(pos) & posMask }

// now is the clock at the precision of the tables.
func (s *Store) now() (time.Time, int64) {
	t := s.o.Now()
	return t, t.UnixMilli()
}
