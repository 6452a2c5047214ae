package postgresprofile

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/profile/internal/rules"
)

// Each is one statement, so that a profile and its identities are of one moment.
const (
	selectProfiles = `SELECT p.tenant, p.id, p.created, p.updated, p.registers,
		ARRAY(SELECT i.kind FROM tidemill_profile_identity i WHERE i.profile = p.id ORDER BY i.kind, i.value),
		ARRAY(SELECT i.value::text FROM tidemill_profile_identity i WHERE i.profile = p.id ORDER BY i.kind, i.value)
		FROM tidemill_profile p WHERE p.tenant = $1 AND `

	selectProfile = selectProfiles + "p.id = $2"

	selectByName = selectProfiles + "p.id = (SELECT profile FROM tidemill_profile_identity WHERE tenant = $1 AND kind = $2 AND value = $3)"

	selectPage = selectProfiles + "p.id > $2 ORDER BY p.id LIMIT $3"
)

// show reads the profiles of a statement.
func (s *Store) show(ctx context.Context, statement string, args ...any) (ps []*profile.Profile, err error) {
	err = s.db.Query(ctx, func(rows pgx.Rows) error {
		var kinds []int16
		var values []string
		r, registers, err := scan(rows, &kinds, &values)
		if err != nil {
			return err
		}
		identities := make([]profile.Identity, len(kinds))
		for i := range kinds {
			identities[i] = profile.Identity{Kind: profile.Kind(kinds[i]), Value: values[i]}
		}
		r.Registers, err = rules.Decode(r.ID, registers)
		ps = append(ps, r.Show(identities))
		return err
	}, statement, args...)
	return ps, err
}

// Get implements profile.Directory.
func (s *Store) Get(ctx context.Context, tenant string, id uuid.UUID) (*profile.Profile, error) {
	if err := profile.CheckTenant(tenant); err != nil {
		return nil, err
	}
	ps, err := s.show(ctx, selectProfile, tenant, [16]byte(id))
	if err != nil {
		return nil, fmt.Errorf("get profile %v: %w", id, err)
	}
	if len(ps) == 0 {
		return nil, rules.NotFound(tenant, id)
	}
	return ps[0], nil
}

// Find implements profile.Directory.
func (s *Store) Find(ctx context.Context, tenant string, by profile.Identity) (*profile.Profile, error) {
	n, err := rules.Sought(tenant, by)
	if err != nil {
		return nil, err
	}
	ps, err := s.show(ctx, selectByName, tenant, int16(n.Kind), n.Value)
	if err != nil {
		return nil, fmt.Errorf("find a profile: %w", err)
	}
	if len(ps) == 0 {
		return nil, rules.NobodyHas(n)
	}
	return ps[0], nil
}

// List implements profile.Directory: each page is a snapshot.
func (s *Store) List(ctx context.Context, tenant string, after uuid.UUID, limit int) ([]*profile.Profile, error) {
	if err := profile.CheckTenant(tenant); err != nil {
		return nil, err
	}
	ps, err := s.show(ctx, selectPage, tenant, [16]byte(after), rules.Page(limit))
	if err != nil {
		return nil, fmt.Errorf("list profiles: %w", err)
	}
	return ps, nil
}
