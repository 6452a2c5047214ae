// Package tablewindow keeps windows in any tables: its rules are the role's, its storage is package
// table's.
//
//	windows, err := sqlitetable.New(ctx, db, tablewindow.Spec())
//	blobs, err := sqlitetable.New(ctx, db, tablewindow.BlobSpec())
//	store, err := tablewindow.New(ctx, windows, blobs, tablewindow.Options{})
//
// The records of a Put are a few records of the table of blobs. Which names a window has is in
// memory too, so that nothing is looked up for a new one; what another process has added is read.
//
// The books are a record of the table of windows. Each change reads them first, so that changes
// come one after the other.
package tablewindow

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/tidemill/tidemill/internal/bell"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/memorytable"
	"github.com/tidemill/tidemill/state/window"
)

// Options tune a store; the zero value is ready to use.
type Options struct {
	window.Options
	// Look is how often a source that waits looks whether another process has closed a window.
	// 0 means that this process has the tables for itself: what the one before had handed out is
	// handed out again at once.
	Look time.Duration
}

// Blobs is the table of blobs, of the same database as that of windows.
type Blobs[Raw any] interface {
	table.Store[Blob, Raw]
	In(ctx context.Context, raw Raw) table.Tx[Blob]
}

// Store is a window.Store.
type Store[Raw any] struct {
	windows table.Store[Record, Raw]
	blobs   Blobs[Raw]
	o       Options
	names   names
	bell    bell.Bell // rings when a window may be handed out
}

var _ window.Store = (*Store[*memorytable.Tx])(nil)

// New makes a store of tables of Spec and BlobSpec.
func New[Raw any](ctx context.Context, windows table.Store[Record, Raw], blobs Blobs[Raw], o Options) (*Store[Raw], error) {
	var err error
	if o.Options, err = o.WithDefaults(); err != nil {
		return nil, err
	}
	if o.Look < 0 {
		return nil, fmt.Errorf("windows: look %v; want zero (never) or more", o.Look)
	}
	s := &Store[Raw]{windows: windows, blobs: blobs, o: o, names: names{of: map[string]*named{}}}
	if o.Look > 0 {
		return s, nil
	}
	s.o.Look = bell.Idle
	if err := s.release(ctx); err != nil {
		return nil, fmt.Errorf("open the windows: %w", err)
	}
	return s, nil
}

// Memory makes a store in memory: for tests, simulation, and what may be lost at a restart.
func Memory(o window.Options) (*Store[*memorytable.Tx], error) {
	db := memorytable.NewDB()
	windows, err := memorytable.New(db, Spec())
	if err != nil {
		return nil, err
	}
	blobs, err := memorytable.New(db, BlobSpec())
	if err != nil {
		return nil, err
	}
	return New(context.Background(), windows, blobs, Options{Options: o})
}

// release ends the leases of all windows that are handed out: their holder is dead. A settlement
// that comes before they are handed out again still counts.
func (s *Store[Raw]) release(ctx context.Context) error {
	return s.update(ctx, func(c *change) error {
		leased, err := table.All(c.windows, table.Query[Record]{By: "state", Where: in(window.Leased), Most: pageMax, Only: []string{"revision", "state"}})
		for _, r := range leased {
			r.Due = time.UnixMilli(1)
		}
		return cmp.Or(err, c.windows.Put(leased, "due"))
	})
}

// change is a transaction.
type change struct {
	windows table.Tx[Record]
	blobs   table.Tx[Blob]
	books   books
	now     time.Time
}

// update changes windows, and the books with them.
func (s *Store[Raw]) update(ctx context.Context, do func(*change) error) error {
	return s.windows.Update(ctx, func(tx table.Tx[Record], raw Raw) error {
		found, err := tx.Get([]string{booksKey}, "books")
		if err != nil {
			return err
		}
		before, err := booksOf(found)
		if err != nil {
			return err
		}
		c := &change{windows: tx, blobs: s.blobs.In(ctx, raw), books: before, now: s.o.Now()}
		if err := do(c); err != nil || c.books == before {
			return err
		}
		only := []string{"books"}
		if found[booksKey] == nil {
			only = nil
		}
		return tx.Put([]*Record{c.books.seal()}, only...)
	})
}

// find reads a window; nil: there is none.
func find(tx table.Reader[Record], id string) (*Record, error) {
	batch, revision, ok := window.ParseID(id)
	if !ok {
		return nil, nil
	}
	keys := []string{closedKey(revision), activeKey(batch)}
	found, err := tx.Get(keys)
	for _, key := range keys {
		if r := found[key]; r != nil && r.fill().ID == id && r.State != settled {
			return r, err
		}
	}
	return nil, err
}
