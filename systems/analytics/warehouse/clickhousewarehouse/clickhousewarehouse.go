// Package clickhousewarehouse keeps events in ClickHouse, 24.8 and newer. Use it for an
// instance that has ClickHouse, and for readers with their own SQL. They query the view
// events_resolved: each event once, under the person it belongs to now.
//
// # Once
//
// An event is stored once by its row key: project, name, timestamp, event id. A redelivery has
// the same key, and so has a resend through the ingest API. Two mechanisms ensure it:
//
//   - The table is a ReplacingMergeTree; FINAL, which the view, Events and Count use, shows
//     of all rows with one key that which was ingested last. This always holds.
//   - A batch that is sent again, row for row, has the same insert_deduplication_token,
//     and the server drops it: no row is stored twice even before parts are merged. This
//     holds for the last 10,000 parts (window), for rows that did not change meanwhile.
//
// ClickHouse cannot cheaply say what it has. A Store knows the events that it stored itself a
// moment ago (Options.Recent): it reports them as warehouse.Again or Duplicate and does not
// send them again. It reports anything older as Stored. So if a client uses one event id for
// two events with different names or times, the second is refused only while the first is
// recent; after that both are shown.
//
// # Order
//
// ClickHouse keeps rows by key, not in order of arrival. The column stored_at, microseconds of
// the storing instance's clock, gives the order of listings. It is exact for the rows of one
// Store; between several it is that of their clocks. A row that is stored again moves to the
// end.
//
// # Persons
//
// The view and Events read person_distinct_id_overrides themselves, so a merge shows at once.
// The dictionary person_overrides_dict, for readers' own queries with dictGet, is 30 to 60
// seconds behind.
//
// Properties of {} count as none. Warnings keep whole seconds.
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
	// Keep is how long events are kept, by their timestamp. It is the TTL of the table, also of one
	// that is there: with another the table's is changed, see Store.Was. 0 means 365 days for a new
	// table, below 0 for ever; one that is there then keeps its own.
	Keep time.Duration
	// Recent is how many stored events are remembered, so that they are reported and not sent
	// again. Up to twice as many are held, about 70 bytes each. 0 means 100,000; below 0 none.
	// After a TRUNCATE of the table, recent events are still not accepted again: restart, or
	// set it below 0, before they are replayed.
	Recent int
	// Async lets the server gather rows of many small inserts (async_insert). It is for dozens
	// of instances that each store little; a batch of 1,000 rows and more is better stored at
	// once. An insert waits until it is stored in any case, but one whose answer was lost
	// leaves duplicate rows until they are merged.
	Async bool
	// NoSync makes new tables not wait for the disk (fsync_after_insert=0): a server that loses
	// power loses what it acknowledged in its last half minute. Use it for a server whose
	// replicas make up for that.
	NoSync bool
	// NoDictionary leaves out person_overrides_dict. If the user may not make one, it is left
	// out in any case and Inspect says so.
	NoDictionary bool
	// Collection is a named collection of the server, with the user and the password that
	// person_overrides_dict reads as. Without one the dictionary is made only if the user is
	// default without a password, as no password is written into a definition; Inspect says so.
	// An existing dictionary with a password is replaced once a Collection is set.
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
	was    string // see Was
	recent *recent
	blocks chan *block // spare ones

	mu   sync.Mutex // guards last
	last int64      // microseconds: the newest stored_at used
}

var (
	_ warehouse.Store   = (*Store)(nil)
	_ warehouse.Bounder = (*Store)(nil)
)

// blocksKept is how many spare blocks of columns are kept, each with the memory of its largest
// batch up to blockBytes.
const (
	blocksKept = 4
	blockBytes = 16 << 20
)

// New opens the warehouse in the connection's database, and makes the database, tables and view
// that are missing. Only that needs rights to create. Tables of an existing deployment keep
// their columns and get the missing ones.
func New(ctx context.Context, conn *clickhousehttp.Conn, o Options) (*Store, error) {
	return newStore(ctx, conn, o, warehouse.KeepWarnings)
}

func newStore(ctx context.Context, conn *clickhousehttp.Conn, o Options, keepWarnings time.Duration) (*Store, error) {
	if conn.Database() == "" {
		return nil, errors.New("open the warehouse: no database is named; set Options.Database or ?database= in the URL")
	}
	given := o.Keep > 0
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
	if err := s.migrate(ctx, keepWarnings, given); err != nil {
		return nil, fmt.Errorf("open the warehouse in %s: %w", conn.Database(), err)
	}
	return s, nil
}

// Was is the TTL that the table of events had before New gave it that of Options.Keep; empty: New has
// not changed it.
func (s *Store) Was() string { return s.was }

// stamps returns the first of n times that no row of this Store has, in microseconds.
func (s *Store) stamps(n int) int64 {
	now := s.o.Now().UnixMicro()
	s.mu.Lock()
	defer s.mu.Unlock()
	first := max(now, s.last+1)
	s.last = first + int64(n) - 1
	return first
}

// Forgets implements warehouse.Forgetter: rows have a time to live, and duplicate rows become
// one once parts are merged.
func (s *Store) Forgets() bool { return true }
