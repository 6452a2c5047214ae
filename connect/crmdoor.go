package connect

import (
	"context"

	"github.com/google/uuid"

	door "github.com/tidemill/tidemill/serve/crm"
	"github.com/tidemill/tidemill/serve/endpoint"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/project/memoryproject"
	"github.com/tidemill/tidemill/systems/crm"
)

// crmDoor makes the door of CRM.
func (i *Instance) crmDoor(ctx context.Context, sys *crm.System, s *crmStores) error {
	tenants, err := i.crmTenants(ctx, s)
	if err != nil {
		return err
	}
	i.business, err = door.New(door.Options{Options: i.endpoint(tenants), Acceptor: sys.Acceptor(), Events: sys,
		Limits: endpoint.Limits{Time: i.Config.HTTP.BodyTimeout, PerMinute: i.Config.CRM.RateLimit}})
	return err
}

// crmTenants are those of the configuration. Where it has none they are the projects: the one
// named default that is made at the first start, and those that flags and file name.
func (i *Instance) crmTenants(ctx context.Context, s *crmStores) (project.Projects, error) {
	c := i.Config
	if len(c.CRM.Tenants) == 0 {
		if i.projects == nil {
			i.projects = s.projects
		}
		return i.projects, i.ensureProjects(ctx, i.projects)
	}
	all := memoryproject.New()
	for n := range c.CRM.Tenants {
		t := &c.CRM.Tenants[n]
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
