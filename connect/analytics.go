package connect

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/ingest"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/systems/analytics"
	"github.com/tidemill/tidemill/systems/analytics/enrich"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// analytics puts the analytics system together, with its part of the API, and returns its
// door.
func (i *Instance) analytics(ctx context.Context, api *admin.Parts) (http.Handler, error) {
	c, o := &i.Config.Analytics, i.Host
	b, err := i.connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := i.Judge(ctx); err != nil {
		return nil, err
	}
	i.projects = b.projects
	if err := i.ensureProjects(ctx, i.projects); err != nil {
		return nil, err
	}
	agents, err := enrich.NewAgents(enrich.AgentsOptions{})
	if err != nil {
		return nil, err
	}
	geo := enrich.NewGeo(enrich.GeoOptions{URL: string(c.GeoIP.URL), File: c.GeoIP.File, CacheDir: filepath.Join(i.Config.Data, "geoip"), Allow: c.GeoIP.AllowPrivate, AllowBy: config.GeoIPAllow, Now: o.Now, Log: o.Log})
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
	batch, age := i.Config.Flush()
	clock := event.Clock{Behind: c.ClockBehind, Ahead: c.ClockAhead, EventsBehind: c.EventsBehind, EventsAhead: c.EventsAhead}
	sys, err := analytics.New(
		analytics.Parts{Source: source, Persons: b.persons, Warehouse: b.warehouse, Definitions: b.definitions, Letters: b.letters,
			Locks: b.locks, Projects: b.projects, Agent: agents.Parse, Country: geo.Country,
			Overflow: overflow, Circuit: b.circuit, Damaged: damaged},
		analytics.Options{Batch: batch, Age: age, Lanes: c.Lanes, InFlight: c.Backpressure + batch*c.Lanes,
			Handouts: c.Handouts, MergeIdentified: analytics.MergeIdentified(c.Identified), Replay: c.ReplayEvery, ReplayBatch: c.ReplayBatch, Clock: clock, Log: o.Log, Now: o.Now, Observe: i.Observe})
	if err != nil {
		return nil, err
	}
	i.systems = append(i.systems, sys.System)
	i.Loops = append(i.Loops, i.warningsKept(b.warehouse)...)
	i.Loops = append(i.Loops, flow.Loop{Name: "country database", Every: time.Minute, AtStart: true, Do: geo.Refresh})
	if c.Heartbeat != "" {
		i.Loops = append(i.Loops, i.heartbeat(c.Heartbeat))
	}
	i.engines.Add(sys.Pipelines, books)
	i.Metrics.MustRegister(warningMetrics{sys.Warnings})

	door, err := ingest.New(ingest.Options{
		Options: i.endpoint(b.projects), Intake: b.intake, Meter: b.meter, Queue: analytics.Name, Route: func(p uuid.UUID) string { return own[p] }, RateStatus: c.RateStatus,
		CloudEventsID: c.CloudEventsID, Scripts: c.Scripts,
		Limits: ingest.Limits{PostHog: int(i.Config.HTTP.MaxBody), Body: i.Config.HTTP.BodyTimeout, Rate: c.RateLimit, Quota: c.Quota},
		Warn: func(_ context.Context, p uuid.UUID, typ, event, distinct, reason string) {
			sys.Warnings.Add(warehouse.Warning{Project: p, Type: typ, Event: event, Distinct: distinct, Reason: reason, At: o.Now()})
		},
		Clock: clock,
		Ready: i.takes,
	})
	if err != nil {
		return nil, err
	}
	api.Systems = append(api.Systems, admin.System{Name: sys.Name, Pipelines: sys.Pipelines, Books: books, Decodes: sys.Decodes, Audit: func(ctx context.Context) (any, bool, error) {
		a, err := sys.Audit(ctx)
		return a, a.Balanced, err
	}})
	api.Projects, api.Persons, api.Events, api.Letters, api.Definitions = b.projects, b.persons, b.warehouse, b.letters, b.definitions
	if b.damaged { // events wait there
		api.Queues = b.file.Queues
	}
	api.Send = sendNative(door)
	i.checks = append(i.checks, func(ctx context.Context) []preflight.Finding {
		var fs []preflight.Finding
		if damaged != nil {
			fs = append(fs, system.CheckDamaged(ctx, damaged))
		}
		return append(fs, checkGeo(geo.Status()), i.checkProjects())
	})
	i.Uses = append(i.Uses, fmt.Sprintf("countries: %s", countries(geo.Status())))
	return door, nil
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
