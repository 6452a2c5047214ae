package console

import (
	"context"
	"net/http"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/console/page"
)

// ownersPage is whose jobs wait.
type ownersPage struct {
	Filter api.OwnerFilter
	Owners page.Part[[]api.WaitingOwner]
	More   bool
}

// ownersShown is how many owners the page shows, the deepest.
const ownersShown = 100

func showOwners(v *page.Visit) (*page.View, error) {
	p := &ownersPage{}
	if err := v.Filter(api.ListOwners.Description, &p.Filter); err != nil {
		return nil, err
	}
	p.Filter.Max = ownersShown + 1
	p.Owners = page.Look(v, func(context.Context) (all []api.WaitingOwner, err error) {
		all, p.More, err = page.Gather(v, api.ListOwners, &p.Filter, ownersShown)
		return all, err
	})
	return &page.View{File: "owners", Title: "Owners", Section: "owners", Live: true, Body: p}, nil
}

func showOwner(v *page.Visit) (*page.View, error) {
	name := v.Query().Get("owner")
	if name == "" {
		return nil, operation.Refuse(http.StatusBadRequest, "Say whose: owner=… Owners lists those whose jobs wait.")
	}
	o, err := page.Call(v, api.GetOwner, &api.OneOwner{Owner: name})
	if err != nil {
		return nil, err
	}
	return &page.View{File: "owner", Title: "Owner " + page.Cut(name), Section: "owners", Live: true, Crumbs: []page.Link{{Text: "Owners", Href: page.Address("owners")}}, Body: &o}, nil
}

// instancesPage is this process, and those that share stores with it.
type instancesPage struct {
	Changes *page.Part[[]api.Change]
	api.Status
	All page.Part[api.Instances]
}

func showInstances(v *page.Visit) (*page.View, error) {
	s, err := page.Call(v, api.GetStatus, &operation.None{})
	if err != nil {
		return nil, err
	}
	p := &instancesPage{Status: s}
	if v.May(api.GetInstances.ID) {
		p.All = page.Look(v, func(ctx context.Context) (api.Instances, error) {
			return api.GetInstances.Call(ctx, v.API, &operation.None{})
		})
	}
	p.Changes = page.LastChanges(v, "", api.PausePipeline.ID, api.ResumePipeline.ID, api.ReloadConfig.ID, api.MakeBackup.ID)
	return &page.View{File: "instances", Title: "Instances", Section: "instances", Live: true, Body: p}, nil
}
