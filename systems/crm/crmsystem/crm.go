// Package crmsystem puts CRM on the servers that are configured, or on the embedded database.
package crmsystem

import (
	"context"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/profile/tableprofile"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/crmapi"
	"github.com/tidemill/tidemill/systems/crm/crmcli"
	"github.com/tidemill/tidemill/systems/crm/crmconfig"
	"github.com/tidemill/tidemill/systems/crm/crmconsole"
	"github.com/tidemill/tidemill/systems/crm/crmingest"
	"github.com/tidemill/tidemill/systems/crm/crmmetrics"
	"github.com/tidemill/tidemill/systems/crm/handler"
	"github.com/tidemill/tidemill/systems/crm/priority"
	"github.com/tidemill/tidemill/systems/crm/webhook"
)

// Names of CRM's own in the databases that it shares with other systems.
const (
	logName       = "crm"        // the ledger that is the sync log
	replaysName   = "crm_replay" // and that of replays
	keys          = "tidemill:crm"
	lettersStream = "crm:dlq"
	intakeName    = "crm-bullmq" // the pipeline that takes events from BullMQ
)

// gather is how workers share statements of a sync log in PostgreSQL, where each costs as
// much as some entries in it: one of each sort at once.
var gather = ledger.GatherOptions{Calls: 1, Entries: 500}

// stores are what stands behind CRM's roles.
type stores struct {
	queues       queue.Store
	letters      deadletter.Store
	log, replays ledger.Store
	profiles     profile.Store
	projects     project.Store
	intakes      []crm.Intake

	// attributes makes the handler that keeps profiles up to date: what it changes and the
	// event's COMPLETED are one commit, because sync log and profiles are in one database.
	attributes func(handler.Mapping) (handler.Handler, error)

	damaged func(context.Context) (int, error) // nil: its bytes are the server's care
}

// System is CRM.
var System = system.System{
	Name:       crm.Name,
	Settings:   crmconfig.Group,
	Operations: new(crmapi.API).Operations(),
	Missing:    "CRM does not run in this instance",
	Letters:    admin.Owner{Owns: func(pipeline string) bool { return pipeline == crm.Queue }, Label: func(l *deadletter.Letter, shown *api.DeadLetter) { shown.Tenant = l.Tenant }},
	Pages:      crmconsole.Pages,
	Commands:   crmcli.Commands,
	First:      crmcli.First,
	Bounds: func(c *config.Loaded) system.Bounds {
		return system.Bounds{Jobs: crmconfig.Of(c).QueueMax, DeadLetters: crmconfig.Of(c).DeadMax}
	},
	Rehearse: rehearse,
	Build:    build,
	Figures:  figures,
}

// wiring is a system that is being built.
type wiring struct {
	*system.Host
	own  *crmconfig.Settings
	ends func() // closes what handlers have opened
}

// build puts the CRM system together with its endpoints: queue and dead letters on the Redis that
// is named, sync log, replays and profiles on the PostgreSQL, and embedded what has no server.
func build(ctx context.Context, o *system.Host) (*system.Parts, error) {
	c := crmconfig.Of(o.Config)
	w := &wiring{Host: o, own: c}
	stores, err := w.stores(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.Judge(ctx); err != nil {
		return nil, err
	}
	specs, ends, err := w.handlers(c, stores)
	if err != nil {
		return nil, err
	}
	w.ends = ends
	w.OnClose(func() error { w.ends(); return nil })
	w.say(ctx)
	priorities, err := priority.New(c.Priorities.Rules())
	if err != nil {
		return nil, err
	}
	numbers := crmmetrics.New()
	sys, err := crm.New(
		crm.Parts{Queues: stores.queues, DeadLetters: stores.letters, Log: stores.log, Replays: stores.replays, Profiles: stores.profiles,
			Handlers: specs, Intakes: stores.intakes},
		crm.Options{Workers: c.Workers, Batch: c.Batch, Ahead: c.Ahead, Attempts: c.Attempts, Backoff: c.Backoff, Lease: c.Lease,
			PerSecond: boundOf(c.PerSecond), PerTenant: boundOf(c.TenantPerSecond), Tenants: c.Limits(),
			Completed: boundOf(c.KeptCompleted), Failed: boundOf(c.KeptFailed), DeadFor: c.DeadLife, LogFor: c.LogLife,
			Unknown: unknown(c), Create: c.Create, Priorities: priorities,
			Log: o.Log, Now: o.Now, Observe: w.Observe, GiveWay: w.Way.Rest, Finished: numbers.Finished})
	if err != nil {
		return nil, err
	}
	numbers.Watch(sys)
	tenants := &system.Swapped{}
	endpoint, err := w.ingestAPI(ctx, sys, tenants, stores)
	if err != nil {
		return nil, err
	}
	books := sys.Books()
	shown := admin.System{Books: books, Decodes: sys.Decodes, Audit: func(ctx context.Context) (any, bool, error) {
		a, err := sys.Audit(ctx)
		if err != nil {
			return nil, false, err
		}
		return a, a.Balanced, nil
	}}
	return &system.Parts{
		Runs:       []system.Running{{System: sys.System, Shown: shown, Counted: books}},
		Endpoints:  []system.Endpoint{{Serves: crmingest.Serves, Handler: endpoint}},
		Metrics:    []prometheus.Collector{numbers},
		Checks:     []func(context.Context) []preflight.Finding{func(ctx context.Context) []preflight.Finding { return w.findings(ctx, sys, stores) }},
		Operations: (&crmapi.API{Common: w.Common, CRM: sys}).Operations(),
		Finder:     &crmapi.Finder{CRM: sys, Queues: stores.queues, Tenants: w.tenantNames, Now: o.Now},
		API:        func(api *admin.Parts) { share(api, stores) },
		Reload:     w.reload(sys, endpoint, tenants, stores),
	}, nil
}

// unknown says what becomes of events without a handler.
func unknown(c *crmconfig.Settings) crm.Unknown {
	return map[string]crm.Unknown{"skip": crm.Skip, "dead": crm.Dead}[c.Unknown]
}

// boundOf is a bound as the system has it, for which 0 is the default: below 0 is none.
func boundOf[T int | float64](n T) T {
	if n == 0 {
		return -1
	}
	return n
}

// share adds queue and dead letters to those of all systems.
func share(api *admin.Parts, s *stores) {
	switch api.Queues {
	case nil, s.queues:
		api.Queues = s.queues
	default:
		api.Queues = apart{own: s.queues, name: crm.Queue, rest: api.Queues}
	}
	api.AddLetters(crm.Name, s.letters)
}

// stores opens what stands behind the roles.
func (w *wiring) stores(ctx context.Context) (*stores, error) {
	s, c := &stores{}, w.own
	for _, part := range []struct {
		wanted bool
		open   func(context.Context, *stores) error
	}{
		{c.Redis() == "" || c.Postgres() == "", w.embedded},
		{c.Postgres() != "", w.onPostgres},
		{c.Redis() != "", w.onRedis},
		{c.BullMQ.URL != "", w.fromBullMQ},
	} {
		if !part.wanted {
			continue
		}
		if err := part.open(ctx, s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// embedded puts the embedded database behind every role.
func (w *wiring) embedded(ctx context.Context, s *stores) error {
	f, err := w.File(ctx)
	if err != nil {
		return err
	}
	s.queues, s.letters, s.projects, s.damaged = f.Queues, f.DeadLetters, f.Projects, f.Damaged(crm.Queue)
	if w.own.Postgres() != "" {
		return nil
	}
	log, err := w.SQLiteLedger(ctx, f.DB, logName)
	if err != nil {
		return err
	}
	table, err := sqlitetable.New(ctx, f.DB, tableprofile.Spec())
	if err != nil {
		return err
	}
	profiles, err := tableprofile.New(table, profile.Options{Now: w.Now, Alone: true}) // a file has one process
	if err != nil {
		return err
	}
	s.log, s.profiles = log, profiles
	s.attributes = func(m handler.Mapping) (handler.Handler, error) {
		return handler.AttributesIn(log, profiles, m)
	}
	if w.own.Redis() != "" {
		w.Look(func(context.Context) []preflight.Finding { return []preflight.Finding{aloneOnRedis()} })
	}
	s.replays, err = w.SQLiteLedger(ctx, f.DB, replaysName)
	return err
}

// handlers are those of a configuration; ends closes what they have opened.
func (w *wiring) handlers(c *crmconfig.Settings, s *stores) (specs []handler.Spec, ends func(), err error) {
	var opened []*webhook.Endpoint
	ends = func() {
		for _, e := range opened {
			e.Close()
		}
	}
	for n := range c.Handlers {
		h := &c.Handlers[n]
		spec := h.Spec()
		if h.Endpoint != nil {
			var e *webhook.Endpoint
			if e, err = w.endpoint(c, h); err == nil {
				spec.Handler, opened = e, append(opened, e)
			}
		} else {
			spec.Handler, err = s.attributes(h.Attributes)
		}
		if err != nil {
			ends()
			return nil, nil, fmt.Errorf("handler %s: %w", h.Name, err)
		}
		specs = append(specs, spec)
	}
	return specs, ends, nil
}

// say says which handlers there are at the start.
func (w *wiring) say(ctx context.Context) {
	var names []string
	for _, h := range w.own.Handlers {
		names = append(names, h.Name+" for "+strings.Join(h.Types, ", "))
	}
	what := map[string]string{"skip": "skipped, and counted", "dead": "dead letters"}[w.own.Unknown]
	if len(names) == 0 {
		names = []string{"none: all events are " + what + " (set crm.handlers)"}
		// Logged at the start, when the CRM has no handlers; events are taken in and are skipped or
		// dead letters, as `crm.unknown` says.
		w.Log.InfoContext(ctx, "no handlers are configured: crm.handlers says what to do with events", "unknown", w.own.Unknown)
	}
	w.Uses = append(w.Uses, "handlers: "+strings.Join(names, "; "))
}

func (w *wiring) endpoint(c *crmconfig.Settings, h *crmconfig.Handler) (*webhook.Endpoint, error) {
	o, err := c.Endpoint(h)
	if err != nil {
		return nil, err
	}
	o.Now, o.Tracer, o.Connections = w.Now, w.Tracer, max(c.Workers, 1)
	return webhook.New(o)
}
