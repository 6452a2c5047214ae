package crmsystem

import (
	"context"
	"errors"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/crmconfig"
	"github.com/tidemill/tidemill/systems/crm/crmingest"
)

// reload prepares another configuration: handlers, tenants with their keys, and limits.
func (w *wiring) reload(sys *crm.System, endpoint *crmingest.Handler, tenants *system.Swapped, s *stores) system.Prepare {
	return func(ctx context.Context, next *config.Loaded) (*system.Prepared, error) {
		c := crmconfig.Of(next)
		if (len(c.Tenants) == 0) != (len(w.own.Tenants) == 0) {
			return nil, errors.New("crm.tenants: whether projects are the tenants, or tenants are configured, is decided at the start: restart")
		}
		all, err := w.tenants(ctx, c)
		if err != nil {
			return nil, err
		}
		specs, ends, err := w.handlers(c, s)
		if err != nil {
			return nil, err
		}
		commit, undo, err := sys.Prepare(ctx, crm.Reload{Handlers: specs, PerSecond: boundOf(c.PerSecond), PerTenant: boundOf(c.TenantPerSecond), Tenants: c.Limits()})
		if err != nil {
			ends()
			return nil, err
		}
		return &system.Prepared{
			Commit: func() {
				commit()
				tenants.Put(all)
				endpoint.LimitTo(c.RateLimit)
				w.ends() // idle connections: requests that have begun go on
				w.ends = ends
			},
			Undo: func() { undo(); ends() },
		}, nil
	}
}
