package gdelt

import (
	"context"
	"fmt"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/windows/gdelt/progress"
)

// Books implements tidemill.Bookkeeper. They leave out files that were not accepted yet, and
// rows without an id: see Totals.
func (s *Source) Books(ctx context.Context) (tidemill.Books, error) {
	t, err := s.files.Totals(ctx)
	return t.Books, err
}

// Totals counts files and rows since the beginning.
func (s *Source) Totals(ctx context.Context) (progress.Totals, error) { return s.files.Totals(ctx) }

// Unread is how many entries of a folder have names of files and are not regular files, such as
// links: they are not read.
func (s *Source) Unread() int {
	if f, is := s.place.(*folder); is {
		return int(f.strange.Load())
	}
	return 0
}

// Reading is an open file, as Source.Reading lists it.
type Reading struct {
	Name    string
	Batch   string
	Rows    uint64
	Pending uint64 // have not ended
	Out     uint64 // pending rows that are handed out
	Trouble string // why it cannot be read at the moment; empty: it can
}

// Reading lists the open files, oldest first: as many as the backlog holds. While Receive is
// not called, these are the files with pending rows at the last call.
func (s *Source) Reading(ctx context.Context) ([]Reading, error) {
	select {
	case s.look <- struct{}{}:
		err := s.load(ctx)
		<-s.look
		if err != nil {
			return nil, err
		}
	default: // another call looks for files, and has loaded them or is about to
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Reading, len(s.open))
	for i, f := range s.open {
		all[i] = Reading{f.Name, f.name.Batch, f.Rows, f.Pending(), uint64(len(f.out) - f.left), f.trouble}
	}
	return all, nil
}

// GiveUp ends an open file that cannot be read: its pending rows are lost, and the books say
// so. It returns how many rows that are. Settlements of rows that are handed out are stale from
// then on.
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
	// Logged when somebody gave up a file that cannot be read: its rows that have not ended are booked
	// as lost.
	// To do: nothing, if it was meant; send the file again under another name if it is found.
	s.o.Log.WarnContext(ctx, "a file was given up by hand", "file", name, "lost", lost, "why", cause)
	return lost, nil
}

// Again lets a refused file be read though it looks unchanged. It is looked for with others,
// and refused anew if it is no better.
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

// wants reports whether a refused file was asked to be read again.
func (s *Source) wants(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, wanted := s.wanted[name]
	return wanted
}

// String says where the files come from.
func (s *Source) String() string { return fmt.Sprintf("gdelt files of %s", s.place) }
