// Package clickhousewarehouse keeps events in ClickHouse, 24.8 and newer: the warehouse of
// an instance that has one, and of people who ask with SQL of their own. They ask the view
// events_resolved: each event once, under the person it belongs to now.
//
// # Once
//
// An event is there once by its row key: project, name, timestamp, event id. A redelivery
// has the same, and so has a resend that came through our doors. Two things see to it:
//
//   - The table is a ReplacingMergeTree; FINAL, which the view, Events and Count use, shows
//     of all rows with one key that which was ingested last. This always holds.
//   - A batch that is sent again, row for row, has the same insert_deduplication_token,
//     and the server drops it: no row is stored twice even before parts are merged. This
//     holds for the last 10,000 parts (window), for rows that did not change meanwhile.
//
// ClickHouse cannot cheaply say what it has. A Store knows what it stored itself a moment
// ago (Options.Recent): that is told as warehouse.Again or Duplicate and not sent again.
// Anything older is answered Stored. So an event id that a client uses for two events with
// different names or times is refused only while it is recent; after that both are shown.
//
// # Order
//
// ClickHouse keeps rows by key, not as they come. The column stored_at, microseconds of the
// storing instance's clock, gives the order of listings: exact for what one Store stored,
// that of the clocks between several. A row that is stored again moves to the end.
//
// # Persons
//
// The view and Events look into person_distinct_id_overrides themselves, so that a merge
// shows at once. The dictionary person_overrides_dict, for readers that have their own
// queries with dictGet, is 30 to 60 seconds behind.
//
// Properties of {} are the same as none. Warnings keep whole seconds.
package clickhousewarehouse

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tidemill/tidemill/internal/clickhousehttp"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// Options tune a Store; the zero value is ready to use.
type Options struct {
	// Keep is how long events are kept, by their timestamp; 0 means 365 days, below 0 for
	// ever. It is written into a new table; one that is there keeps its own TTL.
	Keep time.Duration
	// Recent is how many stored events are known so that they are told and not sent again;
	// up to twice as many are held, some 70 bytes each. 0 means 100,000; below 0 none.
	// After a TRUNCATE of the table, events of a moment ago are still not taken again:
	// start anew, or set it below 0, before such events are replayed.
	Recent int
	// Async leaves it to the server to gather rows of many small inserts (async_insert).
	// It is for dozens of instances that each store little: a batch of 1,000 rows and more
	// is better stored at once. An insert waits until it is stored in any case, but one
	// whose answer was lost leaves rows twice until they are merged.
	Async bool
	// NoSync makes new tables not wait for the disk (fsync_after_insert=0): a server that
	// loses power loses what it acknowledged in its last half minute. For a server whose
	// copies make up for it.
	NoSync bool
	// NoDictionary leaves out person_overrides_dict. Where the user may not make one, it is
	// left out in any case and Inspect says so.
	NoDictionary bool
	// Collection is a named collection of the server, with the user and the password that
	// person_overrides_dict reads as. Without one the dictionary is made only where the user is
	// default without a password, for no password is written into a definition; Inspect says
	// so. One that is there already, with a password, is replaced once there is a Collection.
	Collection string
	// Now is the clock of stored_at; nil means time.Now.
	Now func() time.Time
}

// Store is a warehouse in a ClickHouse database.
type Store struct {
	conn   *clickhousehttp.Conn
	names  names
	o      Options
	into   string // INSERT INTO events
	recent *recent
	blocks chan *block // those at rest

	mu   sync.Mutex // guards last
	last int64      // microseconds: the newest stored_at given out
}

var _ warehouse.Store = (*Store)(nil)

// blocksKept is how many blocks of columns wait for the next insert, each with the memory
// of its largest batch up to blockBytes.
const (
	blocksKept = 4
	blockBytes = 16 << 20
)

// New opens the warehouse in the connection's database, and makes the database, tables and
// view that are missing. Rights to create are needed only for that. Tables of an existing
// deployment keep their columns and get those that they lack.
func New(ctx context.Context, conn *clickhousehttp.Conn, o Options) (*Store, error) {
	return newStore(ctx, conn, o, warehouse.KeepWarnings)
}

func newStore(ctx context.Context, conn *clickhousehttp.Conn, o Options, keepWarnings time.Duration) (*Store, error) {
	if conn.Database() == "" {
		return nil, errors.New("open the warehouse: no database is named; set Options.Database or ?database= in the URL")
	}
	if o.Keep == 0 {
		o.Keep = 365 * 24 * time.Hour
	}
	if o.Keep > 0 && o.Keep < time.Second {
		return nil, fmt.Errorf("open the warehouse: events cannot be kept for %v; a second is the least", o.Keep)
	}
	if o.Recent == 0 {
		o.Recent = 100_000
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Store{conn: conn, names: namesIn(conn.Database()), o: o, recent: newRecent(max(o.Recent, 0)), blocks: make(chan *block, blocksKept)}
	s.into = insertInto(s.names.events, newBlock().all)
	if err := s.migrate(ctx, keepWarnings); err != nil {
		return nil, fmt.Errorf("open the warehouse in %s: %w", conn.Database(), err)
	}
	return s, nil
}

// stamps returns the first of n times that no row of this Store has, in microseconds.
func (s *Store) stamps(n int) int64 {
	now := s.o.Now().UnixMicro()
	s.mu.Lock()
	defer s.mu.Unlock()
	first := max(now, s.last+1)
	s.last = first + int64(n) - 1
	return first
}

// Forgets is warehouse.Forgetter: rows have a time to live, and what was stored twice is
// one row once parts are merged.
func (s *Store) Forgets() bool { return true }
