package crm

import (
	"context"
	"errors"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/profile"
)

// Profile is a tenant's profile of an identity, in any form that the identity may have in
// events. The error is of kind not_found if no profile has it, and validation if none can.
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
