package crmsystem

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/serve/endpoint"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/project/tableproject"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/crmingest"
)

// ingestAPI makes the ingest API of CRM.
func (w *wiring) ingestAPI(ctx context.Context, sys *crm.System, s *stores) (http.Handler, error) {
	tenants, err := w.tenants(ctx, s)
	if err != nil {
		return nil, err
	}
	return crmingest.New(crmingest.Options{Options: w.Endpoint(tenants), Acceptor: sys.Acceptor(), Events: sys,
		Limits: endpoint.Limits{Time: w.Config.HTTP.BodyTimeout, PerMinute: w.own.RateLimit}})
}

// tenantNames are those that events may be of: tenants that are configured, else the projects.
func (w *wiring) tenantNames(ctx context.Context) (names []string, err error) {
	for i := range w.own.Tenants {
		names = append(names, w.own.Tenants[i].ID)
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
func (w *wiring) tenants(ctx context.Context, s *stores) (project.Projects, error) {
	c := w.own
	if len(c.Tenants) == 0 {
		if w.Projects == nil {
			w.Projects = s.projects
		}
		return w.Projects, w.EnsureProjects(ctx, w.Projects)
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
