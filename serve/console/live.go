package console

import (
	"context"
	"net/url"
	"strings"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/console/page"
)

// livePage is what becomes of events now.
type livePage struct {
	Filter  api.LiveFilter
	Active  []page.Link
	Systems []string // that run here; none: they are not known
	Live    page.Part[api.Live]
	CLI     string
	Request string
}

func showLive(v *page.Visit) (*page.View, error) {
	p := &livePage{CLI: page.Command("api", api.GetLive.ID)}
	if err := v.Filter(api.GetLive.Description, &p.Filter); err != nil {
		return nil, err
	}
	p.Live = page.Look(v, func(ctx context.Context) (api.Live, error) { return api.GetLive.Call(ctx, v.API, &p.Filter) })
	if all, err := v.Stands(); err == nil {
		for _, s := range all.Systems {
			p.Systems = append(p.Systems, s.Name)
		}
	}
	p.Active, p.Request = v.Active("system", "owner", "type"), page.Request(api.GetLive, &p.Filter)
	topic := "live"
	if len(p.Active) > 0 {
		topic = "live:" + strings.TrimPrefix(page.Query("", url.Values{"system": {p.Filter.System}, "owner": {p.Filter.Owner}, "type": {p.Filter.Type}}), "?")
	}
	return &page.View{File: "live", Title: "Live", Section: "live", Live: true, Topics: []string{topic}, Body: p}, nil
}
