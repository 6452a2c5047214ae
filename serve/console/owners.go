package console

import (
	"context"
	"net/http"
	"net/url"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
)

// ownersPage is whose jobs wait.
type ownersPage struct {
	Filter api.OwnerFilter
	Owners part[[]api.WaitingOwner]
	More   bool
}

// ownersShown is how many owners the page shows, the deepest.
const ownersShown = 100

func showOwners(v *visit) (*view, error) {
	p := &ownersPage{}
	if err := api.ListOwners.Parse(v.query(), &p.Filter); err != nil {
		return nil, err
	}
	p.Filter.Max = 0
	p.Owners = look(v, func(context.Context) (all []api.WaitingOwner, err error) {
		all, p.More, err = gather(v, api.ListOwners, &p.Filter, ownersShown)
		return all, err
	})
	return &view{file: "owners", Title: "Owners", Section: "owners", Live: true, Body: p}, nil
}

// ownerAddress is the page of an owner.
func ownerAddress(owner string) string {
	return query(address("owners", "one"), url.Values{"owner": {owner}})
}

// OwnerAt is the page of an owner.
func (v *view) OwnerAt(owner string) string { return ownerAddress(owner) }

func showOwner(v *visit) (*view, error) {
	name := v.query().Get("owner")
	if name == "" {
		return nil, operation.Refuse(http.StatusBadRequest, "Say whose: owner=… Owners lists those whose jobs wait.")
	}
	o, err := call(v, api.GetOwner, &api.OneOwner{Owner: name})
	if err != nil {
		return nil, err
	}
	return &view{file: "owner", Title: "Owner " + cut(name), Section: "owners", Live: true, Crumbs: []link{{"Owners", address("owners")}}, Body: &o}, nil
}

// instancesPage is this process, and those that share stores with it.
type instancesPage struct {
	api.Status
	All part[api.Instances]
}

func showInstances(v *visit) (*view, error) {
	s, err := call(v, api.GetStatus, &operation.None{})
	if err != nil {
		return nil, err
	}
	p := &instancesPage{Status: s}
	p.All = look(v, func(ctx context.Context) (api.Instances, error) {
		return api.GetInstances.Call(ctx, v.API, &operation.None{})
	})
	return &view{file: "instances", Title: "Instances", Section: "instances", Live: true, Body: p}, nil
}
