// Package tableprogress remembers files in a table of any backend.
package tableprogress

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/memorytable"
	"github.com/tidemill/tidemill/systems/windows/gdelt/progress"
)

// Record is a file of a feed, or what all files of a feed have come to.
type Record struct {
	key  string // the feed, / and the file's name; of the totals only the feed
	feed string // of a file
	progress.File
	size, mod uint64 // mod: milliseconds since 1970, as a table has no time for its beginning
	ended     []byte
	listed    time.Time

	done, broken uint64 // of the totals: files
}

// Spec is what a record is. A table has any number of feeds.
func Spec() table.Spec[Record] {
	return table.Spec[Record]{Name: "gdelt_file", Fields: []table.Field[Record]{
		{Name: "key", At: func(r *Record) any { return &r.key }},
		{Name: "feed", At: func(r *Record) any { return &r.feed }},
		{Name: "number", At: func(r *Record) any { return &r.Number }},
		{Name: "name", At: func(r *Record) any { return &r.Name }},
		{Name: "origin", At: func(r *Record) any { return &r.From }},
		{Name: "size", At: func(r *Record) any { return &r.size }},
		{Name: "mod", At: func(r *Record) any { return &r.mod }},
		{Name: "sum", At: func(r *Record) any { return &r.Sum }},
		{Name: "rows", At: func(r *Record) any { return &r.Rows }},
		{Name: "idless", At: func(r *Record) any { return &r.Idless }},
		{Name: "status", At: func(r *Record) any { return (*uint8)(&r.Status) }},
		{Name: "cause", At: func(r *Record) any { return &r.Cause }},
		{Name: "ended", At: func(r *Record) any { return &r.ended }},
		{Name: "delivered", At: func(r *Record) any { return &r.Settled.Delivered }},
		{Name: "skipped", At: func(r *Record) any { return &r.Settled.Skipped }},
		{Name: "dead", At: func(r *Record) any { return &r.Settled.Dead }},
		{Name: "lost", At: func(r *Record) any { return &r.Lost }},
		{Name: "listed", At: func(r *Record) any { return &r.listed }},
		{Name: "files_done", At: func(r *Record) any { return &r.done }},
		{Name: "files_broken", At: func(r *Record) any { return &r.broken }},
	}, Orders: []table.Order{{Name: "listed", By: []string{"feed", "status", "listed"}}}}
}

// All fields of a file but ended, which only open files need; and those that change at each Save.
var (
	found = []string{"number", "name", "origin", "size", "mod", "sum", "rows", "idless", "status", "cause", "delivered", "skipped", "dead", "lost"}
	saved = []string{"cause", "ended", "delivered", "skipped", "dead", "lost", "files_done", "files_broken"}
)

// Options tune a Store; the zero value is ready to use.
type Options struct {
	Now func() time.Time // when a file is added; nil means time.Now
}

// Store implements progress.Store for one feed.
type Store[Raw any] struct {
	t    table.Store[Record, Raw]
	feed string
	o    Options
}

var _ progress.Store = (*Store[any])(nil)

// New opens the memory of a feed in a table. Its name tells it from others there; it has no /.
func New[Raw any](t table.Store[Record, Raw], feed string, o Options) (*Store[Raw], error) {
	if feed == "" || strings.Contains(feed, "/") {
		return nil, fmt.Errorf("open the progress of feed %q: a feed needs a name without /", feed)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Store[Raw]{t, feed, o}, nil
}

// Memory makes an empty store in memory.
func Memory(o Options) *Store[*memorytable.Tx] {
	s, err := New(memorytable.Alone(Spec()), "files", o)
	if err != nil {
		panic(err) // the name is not valid
	}
	return s
}

func (s *Store[Raw]) key(name string) string { return s.feed + "/" + name }

func (s *Store[Raw]) keys(names []string) []string {
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = s.key(name)
	}
	return keys
}

// record is a file as it is kept.
func (s *Store[Raw]) record(f *progress.File) *Record {
	return &Record{key: s.key(f.Name), feed: s.feed, File: *f, size: uint64(f.Size), mod: uint64(f.Mod.UnixMilli()), ended: f.Ended.Append(nil)}
}

// file is the file of a record.
func (r *Record) file() (progress.File, error) {
	f := r.File
	f.Size, f.Mod = int64(r.size), time.UnixMilli(int64(r.mod))
	var err error
	if f.Ended, err = progress.ParseSpans(r.ended); err != nil {
		return f, fmt.Errorf("file %s: %w", f.Name, err)
	}
	return f, nil
}

// add adds to totals what a file has come to since before.
func (r *Record) add(f, before *progress.File) {
	r.Settled.Delivered += f.Settled.Delivered - before.Settled.Delivered
	r.Settled.Skipped += f.Settled.Skipped - before.Settled.Skipped
	r.Settled.Dead += f.Settled.Dead - before.Settled.Dead
	r.Lost += f.Lost - before.Lost
	switch f.Status {
	case progress.Done:
		r.done++
	case progress.Broken:
		r.broken++
	}
}

// Add implements progress.Store.
func (s *Store[Raw]) Add(ctx context.Context, f *progress.File) error {
	added := s.record(f)
	added.listed = s.o.Now()
	err := s.t.Update(ctx, func(tx table.Tx[Record], _ Raw) error {
		known, err := tx.Get([]string{s.feed, added.key})
		if err != nil {
			return err
		}
		if old := known[added.key]; old != nil && (old.Status == progress.Open || old.Status == progress.Done && old.Sum == f.Sum && old.Lost == 0) {
			return progress.ErrKnown
		}
		if added.Number, err = tx.Next(1); err != nil {
			return err
		}
		totals := known[s.feed]
		if totals == nil {
			totals = &Record{key: s.feed}
		}
		totals.Rows += f.Rows
		totals.Idless += f.Idless
		totals.add(f, new(progress.File))
		return tx.Put([]*Record{totals, added})
	})
	if err != nil {
		return fmt.Errorf("add file %s: %w", f.Name, err)
	}
	f.Number = added.Number
	return nil
}

// Save implements progress.Store.
func (s *Store[Raw]) Save(ctx context.Context, files []*progress.File) error {
	if len(files) == 0 {
		return ctx.Err()
	}
	keys, records, fields := []string{s.feed}, make([]*Record, 1, len(files)+1), saved
	for _, f := range files {
		r := s.record(f)
		keys, records = append(keys, r.key), append(records, r)
		if f.Status != progress.Open { // an index has it
			fields = append(saved[:len(saved):len(saved)], "status")
		}
	}
	err := s.t.Update(ctx, func(tx table.Tx[Record], _ Raw) error {
		known, err := tx.Get(keys, "number", "status", "delivered", "skipped", "dead", "lost", "files_done", "files_broken")
		if err != nil {
			return err
		}
		for _, r := range records[1:] {
			old := known[r.key]
			if old == nil || old.Number != r.Number || old.Status != progress.Open {
				return fmt.Errorf("file %s: %w", r.Name, progress.ErrUnknown)
			}
			known[s.feed].add(&r.File, &old.File)
			known[r.key] = r
		}
		records[0] = known[s.feed]
		return tx.Put(records, fields...)
	})
	if err != nil {
		return fmt.Errorf("save %d files: %w", len(files), err)
	}
	return nil
}

// Find implements progress.Store.
func (s *Store[Raw]) Find(ctx context.Context, names []string) ([]progress.File, error) {
	keys, all := s.keys(names), make([]progress.File, len(names))
	err := s.t.View(ctx, func(tx table.Reader[Record]) error {
		known, err := tx.Get(keys, found...)
		for i, key := range keys {
			if r := known[key]; r != nil && err == nil {
				all[i], err = r.file()
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find %d files of feed %s: %w", len(names), s.feed, err)
	}
	return all, nil
}

// pageSize is how many records are read at once.
const pageSize = 500

// of is a query for the files of a status.
func (s *Store[Raw]) of(status progress.Status) table.Query[Record] {
	return table.Query[Record]{By: "listed", Most: pageSize, Where: []table.Cond{{Field: "feed", Op: "=", Value: s.feed}, {Field: "status", Op: "=", Value: uint8(status)}}}
}

// Open implements progress.Store.
func (s *Store[Raw]) Open(ctx context.Context) (all []progress.File, err error) {
	err = s.t.View(ctx, func(tx table.Reader[Record]) error {
		all, err = s.open(tx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the open files of feed %s: %w", s.feed, err)
	}
	return all, nil
}

func (s *Store[Raw]) open(tx table.Reader[Record]) ([]progress.File, error) {
	records, err := table.All(tx, s.of(progress.Open))
	if err != nil {
		return nil, err
	}
	all := make([]progress.File, len(records))
	for i, r := range records {
		if all[i], err = r.file(); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b progress.File) int { return cmp.Compare(a.Number, b.Number) })
	return all, nil
}

// Listed implements progress.Store.
func (s *Store[Raw]) Listed(ctx context.Context, names []string, at time.Time) error {
	if len(names) == 0 {
		return ctx.Err()
	}
	keys := s.keys(names)
	err := s.t.Update(ctx, func(tx table.Tx[Record], _ Raw) error {
		known, err := tx.Get(keys, "listed")
		if err != nil {
			return err
		}
		var later []*Record
		for _, r := range known {
			if at.After(r.listed) {
				r.listed = at
				later = append(later, r)
			}
		}
		return tx.Put(later, "listed")
	})
	if err != nil {
		return fmt.Errorf("note files of feed %s as listed: %w", s.feed, err)
	}
	return nil
}

// Forget implements progress.Store.
func (s *Store[Raw]) Forget(ctx context.Context, before time.Time) (n int, err error) {
	err = s.t.Update(ctx, func(tx table.Tx[Record], _ Raw) error {
		n = 0
		for _, status := range []progress.Status{progress.Done, progress.Broken} {
			q := s.of(status)
			q.Where, q.Only = append(q.Where, table.Cond{Field: "listed", Op: "<", Value: before}), []string{"feed", "status", "listed"}
			gone, err := table.All(tx, q)
			if err != nil {
				return err
			}
			keys := make([]string, len(gone))
			for i, r := range gone {
				keys[i] = r.key
			}
			if err := tx.Delete(keys); err != nil {
				return err
			}
			n += len(keys)
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("forget files of feed %s: %w", s.feed, err)
	}
	return n, nil
}

// Totals implements progress.Store.
func (s *Store[Raw]) Totals(ctx context.Context) (t progress.Totals, err error) {
	err = s.t.View(ctx, func(tx table.Reader[Record]) error {
		t = progress.Totals{}
		known, err := tx.Get([]string{s.feed})
		if err != nil {
			return err
		}
		if r := known[s.feed]; r != nil {
			t.Accepted, t.Settled, t.Lost, t.Idless, t.Done, t.Broken = r.Rows, r.Settled, r.Lost, r.Idless, r.done, r.broken
		}
		open, err := s.open(tx)
		for i := range open {
			t.Open++
			t.Pending += open[i].Pending()
		}
		return err
	})
	if err != nil {
		return progress.Totals{}, fmt.Errorf("count the files of feed %s: %w", s.feed, err)
	}
	return t, nil
}
