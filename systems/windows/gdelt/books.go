package gdelt

import (
	"context"
	"fmt"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/windows/gdelt/progress"
)

// Books implements tidemill.Bookkeeper. Files that were not accepted yet are not in them, nor
// rows without an id: see Totals.
func (s *Source) Books(ctx context.Context) (tidemill.Books, error) {
	t, err := s.files.Totals(ctx)
	return t.Books, err
}

// Totals counts files and rows since the beginning.
func (s *Source) Totals(ctx context.Context) (progress.Totals, error) { return s.files.Totals(ctx) }

// Unread is how many things of a folder have names of files and are none, links for instance: they
// are not read.
func (s *Source) Unread() int {
	if f, is := s.place.(*folder); is {
		return int(f.strange.Load())
	}
	return 0
}

// Reading is an open file, for who looks.
type Reading struct {
	Name    string
	Batch   string
	Rows    uint64
	Pending uint64 // have not ended
	Out     uint64 // of them are in somebody's hands
	Trouble string // why it cannot be read at the moment; empty: it can
}

// Reading lists the open files, oldest first: as many as the backlog holds. While nobody
// receives they are those of which rows had not ended then.
func (s *Source) Reading(ctx context.Context) ([]Reading, error) {
	select {
	case s.look <- struct{}{}:
		err := s.load(ctx)
		<-s.look
		if err != nil {
			return nil, err
		}
	default: // somebody looks for files, and has loaded them or is about to
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Reading, len(s.open))
	for i, f := range s.open {
		all[i] = Reading{f.Name, f.name.Batch, f.Rows, f.Pending(), uint64(len(f.out) - f.left), f.trouble}
	}
	return all, nil
}

// GiveUp ends an open file that cannot be read: what has not ended of it is lost, and the
// books say so. It says how many rows that are. Settlements of rows that are out are stale
// from then on.
func (s *Source) GiveUp(ctx context.Context, name, cause string) (lost uint64, err error) {
	err = s.change(ctx, func() ([]*change, func()) {
		for _, f := range s.open {
			if f.Name != name || f.trouble == "" {
				continue
			}
			c := &change{file: f, next: f.File}
			lost = f.Pending()
			c.next.Lost += lost
			c.next.Ended = progress.Spans{{From: 0, To: f.Rows}}
			c.next.Status, c.next.Cause = progress.Done, cause
			for row := range f.out {
				c.rows = append(c.rows, row)
			}
			return []*change{c}, func() {}
		}
		return nil, func() {}
	})
	switch {
	case err != nil:
		return 0, err
	case lost == 0:
		return 0, tidemill.Fail(tidemill.NotFound, "give up file %s: no file of this name is in trouble", name)
	}
	s.o.Log.ErrorContext(ctx, "a file was given up", "file", name, "lost", lost, "cause", cause)
	return lost, nil
}

// Again lets a file be read that was refused, though it looks as it did then. It is looked for
// with others, and refused anew if it is no better.
func (s *Source) Again(ctx context.Context, name string) error {
	known, err := s.files.Find(ctx, []string{name})
	if err != nil {
		return err
	}
	if _, err := s.place.look(name); err != nil || known[0].Status == 0 {
		return tidemill.Fail(tidemill.Validation, "read file %.200q again: there is no such file here that was refused", name)
	}
	if known[0].Status == progress.Broken {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.wanted[name] = known[0].From
	}
	return nil
}

// wants says whether somebody wants a file to be read that was refused.
func (s *Source) wants(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, wanted := s.wanted[name]
	return wanted
}

// String says where the files come from.
func (s *Source) String() string { return fmt.Sprintf("gdelt files of %s", s.place) }
