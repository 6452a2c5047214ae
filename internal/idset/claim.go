package idset

import (
	"context"
	"fmt"

	"github.com/tidemill/tidemill/internal/sqlitedb"
)

// Claim is one caller's hold on ids that it adds.
type Claim struct {
	// Held has the index of each id that it keeps from others, in the ids of the call: the New ones,
	// and some that turned out to be Known.
	Held []int

	table *table
	first int           // of this claim's entries
	done  chan struct{} // closed when it is resolved
}

// What Claim says of an id.
const (
	New   = -1 - iota // it is new, and the claim's
	Known             // it is known; 0 or above: it is that id of this call
)

// Claim claims the new ids; says[i] tells about each. Where positions are wanted (at is not nil),
// at[i] is that of a known one. While it holds none, it waits for other callers that add some of
// them. Resolve must follow.
func (s *Set) Claim(ctx context.Context, want []ID, says []int, at []int64) (*Claim, error) {
	for {
		c, other, runs := s.try(want, says, at)
		if other != nil {
			if err := other.wait(ctx); err != nil {
				return nil, err
			}
			continue
		}
		err := s.unmerged(func() ([]*run, error) {
			read := runs
			runs = s.snapshot()
			return read, s.lookUp(ctx, read, c, want, says, at)
		})
		if err != nil {
			s.Resolve(c, nil)
			return nil, err
		}
		return c, nil
	}
}

// wait waits until the claim is resolved.
func (c *Claim) wait(ctx context.Context) error {
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// try claims, or says which claim to wait for.
func (s *Set) try(want []ID, says []int, at []int64) (c, other *Claim, runs []*run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tables[len(s.tables)-1]
	c = &Claim{table: t, first: len(t.entries), Held: make([]int, 0, len(want)), done: make(chan struct{})}
	for i, id := range want {
		var e *slot
		for j := len(s.tables) - 1; j >= 0 && e == nil; j-- {
			e = s.tables[j].find(id)
		}
		switch {
		case e == nil:
			t.insert(slot{Entry: Entry{ID: id}, claim: c})
			c.Held = append(c.Held, i)
			says[i] = New
		case e.claim == nil:
			says[i] = Known
			if at != nil {
				at[i] = e.Pos
			}
		case e.claim == c:
			says[i] = c.Held[t.index(e)-c.first]
		default:
			t.cut(c.first)
			return nil, e.claim, nil
		}
	}
	t.open += len(c.Held)
	return c, nil, s.runs
}

// lookUp finds claimed ids in the runs: those are known. An id that repeats one of them in the same
// call is then known too.
func (s *Set) lookUp(ctx context.Context, runs []*run, c *Claim, want []ID, says []int, at []int64) error {
	if len(runs) == 0 || len(c.Held) == 0 {
		return nil
	}
	err := s.search(ctx, runs, want, func(i int) bool { return says[i] == New }, func(i int, pos int64) {
		says[i] = Known
		if at != nil {
			at[i] = pos
		}
	})
	if err != nil {
		return err
	}
	for i, twin := range says {
		if twin >= 0 && says[twin] == Known {
			says[i] = Known
			if at != nil {
				at[i] = at[twin]
			}
		}
	}
	return nil
}

// Renew claims ids whose things get other positions, known or not. It waits for other callers that
// are adding some of them.
func (s *Set) Renew(ctx context.Context, want []ID) (*Claim, error) {
	for {
		c, other := s.tryRenew(want)
		if other == nil {
			return c, nil
		}
		if err := other.wait(ctx); err != nil {
			return nil, err
		}
	}
}

func (s *Set) tryRenew(want []ID) (c, other *Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range want {
		for _, t := range s.tables {
			if e := t.find(id); e != nil && e.claim != nil {
				return nil, e.claim
			}
		}
	}
	t := s.tables[len(s.tables)-1]
	c = &Claim{table: t, first: len(t.entries), done: make(chan struct{})}
	for i, id := range want {
		t.insert(slot{Entry: Entry{ID: id}, claim: c})
		c.Held = append(c.Held, i)
	}
	t.open += len(c.Held)
	return c, nil
}

// Group is claims that may be logged together. Groups are comparable.
type Group struct{ table *table }

// Group is that of the claim.
func (c *Claim) Group() Group { return Group{c.table} }

// Log writes entries of the group's claims, in the transaction that stores their things.
func (g Group) Log(tx *sqlitedb.Tx, entries []Entry) error {
	if len(entries) == 0 {
		return nil
	}
	block := make([]byte, 0, len(entries)*entryBytes)
	for _, e := range entries {
		block = e.append(block)
	}
	if _, err := tx.Exec(g.table.log, logID(g.table.gen, g.table.logged.Add(1)), block); err != nil {
		return fmt.Errorf("write %d ids: %w", len(entries), err)
	}
	return nil
}

// Resolve ends a claim. positions are where the things of the ids in Held lie; 0, or no positions at
// all: it was not added by this call, and is as before.
func (s *Set) Resolve(c *Claim, positions []int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := c.table
	for k := range c.Held {
		e := &t.entries[c.first+k]
		e.claim = nil
		if positions != nil {
			e.Pos = positions[k]
		}
	}
	if positions == nil && len(c.Held) > 0 && c.first+len(c.Held) == len(t.entries) {
		t.cut(c.first)
	}
	t.open -= len(c.Held)
	if t.open == 0 && len(c.Held) > 0 && t != s.tables[len(s.tables)-1] {
		close(t.quiet) // from now on the table is read without mu
	}
	close(c.done)
}
