package sqlitequeue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/gather"
	"github.com/tidemill/tidemill/internal/giveway"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/queue"
)

// Part is what another role does in the transaction that adds jobs, with its own entries.
// Known and Keep run on the writer of the same file: they must be quick, and change nothing
// in memory.
type Part[T any] struct {
	Name  func(T) string                                 // identifies an entry
	Known func(tx *sqlitedb.Tx, all []T) ([]bool, error) // for each entry: one of its name is kept
	Keep  func(tx *sqlitedb.Tx, all []T) error           // keeps entries; none is known
	In    func(file *sqlitedb.DB) bool                   // whether the part's tables are in that file
}

// Beside adds jobs in one transaction with what another role does in the same file: both
// happen, or nothing. It may be used by any number of goroutines; concurrent callers share
// transactions.
type Beside[T any] struct {
	store *Store
	part  Part[T]
	calls [giveway.Lines]gather.Line[*besideCall[T]]
}

// besideCall is a request.
type besideCall[T any] struct {
	entries []T
	in      *intake
	begun   bool // it is in a transaction, which decides it
	taken   bool
}

// NewBeside joins the queue with the other role's part. Nil: not possible, because the part
// is in another file.
func NewBeside[T any](s *Store, part Part[T]) *Beside[T] {
	if !part.In(s.db) {
		return nil
	}
	b := &Beside[T]{store: s, part: part}
	for i := range b.calls {
		b.calls[i] = gather.Line[*besideCall[T]]{Most: groupJobs, Size: (*besideCall[T]).size, Call: b.write}
	}
	return b
}

// size is how much of a group a request takes, in jobs.
func (c *besideCall[T]) size() int { return max(1, len(c.in.jobs)) }

// besideTime bounds how long a request waits for its transaction to begin.
const besideTime = 10 * time.Second

// errDenied says that a request's jobs are not added.
var errDenied = errors.New("it is not taken")

// Add adds jobs and keeps entries if the part knows none of their names, no job is known to
// its queue, and all have room. It says whether it added them; otherwise nothing has
// changed. Of concurrent requests with the same name only the first may be added. After an
// error it may have happened or not.
func (b *Beside[T]) Add(ctx context.Context, entries []T, jobs []*tidemill.Message) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, besideTime)
	defer cancel()
	s := b.store
	for _, m := range jobs {
		if err := queue.Check(m); err != nil {
			return false, err
		}
	}
	if err := s.names.Relieve(ctx); err != nil {
		return false, fmt.Errorf("add %d jobs: make room for their names: %w", len(jobs), err)
	}
	in, err := s.prepare(ctx, jobs)
	if err != nil {
		return false, fmt.Errorf("add %d jobs: %w", len(jobs), err)
	}
	if !in.fit(s.o.Capacity, 0, len(jobs)) || in.fresh() < len(jobs) {
		in.finish(s, errDenied)
		return false, nil
	}
	c := &besideCall[T]{entries: entries, in: in}
	err = b.calls[giveway.Line(ctx)].Join(ctx, c)
	if !c.begun {
		in.finish(s, errDenied)
	}
	if err != nil {
		return false, fmt.Errorf("add %d jobs: %w", len(jobs), err)
	}
	return c.taken, nil
}

// write writes some requests in one transaction, and answers each. If something of a
// request is known, write starts over without it.
func (b *Beside[T]) write(ctx context.Context, calls []*besideCall[T]) error {
	s := b.store
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), besideTime)
	defer cancel()
	for _, c := range calls {
		c.begun = true
	}
	for calls = b.unlike(calls); len(calls) > 0; {
		intakes := make([]*intake, len(calls))
		var all []T
		var owners []int
		for i, c := range calls {
			intakes[i], all = c.in, append(all, c.entries...)
			for range c.entries {
				owners = append(owners, i)
			}
		}
		denied := make([]bool, len(calls))
		group := newBatch(intakes)
		err := group.write(ctx, s, func(tx *sqlitedb.Tx) error {
			known, err := b.part.Known(tx, all)
			if err != nil {
				return err
			}
			if !slices.Contains(known, true) {
				return b.part.Keep(tx, all)
			}
			for i, is := range known {
				denied[owners[i]] = denied[owners[i]] || is
			}
			return errDenied
		})
		if !errors.Is(err, errDenied) {
			group.finish(s, err)
			for _, c := range calls {
				c.taken = err == nil
			}
			return err
		}
		left := calls[:0]
		for i, c := range calls {
			if denied[i] {
				c.in.finish(s, errDenied)
			} else {
				left = append(left, c)
			}
		}
		calls = left
	}
	return nil
}

// unlike are the requests without a name that one before them has. It denies the others.
func (b *Beside[T]) unlike(calls []*besideCall[T]) []*besideCall[T] {
	seen := make(map[string]struct{}, 2*len(calls))
	left := make([]*besideCall[T], 0, len(calls))
	for _, c := range calls {
		had := len(seen)
		for _, e := range c.entries {
			seen[b.part.Name(e)] = struct{}{}
		}
		if len(seen) < had+len(c.entries) {
			c.in.finish(b.store, errDenied)
		} else {
			left = append(left, c)
		}
	}
	return left
}
