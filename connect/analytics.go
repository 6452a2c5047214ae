package connect

import (
	"context"
	"fmt"
	"net/http"
	"net/http/pprof"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/ingest"
	"github.com/tidemill/tidemill/serve/metrics"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/systems/analytics"
	"github.com/tidemill/tidemill/systems/analytics/enrich"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// analytics puts the analytics system together, with its door and the API.
func (i *Instance) analytics(ctx context.Context, b *backends) error {
	c, o := &i.config.Analytics, i.options
	i.projects = b.projects
	if err := i.ensureProjects(ctx); err != nil {
		return err
	}
	agents, err := enrich.NewAgents(enrich.AgentsOptions{})
	if err != nil {
		return err
	}
	geo := enrich.NewGeo(enrich.GeoOptions{URL: string(c.GeoIP.URL), File: c.GeoIP.File, CacheDir: filepath.Join(i.config.Data, "geoip"), Now: o.Now, Log: o.Log})
	stages := newStageMetrics(i.metrics)
	source, err := b.open(ctx, analytics.Name)
	if err != nil {
		return err
	}
	books := map[string]tidemill.Bookkeeper{
		analytics.Name: source, analytics.ReplayName: b.letters.Open(analytics.Name).(tidemill.Bookkeeper)}
	names := []string{analytics.Name}
	own := map[uuid.UUID]string{} // queue by project, of those that dominate
	var overflow tidemill.Source
	left, err := b.waits(ctx, analytics.OverflowName)
	if err != nil {
		return err
	}
	if len(c.Overflow) > 0 || left { // or what waits there from before
		names = append(names, analytics.OverflowName)
		over, err := b.open(ctx, analytics.OverflowName)
		if err != nil {
			return err
		}
		overflow, books[analytics.OverflowName] = over, over
		for _, p := range c.Overflow {
			own[project.ID(p)] = analytics.OverflowName
		}
	}
	damaged := b.damagedIn(names)
	batch, age := i.config.Flush()
	sys, err := analytics.New(
		analytics.Parts{Source: source, Persons: b.persons, Warehouse: b.warehouse, Definitions: b.definitions, Letters: b.letters,
			Locks: b.locks, Projects: b.projects, Agent: agents.Parse, Country: geo.Country,
			Overflow: overflow, Circuit: b.circuit, Damaged: damaged},
		analytics.Options{Batch: batch, Age: age, Lanes: c.Lanes, InFlight: c.Backpressure + batch*c.Lanes,
			Handouts: c.Handouts, Replay: c.ReplayEvery, ReplayBatch: c.ReplayBatch, Log: o.Log, Now: o.Now, Observe: stages.observe})
	if err != nil {
		return err
	}
	i.systems = append(i.systems, sys.System)
	i.loops = append(i.loops, b.loops...)
	i.loops = append(i.loops, i.warningsKept(b.warehouse)...)
	i.loops = append(i.loops, flow.Loop{Name: "country database", Every: time.Minute, AtStart: true, Do: geo.Refresh})
	if c.Heartbeat != "" {
		i.loops = append(i.loops, i.heartbeat(c.Heartbeat))
	}
	i.metrics.MustRegister(metrics.NewEngines(sys.Pipelines, books), warningMetrics{sys.Warnings})

	proxies, err := i.config.HTTP.Proxies()
	if err != nil {
		return err
	}
	door, err := ingest.New(ingest.Options{
		Intake: b.intake, Meter: b.meter, Projects: b.projects, Queue: analytics.Name, Route: func(p uuid.UUID) string { return own[p] }, TrustProxy: proxies, RateStatus: c.RateStatus,
		Limits: ingest.Limits{PostHog: int(i.config.HTTP.MaxBody), Body: i.config.HTTP.BodyTimeout, Rate: c.RateLimit, Quota: c.Quota},
		Warn: func(_ context.Context, p uuid.UUID, typ, event, distinct, reason string) {
			sys.Warnings.Add(warehouse.Warning{Project: p, Type: typ, Event: event, Distinct: distinct, Reason: reason, At: o.Now()})
		},
		Ready: i.takes, Now: o.Now, Log: o.Log, Registerer: i.metrics,
	})
	if err != nil {
		return err
	}
	api := admin.New(admin.Parts{
		Version: o.Version, Started: i.started, Uses: i.Uses, Key: i.config.Admin.Key, Config: i.config,
		Systems: []admin.System{{Name: sys.Name, Pipelines: sys.Pipelines, Books: books, Audit: func(ctx context.Context) (any, bool, error) {
			a, err := sys.Audit(ctx)
			return a, a.Balanced, err
		}}},
		Projects: b.projects, Persons: b.persons, Events: b.warehouse, Letters: b.letters, Definitions: b.definitions,
		Send: sendNative(door.Accept), Doctor: i.doctor(geo, damaged, b.inspect), Log: o.Log,
	})
	mux := http.NewServeMux()
	mux.Handle(admin.Prefix, api)
	mux.Handle("GET /livez", health(i.live))
	mux.Handle("GET /readyz", health(i.takes))
	mux.Handle("GET /metrics", promhttp.HandlerFor(i.metrics, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}))
	profiles := http.NewServeMux()
	profiles.HandleFunc("GET /debug/pprof/", pprof.Index)
	profiles.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	profiles.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.Handle("/debug/pprof/", api.Guard(profiles))
	i.Handler = route(mux, door)
	i.Uses = append(i.Uses, fmt.Sprintf("countries: %s", countries(geo.Status())))
	return nil
}

// route sends what operators ask for to ours and everything else to the door, by the path
// as it is: http.ServeMux would redirect paths with double slashes, which SDKs take for an
// error or for success.
func route(ours, door http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, p := range [...]string{admin.Prefix, "/debug/pprof/"} {
			if strings.HasPrefix(r.URL.Path, p) {
				ours.ServeHTTP(w, r)
				return
			}
		}
		switch r.URL.Path {
		case "/livez", "/readyz", "/metrics":
			ours.ServeHTTP(w, r)
		default:
			door.ServeHTTP(w, r)
		}
	})
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
