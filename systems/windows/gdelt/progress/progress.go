// Package progress is the role that remembers which files of a feed were read, and how far. Use
// it under a source of files, so that after a crash only the rows that had not ended come
// again. A store belongs to one feed.
//
// A file that was found sound is open until all its rows have ended, then done. An unsound file
// is broken. A new file of its name may replace a broken one, and a file of other bytes one
// that is done. Done and broken files are remembered while their origin lists them, and a while
// longer.
//
// Backend: tableprogress, on any table. Every promise is a case of progresstest.
package progress

import (
	"context"
	"errors"
	"time"

	"github.com/tidemill/tidemill"
)

// Status of a file.
type Status uint8

// The statuses; zero is an unknown file.
const (
	Open   Status = iota + 1 // rows of it have not ended
	Done                     // all have
	Broken                   // it was refused as a whole
)

// String returns the status as it is written in answers.
func (s Status) String() string {
	return [...]string{"unknown", "open", "done", "broken"}[min(s, Broken)]
}

// File is what is remembered of a file.
type File struct {
	Number uint64 // the store's own: above 0, growing, never reused
	Name   string
	From   string // where it was fetched from; may be empty

	// Size, Mod (whole milliseconds) and Sum of its bytes tell it from another file of its
	// name.
	Size int64
	Mod  time.Time
	Sum  uint64

	Rows   uint64 // records in it: they are numbered from 0
	Idless uint64 // rows without an id, which are not records

	Status  Status
	Cause   string // why it is broken, or given up
	Ended   Spans  // rows that have ended
	Settled tidemill.Count
	Lost    uint64 // rows that were given up with the file
}

// Pending is how many rows have not ended.
func (f *File) Pending() uint64 { return f.Rows - f.Ended.Len() }

// Totals of all files ever added.
type Totals struct {
	tidemill.Books
	Idless             uint64 // rows that were not records
	Open, Done, Broken uint64 // files
}

// ErrKnown is what Add returns (wrapped) for a file that is open, or done with the same bytes.
var ErrKnown = errors.New("a file of this name is being read, or this one was read")

// ErrUnknown is what Save returns (wrapped) for a file that is not open.
var ErrUnknown = errors.New("the file is not open")

// Store remembers the files of one feed. It is safe for concurrent use. After an error nothing
// has changed, or all has.
type Store interface {
	// Add remembers a new file, open or broken, and gives it its number. It may replace a
	// broken file of its name, or a done one that has another Sum or was given up. It is
	// durable before Add returns. A file of its name that is open, or done with the same Sum:
	// ErrKnown.
	Add(ctx context.Context, f *File) error
	// Save makes Status, Cause, Ended, Settled and Lost of open files durable, all in one
	// transaction. A file whose number is not open: ErrUnknown, and nothing is saved.
	Save(ctx context.Context, files []*File) error
	// Find returns for each name its file, without Ended; Status zero: unknown.
	Find(ctx context.Context, names []string) ([]File, error)
	// Open returns all open files by their numbers.
	Open(ctx context.Context) ([]File, error)
	// Listed notes that files of these names were seen at their origin. Unknown names are
	// ignored.
	Listed(ctx context.Context, names []string, at time.Time) error
	// Forget forgets files that are done or broken and were neither added nor listed since
	// before. Totals still count them. It returns how many.
	Forget(ctx context.Context, before time.Time) (int, error)
	// Totals counts. Books.Accepted are the rows of files as added, Settled and Lost what was
	// saved, and Pending is counted from the rows that have not ended.
	Totals(ctx context.Context) (Totals, error)
}
