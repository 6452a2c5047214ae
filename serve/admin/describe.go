package admin

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/state/instance"
)

// DescriptionChange is a change of what the database describes: an addition, a removal, or else a patch.
type DescriptionChange struct {
	Kind, Name  string
	Add, Remove bool
	Check       bool   // nothing is to be changed
	IfMatch     string // the ETag that it is to have; empty: any
	Patch       []byte
}

// DescriptionDone is what a change did in this instance.
type DescriptionDone struct {
	System  string // that it concerns
	Version uint64 // that other instances have to have in force; 0: it was only checked
	Changes []api.SettingChange
	Before  *api.Description // nil: it was not there
	After   *api.Description
}

// describing is what the API does of descriptions.
func (a *API) describing() Room {
	return Room{Missing: in(a.Described != nil, "this instance has no database that keeps descriptions, or does not run"), Does: []operation.Handler{
		api.ListDescriptions.By(a.listDescriptions), api.ListDescriptionSettings.By(a.listDescriptionSettings), api.GetDescription.By(a.getDescription), api.AddDescription.By(a.addDescription),
		api.ChangeDescription.By(a.changeDescription), api.RemoveDescription.By(a.removeDescription)}}
}

func (a *API) listDescriptions(_ context.Context, q *api.DescriptionsOf) (iter.Seq2[api.Description, error], error) {
	all, err := a.Described()
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(d api.Description) bool { return q.Kind != "" && d.Kind != q.Kind })
	return answer.Listed(all, func(d *api.Description) api.Description { return *d }), nil
}

func (a *API) listDescriptionSettings(_ context.Context, q *api.KindOfDescription) (iter.Seq2[api.DescriptionSetting, error], error) {
	is := a.Config()
	all := is.SettingsOf(q.Kind)
	if all == nil {
		return nil, operation.Refuse(http.StatusNotFound, "there are descriptions of: %s", strings.Join(is.Kinds(), ", "))
	}
	return answer.Listed(all, func(s *config.Setting) api.DescriptionSetting { return api.DescriptionSetting(*s) }), nil
}

func (a *API) getDescription(_ context.Context, q *api.OneDescription) (api.Description, error) {
	all, err := a.Described()
	if err != nil {
		return api.Description{}, err
	}
	for _, d := range all {
		if d.Kind == q.Kind && d.Name == q.Name {
			return d, nil
		}
	}
	return api.Description{}, operation.Refuse(http.StatusNotFound, "there is no %s %s in force in this instance", q.Kind, q.Name)
}

func (a *API) addDescription(ctx context.Context, q *api.DescriptionText) (api.DescriptionChanged, error) {
	return a.describe(ctx, &DescriptionChange{Kind: q.Kind, Name: q.Name, Add: true, Check: q.Check, Patch: q.Body})
}

func (a *API) changeDescription(ctx context.Context, q *api.DescriptionPatch) (api.DescriptionChanged, error) {
	return a.describe(ctx, &DescriptionChange{Kind: q.Kind, Name: q.Name, Check: q.Check, IfMatch: q.IfMatch, Patch: q.Body})
}

func (a *API) removeDescription(ctx context.Context, q *api.DescriptionRemoval) (api.DescriptionChanged, error) {
	return a.describe(ctx, &DescriptionChange{Kind: q.Kind, Name: q.Name, Remove: true, Check: q.Check, IfMatch: q.IfMatch})
}

func (a *API) describe(ctx context.Context, c *DescriptionChange) (out api.DescriptionChanged, err error) {
	done, err := a.Describe(ctx, c)
	if err != nil {
		return out, err
	}
	is := done.After
	if is == nil {
		is = done.Before
	}
	out = api.DescriptionChanged{Description: *is, Changes: done.Changes, Instances: []api.DescriptionSpread{}}
	if c.Check {
		return out, nil
	}
	operation.Note(ctx, noteOf(done.Before), noteOf(done.After))
	// Logged when somebody added, changed or removed an entry of a list that the database keeps;
	// `what` is the list.
	a.Log.InfoContext(ctx, "description changed by hand", "what", c.Kind, "name", c.Name, "added", c.Add, "removed", c.Remove)
	out.Instances, err = a.spread(ctx, done.System, done.Version)
	return out, err
}

// noteOf is what the trail has of a description.
func noteOf(d *api.Description) any {
	if d == nil {
		return nil
	}
	return json.RawMessage(d.Is)
}

const (
	spreadWithin = 10 * time.Second      // other instances have a change in force, as a rule within half a one
	spreadLooks  = 25 * time.Millisecond // and are asked so often
)

// spread waits until all instances that run a system have a version of the descriptions in force, or
// have refused it, and says of each how it stands.
func (a *API) spread(ctx context.Context, system string, version uint64) ([]api.DescriptionSpread, error) {
	end := time.NewTimer(spreadWithin)
	defer end.Stop()
	look := time.NewTicker(spreadLooks)
	defer look.Stop()
	for {
		all, waits, err := a.stand(ctx, system, version)
		if err != nil {
			return nil, operation.Refuse(http.StatusServiceUnavailable, "it is changed, in this instance and in the database, but which other instances have it in force is not known: %v", err)
		}
		if !waits {
			return all, nil
		}
		select {
		case <-look.C:
		case <-end.C:
			return all, nil
		case <-ctx.Done():
			return all, ctx.Err()
		}
	}
}

// stand says how instances that are there stand, this one first.
func (a *API) stand(ctx context.Context, system string, version uint64) (all []api.DescriptionSpread, waits bool, err error) {
	is := []instance.Instance{a.here()}
	if a.This.Store != nil {
		others, err := a.This.Store.List(ctx)
		if err != nil {
			return nil, false, err
		}
		now := a.Now()
		is = append(is, slices.DeleteFunc(others, func(i instance.Instance) bool {
			return i.ID == a.This.ID || !i.Is(now) || !slices.Contains(i.Systems, system)
		})...)
	}
	for _, i := range is {
		s := api.DescriptionSpread{ID: i.ID, Host: i.Host, State: "waiting"}
		switch d := i.Described; {
		case d.Applied >= version:
			s.State = "applied"
		case d.Tried >= version:
			s.State, s.Why = "refused", d.Refused
		default:
			waits = true
		}
		all = append(all, s)
	}
	return all, waits, nil
}
