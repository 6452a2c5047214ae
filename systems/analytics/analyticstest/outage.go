package analyticstest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/definition"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// errOutage is the error of a store that is down.
var errOutage = errors.New("connection refused")

// A fault is a store's state that a case switches: while it is on, calls fail. It counts the
// calls.
type fault struct {
	mu    sync.Mutex // guards all below
	err   error      // the error of calls; nil: they pass
	left  int        // remaining calls that fail; below 0: all
	calls int
}

// fail makes the next n calls fail; below 0: all until heal.
func (f *fault) fail(n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left, f.err = n, err
}

func (f *fault) heal() { f.fail(0, nil) }

func (f *fault) called() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// call counts one call and returns its error.
func (f *fault) call() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	if f.err == nil || f.left == 0 {
		return nil
	}
	f.left = max(f.left-1, -1)
	return f.err
}

// broken is a fault that is on.
func broken() *fault { return &fault{err: errOutage, left: -1} }

// persons is a Store with outages.
type persons struct {
	person.Store
	resolve, apply, merge, keep fault
	answer                      fault       // of merges that were done
	keptNone                    atomic.Bool // Keep was called without anything to keep
	poison                      string      // merges of this other id fail while it is set; guarded by merge
}

func (p *persons) Resolve(ctx context.Context, refs []person.Ref, into []uuid.UUID) error {
	if err := p.resolve.call(); err != nil {
		return err
	}
	return p.Store.Resolve(ctx, refs, into)
}

func (p *persons) Apply(ctx context.Context, changes []person.Change) error {
	if err := p.apply.call(); err != nil {
		return err
	}
	return p.Store.Apply(ctx, changes)
}

func (p *persons) Merge(ctx context.Context, merges []person.Merge, outcomes []person.Outcome) error {
	clear(outcomes)
	if err := p.merge.call(); err != nil {
		return err
	}
	for i := range merges {
		if p.poison != "" && merges[i].Other == p.poison {
			if err := p.Store.Merge(ctx, merges[:i], outcomes[:i]); err != nil {
				return err
			}
			return errOutage
		}
	}
	if err := p.Store.Merge(ctx, merges, outcomes); err != nil {
		return err
	}
	return p.answer.call()
}

func (p *persons) Keep(ctx context.Context, merges []person.Merge) error {
	if len(merges) == 0 {
		p.keptNone.Store(true)
	}
	if err := p.keep.call(); err != nil {
		return err
	}
	return p.Store.Keep(ctx, merges)
}

// events is a warehouse with outages, which notes what it is given.
type events struct {
	warehouse.Store
	insert, override fault
	inserting        func(ctx context.Context, rows []*event.Event) error // before every insert; may be nil
}

func (w *events) Insert(ctx context.Context, rows []*event.Event, took []warehouse.Outcome) error {
	if err := w.insert.call(); err != nil {
		return err
	}
	if w.inserting != nil {
		if err := w.inserting(ctx, rows); err != nil {
			return err
		}
	}
	return w.Store.Insert(ctx, rows, took)
}

func (w *events) Override(ctx context.Context, os []person.Override) error {
	if err := w.override.call(); err != nil {
		return err
	}
	return w.Store.Override(ctx, os)
}

// dead is a store of dead letters with outages.
type dead struct {
	deadletter.Store
	put fault
}

func (d *dead) Put(ctx context.Context, letters []tidemill.DeadLetter) error {
	if err := d.put.call(); err != nil {
		return err
	}
	return d.Store.Put(ctx, letters)
}

// catalogue is definitions with outages.
type catalogue struct {
	definition.Definitions
	upsert fault
}

func (c *catalogue) Upsert(ctx context.Context, b *definition.Batch) error {
	if err := c.upsert.call(); err != nil {
		return err
	}
	return c.Definitions.Upsert(ctx, b)
}

// tenants are projects with outages.
type tenants struct {
	project.Projects
	find fault
}

func (p *tenants) Find(ctx context.Context, id uuid.UUID) (project.Project, error) {
	if err := p.find.call(); err != nil {
		return project.Project{}, err
	}
	return p.Projects.Find(ctx, id)
}

// stream is a source with outages. It passes on the interfaces that the engine looks for.
type stream struct {
	source
	receive, settle fault
}

type source interface {
	tidemill.Source
	tidemill.Keeper
	tidemill.Bookkeeper
}

func (s *stream) Receive(ctx context.Context, into []*tidemill.Message) (int, error) {
	if err := s.receive.call(); err != nil {
		return 0, err
	}
	return s.source.Receive(ctx, into)
}

func (s *stream) Settle(ctx context.Context, ends []tidemill.Settlement) error {
	if err := s.settle.call(); err != nil {
		return err
	}
	return s.source.Settle(ctx, ends)
}
