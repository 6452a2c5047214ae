// Package bridgeconsole is the page of the bridge in the console.
package bridgeconsole

import (
	"embed"
	"html/template"
	"net/url"
	"slices"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/console/page"
	"github.com/tidemill/tidemill/systems/bridge"
	"github.com/tidemill/tidemill/systems/bridge/bridgeapi"
)

//go:embed templates/*.html
var templates embed.FS

// Pages are how the bridge stands. One entry is explained by the page that explains any event.
var Pages = &page.Set{
	Name:      bridge.Name,
	Templates: templates,
	Places:    []page.Place{{Section: "bridge", Text: "Bridge", Path: "bridge", Key: "e", Op: bridgeapi.GetBridge.ID}},
	Pages:     []page.Page{{Path: "bridge", Show: showBridge}},
	Actions:   []*page.Action{takeOver},
	Funcs: template.FuncMap{
		"entryAt": func(id string) string { return page.ExplainAddress(bridge.Name, "", id) },
		"steerAt": func(verb string) string {
			return page.Query(page.Address("pipelines", bridge.Name, verb), url.Values{"back": {page.Address("bridge")}})
		},
		"takeOverAt": func(consumer string) string { return page.Address("bridge", "consumers", consumer, "take-over") },
		"system":     func() string { return bridge.Name },
	},
	Said: map[string]string{"taken-over": "It is taken over: this instance publishes what the consumer had."},
	Things: map[string]func(map[string]string) string{
		bridgeapi.GetBridge.ID: func(map[string]string) string { return page.Address("bridge") },
	},
}

// bridgePage is how the bridge stands.
type bridgePage struct {
	page.Part[bridgeapi.Bridge]
	Changes *page.Part[[]api.Change]
}

// changes are the last ones of the bridge: it is paused as a whole, and consumers are taken over.
func changes(v *page.Visit) *page.Part[[]api.Change] {
	all, over := page.LastChanges(v, bridge.Name, api.PausePipeline.ID, api.ResumePipeline.ID), page.LastChanges(v, "", bridgeapi.TakeOver.ID)
	if all != nil && over != nil {
		all.Has = append(all.Has, over.Has...)
		slices.SortStableFunc(all.Has, func(a, b api.Change) int { return b.At.Compare(a.At) })
	}
	return all
}

func showBridge(v *page.Visit) (*page.View, error) {
	b, err := page.Call(v, bridgeapi.GetBridge, &operation.None{})
	p := &bridgePage{Part: page.Part[bridgeapi.Bridge]{Has: b, Problem: page.Problem(err)}, Changes: changes(v)}
	return &page.View{File: "bridge", Title: "Bridge", Section: "bridge", Live: true, Topics: []string{"pipeline:" + bridge.Name}, Body: p}, nil
}

// takeOver takes over what a consumer has.
var takeOver = &page.Action{Path: "bridge/consumers/{consumer}/take-over", Op: bridgeapi.TakeOver.ID,
	Ask: func(v *page.Visit) (*page.Question, error) {
		q := &bridgeapi.OneConsumer{Consumer: v.R.PathValue("consumer")}
		c, err := page.Call(v, bridgeapi.GetConsumer, q)
		if err != nil {
			return nil, err
		}
		what := page.Number(c.Pending) + " entries"
		if c.Pending == 1 {
			what = "1 entry"
		}
		ask := &page.Question{Title: "Take over " + what + " of " + page.Cut(c.Name) + "?", Button: "Take over " + what, Section: "bridge", Crumbs: []page.Link{{Text: "Bridge", Href: page.Address("bridge")}}, Back: page.Address("bridge"),
			Texts: []string{"This instance publishes them again at once, and does not wait until their lease is over. Those that were put off keep their time.",
				"It last asked for entries " + page.Span(&c.Idle) + " ago. If it is a program of others that still works, it goes on with them, and they are published twice.", "The consumer leaves the group."},
			CLI: page.Command("bridge", "take-over", c.Name), Request: page.Request(bridgeapi.TakeOver, q)}
		for _, e := range c.Entries {
			ask.Sample = append(ask.Sample, page.Link{Text: page.Cut(e.ID) + " · idle for " + page.Span(&e.Idle), Href: page.ExplainAddress(bridge.Name, "", e.ID)})
		}
		switch {
		case c.Held > 0:
			ask.Nothing = "A process goes by this name, or did less than a lease ago: what it has is its own for another " + page.Span(&c.Held) + "."
		case c.Pending == 0:
			ask.Nothing = "It has nothing."
		}
		return ask, nil
	},
	Do: func(v *page.Visit) (string, error) {
		_, err := page.Change(v, bridgeapi.TakeOver, &bridgeapi.OneConsumer{Consumer: v.R.PathValue("consumer")})
		return page.Done(page.Address("bridge"), "taken-over"), err
	}}
