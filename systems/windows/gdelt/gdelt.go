// Package gdelt reads files of GDELT 2.0, events (export) and mentions, and hands their rows
// out as records. Use it to feed the windows system from files instead of a topic, from a
// folder or from the lists that GDELT publishes:
//
//	source, err := gdelt.NewFolder("/data/in", files, letters, gdelt.Options{})
//
// The files are separated by tabs and have no header. They may be zipped, one file per zip. A
// row becomes the JSON that an adapter would put on a topic: one object with all names, where a
// cell that is empty or cannot be read is null. The part of a file's name up to the first dot
// is the batch id of its rows, in the header X-Batch-ID.
//
// A file is accepted when it is complete: it has not changed for a while, or it is renamed in.
// It is first read whole. An unsound file (torn, a zip bomb, no tabs) becomes one dead letter,
// with its reason, and none of its rows is handed out. A good file in its place is read; a file
// of a list is asked for again once a day. The rows of a sound file are accepted and handed out
// in order. Each settlement makes durable which rows have ended. So after a crash only the
// others come again. A file that is done is not read again, unless its bytes have changed: then
// all of it is.
//
// [Source] is a tidemill.Source; package progress remembers the files; [Open], [Check] and
// [Convert] read one file without a Source.
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
	Every time.Duration // how often new files are looked for while idle; 0: 10s
	Quiet time.Duration // a file is complete when unchanged for so long; 0: 10s; below 0: at once, files are renamed in
	Left  time.Duration // after how long a left row comes again; 0: 1 min

	Since    string        // files with a batch id before this one, compared as texts, are skipped
	Remove   bool          // a file of a folder is removed when all its rows have ended
	Remember time.Duration // how long a file is remembered that is done and no longer listed; 0: 30 days

	Backlog  int    // files accepted ahead; 0: 64, of a URL 8
	MaxAhead uint64 // how many rows behind the oldest pending one hand-outs of a file stop; 0: 16384

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

// Source hands out the rows of files. Use NewFolder or NewURL. It has no goroutines: everything
// happens in Receive, Settle and Look.
type Source struct {
	place place
	files progress.Store
	dead  tidemill.DeadLetters
	o     Options

	header []byte // Options.Header

	turn chan struct{} // holds one token: its holder changes what is remembered
	look chan struct{} // the same for the look for files
	wake chan struct{} // Receive has to look again

	// Held with look.
	seen   map[string]sight     // files that may still grow
	same   map[string]sight     // files that look other than when they were done, but have the same bytes
	avoid  map[string]time.Time // files that cannot be read: until when they are skipped
	rest   map[string]time.Time // refused files of a list: until when they are not asked for
	marked time.Time            // when the listed files were last noted

	// Used by Receive alone.
	passes map[uint64]*pass // by number: files that are being read
	next   time.Time        // when files are looked for

	mu       sync.Mutex // guards what is below; never held while waiting
	loaded   bool
	open     []*file           // in the order of their numbers
	more     bool              // the backlog had no room for more files
	wanted   map[string]string // refused files that are to be read again, and where they came from
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
	left          int             // how many of them were left

	// Used by Receive alone.
	read    bool      // the pass has reached the end
	retry   time.Time // in trouble: not before this time
	trouble string    // why it cannot be read at the moment; guarded by Source.mu
}

// hand is a row that was handed out.
type hand struct {
	epoch  uint32
	handed int
	line   uint64
	due    time.Time // a left row comes again then; zero: it is handed out
}

var (
	_ tidemill.Source     = (*Source)(nil)
	_ tidemill.Bookkeeper = (*Source)(nil)
)

// NewFolder makes a source of the files in a folder, without its subfolders. Files with other
// names are ignored.
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
// its URL, as http://data.gdeltproject.org/gdeltv2/lastupdate.txt and masterfilelist.txt do; or
// of one file, if url names it. Files are fetched into the folder spool, which belongs to the
// source alone, and removed when they are done. Only targets that guard allows are asked.
//
// A master list names years of files: set Since.
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

// Traits implements tidemill.Source: rows that fail wait with the lane that has them.
func (s *Source) Traits() tidemill.Traits { return tidemill.Traits{} }

// Close closes the files that are being read. Receive may not be called after it.
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
