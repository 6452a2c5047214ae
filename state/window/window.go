// Package window is the role that collects records which belong together: all that arrive
// under one batch id within a time become one window, and one message of a source. Use it
// where a batch has to be processed and delivered as a whole, whatever topics and instances
// its records come through.
//
//	Put ──► active ──Sweep, CloseNow──► ready ◄──Again, lease ends──► leased ──delivered, skipped──► gone
//	                                      ▲                             │
//	                                      └─────────── Replay ◄─ parked ◄─ dead
//
// The first record of a batch id opens a window, once, whoever puts it. It is closed when
// its time is over by the store's clock, or when as many records have come as were told of:
// its content is frozen as one revision. What comes later under the same batch id opens
// another window, a revision of its own, so that nothing is deleted that was not sent.
//
// A window is handed out under a lease; its records are read in pages under that lease, and
// are deleted by the settlement, in one stroke with the books. The windows of one batch id
// are handed out one after another. What a window's books count is its records:
//
//	put New = delivered + skipped + dead + those in active, ready and leased windows
//
// A record that was Overwrote is not among them: its putter books it as skipped. A parked
// window is dead in the books; a replay of it counts its records as accepted once more.
//
// Backends: memorywindow (the reference of the meaning, and what simulation runs on),
// sqlitewindow (one file) and rediswindow (shared by any number of processes). Every promise
// here is a case of package windowtest.
package window

import (
	"context"
	"errors"
	"iter"

	"github.com/tidemill/tidemill"
)

// A Record is one of those that belong together. Batch, Kind, ID and Qualifier together are
// its name: of one name a window has one record, the bytes that were put last.
type Record struct {
	Batch     string // the batch id: records of one belong together
	Kind      string // what it is, in a short word: event, mention
	ID        string // its own id within batch and kind
	Qualifier string // tells apart records that share an id and are both to be kept; may be empty
	Body      []byte // as received
	// Expect is how many records its batch is to have, all kinds together, where somebody
	// told; 0: nobody did. The newest number that was told counts, for the window in which
	// the record is.
	Expect int
	// Damaged says what is wrong with a stored record whose bytes are not those that were
	// put; only Page and Peek set it. Empty: sound.
	Damaged string
}

// Kept is what became of one record that was put.
type Kept uint8

const (
	New       Kept = iota + 1 // it is in its window, and counted as accepted
	Overwrote                 // its window had a record of this name: these bytes took its place, and nothing is counted
)

// Intake is for who brings records.
type Intake interface {
	// Put keeps the records, of any number of batch ids, each in the active window of its
	// batch id; where there is none it opens one. It takes one round trip. After a nil error
	// all are durable, and kept[i] says what became of records[i] (kept may be nil). Of one
	// name that is given twice the later one counts: the first is New, the second Overwrote.
	//
	// The records of one batch id are kept all or none, in one window; at most MaxPut at once.
	// After an error nothing more is promised: putting the same records again is safe. Records
	// that Check refuses are refused before anything is kept. Put holds on to nothing of records.
	Put(ctx context.Context, records []Record, kept []Kept) error
}

// Page is what one reading gave.
type Page struct {
	N    int    // records read
	Next string // where to go on; empty: that was the last page
	// Lost is how many of the window's records are not there any more, without having been
	// settled: evicted, expired, deleted by somebody. Only the last page of a whole reading
	// says so. The settlement books them as dead by itself.
	Lost int
}

// ErrStale is what Page returns (wrapped, kind transient) when the lease of its mark is not
// the newest, or the window has been settled: somebody else works on it, or is done.
var ErrStale = errors.New("the window is leased to somebody else, or settled: leave it")

// ErrNotFound is what the desk returns (wrapped, kind not_found) for a window that is not there.
var ErrNotFound = errors.New("there is no such window")

// Store is all of the role.
type Store interface {
	Intake
	Desk

	// Sweep closes windows that are over: their time has passed by the store's clock, or as
	// many records are there as were told of. It is called now and then, by any number of
	// instances; work of one call is bounded, and Swept says whether there is more. It also
	// does what else has to be done now and then: clearing away what was settled, renewing the
	// time that data is kept for. What it says beside an error was done.
	Sweep(ctx context.Context) (Swept, error)

	// Open makes a source of closed windows, one message for each; it is a tidemill.Keeper and
	// a tidemill.Bookkeeper too. Traits: Delays, Parks, Ordered, Keep. Of the message: ID is
	// that of the window, the same at every redelivery and never used again; Key is the batch
	// id; Time is when the window was opened; Payload is a Summary (see Read).
	//
	// The windows of a batch id are handed out in the order of their closing, and none while
	// an older one is out or waits. A parked one does not hold up those behind it; when it is
	// replayed it is the last of them.
	//
	// Settle: Delivered or Skipped deletes the frozen records, and those only. The books
	// count what Settlement.Records says became of them; zero: they all had the Fate. Dead
	// parks the window whole, all records dead, whatever Records says. Again brings it back
	// not before its time. A settlement under a lease that another one followed is Stale.
	Open() tidemill.Source

	// Page reads records of a window that was handed out under this mark, at most len(into) of
	// them, and fewer where they are large (PageBytes): from is empty for the first page, and
	// Page.Next for those that follow. The order is the same at every reading. It is refused
	// with ErrStale once another lease followed, or the window was settled. Records are copies:
	// the caller's to keep.
	Page(ctx context.Context, m tidemill.Mark, from string, into []Record) (Page, error)
}

// Desk is for who looks, and decides by hand.
type Desk interface {
	// List yields the windows that match, the oldest first, each once, without holding up
	// work. A window that changes meanwhile is yielded as it is when it is come to, if it still
	// matches.
	List(ctx context.Context, f Filter) iter.Seq2[*Info, error]
	// Look returns one window, by ID; ErrNotFound: it is gone, or never was.
	Look(ctx context.Context, id string) (*Info, error)
	// Peek reads records as Page does, of any window, without a lease. An active one may
	// change between pages; one that is gone is ErrNotFound.
	Peek(ctx context.Context, id, from string, into []Record) (Page, error)
	// CloseNow closes the active window of a batch id, and says whether there was one.
	CloseNow(ctx context.Context, batch string) (bool, error)
	// Replay makes parked windows that match ready again, with no try behind them, and says how
	// many, also beside an error. Their records are accepted once more in the books.
	Replay(ctx context.Context, f Filter) (int, error)
	// Stats counts windows and records by state, without looking at each.
	Stats(ctx context.Context) (Stats, error)
}
