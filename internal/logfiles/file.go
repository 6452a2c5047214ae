package logfiles

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidemill/tidemill/internal/ownfile"
)

// file is the log of one level: an io.Writer of whole lines, to the newest of its files.
type file struct {
	folder, level string
	keep          int   // days
	most, part    int64 // bytes of all files, and of one
	now           func() time.Time
	failed        func(error)

	mu      sync.Mutex // guards what follows; held for one write
	open    *os.File   // nil: none yet
	is      named      // what is open
	size    int64
	failing bool
	closed  bool
}

// named is the parsed name of a file: its day, and its number within the day.
type named struct {
	day  string // 2006-01-02
	part int
}

func (f *file) name(n named) string {
	if n.part == 0 {
		return f.level + "-" + n.day + ".log"
	}
	return fmt.Sprintf("%s-%s.%d.log", f.level, n.day, n.part)
}

// parse is the inverse of name; false: not a log file of ours.
func (f *file) parse(name string) (n named, ok bool) {
	rest, ok := strings.CutPrefix(name, f.level+"-")
	rest, isLog := strings.CutSuffix(rest, ".log")
	if !ok || !isLog {
		return n, false
	}
	day, part, parted := strings.Cut(rest, ".")
	if _, err := time.Parse(time.DateOnly, day); err != nil {
		return n, false
	}
	n.day = day
	if parted {
		var err error
		if n.part, err = strconv.Atoi(part); err != nil || n.part < 1 {
			return n, false
		}
	}
	return n, f.name(n) == name
}

// Write implements io.Writer.
func (f *file) Write(line []byte) (int, error) {
	f.mu.Lock()
	n, err := f.write(line)
	changed := (err != nil) != f.failing
	f.failing = err != nil
	f.mu.Unlock()
	if changed && !errors.Is(err, os.ErrClosed) {
		f.failed(err)
	}
	return n, err
}

func (f *file) write(line []byte) (int, error) {
	if f.closed {
		return 0, fmt.Errorf("write to the log of level %s: %w", f.level, os.ErrClosed)
	}
	if err := f.turn(int64(len(line))); err != nil {
		return 0, err
	}
	n, err := f.open.Write(line)
	f.size += int64(n)
	return n, err
}

// turn opens another file if the day is over, or the file is full.
func (f *file) turn(more int64) error {
	today := f.now().UTC().Format(time.DateOnly)
	next := named{day: today}
	switch {
	case f.open == nil || f.is.day != today:
		all, err := f.list()
		if err != nil {
			return err
		}
		for _, n := range all {
			if n.day == today {
				next = n // the newest of the day: it continues
			}
		}
	case f.size > 0 && f.size+more > f.part:
		next.part = f.is.part + 1
	default:
		return nil
	}
	for ; ; next.part++ {
		o, err := ownfile.Open(filepath.Join(f.folder, f.name(next)), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		s, err := o.Stat()
		if err != nil {
			return errors.Join(err, o.Close())
		}
		if s.Size() > 0 && s.Size()+more > f.part { // full, whichever process wrote it
			if err := o.Close(); err != nil {
				return err
			}
			continue
		}
		if f.open != nil {
			err = f.open.Close()
		}
		f.open, f.is, f.size = o, next, s.Size()
		return errors.Join(err, f.remove())
	}
}

// list are the level's files, the oldest first.
func (f *file) list() ([]named, error) {
	entries, err := os.ReadDir(f.folder)
	if err != nil {
		return nil, err
	}
	var all []named
	for _, e := range entries {
		if n, ok := f.parse(e.Name()); ok && e.Type().IsRegular() {
			all = append(all, n)
		}
	}
	slices.SortFunc(all, func(a, b named) int { return cmp.Or(cmp.Compare(a.day, b.day), cmp.Compare(a.part, b.part)) })
	return all, nil
}

// sweep removes files that are too old, or too many.
func (f *file) sweep() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.remove()
}

func (f *file) remove() error {
	all, err := f.list()
	if err != nil {
		return err
	}
	oldest := f.now().UTC().AddDate(0, 0, -f.keep).Format(time.DateOnly)
	var sum int64
	var errs []error
	if f.open != nil && f.is.day < oldest { // nothing has been written since
		errs = append(errs, f.open.Close())
		f.open = nil
	}
	for _, n := range slices.Backward(all) {
		path := filepath.Join(f.folder, f.name(n))
		if f.open != nil && n == f.is {
			sum += f.part
			continue
		}
		s, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) { // another process was faster
			continue
		}
		if err == nil {
			sum += s.Size()
			if n.day >= oldest && sum <= f.most {
				continue
			}
			err = os.Remove(path)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (f *file) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	if f.open == nil {
		return nil
	}
	o := f.open
	f.open = nil
	return o.Close()
}
