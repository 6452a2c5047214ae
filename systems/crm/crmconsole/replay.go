package crmconsole

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/console/page"
	"github.com/tidemill/tidemill/systems/crm/crmapi"
)

// replaysShown is how many replays the page shows, the newest.
const replaysShown = 50

// replaysPage is the replays that were asked for.
type replaysPage struct {
	Replays page.Part[[]crmapi.Replay]
	More    bool
}

var replayCrumbs = append(crumbs[:1:1], page.Link{Text: "Replays", Href: page.Address("crm", "replays")})

func replayAt(id string, more ...string) string {
	return page.Address(append([]string{"crm", "replays", id}, more...)...)
}

// percent is a share, from 0 to 1.
func percent(f float64) string { return fmt.Sprintf("%.0f%%", 100*f) }

func showReplays(v *page.Visit) (*page.View, error) {
	p := &replaysPage{}
	all, more, err := page.Gather(v, crmapi.ListReplays, &operation.None{}, replaysShown)
	p.Replays, p.More = page.Part[[]crmapi.Replay]{Has: all, Problem: page.Problem(err)}, more
	return &page.View{File: "replays", Title: "CRM: replays", Section: section, Crumbs: crumbs, Live: true, Body: p}, nil
}

func showReplay(v *page.Visit) (*page.View, error) {
	r, err := page.Call(v, crmapi.GetReplay, &crmapi.OneReplay{ID: v.R.PathValue("id")})
	if err != nil {
		return nil, err
	}
	return &page.View{File: "replay", Title: "Replay " + page.Cut(r.ID), Section: section, Crumbs: replayCrumbs, Live: r.Ended == nil, Body: &r}, nil
}

// replayOf is the action that replays what a filter chooses, of a time with two ends: what is taken up
// from now on is no part of it.
func replayOf(s api.Span, tenant, typ string, v *page.Visit) string {
	if s.Until == "" {
		s.Until = v.At.UTC().Format(time.RFC3339Nano)
	}
	return page.Query(page.Address("crm", "replay"), url.Values{"since": {s.Since}, "until": {s.Until}, "tenant": {tenant}, "type": {typ}})
}

// newReplay asks for what is to be replayed, and goes on to the action with it.
func newReplay(v *page.Visit) (*page.View, error) {
	q := v.Query()
	s := api.Span{Since: q.Get("since"), Until: q.Get("until")}
	if q.Get("asked") == "" {
		return &page.View{File: "new", Title: "CRM: ask for a replay", Section: section, Crumbs: replayCrumbs}, nil
	}
	v.Redirect(replayOf(s.Fixed(v.At), q.Get("tenant"), q.Get("type"), v))
	return nil, nil
}

// asked is the replay that an address asks for.
func asked(v *page.Visit) *crmapi.ReplayRequest {
	q := v.Query()
	return &crmapi.ReplayRequest{Since: q.Get("since"), Until: q.Get("until"), Tenant: q.Get("tenant"), Type: q.Get("type")}
}

// counted is how many events a replay is of now.
func counted(v *page.Visit) (int, error) {
	r := asked(v)
	r.DryRun = true
	n, err := page.Call(v, crmapi.StartReplay, &crmapi.ReplayStart{Body: *r})
	if err != nil || n.Counted == nil {
		return 0, err
	}
	return int(n.Count), nil
}

// sampled is how many events a preview names.
const sampled = 20

// startReplay asks for a replay of what the address chooses.
var startReplay = &page.Action{Path: "crm/replay", Op: crmapi.StartReplay.ID,
	Ask: func(v *page.Visit) (*page.Question, error) {
		r := asked(v)
		n, err := counted(v)
		if err != nil {
			return nil, err
		}
		words := []string{"replay", "start"}
		for _, f := range [][2]string{{"--since", r.Since}, {"--until", r.Until}, {"--tenant", r.Tenant}, {"--type", r.Type}} {
			if f[1] != "" {
				words = append(words, f[0], f[1])
			}
		}
		q := &page.Question{Title: "Replay " + page.Many(n, "event") + "?", Button: "Replay " + page.Many(n, "event"), Section: section, Crumbs: replayCrumbs, Back: page.Address("crm", "replays"), Word: v.WordFor(n),
			CLI: page.Command(words...), Request: page.Request(crmapi.StartReplay, &crmapi.ReplayStart{}),
			Texts: []string{chosen(r), "Handlers run again for events that they have handled, also for those that completed. What they did the first time is not taken back.",
				"It goes on by itself, at the priority of replays, under the limits of the queue, and can be stopped: what has begun is finished."}}
		if n == 0 {
			q.Title, q.Nothing = "Nothing is replayed", "The sync log has no such event now."
			return q, nil
		}
		some := page.Look(v, func(ctx context.Context) (operation.Paged[crmapi.SyncRecord], error) {
			return crmapi.ListSyncLog.Page(ctx, v.API, &crmapi.SyncLogFilter{Tenant: r.Tenant, Type: r.Type, Span: api.Span{Since: r.Since, Until: r.Until}, Page: operation.Page{Limit: sampled, Order: "newest"}})
		})
		for _, e := range some.Has.Items { // without one the count says it
			q.Sample = append(q.Sample, page.Link{Text: page.Cut(e.Type) + " · " + page.Cut(e.Tenant) + " · " + page.Cut(e.ID), Href: eventAt(e.Tenant, e.ID)})
		}
		return q, nil
	},
	Do: func(v *page.Visit) (string, error) {
		n, err := counted(v)
		if err != nil {
			return "", err
		}
		if word := v.WordFor(n); word != "" {
			if err := v.Typed(word); err != nil {
				return "", err
			}
		}
		made, err := page.Change(v, crmapi.StartReplay, &crmapi.ReplayStart{Body: *asked(v)})
		if p := page.Problem(err); p != nil && p.Status == http.StatusUnprocessableEntity {
			return "", &page.Wrong{Text: p.Detail}
		}
		if err != nil || made.Replay == nil {
			return "", err
		}
		return page.Done(replayAt(made.ID), "crm.replayed"), nil
	}}

// chosen says what a replay is of.
func chosen(r *crmapi.ReplayRequest) string {
	text := "Events that were first taken up"
	if r.Since != "" {
		text += " from " + r.Since
	}
	text += " until " + r.Until
	if r.Tenant != "" {
		text += ", of the tenant " + r.Tenant
	}
	if r.Type != "" {
		text += ", of the type " + r.Type
	}
	return text + "."
}

var stopReplay = &page.Action{Path: "crm/replays/{id}/stop", Op: crmapi.StopReplay.ID,
	Ask: func(v *page.Visit) (*page.Question, error) {
		q := &crmapi.OneReplay{ID: v.R.PathValue("id")}
		r, err := page.Call(v, crmapi.GetReplay, q)
		if err != nil {
			return nil, err
		}
		ask := &page.Question{Title: "Stop this replay?", Button: "Stop it", Section: section, Crumbs: replayCrumbs, Back: replayAt(r.ID), CLI: page.Command("replay", "stop", r.ID), Request: page.Request(crmapi.StopReplay, q),
			Texts: []string{page.Many(r.Queued, "event") + " queued so far.", "What was handled stays handled. No more of its events are."}}
		if r.Ended != nil {
			ask.Title, ask.Nothing = "It has ended", "The replay is "+r.State+": there is nothing to stop."
		}
		return ask, nil
	},
	Do: func(v *page.Visit) (string, error) {
		id := v.R.PathValue("id")
		_, err := page.Change(v, crmapi.StopReplay, &crmapi.OneReplay{ID: id})
		return page.Done(replayAt(id), "crm.stopped"), err
	}}
