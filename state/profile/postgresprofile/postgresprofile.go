// Package postgresprofile keeps profiles in PostgreSQL: for several processes at once, and
// for handlers whose ledger is in the same database, where a change of a profile is
// committed together with the end of its event (In).
//
// One statement reads the known profiles of a whole batch. New identities are one INSERT in
// their order; before it only the profiles that must not be deleted meanwhile are locked.
// Changed profiles are locked in the order of their ids. So two batches never wait for each
// other: the slower one finds what the other has created.
package postgresprofile

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/profile/internal/rules"
)

// Store is a profile.Store in PostgreSQL. It may be used from several goroutines.
type Store struct {
	db *postgresdb.DB
	o  profile.Options
}

var (
	_ profile.Store                 = (*Store)(nil)
	_ profile.Transactional[pgx.Tx] = (*Store)(nil)
)

// New opens the profiles in db and makes missing tables.
func New(ctx context.Context, db *postgresdb.DB, o profile.Options) (*Store, error) {
	o, err := o.WithDefaults()
	if err != nil {
		return nil, err
	}
	if err := db.Migrate(ctx); err != nil {
		return nil, fmt.Errorf("open the profiles: %w", err)
	}
	return &Store{db, o}, nil
}

// tries is how often a batch is decided anew because another one was faster. Each time the
// other has made progress.
const tries = 20

// errRaced says that the data behind a batch's decisions has changed.
var errRaced = errors.New("others changed the same profiles at the same time")

// Resolve implements profile.Resolver: one statement where all are known, and a short
// transaction where something is new.
func (s *Store) Resolve(ctx context.Context, asks []profile.Ask, answers []profile.Answer) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b, err := rules.NewBatch(asks, answers, s.o)
	if err != nil || len(b.Names) == 0 {
		return err
	}
	err = again(b, func() error {
		if err := s.db.Do(ctx, func(ctx context.Context, c *pgx.Conn) error { return load(ctx, c, b) }); err != nil || !b.Decide() {
			return err
		}
		return s.db.Tx(ctx, func(ctx context.Context, tx pgx.Tx) error { return s.store(ctx, tx, b) })
	})
	if err != nil {
		return fmt.Errorf("resolve %d profiles: %w", len(asks), err)
	}
	return nil
}

// again calls try until it is not raced.
func again(b *rules.Batch, try func() error) error {
	for range tries {
		if err := try(); !errors.Is(err, errRaced) {
			return err
		}
		b.Again()
	}
	return &tidemill.Error{Kind: tidemill.Transient, Err: errRaced}
}

// Update implements profile.Updater.
func (s *Store) Update(ctx context.Context, changes []profile.Change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e := rules.NewEdit(changes)
	if len(e.Owners) > 0 {
		if err := s.db.Tx(ctx, func(ctx context.Context, tx pgx.Tx) error { return s.update(ctx, tx, e) }); err != nil {
			return fmt.Errorf("update %d profiles: %w", len(e.Owners), err)
		}
	}
	return e.Err()
}

// In implements profile.Transactional, for a transaction that is READ COMMITTED, as those of
// the ledger's Within are.
func (s *Store) In(tx pgx.Tx) profile.Profiles { return within{s, tx} }

// within are the profiles inside a transaction.
type within struct {
	s  *Store
	tx pgx.Tx
}

func (w within) Resolve(ctx context.Context, asks []profile.Ask, answers []profile.Answer) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b, err := rules.NewBatch(asks, answers, w.s.o)
	if err != nil || len(b.Names) == 0 {
		return err
	}
	err = again(b, func() error {
		if err := load(ctx, w.tx, b); err != nil || !b.Decide() {
			return err
		}
		return pgx.BeginFunc(ctx, w.tx, func(savepoint pgx.Tx) error { return w.s.store(ctx, savepoint, b) })
	})
	if err != nil {
		return fmt.Errorf("resolve %d profiles: %w", len(asks), err)
	}
	return nil
}

func (w within) Update(ctx context.Context, changes []profile.Change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e := rules.NewEdit(changes)
	if len(e.Owners) > 0 {
		if err := w.s.update(ctx, w.tx, e); err != nil {
			return fmt.Errorf("update %d profiles: %w", len(e.Owners), err)
		}
	}
	return e.Err()
}

const (
	deleteProfile    = "DELETE FROM tidemill_profile WHERE tenant = $1 AND id = $2"
	deleteIdentities = "DELETE FROM tidemill_profile_identity WHERE profile = $1"
)

// Delete implements profile.Eraser: first the profile, which waits for callers that attach
// to it, and then the identities that it has by then. After that it waits for nothing.
func (s *Store) Delete(ctx context.Context, tenant string, id uuid.UUID) (there bool, err error) {
	if err := profile.CheckTenant(tenant); err != nil {
		return false, err
	}
	err = s.db.Tx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, deleteProfile, tenant, [16]byte(id))
		if there = tag.RowsAffected() > 0; err != nil || !there {
			return err
		}
		_, err = tx.Exec(ctx, deleteIdentities, [16]byte(id))
		return err
	})
	if err != nil {
		return false, fmt.Errorf("delete profile %v: %w", id, err)
	}
	return there, nil
}
