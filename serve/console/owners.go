package console

import (
	"context"
	"net/http"
	"slices"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/console/page"
)

// ownersPage is whose jobs wait, and who has dead letters.
type ownersPage struct {
	Filter api.OwnerFilter
	Owners page.Part[operation.Paged[api.OwnerInList]]
}

func showOwners(v *page.Visit) (*page.View, error) {
	p := &ownersPage{}
	if err := v.Filter(api.ListOwners.Description, &p.Filter); err != nil {
		return nil, err
	}
	p.Filter.Max = 0
	v.Paging(&p.Filter.Page)
	p.Owners = page.Look(v, func(ctx context.Context) (operation.Paged[api.OwnerInList], error) {
		return api.ListOwners.Page(ctx, v.API, &p.Filter)
	})
	return &page.View{File: "owners", Title: "Owners", Section: "owners", Live: p.Filter.Cursor == "", Body: p}, nil
}

func showOwner(v *page.Visit) (*page.View, error) {
	name := v.Query().Get("owner")
	if name == "" {
		return nil, operation.Refuse(http.StatusBadRequest, "Say whose: owner=… Owners lists those whose jobs wait or who have dead letters.")
	}
	o, err := page.Call(v, api.GetOwner, &api.OneOwner{Owner: name})
	if err != nil {
		return nil, err
	}
	p := &ownerPage{Owner: o, Changes: page.ChangesOf(v, &api.ChangesOf{Owner: name})}
	for _, q := range o.Queues {
		if q.Waiting > 0 {
			p.Waits++
		}
	}
	if v.May(api.SetQueue.ID) {
		for _, q := range v.Queues().Has {
			if !slices.ContainsFunc(o.Queues, func(its api.OwnerQueue) bool { return its.Queue == q.Name }) {
				p.Others = append(p.Others, q.Name)
			}
		}
	}
	return &page.View{File: "owner", Title: "Owner " + page.Cut(name), Section: "owners", Live: true, Crumbs: []page.Link{{Text: "Owners", Href: page.Address("owners")}}, Body: p}, nil
}

// ownerPage is one owner.
type ownerPage struct {
	api.Owner
	Waits  int      // queues in which jobs of it wait
	Others []string // queues in which it can have a limit of its own too

	Changes *page.Part[[]api.Change] // of its limits
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
