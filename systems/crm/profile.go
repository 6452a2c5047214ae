package crm

import (
	"context"
	"errors"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/profile"
)

// Profile is the profile of a tenant that has an identity, in any form that the same identity has in
// events. It is of kind not_found where nobody has it, and validation where nobody can.
func (s *System) Profile(ctx context.Context, tenant string, by profile.Identity) (*profile.Profile, error) {
	all, ok := s.p.Profiles.(profile.Directory)
	if !ok {
		return nil, errors.New("the profiles of this program cannot be looked at")
	}
	p, err := all.Find(ctx, tenant, by)
	if errors.Is(err, profile.ErrNotFound) {
		return nil, tidemill.Fail(tidemill.NotFound, "tenant %s has no profile with this %s", tenant, by.Kind)
	}
	return p, err
}
