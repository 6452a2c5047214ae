// Package postgresperson keeps persons in PostgreSQL: for several processes at once, and
// beside programs that read the tables persons and person_distinct_ids. Only this product
// may write them.
//
// Rows of an existing table are adopted: a person keeps the id that it was stored under,
// and properties that were stored without times are older than any event.
//
// # How processes avoid conflicts
//
// A distinct id belongs to a person. Only a transaction that has locked that person's row
// may give the distinct id to another person, and it deletes the row. A person id that is
// gone never comes back. So if a transaction locks the row of the person last seen with a
// distinct id, and finds the row, the distinct id still belongs to that person, however old
// its knowledge was. If it does not find the row, it starts again. Rows are created first
// and then locked, each in the order of ids: no two transactions can wait for each other.
package postgresperson

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/person/internal/known"
	"github.com/tidemill/tidemill/state/person/internal/rules"
)

var (
	_ person.Store = (*Store)(nil)
	_ person.Mover = (*Store)(nil)
)

// Options tune a Store; the zero value is ready to use.
type Options struct {
	Above    uint64       // versions of overrides are greater: the highest one of an existing warehouse
	CacheMiB int          // memory for what is known of persons; 0 means 32, enough for some 150,000
	Log      *slog.Logger // log for operators; nil discards
}

// Store is a person.Store in PostgreSQL. It may be used from several goroutines, and any
// number of Stores may share a database.
type Store struct {
	db    *postgresdb.DB
	o     Options
	cache *known.Cache
}

// mergesAtOnce are done in one transaction: their rows are locked until its end.
const mergesAtOnce = 200

// tries is how often a transaction begins again because another one merged a person before
// it was locked. Each time the other has made progress.
const tries = 100

// New brings the tables of db to the newest version and returns a Store on them.
func New(ctx context.Context, db *postgresdb.DB, o Options) (*Store, error) {
	if o.CacheMiB < 0 || o.Above > math.MaxInt64/2 {
		return nil, fmt.Errorf("persons in PostgreSQL: CacheMiB is %d and Above is %d; neither can be negative, and versions need room to grow", o.CacheMiB, o.Above)
	}
	if o.CacheMiB == 0 {
		o.CacheMiB = 32
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if err := db.Migrate(ctx); err != nil {
		return nil, err
	}
	return &Store{db: db, o: o, cache: known.New(o.CacheMiB << 20)}, nil
}

// Resolve is person.Persons. It always asks the database: another process may have merged a
// person a moment ago.
func (s *Store) Resolve(ctx context.Context, refs []person.Ref, into []uuid.UUID) error {
	if len(into) < len(refs) {
		return fmt.Errorf("resolve %d distinct ids: there is room for %d", len(refs), len(into))
	}
	if err := ctx.Err(); err != nil || len(refs) == 0 {
		return err
	}
	at := make(map[person.Ref]uuid.UUID, len(refs))
	ask := make([]person.Ref, 0, len(refs))
	for _, r := range refs {
		if _, ok := at[r]; !ok {
			at[r] = uuid.Nil
			ask = append(ask, r)
		}
	}
	projects, keys := keysOf(ask)
	var i int64
	var id [16]byte
	err := s.db.Query(ctx, func(r pgx.Rows) error {
		if err := r.Scan(&i, &id); err != nil {
			return err
		}
		at[ask[i-1]] = id
		return nil
	}, selectPersonIDs, projects, keys)
	if err != nil {
		return fmt.Errorf("resolve %d distinct ids: %w", len(ask), err)
	}
	for i, r := range refs {
		if into[i] = at[r]; into[i] == uuid.Nil { // none is stored
			into[i] = person.ID(r)
			at[r] = into[i]
		}
	}
	return nil
}

// Apply is person.Persons. Changes that the cache knows already cost no statement.
func (s *Store) Apply(ctx context.Context, changes []person.Change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	deltas := rules.Deltas(s.cache.News(changes))
	for i := range deltas {
		d := &deltas[i]
		d.FirstMilli, d.LastMilli = storable(d.FirstMilli), storable(d.LastMilli)
	}
	if err := s.apply(ctx, deltas); err != nil {
		return fmt.Errorf("apply %d changes of persons: %w", len(changes), err)
	}
	return nil
}

func (s *Store) apply(ctx context.Context, deltas []rules.Delta) error {
	deltas = s.cache.Unknown(deltas)
	for range tries {
		guess, err := s.seen(ctx, &deltas)
		if err != nil || len(deltas) == 0 {
			return err
		}
		b := newBatch(s, len(deltas))
		err = s.db.Tx(ctx, func(ctx context.Context, tx pgx.Tx) error { return b.apply(ctx, tx, deltas, guess) })
		if !errors.Is(err, errMoved) {
			return s.done(ctx, b, err)
		}
		for i := range deltas {
			s.cache.Forget(deltas[i].Ref)
		}
	}
	return tidemill.Fail(tidemill.Transient, "others merged the same persons %d times meanwhile", tries)
}

// Merge is person.Persons.
func (s *Store) Merge(ctx context.Context, merges []person.Merge, outcomes []person.Outcome) error {
	_, err := s.MergeMoved(ctx, merges, outcomes)
	return err
}

// MergeMoved is person.Mover. Merges of a call share transactions: after an error those
// with an outcome are done, and none of the others, unless the answer to a commit was lost.
func (s *Store) MergeMoved(ctx context.Context, merges []person.Merge, outcomes []person.Outcome) (moved []person.Override, err error) {
	if len(outcomes) < len(merges) {
		return nil, fmt.Errorf("merge %d pairs: there is room for %d outcomes", len(merges), len(outcomes))
	}
	clear(outcomes[:len(merges)])
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	rest, of := s.cache.Apart(merges, outcomes)
	for first := 0; first < len(rest); first += mergesAtOnce {
		last := min(first+mergesAtOnce, len(rest))
		b, done, err := s.merge(ctx, rest[first:last])
		if err != nil {
			return moved, fmt.Errorf("merge %d pairs of persons: %w", len(rest)-first, err)
		}
		for i, o := range done {
			outcomes[of[first+i]] = o
		}
		for i, l := range b.overrides {
			moved = append(moved, person.Override{Seq: b.firstSeq + int64(i), Ref: l.Ref, Person: l.Person, Version: l.Version})
		}
	}
	return moved, nil
}

func (s *Store) merge(ctx context.Context, merges []person.Merge) (*batch, []person.Outcome, error) {
	for range tries {
		b := newBatch(s, 2*len(merges))
		var done []person.Outcome
		err := s.db.Tx(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
			done, err = b.merge(ctx, tx, merges)
			return err
		})
		if !errors.Is(err, errMoved) {
			return b, done, s.done(ctx, b, err)
		}
	}
	return nil, nil, tidemill.Fail(tidemill.Transient, "others merged the same persons %d times meanwhile", tries)
}

// done remembers what a batch has made durable, and logs anything odd about it.
func (s *Store) done(ctx context.Context, b *batch, err error) error {
	if err != nil {
		return err
	}
	s.learn(b.refs, b.behind)
	rules.Damaged(ctx, s.o.Log, b.damaged)
	for _, id := range b.gone {
		// Logged when events come for a project that the database of persons does not know; the events
		// themselves are stored.
		// To do: see where the project went; it was deleted by another program that shares the
		// database.
		s.o.Log.WarnContext(ctx, "persons of a project that is not there are not stored", "project", id)
	}
	return nil
}

// learn remembers the persons of distinct ids as they are stored.
func (s *Store) learn(refs []person.Ref, of func(person.Ref) *row) {
	s.cache.Learn(known.Batch{Refs: refs, Of: func(ref person.Ref) (known.Person, bool) {
		r := of(ref)
		if r == nil || r.removed || r.raw == nil {
			return known.Person{}, false
		}
		return r.known(), true
	}})
}

// Show is person.Directory.
func (s *Store) Show(ctx context.Context, ref person.Ref) (*person.Person, error) {
	key, _ := postgresdb.Key(ref.Distinct, maxKey)
	p, err := s.show(ctx, selectShown, ref.Project, key)
	if err != nil {
		return nil, fmt.Errorf("show %q: %w", ref.Distinct, err)
	}
	return p, nil
}

// ShowID implements person.Directory.
func (s *Store) ShowID(ctx context.Context, project, id uuid.UUID) (*person.Person, error) {
	p, err := s.show(ctx, selectShownID, project, id)
	if err != nil {
		return nil, fmt.Errorf("show person %v: %w", id, err)
	}
	return p, nil
}

// show reads the person that a query finds.
func (s *Store) show(ctx context.Context, query string, args ...any) (*person.Person, error) {
	var r *row
	var keys []string
	var whole [][]byte
	err := s.db.Do(ctx, func(ctx context.Context, c *pgx.Conn) (err error) {
		r, err = scanRow(c.QueryRow(ctx, query, args...), &keys, &whole)
		if err == nil && r.decode() != nil {
			err = r.salvage(ctx, c)
		}
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		err = person.ErrUnknown
	}
	if err != nil {
		return nil, err
	}
	distinct := make([]string, len(keys))
	for i, k := range keys {
		distinct[i] = postgresdb.Name(k, whole[i])
	}
	slices.Sort(distinct)
	return r.Show(distinct), nil
}

// DistinctOf returns a distinct id of a person, or person.ErrUnknown if no such person is
// stored.
func (s *Store) DistinctOf(ctx context.Context, project, id uuid.UUID) (string, error) {
	var key string
	var whole []byte
	err := s.db.Do(ctx, func(ctx context.Context, c *pgx.Conn) error {
		return c.QueryRow(ctx, "SELECT distinct_id, distinct_bytes FROM person_distinct_ids WHERE person_id=$1 AND project_id=$2 ORDER BY distinct_id LIMIT 1",
			id, project).Scan(&key, &whole)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		err = person.ErrUnknown
	}
	if err != nil {
		return "", fmt.Errorf("find a distinct id of person %v: %w", id, err)
	}
	return postgresdb.Name(key, whole), nil
}

// The columns of time hold these years and more; no event has a time outside them.
const (
	firstMilli = -62_135_596_800_000 // 0001-01-01T00:00:00Z
	lastMilli  = 253_402_300_799_999 // 9999-12-31T23:59:59.999Z
)

func storable(milli int64) int64 { return min(max(milli, firstMilli), lastMilli) }
