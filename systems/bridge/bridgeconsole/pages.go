// Package bridgeconsole is the page of the bridge in the console.
package bridgeconsole

import (
	"embed"
	"html/template"
	"net/url"

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
	Funcs: template.FuncMap{
		"entryAt": func(id string) string { return page.ExplainAddress(bridge.Name, "", id) },
		"steerAt": func(verb string) string {
			return page.Query(page.Address("pipelines", bridge.Name, verb), url.Values{"back": {page.Address("bridge")}})
		},
		"system": func() string { return bridge.Name },
	},
	Things: map[string]func(map[string]string) string{
		bridgeapi.GetBridge.ID: func(map[string]string) string { return page.Address("bridge") },
	},
}

func showBridge(v *page.Visit) (*page.View, error) {
	b, err := page.Call(v, bridgeapi.GetBridge, &operation.None{})
	p := page.Part[bridgeapi.Bridge]{Has: b, Problem: page.Problem(err)}
	return &page.View{File: "bridge", Title: "Bridge", Section: "bridge", Live: true, Topics: []string{"pipeline:" + bridge.Name}, Body: p}, nil
}
