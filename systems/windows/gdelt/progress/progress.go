// Package progress is the role that remembers which files of a feed were read, and how far:
// use it under a source of files, so that after a crash each row comes again that had not
// ended, and no other. A store is one feed's.
//
// A file is open from when it was found sound until all its rows have ended, then done. One
// that is not sound is broken. Another of its name may take the place of a broken one, and one
// of other bytes that of a file that is done. Done and broken files are remembered for as long
// as they are listed where they come from, and a while longer.
//
// Backends: memoryprogress and sqliteprogress. Every promise is a case of progresstest.
package progress

import (
	"context"
	"errors"
	"time"

	"github.com/tidemill/tidemill"
)

// Status of a file.
type Status uint8

// The statuses; zero is a file that is not known.
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
	Number uint64 // the store's own: growing from 1, never reused
	Name   string
	From   string // where it was fetched from; may be empty

	// Size, Mod (whole milliseconds) and Sum of its bytes tell it from another of its name.
	Size int64
	Mod  time.Time
	Sum  uint64

	Rows   uint64 // records in it: they are numbered from 0
	Idless uint64 // rows without an id, which are no records

	Status  Status
	Cause   string // why it is broken, or given up
	Ended   Spans  // rows that have ended
	Settled tidemill.Count
	Lost    uint64 // rows that were given up with the file
}

// Pending is how many rows have not ended.
func (f *File) Pending() uint64 { return f.Rows - f.Ended.Len() }

// Totals of all files there ever were.
type Totals struct {
	tidemill.Books
	Idless             uint64 // rows that were no records
	Open, Done, Broken uint64 // files
}

// ErrKnown is what Add returns (wrapped) for a file that is open, or done as it is.
var ErrKnown = errors.New("a file of this name is being read, or this one was read")

// ErrUnknown is what Save returns (wrapped) for a file that is not open.
var ErrUnknown = errors.New("the file is not open")

// Store remembers the files of one feed. Its methods may be called from several goroutines.
// After an error nothing has changed, or all has.
type Store interface {
	// Add remembers a new file, open or broken, or one in the place of a broken one, or of one
	// that is done and has another Sum or was given up, and gives it its number. It is durable
	// before Add returns. Open already, or done with the same Sum: ErrKnown.
	Add(ctx context.Context, f *File) error
	// Save makes Status, Cause, Ended, Settled and Lost of open files durable, all in one
	// stroke. A file that is not open, by its number: ErrUnknown, and nothing is saved.
	Save(ctx context.Context, files []*File) error
	// Find returns for each name its file, without Ended; Status zero: it is not known.
	Find(ctx context.Context, names []string) ([]File, error)
	// Open returns all open files by their numbers.
	Open(ctx context.Context) ([]File, error)
	// Listed notes that files of these names were seen where they come from. Those that are
	// not known are ignored.
	Listed(ctx context.Context, names []string, at time.Time) error
	// Forget forgets files that are done or broken and were neither added nor listed since
	// before. Totals keep what they stand for. It says how many.
	Forget(ctx context.Context, before time.Time) (int, error)
	// Totals counts. Books.Accepted are the rows of files as they were added, Settled and
	// Lost what was saved, and Pending is found by looking at what has not ended.
	Totals(ctx context.Context) (Totals, error)
}
