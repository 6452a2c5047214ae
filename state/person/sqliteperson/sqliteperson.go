// Package sqliteperson keeps persons in an SQLite file: for one process without a server.
// Other programs may read the table person by SQL; only this one may write it.
package sqliteperson

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/person/internal/rules"
)

var _ person.Store = (*Store)(nil)

// Options tune a Store; the zero value is ready to use.
type Options struct {
	Above    uint64       // versions of overrides are greater: the highest one of an existing warehouse
	Refs     int          // distinct ids remembered in memory, about 250 bytes each; 0 means 100,000
	CacheMiB int          // memory for what is known of persons; 0 means 32
	Log      *slog.Logger // log for operators; nil discards
}

// Store is a person.Store in an SQLite file. It may be used from several goroutines.
type Store struct {
	db     *sqlitedb.DB
	o      Options
	cache  *cache
	moved  *lookup
	stored *lookup
	commit uint64 // number of the last batch; the writer's own
}

// New brings the tables in db to the newest version and returns a Store on them. It is
// the only Store on that file.
func New(ctx context.Context, db *sqlitedb.DB, o Options) (*Store, error) {
	if o.Refs < 0 || o.CacheMiB < 0 {
		return nil, fmt.Errorf("persons in SQLite: Refs is %d and CacheMiB is %d; neither can be negative", o.Refs, o.CacheMiB)
	}
	if o.Refs == 0 {
		o.Refs = 100_000
	}
	if o.CacheMiB == 0 {
		o.CacheMiB = 32
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if err := db.Migrate(ctx, "person", steps); err != nil {
		return nil, err
	}
	c, err := newCache(o.Refs, o.CacheMiB<<20)
	if err != nil {
		return nil, fmt.Errorf("persons in SQLite: %w", err)
	}
	return &Store{db: db, o: o, cache: c, moved: moved(), stored: stored()}, nil
}

// Resolve is person.Persons.
func (s *Store) Resolve(ctx context.Context, refs []person.Ref, into []uuid.UUID) error {
	if len(into) < len(refs) {
		return fmt.Errorf("resolve %d distinct ids: there is room for %d", len(refs), len(into))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	missing, moves := s.cache.resolve(refs, into)
	if len(missing) == 0 {
		return nil
	}
	at := make(map[person.Ref]uuid.UUID, len(missing))
	ask := make([]person.Ref, 0, len(missing))
	for _, i := range missing {
		if _, ok := at[refs[i]]; !ok {
			at[refs[i]] = uuid.Nil
			ask = append(ask, refs[i])
		}
	}
	err := s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		var i int
		var id sql.RawBytes
		return s.moved.each(tx, ask, func(part []person.Ref, row *sql.Rows) error {
			if err := row.Scan(&i, &id); err != nil {
				return err
			}
			at[part[i]] = uuid.UUID(id)
			return nil
		})
	})
	if err != nil {
		return fmt.Errorf("resolve %d distinct ids: %w", len(ask), err)
	}
	for _, i := range missing {
		id := at[refs[i]]
		if id == uuid.Nil { // none is stored
			id = person.ID(refs[i])
			at[refs[i]] = id
		}
		into[i] = id
	}
	s.cache.fill(refs, into, missing, moves)
	return nil
}

// Apply is person.Persons.
func (s *Store) Apply(ctx context.Context, changes []person.Change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	deltas := s.cache.unknown(rules.Deltas(s.cache.news(changes)))
	if len(deltas) == 0 {
		return nil
	}
	refs := make([]person.Ref, len(deltas))
	for i := range deltas {
		refs[i] = deltas[i].Ref
	}
	if err := s.write(ctx, refs, func(b *batch) error {
		for i := range deltas {
			rules.Fold(b, &deltas[i])
		}
		return nil
	}); err != nil {
		return fmt.Errorf("apply %d changes of persons: %w", len(changes), err)
	}
	return nil
}

// Merge is person.Persons. All merges of a call are one transaction: after an error none
// of them is done.
func (s *Store) Merge(ctx context.Context, merges []person.Merge, outcomes []person.Outcome) error {
	if len(outcomes) < len(merges) {
		return fmt.Errorf("merge %d pairs: there is room for %d outcomes", len(merges), len(outcomes))
	}
	clear(outcomes[:len(merges)])
	if err := ctx.Err(); err != nil || len(merges) == 0 {
		return err
	}
	refs := make([]person.Ref, 0, 2*len(merges))
	named := make(map[person.Ref]bool, 2*len(merges))
	for i := range merges {
		for _, r := range []person.Ref{merges[i].Ref, {Project: merges[i].Project, Distinct: merges[i].Other}} {
			if !named[r] {
				named[r] = true
				refs = append(refs, r)
			}
		}
	}
	done := make([]person.Outcome, len(merges))
	if err := s.write(ctx, refs, func(b *batch) (err error) {
		for i := range merges {
			if done[i], err = rules.Unite(b, &merges[i], s.o.Above); err != nil {
				return fmt.Errorf("merge %q into %q: %w", merges[i].Other, merges[i].Distinct, err)
			}
		}
		return nil
	}); err != nil {
		return fmt.Errorf("merge %d pairs of persons: %w", len(merges), err)
	}
	copy(outcomes, done)
	return nil
}

// write lets do work on the persons of refs, in one transaction.
func (s *Store) write(ctx context.Context, refs []person.Ref, do func(*batch) error) error {
	var b *batch
	if err := s.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		s.commit++
		b = &batch{tx: tx, commit: s.commit}
		if err := b.load(s.stored, refs); err != nil {
			return err
		}
		if err := do(b); err != nil {
			return err
		}
		return b.store()
	}); err != nil {
		return err
	}
	s.cache.learn(b)
	for _, id := range b.damaged {
		s.o.Log.ErrorContext(ctx, "the registers of a person are damaged; its properties go on without their times: restore the file from a backup if there is one", "person", id)
	}
	return nil
}

// Show is person.Directory.
func (s *Store) Show(ctx context.Context, ref person.Ref) (p *person.Person, err error) {
	err = s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		b := &batch{tx: tx}
		if err := b.load(s.stored, []person.Ref{ref}); err != nil {
			return err
		}
		p, err = b.show(b.behind(ref))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("show %q: %w", ref.Distinct, err)
	}
	return p, nil
}

// ShowID is person.Directory.
func (s *Store) ShowID(ctx context.Context, project, id uuid.UUID) (p *person.Person, err error) {
	err = s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		r := &row{Record: rules.Record{ID: id, Project: project}}
		err := tx.QueryRow("SELECT identified, created, updated, registers FROM person WHERE id=? AND project=?", id[:], project[:]).
			Scan(&r.Identified, &r.CreatedMilli, &r.UpdatedMilli, &r.raw)
		if errors.Is(err, sql.ErrNoRows) {
			return person.ErrUnknown
		} else if err != nil {
			return err
		}
		b := &batch{tx: tx}
		if err := b.decode(r); err != nil {
			return err
		}
		p, err = b.show(r)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("show person %v: %w", id, err)
	}
	return p, nil
}

// show is a person with its distinct ids; nil: there is none.
func (b *batch) show(r *row) (*person.Person, error) {
	if r == nil {
		return nil, person.ErrUnknown
	}
	links, err := b.Links(r.ID)
	if err != nil {
		return nil, err
	}
	distinct := make([]string, len(links))
	for i, l := range links {
		distinct[i] = l.Distinct
	}
	slices.Sort(distinct)
	return r.Show(distinct), nil
}
