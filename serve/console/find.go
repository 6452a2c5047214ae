package console

import (
	"context"
	"net/url"
	"strings"

	"github.com/tidemill/tidemill/serve/api"
)

// found is what a text is the id or the name of.
type found struct {
	Text   string
	Things part[api.FoundThings]
}

// showFind looks for what the one box was given. One hit that has a page is gone to straight away.
func showFind(v *visit) (*view, error) {
	q := v.query()
	f := &found{Text: strings.TrimSpace(q.Get("q"))}
	if f.Text != "" {
		f.Things = look(v, func(ctx context.Context) (api.FoundThings, error) {
			return api.Find.Call(ctx, v.API, &api.FindQuery{ID: f.Text, System: q.Get("system"), Owner: q.Get("owner")})
		})
		if hits := f.Things.Has.Hits; len(hits) == 1 {
			if at := thingAddress(&hits[0]); at != "" {
				v.redirect(at)
				return nil, nil
			}
		}
	}
	return &view{file: "find", Title: "Find", Body: f}, nil
}

// thingAddress is the page of a thing; empty: it has none.
func thingAddress(t *api.Thing) string {
	p, rest := t.Parameters, url.Values{}
	for name, value := range p {
		rest.Set(name, value)
	}
	if t.Kind == "owner" {
		return ownerAddress(t.ID)
	}
	switch t.Operation {
	case api.Explain.ID:
		return query(address("explain"), rest)
	case api.GetJob.ID:
		return jobAddress(&api.Job{Queue: p["name"], ID: p["id"], Tenant: p["tenant"]})
	case api.GetDead.ID:
		return oneDeadAddress(p["system"], p["letter"])
	case api.GetQueue.ID:
		return address("queues", p["name"])
	}
	return ""
}

// ThingAt is the page of a thing; empty: it has none.
func (v *view) ThingAt(t api.Thing) string { return thingAddress(&t) }

// explained is the life of an event.
type explained struct {
	System, Owner, ID string // that are asked for
	Life              api.Explanation
	CLI, Request      string
}

// Text is the life as text, to be pasted.
func (e *explained) Text() string { return e.Life.Text() }

func showExplain(v *visit) (*view, error) {
	q := &api.OneEvent{}
	if err := api.Explain.Parse(v.query(), q); err != nil {
		return nil, err
	}
	q.Format = ""
	e := &explained{System: q.System, Owner: q.Owner, ID: q.ID}
	if q.ID == "" || q.System == "" {
		return &view{file: "explain", Title: "Explain", Body: e}, nil
	}
	var err error
	if e.Life, err = call(v, api.Explain, q); err != nil {
		return nil, err
	}
	words := []string{"explain", q.ID, "--system", q.System}
	if q.Owner != "" {
		words = append(words, "--owner", q.Owner)
	}
	e.CLI, e.Request = command(words...), request(api.Explain, q)
	return &view{file: "explain", Title: "Explain " + cut(q.ID), Live: e.Life.Fate == api.FateInFlight, Body: e}, nil
}

// explainAddress is the page that explains an event; empty: no system is known to have it.
func explainAddress(system, owner, id string) string {
	if system == "" {
		return ""
	}
	return query(address("explain"), url.Values{"system": {system}, "owner": {owner}, "id": {id}})
}
