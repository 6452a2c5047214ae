// Package tableperson keeps persons in any tables: its rules are the role's, its storage is package
// table's.
//
//	persons, err := sqlitetable.New(ctx, db, tableperson.Spec())
//	moves, err := sqlitetable.New(ctx, db, tableperson.MoveSpec())
//	lists, err := sqlitetable.New(ctx, db, tableperson.ListSpec())
//	store, err := tableperson.New(persons, moves, lists, tableperson.Options{})
//
// A distinct id is a record under the id that is derived from it. As long as it belongs to the
// derived person, the record is that person: a new person is one record, found by its key alone.
//
// Every transaction that gives distinct ids to a person writes that person, and one that takes them
// away writes it too: of two at once, one begins again and sees what the other has done.
package tableperson

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/person/internal/known"
	"github.com/tidemill/tidemill/state/person/internal/rules"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/memorytable"
)

// Options tune a Store; the zero value is ready to use.
type Options struct {
	Above    uint64       // versions of overrides are greater: the highest one of an existing warehouse
	CacheMiB int          // memory for what is known of persons; 0 means 64, enough for some 300,000
	Shared   bool         // other processes write the tables too: ids are never taken from the cache
	Log      *slog.Logger // log for operators; nil discards
}

// Table is a table whose transactions others of its database can share.
type Table[T, Raw any] interface {
	table.Store[T, Raw]
	In(ctx context.Context, raw Raw) table.Tx[T]
}

// Store is a person.Store in tables. It may be used from several goroutines.
type Store[Raw any] struct {
	persons table.Store[Record, Raw]
	moves   Table[Move, Raw]
	lists   Table[Entry, Raw]
	o       Options
	cache   *known.Cache
	number  atomic.Uint64 // of the last transaction that wrote
}

var (
	_ person.Store = (*Store[*memorytable.Tx])(nil)
	_ person.Mover = (*Store[*memorytable.Tx])(nil)
)

// New makes a store of tables of Spec, MoveSpec and ListSpec, which are of one database.
func New[Raw any](persons table.Store[Record, Raw], moves Table[Move, Raw], lists Table[Entry, Raw], o Options) (*Store[Raw], error) {
	if o.CacheMiB < 0 {
		return nil, fmt.Errorf("persons: CacheMiB is %d; it cannot be negative", o.CacheMiB)
	}
	if o.CacheMiB == 0 {
		o.CacheMiB = 64
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Store[Raw]{persons: persons, moves: moves, lists: lists, o: o, cache: known.New(o.CacheMiB << 20)}, nil
}

// Memory makes a store in memory: for tests, simulation, and what may be lost at a restart. It
// panics where the options are invalid, which is a mistake in the program.
func Memory(o Options) *Store[*memorytable.Tx] {
	db := memorytable.NewDB()
	persons, err1 := memorytable.New(db, Spec())
	moves, err2 := memorytable.New(db, MoveSpec())
	lists, err3 := memorytable.New(db, ListSpec())
	s, err := New(persons, moves, lists, o)
	if err := errors.Join(err1, err2, err3, err); err != nil {
		panic(err)
	}
	return s
}

// Resolve implements person.Persons.
func (s *Store[Raw]) Resolve(ctx context.Context, refs []person.Ref, into []uuid.UUID) error {
	if len(into) < len(refs) {
		return fmt.Errorf("resolve %d distinct ids: there is room for %d", len(refs), len(into))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	var missing []int
	var moves uint64
	if s.o.Shared {
		missing = make([]int, len(refs))
		for i := range missing {
			missing[i] = i
		}
	} else {
		missing, moves = s.cache.Resolve(refs, into)
	}
	if len(missing) == 0 {
		return nil
	}
	if err := s.resolve(ctx, refs, into, missing); err != nil {
		return fmt.Errorf("resolve %d distinct ids: %w", len(missing), err)
	}
	if !s.o.Shared {
		s.cache.Fill(refs, into, missing, moves)
	}
	return nil
}

// resolve reads the persons of those that are missing.
func (s *Store[Raw]) resolve(ctx context.Context, refs []person.Ref, into []uuid.UUID, missing []int) error {
	derived := make(map[person.Ref]uuid.UUID, len(missing))
	keys := make([]string, 0, len(missing))
	for _, i := range missing {
		id, twice := derived[refs[i]]
		if !twice {
			id = person.ID(refs[i])
			derived[refs[i]] = id
			keys = append(keys, string(id[:]))
		}
		into[i] = id
	}
	return s.moves.View(ctx, func(r table.Reader[Move]) error {
		found, err := r.Get(keys)
		if err != nil || len(found) == 0 {
			return err
		}
		for _, i := range missing {
			id := derived[refs[i]]
			if m := found[string(id[:])]; m != nil {
				into[i] = uid(m.person)
			}
		}
		return nil
	})
}

// Apply implements person.Persons. Changes that the cache knows already cost no statement.
func (s *Store[Raw]) Apply(ctx context.Context, changes []person.Change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	deltas := s.cache.Unknown(rules.Deltas(s.cache.News(changes)))
	if len(deltas) == 0 {
		return nil
	}
	refs := make([]person.Ref, len(deltas))
	for i := range deltas {
		refs[i] = deltas[i].Ref
	}
	if _, err := s.write(ctx, refs, func(b *batch) error {
		for i := range deltas {
			rules.Fold(b, &deltas[i])
		}
		return nil
	}); err != nil {
		return fmt.Errorf("apply %d changes of persons: %w", len(changes), err)
	}
	return nil
}

// Merge implements person.Persons.
func (s *Store[Raw]) Merge(ctx context.Context, merges []person.Merge, outcomes []person.Outcome) error {
	_, err := s.MergeMoved(ctx, merges, outcomes)
	return err
}

// MergeMoved implements person.Mover. All merges of a call are one transaction: after an error
// those that the cache knows to be done have an outcome, and no others are done.
func (s *Store[Raw]) MergeMoved(ctx context.Context, merges []person.Merge, outcomes []person.Outcome) ([]person.Override, error) {
	if len(outcomes) < len(merges) {
		return nil, fmt.Errorf("merge %d pairs: there is room for %d outcomes", len(merges), len(outcomes))
	}
	clear(outcomes[:len(merges)])
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	rest, of := s.cache.Apart(merges, outcomes)
	if len(rest) == 0 {
		return nil, nil
	}
	refs := make([]person.Ref, 0, 2*len(rest))
	for i := range rest {
		refs = append(refs, rest[i].Ref, person.Ref{Project: rest[i].Project, Distinct: rest[i].Other})
	}
	done := make([]person.Outcome, len(rest))
	b, err := s.write(ctx, refs, func(b *batch) (err error) {
		for i := range rest {
			if done[i], err = rules.Unite(b, &rest[i], s.o.Above); err != nil {
				return fmt.Errorf("merge %q into %q: %w", rest[i].Other, rest[i].Distinct, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("merge %d pairs of persons: %w", len(rest), err)
	}
	for i, o := range done {
		outcomes[of[i]] = o
	}
	return b.overridden(), nil
}

// write lets do work on the persons of refs, in one transaction.
func (s *Store[Raw]) write(ctx context.Context, refs []person.Ref, do func(*batch) error) (b *batch, err error) {
	if err := s.persons.Update(ctx, func(tx table.Tx[Record], raw Raw) error {
		b = s.batch(ctx, tx, raw)
		b.number = s.number.Add(1)
		if err := b.load(refs); err != nil {
			return err
		}
		if err := do(b); err != nil {
			return err
		}
		return b.store()
	}); err != nil {
		if b != nil { // perhaps it is durable: the cache knows nothing of what it has moved
			s.cache.Learn(known.Batch{Number: b.number, Moves: true, Refs: slices.Concat(b.refs, b.moved), Of: func(person.Ref) (p known.Person, is bool) { return p, false }})
		}
		return nil, err
	}
	s.cache.Learn(known.Batch{Number: b.number, Moves: len(b.overrides) > 0, Refs: slices.Concat(b.refs, b.moved), Of: b.known})
	rules.Damaged(ctx, s.o.Log, b.damaged)
	return b, nil
}

func (s *Store[Raw]) batch(ctx context.Context, tx table.Tx[Record], raw Raw) *batch {
	return &batch{persons: tx, moves: s.moves.In(ctx, raw), lists: s.lists.In(ctx, raw)}
}

// Show implements person.Directory.
func (s *Store[Raw]) Show(ctx context.Context, ref person.Ref) (*person.Person, error) {
	p, err := s.show(ctx, func(b *batch) (*row, error) {
		err := b.load([]person.Ref{ref})
		return b.behind(ref), err
	})
	if err != nil {
		return nil, fmt.Errorf("show %q: %w", ref.Distinct, err)
	}
	return p, nil
}

// ShowID implements person.Directory.
func (s *Store[Raw]) ShowID(ctx context.Context, project, id uuid.UUID) (*person.Person, error) {
	p, err := s.show(ctx, func(b *batch) (*row, error) {
		if err := errors.Join(b.load(nil), b.owners([]uuid.UUID{id})); err != nil {
			return nil, err
		}
		if r := b.records[id]; r != nil && r.Project == project {
			return r, nil
		}
		return nil, nil
	})
	if err != nil {
		return nil, fmt.Errorf("show person %v: %w", id, err)
	}
	return p, nil
}

// show reads both tables, which are of one moment only in a transaction that could write. That a
// person is not there counts once the transaction has ended.
func (s *Store[Raw]) show(ctx context.Context, find func(*batch) (*row, error)) (p *person.Person, err error) {
	err = s.persons.Update(ctx, func(tx table.Tx[Record], raw Raw) error {
		b := s.batch(ctx, tx, raw)
		r, err := find(b)
		if err == nil {
			p, err = b.show(r)
		}
		return err
	})
	if err == nil && p == nil {
		err = person.ErrUnknown
	}
	return p, err
}
