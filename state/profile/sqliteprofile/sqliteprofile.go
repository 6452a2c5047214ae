// Package sqliteprofile keeps profiles in the embedded SQLite file: for one process without
// a server. Other programs may read its tables by SQL; only this one may write them.
package sqliteprofile

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/profile/internal/rules"
)

// steps are the tables. A released step is never edited.
//
//   - profile: attributes are the values as one JSON object, for readers by SQL; registers
//     are what profile.Registers stores. Times are unix milliseconds.
//   - profile_identity: kind is 1 for external ids, 2 for emails, 3 for phones.
var steps = []string{`
CREATE TABLE profile(
	tenant     TEXT NOT NULL,
	id         BLOB NOT NULL,
	created    INTEGER NOT NULL,
	updated    INTEGER NOT NULL,
	attributes TEXT NOT NULL DEFAULT '{}',
	registers  BLOB,
	PRIMARY KEY(tenant, id));
CREATE TABLE profile_identity(
	tenant  TEXT NOT NULL,
	kind    INTEGER NOT NULL,
	value   TEXT NOT NULL,
	profile BLOB NOT NULL,
	PRIMARY KEY(tenant, kind, value)) WITHOUT ROWID;
CREATE INDEX profile_identity_profile ON profile_identity(profile);
`}

// Store is a profile.Store in a SQLite file. It may be used from several goroutines.
type Store struct {
	db *sqlitedb.DB
	o  profile.Options
}

var (
	_ profile.Store                       = (*Store)(nil)
	_ profile.Transactional[*sqlitedb.Tx] = (*Store)(nil)
)

// New opens the profiles in db and makes missing tables.
func New(ctx context.Context, db *sqlitedb.DB, o profile.Options) (*Store, error) {
	o, err := o.WithDefaults()
	if err != nil {
		return nil, err
	}
	if err := db.Migrate(ctx, "profile", steps); err != nil {
		return nil, fmt.Errorf("open the profiles: %w", err)
	}
	return &Store{db, o}, nil
}

// Resolve implements profile.Resolver: known profiles are read beside the writer.
func (s *Store) Resolve(ctx context.Context, asks []profile.Ask, answers []profile.Answer) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b, err := rules.NewBatch(asks, answers, s.o)
	if err != nil || len(b.Names) == 0 {
		return err
	}
	err = s.db.Read(ctx, func(tx *sqlitedb.Tx) error { return load(tx, b) })
	if err == nil && b.Decide() { // the data may have changed until it can write
		b.Again()
		err = s.db.Write(ctx, func(tx *sqlitedb.Tx) error { return s.resolve(tx, b) })
	}
	if err != nil {
		return fmt.Errorf("resolve %d profiles: %w", len(asks), err)
	}
	return nil
}

// resolve does a whole batch on the writer.
func (s *Store) resolve(tx *sqlitedb.Tx, b *rules.Batch) error {
	if err := load(tx, b); err != nil {
		return err
	}
	if !b.Decide() {
		return nil
	}
	return s.store(tx, b)
}

// Update implements profile.Updater.
func (s *Store) Update(ctx context.Context, changes []profile.Change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e := rules.NewEdit(changes)
	if len(e.Owners) > 0 {
		if err := s.db.Write(ctx, func(tx *sqlitedb.Tx) error { return s.update(tx, e) }); err != nil {
			return fmt.Errorf("update %d profiles: %w", len(e.Owners), err)
		}
	}
	return e.Err()
}

// In implements profile.Transactional, for use on the writer: in Write, and in the
// ledger's Within.
func (s *Store) In(tx *sqlitedb.Tx) profile.Profiles { return within{s, tx} }

// within are the profiles inside a transaction.
type within struct {
	s  *Store
	tx *sqlitedb.Tx
}

func (w within) Resolve(ctx context.Context, asks []profile.Ask, answers []profile.Answer) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b, err := rules.NewBatch(asks, answers, w.s.o)
	if err != nil || len(b.Names) == 0 {
		return err
	}
	if err := w.s.resolve(w.tx, b); err != nil {
		return fmt.Errorf("resolve %d profiles: %w", len(asks), err)
	}
	return nil
}

func (w within) Update(ctx context.Context, changes []profile.Change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e := rules.NewEdit(changes)
	if err := w.s.update(w.tx, e); err != nil {
		return fmt.Errorf("update %d profiles: %w", len(e.Owners), err)
	}
	return e.Err()
}

// Delete implements profile.Eraser. Later writes reuse the pages that it frees; until then
// the file still has the bytes.
func (s *Store) Delete(ctx context.Context, tenant string, id uuid.UUID) (there bool, err error) {
	if err := profile.CheckTenant(tenant); err != nil {
		return false, err
	}
	err = s.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		n, err := tx.Exec("DELETE FROM profile WHERE tenant=? AND id=?", tenant, id[:])
		if there = n > 0; err != nil || !there {
			return err
		}
		_, err = tx.Exec("DELETE FROM profile_identity WHERE profile=?", id[:])
		return err
	})
	if err != nil {
		return false, fmt.Errorf("delete profile %v: %w", id, err)
	}
	return there, nil
}
