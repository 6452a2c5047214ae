// Package gdelt reads files of GDELT 2.0, events (export) and mentions, and hands their rows
// out as records. Use it where the windows system is fed by files, from a folder or from the
// lists that GDELT publishes, instead of a topic:
//
//	source, err := gdelt.NewFolder("/data/in", files, letters, gdelt.Options{})
//
// The files are separated by tabs and have no header; they may be zipped, one in each. A row
// becomes the JSON that an adapter would put on a topic: one object with all names, a cell
// that is empty or cannot be read as null. The part of a file's name up to the first dot is
// the batch id of its rows, in the header X-Batch-ID.
//
// A file is taken when it is complete: it has not changed for a while, or it is renamed in. It
// is first read whole; one that is not sound (torn, a bomb, no tabs) becomes a dead letter as
// a file, with its reason, and none of its rows is handed out. Put a good one in its place and
// that is read; a file of a list is asked for again once a day. Then its rows are accepted and handed out one after the other. Which of them
// have ended is durable with each settlement, so after a crash the others come again, and a
// file that is done is not read again, unless its bytes have changed: then all of it is.
//
// To read on: [Source] is a tidemill.Source; package progress remembers; [Open], [Check] and
// [Convert] read one file without it.
package gdelt

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/httpguard"
	"github.com/tidemill/tidemill/systems/windows/gdelt/progress"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// Options tune a source; the zero value is ready to use.
type Options struct {
	Every time.Duration // new files are looked for so often while there is nothing else to do; 0: 10s
	Quiet time.Duration // a file is complete when it has not changed for so long; 0: 10s; below 0: at once, files are renamed in
	Left  time.Duration // what was left comes again after so long; 0: 1 min

	Since    string        // files with a batch id before this one, compared as texts, are passed over
	Remove   bool          // a file of a folder is removed when all its rows have ended
	Remember time.Duration // a file that is done, and listed no more, is known for so long; 0: 30 days

	Backlog  int    // files that are accepted ahead; 0: 64, of a URL 8
	MaxAhead uint64 // hand-outs of a file stop so many rows behind its oldest that has not ended; 0: 16384

	Limits   Limits
	Header   string        // carries the batch id; empty: X-Batch-ID
	Pipeline string        // of dead letters; empty: windows
	Timeout  time.Duration // URL: for one list or file; 0: 5 min

	Log *slog.Logger     // nil: nothing is logged
	Now func() time.Time // nil: time.Now
}

// check fills in what is zero and refuses nonsense.
func (o Options) check() (Options, error) {
	if o.Every < 0 || o.Left < 0 || o.Remember < 0 || o.Backlog < 0 || o.Timeout < 0 || o.Limits.Line < 0 || o.Limits.File < 0 || o.Limits.Zip < 0 {
		return o, errors.New("gdelt source: a negative time or number")
	}
	def(&o.Every, 10*time.Second)
	def(&o.Quiet, 10*time.Second)
	def(&o.Left, time.Minute)
	def(&o.Remember, 30*24*time.Hour)
	def(&o.Backlog, 64)
	def(&o.MaxAhead, 16384)
	def(&o.Header, record.BatchHeader)
	def(&o.Pipeline, "windows")
	def(&o.Timeout, 5*time.Minute)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Limits = o.Limits.withDefaults()
	return o, nil
}

func def[T comparable](v *T, usual T) {
	var zero T
	if *v == zero {
		*v = usual
	}
}

// Source hands out the rows of files. Use NewFolder or NewURL. What is open has no life of its
// own: everything happens in Receive, Settle and Look.
type Source struct {
	place place
	files progress.Store
	dead  tidemill.DeadLetters
	o     Options

	header []byte // Options.Header

	turn chan struct{} // holds one token: who has it changes what is remembered
	look chan struct{} // the same of who looks for files
	wake chan struct{} // Receive is to look again

	// Of whoever looks.
	seen   map[string]sight     // files that may still grow
	same   map[string]sight     // files that look other than when they were done, and have the same bytes
	avoid  map[string]time.Time // files that cannot be read, until when they are passed over
	rest   map[string]time.Time // files of a list that were refused, until when they are not asked for
	marked time.Time            // when what is listed was last noted

	// Of Receive.
	passes map[uint64]*pass // by number: files that are being read
	next   time.Time        // when files are looked for

	mu       sync.Mutex // guards what is below; never held while something is waited for
	loaded   bool
	open     []*file           // in the order of their numbers
	more     bool              // there are files for which the backlog had no room
	wanted   map[string]string // refused files that somebody wants to be read again, and where they came from
	finished []progress.File
	epoch    uint32
}

// file is an open file.
type file struct {
	progress.File // Ended, Settled and Status as they are durable
	name          Name
	batch         []byte
	time          time.Time
	begun         bool            // rows of it may have been handed out before a start
	out           map[uint64]hand // rows that were handed out, and have not ended
	left          int             // of them: rows that were left

	// Of Receive alone.
	read    bool      // the pass has reached the end
	retry   time.Time // it is in trouble: not before
	trouble string    // why it cannot be read at the moment; guarded by Source.mu
}

// hand is a row that was handed out.
type hand struct {
	epoch  uint32
	handed int
	line   uint64
	due    time.Time // it was left, and comes again then; zero: it is in somebody's hands
}

var (
	_ tidemill.Source     = (*Source)(nil)
	_ tidemill.Bookkeeper = (*Source)(nil)
)

// NewFolder makes a source of the files in a folder, not of those in folders below. Files of
// other names are ignored.
func NewFolder(dir string, files progress.Store, dead tidemill.DeadLetters, o Options) (*Source, error) {
	if dir == "" {
		return nil, errors.New("gdelt source: a folder is needed")
	}
	f := &folder{dir: dir}
	s, err := newSource(f, files, dead, o)
	if err == nil {
		f.log = s.o.Log
	}
	return s, err
}

// NewURL makes a source of the files that a list names, one in a line: its size, its MD5 and
// its URL, as http://data.gdeltproject.org/gdeltv2/lastupdate.txt and masterfilelist.txt have
// it; or of one file, if url is its own. They are fetched into the folder spool, which belongs
// to the source alone, and removed when they are done. Only what guard allows is asked.
//
// A master list is years of files: say Since.
func NewURL(url, spool string, guard *httpguard.Guard, files progress.Store, dead tidemill.DeadLetters, o Options) (*Source, error) {
	if spool == "" || guard == nil {
		return nil, errors.New("gdelt source: a folder to fetch into and a guard are needed")
	}
	def(&o.Backlog, 8)
	o, err := o.check()
	if err != nil {
		return nil, err
	}
	at, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	if err := guard.CheckURL(at); err != nil {
		return nil, fmt.Errorf("gdelt source: %w", err)
	}
	o.Quiet = -1 // fetched files are renamed in
	return newSource(&web{url: at, spool: spool, guard: http.RoundTripper(guard), timeout: o.Timeout, limits: o.Limits, failed: map[string]int{}}, files, dead, o)
}

func newSource(p place, files progress.Store, dead tidemill.DeadLetters, o Options) (*Source, error) {
	if files == nil || dead == nil {
		return nil, errors.New("gdelt source: something that remembers files and dead letters for broken ones are needed")
	}
	o, err := o.check()
	if err != nil {
		return nil, err
	}
	return &Source{
		place: p, files: files, dead: dead, o: o, header: []byte(o.Header),
		turn: make(chan struct{}, 1), look: make(chan struct{}, 1), wake: make(chan struct{}, 1),
		seen: map[string]sight{}, same: map[string]sight{}, avoid: map[string]time.Time{}, rest: map[string]time.Time{}, passes: map[uint64]*pass{}, wanted: map[string]string{},
	}, nil
}

// Traits implements tidemill.Source: rows that fail wait with whoever has them.
func (s *Source) Traits() tidemill.Traits { return tidemill.Traits{} }

// Close closes the files that are being read. Receive is not to be called any more.
func (s *Source) Close() error {
	var errs []error
	for number, f := range s.passes {
		errs = append(errs, f.Close())
		delete(s.passes, number)
	}
	return errors.Join(errs...)
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
