package sqliteprofile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/profile/internal/rules"
)

const (
	selectPage       = "SELECT id, created, updated, registers FROM profile WHERE tenant=? AND id>? ORDER BY id LIMIT ?"
	selectIdentities = "SELECT profile, kind, value FROM profile_identity WHERE profile IN (?"
	selectOwner      = "SELECT profile FROM profile_identity WHERE tenant=? AND kind=? AND value=?"
)

// Get implements profile.Directory.
func (s *Store) Get(ctx context.Context, tenant string, id uuid.UUID) (p *profile.Profile, err error) {
	if err := profile.CheckTenant(tenant); err != nil {
		return nil, err
	}
	err = s.db.Read(ctx, func(tx *sqlitedb.Tx) (err error) {
		p, err = get(tx, tenant, id)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("get a profile: %w", err)
	}
	return p, nil
}

func get(tx *sqlitedb.Tx, tenant string, id uuid.UUID) (*profile.Profile, error) {
	ps, err := show(tx, tenant, selectRecords+")", tenant, id[:])
	if err == nil && len(ps) == 0 {
		err = rules.NotFound(tenant, id)
	}
	if err != nil {
		return nil, err
	}
	return ps[0], nil
}

// show reads the profiles of a statement with their identities.
func show(tx *sqlitedb.Tx, tenant, statement string, args ...any) ([]*profile.Profile, error) {
	var records []*rules.Record
	if err := each(tx, statement, args, func(rows *sql.Rows) error {
		r, registers, err := scan(rows, tenant)
		if err != nil {
			return err
		}
		records = append(records, r)
		r.Registers, err = rules.Decode(r.ID, registers)
		return err
	}); err != nil {
		return nil, err
	}
	has := make(map[uuid.UUID][]profile.Identity, len(records))
	if err := among(tx, selectIdentities, " ORDER BY profile, kind, value", nil, len(records), func(i int) any { return records[i].ID[:] }, func(rows *sql.Rows) error {
		var id sql.RawBytes
		var i profile.Identity
		if err := rows.Scan(&id, &i.Kind, &i.Value); err != nil {
			return err
		}
		has[uuid.UUID(id)] = append(has[uuid.UUID(id)], i)
		return nil
	}); err != nil {
		return nil, err
	}
	ps := make([]*profile.Profile, len(records))
	for i, r := range records {
		ps[i] = r.Show(has[r.ID])
	}
	return ps, nil
}

// Find implements profile.Directory.
func (s *Store) Find(ctx context.Context, tenant string, by profile.Identity) (p *profile.Profile, err error) {
	n, err := rules.Sought(tenant, by)
	if err != nil {
		return nil, err
	}
	err = s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		var id []byte
		switch err := tx.QueryRow(selectOwner, n.Tenant, n.Kind, n.Value).Scan(&id); {
		case errors.Is(err, sql.ErrNoRows):
			return rules.NobodyHas(n)
		case err != nil:
			return err
		}
		p, err = get(tx, tenant, uuid.UUID(id))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find a profile: %w", err)
	}
	return p, nil
}

// List implements profile.Directory: each page is a snapshot.
func (s *Store) List(ctx context.Context, tenant string, after uuid.UUID, limit int) (ps []*profile.Profile, err error) {
	if err := profile.CheckTenant(tenant); err != nil {
		return nil, err
	}
	err = s.db.Read(ctx, func(tx *sqlitedb.Tx) (err error) {
		ps, err = show(tx, tenant, selectPage, tenant, after[:], rules.Page(limit))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list profiles: %w", err)
	}
	return ps, nil
}
