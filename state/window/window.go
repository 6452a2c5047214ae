// Package window is the role that collects records which belong together: all that arrive
// under one batch id within a time become one window, and one message of a source. Use it
// where a batch has to be processed and delivered as a whole, whatever topics and instances
// its records come through.
//
//	Put ──► active ──Sweep, CloseNow──► ready ◄──Again, lease ends──► leased ──delivered, skipped──► gone
//	                                      ▲                             │
//	                                      └─────────── Replay ◄─ parked ◄─ dead
//
// The first record of a batch id opens a window, once. The window is closed when its time
// is over by the store's clock, or when as many records have come as were announced: its
// content is frozen as one revision. Later records of the same batch id open another
// window, with its own revision, so that nothing is deleted that was not sent.
//
// A window is handed out under a lease; its records are read in pages under that lease, and
// the settlement deletes them in one transaction with the books. The windows of one batch
// id are handed out one after another. A window's books count its records:
//
//	accepted = delivered + skipped + dead + pending
//
// An Overwrote record is not among them: the caller of Put books it as skipped. A parked
// window is dead in the books; its replay counts its records as accepted once more.
//
// Backends are tablewindow (in memory, in one file, in PostgreSQL) and rediswindow, both of which
// any number of processes can share. Every promise here is a case of package windowtest.
package window

import (
	"context"
	"errors"
	"iter"

	"github.com/tidemill/tidemill"
)

// A Record is one of those that belong together. Batch, Kind, ID and Qualifier together are
// its name: a window has one record of each name, with the bytes that were put last.
type Record struct {
	Batch     string // the batch id: records of one belong together
	Kind      string // what it is, in a short word: event, mention
	ID        string // its own id within batch and kind
	Qualifier string // tells apart records that share an id and are both to be kept; may be empty
	Body      []byte // as received
	Trace     string // under which it goes on, as a traceparent has it; empty: none. It is no part of what is checked
	// Expect is how many records its batch will have, all kinds together, where that was
	// announced; 0: it was not. The newest announced number counts, for the window that the
	// record is in.
	Expect int
	// Damaged says what is wrong with a stored record whose bytes differ from those that
	// were put; only Page and Peek set it. Empty: intact.
	Damaged string
}

// Kept is the result of putting one record.
type Kept uint8

const (
	New       Kept = iota + 1 // it is in its window, and counted as accepted
	Overwrote                 // its window had a record of this name: these bytes replaced it, and nothing is counted
)

// Intake is for producers of records.
type Intake interface {
	// Put keeps the records, of any number of batch ids, each in the active window of its batch
	// id; it opens one where none is active. Many records cost little more than one. After a nil error all are
	// durable, and kept[i] is the result of records[i] (kept may be nil). If a name is given
	// twice the later record counts: the first is New, the second Overwrote.
	//
	// The records of one batch id are kept all or none, in one window; at most MaxPut at once.
	// After an error nothing more is promised: putting the same records again is safe. Records
	// that Check refuses are refused before anything is kept. Put keeps no reference to records.
	Put(ctx context.Context, records []Record, kept []Kept) error
}

// Page is the result of one reading.
type Page struct {
	N    int    // records read
	Next string // where to go on; empty: that was the last page
	// Lost is how many of the window's records are gone without having been settled:
	// evicted, expired, deleted by somebody. Only the last page of a whole reading says so.
	// The settlement books them as dead.
	Lost int
}

// ErrStale is what Page returns (wrapped, kind transient) when the lease of its mark is not
// the newest, or the window has been settled: somebody else works on it, or has finished.
var ErrStale = errors.New("the window is leased to somebody else, or settled: leave it")

// ErrNotFound is what an Inspector returns (wrapped, kind not_found) for a window that does not
// exist.
var ErrNotFound = errors.New("there is no such window: one is forgotten when it is delivered, and a search finds its records")

// Store is the whole role.
type Store interface {
	Intake
	Inspector

	// Sweep closes windows that are over: their time has passed by the store's clock, or as
	// many records have come as announced. Any number of instances call it at intervals; the
	// work of one call is bounded, and Swept says whether there is more. It also does other
	// regular work: it deletes settled data and renews the time that data is kept for. Its
	// results hold also beside an error.
	Sweep(ctx context.Context) (Swept, error)

	// Open makes a source of closed windows, one message for each; it is a tidemill.Keeper and
	// a tidemill.Bookkeeper too. Traits: Delays, Parks, Ordered, Keep. The message's ID is
	// that of the window, the same at every redelivery and never used again; Key is the batch
	// id; Time is when the window was opened; Payload is a Summary (see Read).
	//
	// The windows of a batch id are handed out in the order of their closing, and none while
	// an older one is leased or waits. A parked one does not hold up those behind it; when it
	// is replayed it is the last of them.
	//
	// Settle: Delivered or Skipped deletes the frozen records, and only those. The books count
	// the records as Settlement.Records says; zero: they all have the Fate. Dead parks the
	// window whole, all records dead, whatever Records says. Again brings it back, not before
	// its time. A settlement under a lease that another one followed is Stale.
	Open() tidemill.Source

	// Page reads records of a window that was handed out under this mark, at most len(into) of
	// them, and fewer where they are large (PageBytes). from is empty for the first page, and
	// Page.Next for those that follow. The order is the same at every reading. Page returns
	// ErrStale once another lease followed, or the window was settled. Records are copies: the
	// caller may keep them.
	Page(ctx context.Context, m tidemill.Mark, from string, into []Record) (Page, error)
}

// Inspector is for inspection and decisions by hand.
type Inspector interface {
	// List yields the matching windows, the oldest first or back, each once, and blocks no work.
	// A window that changes meanwhile is yielded as it is when it is reached, if it still
	// matches.
	List(ctx context.Context, f Filter) iter.Seq2[*Info, error]
	// Look returns one window, by ID; ErrNotFound: it is gone, or never existed.
	Look(ctx context.Context, id string) (*Info, error)
	// Peek reads records as Page does, of any window, without a lease. An active one may
	// change between pages; one that is gone is ErrNotFound.
	Peek(ctx context.Context, id, from string, into []Record) (Page, error)
	// CloseNow closes the active window of a batch id, and says whether one was active.
	CloseNow(ctx context.Context, batch string) (bool, error)
	// Replay makes matching parked windows ready again, without counted tries, and says how
	// many, also beside an error. Their records are accepted once more in the books.
	Replay(ctx context.Context, f Filter) (int, error)
	// Stats counts windows and records by state, without reading each.
	Stats(ctx context.Context) (Stats, error)
}
