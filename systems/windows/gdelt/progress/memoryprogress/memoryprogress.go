// Package memoryprogress remembers files in memory. It is the reference of what progress means.
package memoryprogress

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tidemill/tidemill/systems/windows/gdelt/progress"
)

// Store implements progress.Store. Its data live as long as it does.
type Store struct {
	now func() time.Time

	mu     sync.Mutex // guards all below
	number uint64
	files  map[string]*file
	past   progress.Totals // of files that were forgotten or replaced
}

type file struct {
	progress.File
	listed time.Time
}

var _ progress.Store = (*Store)(nil)

// New makes an empty store. now nil: time.Now.
func New(now func() time.Time) *Store {
	if now == nil {
		now = time.Now
	}
	return &Store{now: now, files: map[string]*file{}}
}

// Add implements progress.Store.
func (s *Store) Add(ctx context.Context, f *progress.File) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	at := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.files[f.Name]; old != nil {
		if old.Status == progress.Open || old.Status == progress.Done && old.Sum == f.Sum && old.Lost == 0 {
			return fmt.Errorf("add file %s: %w", f.Name, progress.ErrKnown)
		}
		count(&s.past, &old.File)
	}
	s.number++
	f.Number = s.number
	s.files[f.Name] = &file{clone(f), at}
	return nil
}

// Save implements progress.Store.
func (s *Store) Save(ctx context.Context, files []*progress.File) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range files {
		if have := s.files[f.Name]; have == nil || have.Number != f.Number || have.Status != progress.Open {
			return fmt.Errorf("save file %s: %w", f.Name, progress.ErrUnknown)
		}
	}
	for _, f := range files {
		have := s.files[f.Name]
		have.Status, have.Cause, have.Ended, have.Settled, have.Lost = f.Status, f.Cause, slices.Clone(f.Ended), f.Settled, f.Lost
	}
	return nil
}

// Find implements progress.Store.
func (s *Store) Find(ctx context.Context, names []string) ([]progress.File, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]progress.File, len(names))
	for i, name := range names {
		if f := s.files[name]; f != nil {
			all[i] = f.File
			all[i].Ended = nil
		}
	}
	return all, nil
}

// Open implements progress.Store.
func (s *Store) Open(ctx context.Context) ([]progress.File, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []progress.File
	for _, f := range s.files {
		if f.Status == progress.Open {
			all = append(all, clone(&f.File))
		}
	}
	slices.SortFunc(all, func(a, b progress.File) int { return cmp.Compare(a.Number, b.Number) })
	return all, nil
}

// Listed implements progress.Store.
func (s *Store) Listed(ctx context.Context, names []string, at time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		if f := s.files[name]; f != nil && at.After(f.listed) {
			f.listed = at
		}
	}
	return nil
}

// Forget implements progress.Store.
func (s *Store) Forget(ctx context.Context, before time.Time) (n int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, f := range s.files {
		if f.Status != progress.Open && f.listed.Before(before) {
			count(&s.past, &f.File)
			delete(s.files, name)
			n++
		}
	}
	return n, nil
}

// Totals implements progress.Store.
func (s *Store) Totals(ctx context.Context) (progress.Totals, error) {
	if err := ctx.Err(); err != nil {
		return progress.Totals{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.past
	for _, f := range s.files {
		count(&all, &f.File)
	}
	return all, nil
}

func count(t *progress.Totals, f *progress.File) {
	t.Accepted += f.Rows
	t.Settled.Add(f.Settled)
	t.Lost += f.Lost
	t.Idless += f.Idless
	switch f.Status {
	case progress.Open:
		t.Open++
		t.Pending += f.Pending()
	case progress.Done:
		t.Done++
	case progress.Broken:
		t.Broken++
	}
}

func clone(f *progress.File) progress.File {
	c := *f
	c.Ended = slices.Clone(f.Ended)
	return c
}
