package tableprofile

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/profile/internal/rules"
	"github.com/tidemill/tidemill/state/table"
)

// Get implements profile.Directory.
func (s *Store[Raw]) Get(ctx context.Context, tenant string, id uuid.UUID) (p *profile.Profile, err error) {
	if err := profile.CheckTenant(tenant); err != nil {
		return nil, err
	}
	err = s.t.View(ctx, func(r table.Reader[Record]) (err error) {
		p, err = get(r, rules.Owner{Tenant: tenant, ID: id})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("get profile %v: %w", id, err)
	}
	return p, nil
}

func get(r table.Reader[Record], o rules.Owner) (*profile.Profile, error) {
	key := keyOf(o)
	found, err := r.Get([]string{key})
	if err != nil {
		return nil, err
	}
	if found[key] == nil {
		return nil, rules.NotFound(o.Tenant, o.ID)
	}
	return found[key].show(o.Tenant)
}

// Find implements profile.Directory.
func (s *Store[Raw]) Find(ctx context.Context, tenant string, by profile.Identity) (p *profile.Profile, err error) {
	n, err := rules.Sought(tenant, by)
	if err != nil {
		return nil, err
	}
	err = s.t.View(ctx, func(r table.Reader[Record]) error {
		key := nameKey(n)
		found, err := r.Get([]string{key}, "profile")
		if err != nil {
			return err
		}
		if found[key] == nil {
			return rules.NobodyHas(n)
		}
		p, err = get(r, rules.Owner{Tenant: tenant, ID: uuid.UUID(found[key].profile)})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find a profile: %w", err)
	}
	return p, nil
}

// List implements profile.Directory: each page is of one moment.
func (s *Store[Raw]) List(ctx context.Context, tenant string, after uuid.UUID, limit int) (ps []*profile.Profile, err error) {
	if err := profile.CheckTenant(tenant); err != nil {
		return nil, err
	}
	err = s.t.View(ctx, func(r table.Reader[Record]) error {
		page, err := r.Page(table.Query[Record]{After: &Record{key: keyOf(rules.Owner{Tenant: tenant, ID: after})},
			Where: []table.Cond{{Field: "key", Op: "<", Value: "p" + tenant + "\x01"}}, Most: rules.Page(limit)})
		if err != nil {
			return err
		}
		ps = make([]*profile.Profile, len(page))
		for i, one := range page {
			if ps[i], err = one.show(tenant); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list profiles: %w", err)
	}
	return ps, nil
}
