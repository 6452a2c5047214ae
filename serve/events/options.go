package events

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/systems/delivery/accept"
	"github.com/tidemill/tidemill/systems/delivery/event"
)

// Options tune the door. Acceptor, Rules and Projects are required.
type Options struct {
	Acceptor *accept.Acceptor
	Rules    *event.Rules
	Projects project.Projects // whose keys are taken; a project's name is its site's id

	// Sites are the settings of a site; false: it has none, which is as good as the zero
	// Site. It is asked for every request and must be quick. Nil: no site has any.
	Sites func(site string) (Site, bool)

	// Status says where an event of a site is, as something that becomes JSON. Its error
	// is queue.ErrNotFound where there is no such event. Nil: the path is not there.
	Status func(ctx context.Context, site, id string) (any, error)

	// Partners says which partners a conversion goes to; gpc is whether its request said
	// Sec-GPC. It must be quick. Nil: none is named.
	Partners func(item *accept.Item, gpc bool) []Partner

	Meter  Meter // counts what addresses and sites send; nil: in the memory of this process
	Limits Limits

	// TrustProxy are the addresses whose X-Forwarded-For and X-Forwarded-Proto are
	// believed. None: what the connection says counts.
	TrustProxy []netip.Prefix

	Now        func() time.Time      // nil: time.Now
	NewID      func() uuid.UUID      // of requests that are refused, and for what nothing else names; nil: random UUIDv7
	Log        *slog.Logger          // nil: nothing is logged
	Registerer prometheus.Registerer // nil: metrics are kept, but not registered
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

// Limits bound what clients may take. Zero fields have the defaults named.
type Limits struct {
	Body      int           // bytes of a body, as sent and inflated; 0 means 1 MiB
	Events    int           // of one request; 0 means 500
	Ratio     int           // how many times larger inflating may make a body, beyond its first MiB; 0 means 100
	Memory    int64         // bytes of all bodies together; 0 means 64 MiB
	Time      time.Duration // to send a body in; 0 means 30s
	Requests  int           // at once; 0 means 2,000. More are answered 503.
	PerMinute int           // requests of one address without a key; 0 means 1,000, below zero no limit. An IPv6 network of 64 bits is one address.
}

// check fills defaults and refuses nonsense.
func (o Options) check() (Options, error) {
	if o.Acceptor == nil || o.Rules == nil || o.Projects == nil {
		return o, errors.New("events: an acceptor, rules and projects are needed")
	}
	l := &o.Limits
	for _, f := range [...]struct {
		name string
		v    *int
		def  int
	}{{"Body", &l.Body, 1 << 20}, {"Events", &l.Events, 500}, {"Ratio", &l.Ratio, 100}, {"Requests", &l.Requests, 2000}} {
		if *f.v < 0 {
			return o, fmt.Errorf("events: Limits.%s is %d; want 0 for the default, or more", f.name, *f.v)
		}
		if *f.v == 0 {
			*f.v = f.def
		}
	}
	if l.PerMinute == 0 {
		l.PerMinute = 1000
	}
	if l.Time < 0 || l.Memory < 0 {
		return o, errors.New("events: Limits.Time and Limits.Memory: want 0 for the default, or more")
	}
	if l.Time == 0 {
		l.Time = 30 * time.Second
	}
	least := 4*int64(l.Body) + int64(l.Events)*eventMemory // as sent, inflated, while it grows, and what is made of it
	if l.Memory == 0 {
		l.Memory = max(64<<20, least)
	}
	if l.Memory < least {
		return o, fmt.Errorf("events: Limits.Memory is %d; the largest body allowed needs %d", l.Memory, least)
	}
	for _, p := range o.TrustProxy {
		if !p.IsValid() {
			return o, errors.New("events: TrustProxy has a prefix that is none")
		}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = func() uuid.UUID { return uuid.Must(uuid.NewV7()) }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Sites == nil {
		o.Sites = func(string) (Site, bool) { return Site{}, false }
	}
	if o.Meter == nil {
		o.Meter = newMemoryMeter(o.Now)
	}
	return o, nil
}

// eventMemory is about what an event takes beside its bytes, from here until it is durable.
const eventMemory = 2 << 10
