// Package analyticssystem puts analytics on the servers that are configured, or on the embedded database.
package analyticssystem

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/systems/analytics"
	"github.com/tidemill/tidemill/systems/analytics/analyticsapi"
	"github.com/tidemill/tidemill/systems/analytics/analyticscli"
	"github.com/tidemill/tidemill/systems/analytics/analyticsconfig"
	"github.com/tidemill/tidemill/systems/analytics/analyticsconsole"
	"github.com/tidemill/tidemill/systems/analytics/analyticsingest"
	"github.com/tidemill/tidemill/systems/analytics/enrich"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// System is analytics.
var System = system.System{
	Name:       analytics.Name,
	Settings:   analyticsconfig.Group,
	KeyUse:     "Give it to an SDK as API key or write key, with %s as host.",
	Operations: new(analyticsapi.API).Operations(),
	Missing:    "analytics does not run in this instance",
	Pages:      analyticsconsole.Pages,
	Commands:   analyticscli.Commands,
	First:      analyticscli.First,
	Bounds: func(c *config.Loaded) system.Bounds {
		a := analyticsconfig.Of(c)
		return system.Bounds{Jobs: a.QueueMax, DeadLetters: a.DeadMax, Trim: a.DeadTrim}
	},
	Rehearse: rehearse,
	Build:    build,
	Figures:  figures,
}

// wiring is a system that is being built.
type wiring struct {
	*system.Host
	own *analyticsconfig.Settings
}

// build puts the analytics system together with its endpoint.
func build(ctx context.Context, o *system.Host) (*system.Parts, error) {
	c := analyticsconfig.Of(o.Config)
	w := &wiring{o, c}
	b, err := w.connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.Judge(ctx); err != nil {
		return nil, err
	}
	w.Projects = b.projects
	if err := w.EnsureProjects(ctx, w.Projects); err != nil {
		return nil, err
	}
	agents, err := enrich.NewAgents(enrich.AgentsOptions{})
	if err != nil {
		return nil, err
	}
	geo := enrich.NewGeo(enrich.GeoOptions{URL: string(c.GeoIP.URL), File: c.GeoIP.File, CacheDir: filepath.Join(w.Config.Data, "geoip"), Allow: c.GeoIP.AllowPrivate, AllowBy: analyticsconfig.GeoIPAllow, Now: o.Now, Log: o.Log})
	source, err := b.open(ctx, analytics.Name)
	if err != nil {
		return nil, err
	}
	books := map[string]tidemill.Bookkeeper{
		analytics.Name: source, analytics.ReplayName: b.letters.Open(analytics.Name).(tidemill.Bookkeeper)}
	names := []string{analytics.Name}
	own := map[uuid.UUID]string{} // queue by project, of those that dominate
	var overflow tidemill.Source
	left, err := b.waits(ctx, analytics.OverflowName)
	if err != nil {
		return nil, err
	}
	if len(c.Overflow) > 0 || left { // or what waits there from before
		names = append(names, analytics.OverflowName)
		over, err := b.open(ctx, analytics.OverflowName)
		if err != nil {
			return nil, err
		}
		overflow, books[analytics.OverflowName] = over, over
		for _, p := range c.Overflow {
			own[project.ID(p)] = analytics.OverflowName
		}
	}
	var damaged func(context.Context) (int, error) // nil: their bytes are the server's care
	if b.damaged {
		damaged = b.file.Damaged(names...)
	}
	batch, age := c.Flush()
	clock := event.Clock{Behind: c.ClockBehind, Ahead: c.ClockAhead, EventsBehind: c.EventsBehind, EventsAhead: c.EventsAhead}
	sys, err := analytics.New(
		analytics.Parts{Source: source, Persons: b.persons, Warehouse: b.warehouse, Definitions: b.definitions, DeadLetters: b.letters,
			Locks: b.locks, Projects: b.projects, Agent: agents.Parse, Country: geo.Country,
			Overflow: overflow, Circuit: b.circuit, Damaged: damaged},
		analytics.Options{Batch: batch, Age: age, Lanes: c.Lanes, InFlight: c.Backpressure + batch*c.Lanes,
			Handouts: c.Handouts, MergeIdentified: analytics.MergeIdentified(c.Identified), Replay: c.ReplayEvery, ReplayBatch: c.ReplayBatch, Clock: clock, Log: o.Log, Now: o.Now, Observe: w.Observe, GiveWay: w.Way.Rest})
	if err != nil {
		return nil, err
	}
	w.retainEvents(b.warehouse, c)
	w.Loops = append(w.Loops, flow.Loop{Name: "country database", Every: time.Minute, AtStart: true, Do: geo.Refresh})
	if c.Heartbeat != "" {
		w.Loops = append(w.Loops, w.Heartbeat(c.Heartbeat))
	}

	endpoint, err := analyticsingest.New(analyticsingest.Options{
		Options: w.Endpoint(b.projects), Intake: b.intake, Meter: b.meter, Queue: analytics.Name, Route: func(p uuid.UUID) string { return own[p] }, RateStatus: c.RateStatus,
		CloudEventsID: c.CloudEventsID, Scripts: c.Scripts,
		Limits: analyticsingest.Limits{PostHog: int(w.Config.HTTP.MaxBody), Body: w.Config.HTTP.BodyTimeout, Rate: c.RateLimit, Quota: c.Quota},
		Warn: func(_ context.Context, p uuid.UUID, typ, event, distinct, reason string) {
			sys.Warnings.Add(warehouse.Warning{Project: p, Type: typ, Event: event, Distinct: distinct, Reason: reason, At: o.Now()})
		},
		Clock: clock,
		Ready: w.Takes,
	})
	if err != nil {
		return nil, err
	}
	w.Uses = append(w.Uses, fmt.Sprintf("countries: %s", countries(geo.Status())))
	shown := admin.System{Books: books, Decodes: sys.Decodes, Audit: func(ctx context.Context) (any, bool, error) {
		a, err := sys.Audit(ctx)
		return a, a.Balanced, err
	}}
	return &system.Parts{
		Runs:      []system.Running{{System: sys.System, Shown: shown, Counted: books}},
		Endpoints: []system.Endpoint{{Handler: endpoint}},
		Metrics:   []prometheus.Collector{warningMetrics{sys.Warnings}},
		Checks: append(b.checks, func(ctx context.Context) []preflight.Finding {
			var fs []preflight.Finding
			if damaged != nil {
				fs = append(fs, system.CheckDamaged(ctx, damaged))
			}
			return append(fs, checkGeo(geo.Status()), w.checkProjects())
		}),
		Reload: func(_ context.Context, next *config.Loaded) (*system.Prepared, error) {
			c := analyticsconfig.Of(next)
			return &system.Prepared{Commit: func() { endpoint.Limit(c.RateLimit, c.Quota, c.RateStatus) }}, nil
		},
		Finder:     w.finder(b),
		Operations: (&analyticsapi.API{Common: w.Common, Persons: b.persons, Events: b.warehouse, Definitions: b.definitions, Send: sendNative(endpoint)}).Operations(),
		API: func(api *admin.Parts) {
			api.Projects, api.Letters = b.projects, b.letters
			if b.damaged { // events wait there
				api.Queues = b.file.Queues
			}
		},
	}, nil
}

// finder finds events: where they wait by their ids too, if that is in the embedded database.
func (w *wiring) finder(b *backends) *analyticsapi.Finder {
	f := &analyticsapi.Finder{Common: w.Common, Persons: b.persons, Events: b.warehouse, Letters: b.letters, Now: w.Now}
	if b.damaged {
		f.Queues = b.file.Queues
	}
	return f
}

// sendNative takes events that an operator sends: no key, the native format.
func sendNative(endpoint *analyticsingest.Handler) func(context.Context, uuid.UUID, [][]byte) (analyticsapi.Sent, error) {
	return func(ctx context.Context, p uuid.UUID, events [][]byte) (analyticsapi.Sent, error) {
		t, err := endpoint.Accept(ctx, p, events)
		return analyticsapi.Sent{Accepted: t.Accepted, Duplicates: t.Known, Refused: len(t.Refused), Reasons: t.Refused}, err
	}
}

func countries(s enrich.GeoStatus) string {
	switch {
	case s.Source == "":
		return "none (set analytics.geoip)"
	case !s.Loaded():
		return s.Source + ", not loaded yet"
	}
	return s.Source
}
