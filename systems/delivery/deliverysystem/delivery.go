// Package deliverysystem puts delivery on the servers that are configured, or on the embedded database.
package deliverysystem

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/endpoint"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
	"github.com/tidemill/tidemill/systems/delivery"
	"github.com/tidemill/tidemill/systems/delivery/accept"
	"github.com/tidemill/tidemill/systems/delivery/accept/sqliteaccept"
	"github.com/tidemill/tidemill/systems/delivery/deliveryapi"
	"github.com/tidemill/tidemill/systems/delivery/deliverycli"
	"github.com/tidemill/tidemill/systems/delivery/deliveryconfig"
	"github.com/tidemill/tidemill/systems/delivery/deliveryconsole"
	"github.com/tidemill/tidemill/systems/delivery/deliverymetrics"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

// stores are what stands behind delivery's roles.
type stores struct {
	queues      queue.Store
	letters     deadletter.Store
	keys        ledger.Store       // idempotency
	transaction accept.Transaction // of both; nil: there is none
	sent        ledger.Store       // purchases
	projects    project.Store      // of the embedded database; nil: there is none
	meter       endpoint.Meter     // nil: one in memory
}

// System is delivery.
var System = system.System{
	Name:       delivery.Name,
	Settings:   deliveryconfig.Group,
	Operations: new(deliveryapi.API).Operations(),
	Missing:    "delivery does not run in this instance",
	Letters:    deliveryapi.Letters,
	Pages:      deliveryconsole.Pages,
	Commands:   deliverycli.Commands,
	First:      deliverycli.First,
	Check:      func(c *config.Loaded) error { return deliveryconfig.Of(c).CheckPartners() },
	Bounds: func(c *config.Loaded) system.Bounds {
		return system.Bounds{Jobs: deliveryconfig.Of(c).QueueMax, DeadLetters: deliveryconfig.Of(c).DeadMax}
	},
	Rehearse: rehearse,
	Build:    build,
	Figures:  figures,
}

// wiring is a system that is being built.
type wiring struct {
	*system.Host
	own *deliveryconfig.Settings
}

// build puts the delivery system together with its endpoints, on the Redis that is named or
// embedded.
func build(ctx context.Context, o *system.Host) (*system.Parts, error) {
	c := deliveryconfig.Of(o.Config)
	w := &wiring{o, c}
	stores := &stores{}
	open := w.embedded
	if w.own.Redis() != "" {
		open = w.onRedis
	}
	if err := open(ctx, stores); err != nil {
		return nil, err
	}
	if w.Config.Postgres.URL != "" {
		if err := w.sentInPostgres(ctx, stores); err != nil {
			return nil, err
		}
	}
	if err := w.Judge(ctx); err != nil {
		return nil, err
	}
	sys, err := delivery.New(
		delivery.Parts{Queues: stores.queues, DeadLetters: stores.letters, Sent: stores.sent, Partners: c.Partners, Env: partner.Env{Secret: w.Config.Secret, Tracer: w.Tracer}},
		delivery.Options{Workers: c.Workers, Most: max(c.MaxWorkers, c.Workers), Lease: c.Lease, Keep: c.SentLife,
			Kept: queue.Keep{Count: c.Kept, Age: c.KeptFor}, Limit: c.QueueMax, Tenants: c.Limits(), Absent: absent(c),
			Log: o.Log, Now: o.Now, Observe: w.Observe, GiveWay: w.Way.Rest})
	if err != nil {
		return nil, err
	}
	in := &takings{}
	handler, acceptor, err := w.ingestAPI(ctx, sys, in, stores)
	if err != nil {
		return nil, err
	}
	if len(c.Sites) == 0 && stores.projects != nil { // these are the sites
		w.Projects = stores.projects
		if err := w.EnsureProjects(ctx, w.Projects); err != nil {
			return nil, err
		}
	}
	books := sys.Books()
	shown := admin.System{Books: books, Decodes: sys.Decodes, Audit: func(ctx context.Context) (any, bool, error) {
		a, err := sys.Audit(ctx)
		return a, a.Balanced, err
	}}
	p := &system.Parts{
		Runs: []system.Running{{System: sys.System, Shown: shown, Counted: books, CountedNow: sys.Books}},
		Endpoints: []system.Endpoint{
			{Serves: serves, Handler: handler},
			{Serves: func(path string) bool { return path == "/healthz" }, Handler: only("GET", handler.Secured(w.health(sys, stores))), Operators: true},
		},
		Metrics: []prometheus.Collector{deliverymetrics.New(sys, stores.queues)},
		Checks: []func(context.Context) []preflight.Finding{func(ctx context.Context) []preflight.Finding {
			return checkPartners(ctx, sys, stores.queues, c.QueueMax)
		}},
		Operations: (&deliveryapi.API{Common: w.Common, Delivery: sys, Trials: sys, Config: w.InForce, Take: handler.Accept}).Operations(),
		Finder:     &deliveryapi.Finder{Common: w.Common, Delivery: sys, Accept: acceptor, Sites: func() []string { return deliveryapi.Sites(w.InForce()) }, Now: o.Now},
		Reload:     w.reload(sys, handler, in, stores),
		API: func(api *admin.Parts) {
			api.Queues = stores.queues
			api.AddLetters(delivery.Name, stores.letters)
		},
	}
	if c.BullMQ.URL == "" {
		return p, nil
	}
	intake, err := w.fromBullMQ(ctx, handler, stores)
	p.Runs = append(p.Runs, intake)
	return p, err
}

// embedded puts the embedded database behind every role.
func (w *wiring) embedded(ctx context.Context, d *stores) (err error) {
	f, err := w.File(ctx)
	if err != nil {
		return err
	}
	d.queues, d.letters, d.projects = f.Queues, f.DeadLetters, f.Projects
	t, err := sqlitetable.New(ctx, f.DB, tableledger.Spec("keys"))
	if err != nil {
		return err
	}
	keys := tableledger.New(t, tableledger.Options{Now: w.Now})
	d.keys, d.transaction = keys, sqliteaccept.New(keys, t, f.Queues)
	d.sent, err = w.SQLiteLedger(ctx, f.DB, "sent")
	return err
}
