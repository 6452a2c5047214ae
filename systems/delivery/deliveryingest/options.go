package deliveryingest

import (
	"context"
	"slices"

	"github.com/tidemill/tidemill/serve/endpoint"
	"github.com/tidemill/tidemill/systems/delivery/accept"
	"github.com/tidemill/tidemill/systems/delivery/event"
)

// Options tune the endpoint. Acceptor, Rules and Projects are required; a project's name is
// its site's id.
type Options struct {
	endpoint.Options
	Acceptor *accept.Acceptor
	Rules    *event.Rules

	// Sites are the settings of a site; false: it has none, which is as good as the zero
	// Site. It is asked for every request and must be quick. Nil: no site has any.
	Sites func(site string) (Site, bool)

	// Status says where an event of a site is, as something that becomes JSON. Its error
	// is queue.ErrNotFound where there is no such event. Nil: the path is not there.
	Status func(ctx context.Context, site, id string) (any, error)

	// Partners says which partners a conversion goes to; gpc is whether its request said
	// Sec-GPC. It must be quick. Nil: none is named.
	Partners func(item *accept.Item, gpc bool) []Partner

	Meter endpoint.Meter // counts what addresses and sites send; nil: in the memory of this process

	// Limits are by default bodies of 1 MiB with 500 events, in 64 MiB of memory, and 1,000
	// requests a minute of one address without a key. An IPv6 network of 64 bits is one
	// address.
	Limits endpoint.Limits
}

// Site are the settings of one site; the zero value takes events with a key, from any
// origin and as many as come.
type Site struct {
	Public  bool     // events may come without a key, to /collect
	Origins []string // that browsers may send from, such as https://shop.example; none: all
	PerDay  int      // events a day (UTC); 0: no limit
}

// allows says whether a browser may send from that origin.
func (s *Site) allows(origin string) bool {
	return origin == "" || len(s.Origins) == 0 || slices.Contains(s.Origins, origin) || slices.Contains(s.Origins, "*")
}

// Partner is one that a conversion goes to.
type Partner struct {
	Name    string
	Status  string // such as queued, skipped
	Message string
}
