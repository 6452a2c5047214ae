package crmsystem

import (
	"context"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/serve/endpoint"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/project/tableproject"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/crmconfig"
	"github.com/tidemill/tidemill/systems/crm/crmingest"
)

// ingestAPI makes the ingest API of CRM.
func (w *wiring) ingestAPI(ctx context.Context, sys *crm.System, tenants *system.Swapped, s *stores) (*crmingest.Handler, error) {
	if len(w.own.Tenants) == 0 { // they are the projects
		if w.Projects == nil {
			w.Projects = s.projects
		}
		if err := w.EnsureProjects(ctx, w.Projects); err != nil {
			return nil, err
		}
	}
	all, err := w.tenants(ctx, w.own)
	if err != nil {
		return nil, err
	}
	tenants.Put(all)
	return crmingest.New(crmingest.Options{Options: w.Endpoint(tenants), Acceptor: sys.Acceptor(), Events: sys,
		Limits: endpoint.Limits{Time: w.Config.HTTP.BodyTimeout, PerMinute: w.own.RateLimit}})
}

// tenantNames are those that events may be of: tenants that are configured, else the projects.
func (w *wiring) tenantNames(ctx context.Context) (names []string, err error) {
	for _, t := range crmconfig.Of(w.InForce()).Tenants {
		names = append(names, t.ID)
	}
	if len(names) > 0 || w.Projects == nil {
		return names, nil
	}
	all, err := w.Projects.List(ctx)
	for _, p := range all {
		names = append(names, p.Name)
	}
	return names, err
}

// tenants are those of the configuration. Where it has none they are the projects: the one
// named default that is made at the first start, and those that flags and file name.
func (w *wiring) tenants(ctx context.Context, c *crmconfig.Settings) (project.Projects, error) {
	if len(c.Tenants) == 0 {
		return w.Projects, nil
	}
	all := tableproject.Memory()
	for n := range c.Tenants {
		t := &c.Tenants[n]
		keys, err := c.TenantKeys(t)
		if err != nil {
			return nil, err
		}
		// Projects are the same in any case of letters, tenants are not.
		tenant := project.Project{ID: uuid.NewSHA1(project.Namespace, []byte("crm/"+t.ID)), Name: t.ID}
		for _, k := range keys { // one without keys has events of other ways: BullMQ, the command line
			if err := all.Ensure(ctx, tenant, k); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}
