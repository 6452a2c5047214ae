// Package deliveryconsole is the pages of delivery in the console.
package deliveryconsole

import (
	"embed"
	"html/template"
	"strconv"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/console/page"
	"github.com/tidemill/tidemill/systems/delivery"
	"github.com/tidemill/tidemill/systems/delivery/deliveryapi"
)

//go:embed templates/*.html
var templates embed.FS

// Pages are partners, and what is done with them.
var Pages = &page.Set{
	Name:      delivery.Name,
	Templates: templates,
	Places:    []page.Place{{Section: "partners", Text: "Partners", Path: "partners", Key: "t", Op: deliveryapi.ListPartners.ID}},
	Pages:     []page.Page{{Path: "partners", Show: showPartners}, {Path: "partners/{name}", Show: showPartner}},
	Actions:   []*page.Action{openCircuit, closeCircuit, switchOff, tryMapping, testPartner},
	Funcs:     template.FuncMap{"percent": percent, "standing": standing, "queue": delivery.QueueOf, "took": func(s float64) string { return page.Span(&s) }},
	Said:      map[string]string{"opened": "The circuit is open: the partner is left alone for that time.", "closed": "The circuit is closed: the partner's jobs go on.", "off": "The partner is switched off: it is sent nothing, and nothing is queued for it."},
	Things: map[string]func(map[string]string) string{
		deliveryapi.GetPartner.ID: func(p map[string]string) string { return page.Address("partners", p["name"]) },
	},
	Described: map[string]page.Described{
		"site":    {Removal: siteRemoval},
		"partner": {At: func(name string) string { return page.Address("partners", name) }, Removal: partnerRemoval, Of: delivery.PartnerOf},
	},
}

// percent is a share in words.
func percent(f *float64) string {
	if f == nil {
		return "no requests"
	}
	return strconv.FormatFloat(100**f, 'f', 1, 64) + "%"
}

// standing says in a word whether a partner gets anything.
func standing(p deliveryapi.Partner) string {
	switch {
	case p.Off != nil:
		return "off"
	case p.Paused:
		return "paused"
	}
	return p.Circuit
}

func showPartners(v *page.Visit) (*page.View, error) {
	return &page.View{File: "partners", Title: "Partners", Section: "partners", Live: true, Body: page.Listed(v, deliveryapi.ListPartners, &operation.None{})}, nil
}

// partnerPage is one partner.
type partnerPage struct {
	deliveryapi.OnePartnerStatus
	Rates   page.Part[*page.Trend]
	Changes *page.Part[[]api.Change]
}

func showPartner(v *page.Visit) (*page.View, error) {
	name := v.R.PathValue("name")
	p, err := page.Call(v, deliveryapi.GetPartner, &deliveryapi.OnePartner{Partner: name})
	if err != nil {
		return nil, err
	}
	return &page.View{File: "partner", Title: "Partner " + name, Section: "partners", Live: true, Topics: []string{"partner:" + name}, Crumbs: []page.Link{{Text: "Partners", Href: page.Address("partners")}}, Body: &partnerPage{p, page.TrendOf(v, "partner:"+name), page.LastChanges(v, name)}}, nil
}

func siteRemoval(*page.Visit, string) []string {
	return []string{"Its keys are refused at once. What was taken in for it is delivered still. A partner that takes its events alone has to be changed first."}
}

// partnerRemoval says what waits for a partner.
func partnerRemoval(v *page.Visit, name string) []string {
	all := []string{"When the next page is there, no request to it is under way in any instance, and none follows."}
	p, err := page.Call(v, deliveryapi.GetPartner, &deliveryapi.OnePartner{Partner: name})
	if err != nil {
		return append(all, "What waits for it is not known: "+page.Problem(err).Detail)
	}
	waits := "Nothing waits for it."
	if n := p.Depth + p.Parked; n > 0 {
		waits = page.Many(int(n), "job") + " of it: what waits becomes dead letters of " + delivery.QueueOf(name) + ". They can be sent when a partner of this name is described again, or be discarded."
		if p.Paused || p.Off != nil {
			waits += " Its queue is paused: they become dead letters once it is resumed."
		}
	}
	return append(all, waits)
}
