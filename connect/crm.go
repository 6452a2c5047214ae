package connect

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/metrics"
	"github.com/tidemill/tidemill/source/bullmqsource"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/redisdeadletter"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/postgresledger"
	"github.com/tidemill/tidemill/state/ledger/sqliteledger"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/profile/postgresprofile"
	"github.com/tidemill/tidemill/state/profile/sqliteprofile"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/project/postgresproject"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/redisqueue"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/handler"
	"github.com/tidemill/tidemill/systems/crm/priority"
	"github.com/tidemill/tidemill/systems/crm/webhook"
)

// Names of CRM's own in the databases that it shares with other systems.
const (
	crmLog     = "crm"        // the ledger that is the sync log
	crmReplays = "crm_replay" // and that of replays
	crmKeys    = "tidemill:crm"
	crmLetters = "crm:dlq"
	crmIntake  = "crm-bullmq" // the pipeline that takes events from BullMQ
)

// crmGather is how workers share statements of a sync log in PostgreSQL, where each costs as
// much as some entries in it: one of each sort at once.
var crmGather = ledger.GatherOptions{Calls: 1, Entries: 500}

// crmStores are what stands behind CRM's roles.
type crmStores struct {
	queues       queue.Whole
	letters      deadletter.Store
	log, replays ledger.Store
	profiles     profile.Store
	projects     project.Projects
	intakes      []crm.Intake

	// attributes makes the handler that keeps profiles up to date: what it changes and the
	// event's COMPLETED are one commit, because sync log and profiles are in one database.
	attributes func(handler.Mapping) (handler.Handler, error)

	damaged func(context.Context) (int, error) // nil: its bytes are the server's care
}

// crm puts the CRM system together with its door: queue and dead letters on the Redis that
// is named, sync log, replays and profiles on the PostgreSQL, and embedded what has no server.
func (i *Instance) crm(ctx context.Context, api *admin.Parts) error {
	c, o := &i.Config.CRM, i.Host
	stores, err := i.crmStores(ctx)
	if err != nil {
		return err
	}
	if err := i.Judge(ctx); err != nil {
		return err
	}
	specs, err := i.crmHandlers(ctx, stores)
	if err != nil {
		return err
	}
	priorities, err := priority.New(c.Priorities.Rules())
	if err != nil {
		return err
	}
	numbers := metrics.NewCRM()
	sys, err := crm.New(
		crm.Parts{Queues: stores.queues, Letters: stores.letters, Log: stores.log, Replays: stores.replays, Profiles: stores.profiles,
			Handlers: specs, Intakes: stores.intakes},
		crm.Options{Workers: c.Workers, Batch: c.Batch, Ahead: c.Ahead, Attempts: c.Attempts, Backoff: c.Backoff, Lease: c.Lease,
			PerSecond: boundOf(c.PerSecond), PerTenant: boundOf(c.TenantPerSecond), Tenants: c.Limits(),
			Completed: boundOf(c.KeptCompleted), Failed: boundOf(c.KeptFailed), DeadFor: c.DeadLife, LogFor: c.LogLife,
			Unknown: map[string]crm.Unknown{"skip": crm.Skip, "dead": crm.Dead}[c.Unknown], Create: c.Create, Priorities: priorities,
			Log: o.Log, Now: o.Now, Observe: i.Observe, Finished: numbers.Finished})
	if err != nil {
		return err
	}
	numbers.Watch(sys)
	if err := i.crmDoor(ctx, sys, stores); err != nil {
		return err
	}
	i.systems = append(i.systems, sys.System)
	books := sys.Books()
	i.engines.Add(sys.Pipelines, books)
	i.Metrics.MustRegister(numbers)
	i.checks = append(i.checks, func(ctx context.Context) []preflight.Finding { return i.crmFindings(ctx, sys, stores) })
	api.Systems = append(api.Systems, admin.System{Name: sys.Name, Pipelines: sys.Pipelines, Books: books, Decodes: sys.Decodes, Audit: func(ctx context.Context) (any, bool, error) {
		a, err := sys.Audit(ctx)
		if err != nil {
			return nil, false, err
		}
		return a, a.Balanced, nil
	}})
	i.crmDesk(api, sys, stores)
	return nil
}

// boundOf is a bound as the system has it, for which 0 is the default: below 0 is none.
func boundOf[T int | float64](n T) T {
	if n == 0 {
		return -1
	}
	return n
}

// crmDesk shows what operators look at and move.
func (i *Instance) crmDesk(api *admin.Parts, sys *crm.System, s *crmStores) {
	api.CRM = sys
	switch api.Queues {
	case nil, s.queues:
		api.Queues = s.queues
	default:
		api.Queues = apart{own: s.queues, name: crm.Queue, rest: api.Queues}
	}
	api.AddLetters(crm.Name, s.letters)
}

// crmStores opens what stands behind the roles.
func (i *Instance) crmStores(ctx context.Context) (*crmStores, error) {
	s, c := &crmStores{}, i.Config
	for _, part := range []struct {
		wanted bool
		open   func(context.Context, *crmStores) error
	}{
		{c.CRMRedis() == "" || c.CRMPostgres() == "", i.crmEmbedded},
		{c.CRMPostgres() != "", i.crmOnPostgres},
		{c.CRMRedis() != "", i.crmOnRedis},
		{c.CRM.BullMQ.URL != "", i.crmFromBullMQ},
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

// crmEmbedded puts the embedded database behind every role.
func (i *Instance) crmEmbedded(ctx context.Context, s *crmStores) error {
	now := i.Now
	f, err := i.File(ctx)
	if err != nil {
		return err
	}
	s.queues, s.letters, s.projects, s.damaged = f.Queues, f.Letters, f.Projects, f.Damaged(crm.Queue)
	if i.Config.CRMPostgres() != "" {
		return nil
	}
	log, err := sqliteledger.New(ctx, f.DB, sqliteledger.Options{Name: crmLog, Now: now})
	if err != nil {
		return err
	}
	profiles, err := sqliteprofile.New(ctx, f.DB, profile.Options{Now: now})
	if err != nil {
		return err
	}
	s.log, s.profiles = log, profiles
	s.attributes = func(m handler.Mapping) (handler.Handler, error) {
		return handler.AttributesIn(log, profiles, m)
	}
	if i.Config.CRMRedis() != "" {
		i.Look(func(context.Context) []preflight.Finding { return []preflight.Finding{aloneOnRedis()} })
	}
	s.replays, err = sqliteledger.New(ctx, f.DB, sqliteledger.Options{Name: crmReplays, Now: now})
	return err
}

// crmOnPostgres puts a PostgreSQL behind sync log, replays and profiles.
func (i *Instance) crmOnPostgres(ctx context.Context, s *crmStores) error {
	address := i.Config.CRMPostgres()
	db, err := i.Postgres(ctx, address)
	if err != nil {
		return err
	}
	log, err := postgresledger.New(ctx, db, postgresledger.Options{Name: crmLog})
	if err != nil {
		return err
	}
	profiles, err := postgresprofile.New(ctx, db, profile.Options{Now: i.Now})
	if err != nil {
		return err
	}
	s.profiles = profiles
	s.attributes = func(m handler.Mapping) (handler.Handler, error) {
		return handler.AttributesIn(log, profiles, m)
	}
	if s.log, err = ledger.GatherStore(log, crmGather); err != nil {
		return err
	}
	if s.replays, err = postgresledger.New(ctx, db, postgresledger.Options{Name: crmReplays}); err != nil {
		return err
	}
	if s.projects, err = postgresproject.New(ctx, db); err != nil {
		return err
	}
	i.Uses = append(i.Uses, fmt.Sprintf("sync log: PostgreSQL, %s", address))
	return nil
}

// crmOnRedis puts a Redis behind queue and dead letters, under keys of their own.
func (i *Instance) crmOnRedis(ctx context.Context, s *crmStores) error {
	c, address := &i.Config.CRM, i.Config.CRMRedis()
	client, err := i.Redis(ctx, address)
	if err != nil {
		return err
	}
	s.damaged = nil
	if s.queues, err = redisqueue.New(client, redisqueue.Options{Prefix: crmKeys, Capacity: c.QueueMax, Shards: c.Shards}); err != nil {
		return err
	}
	if s.letters, err = redisdeadletter.New(ctx, client, redisdeadletter.Options{
		Options: deadletter.Options{Max: c.DeadMax, Now: i.Now}, Stream: crmLetters, Pipeline: crm.Queue}); err != nil {
		return err
	}
	i.Uses = append(i.Uses, fmt.Sprintf("CRM queue: Redis, %s", address))
	return nil
}

// crmFromBullMQ takes events from a queue of BullMQ's.
func (i *Instance) crmFromBullMQ(ctx context.Context, s *crmStores) error {
	c := &i.Config.CRM.BullMQ
	client, err := i.Redis(ctx, c.URL)
	if err != nil {
		return err
	}
	log := i.Log
	source, err := bullmqsource.New(client, bullmqsource.Options{Queue: c.Queue, Prefix: c.Prefix, Lease: i.Config.CRM.Lease, Letters: true,
		Metrics: int(c.Metrics / time.Minute), Concurrency: i.Config.CRM.Workers, Ahead: ahead(s.queues),
		KeepCompleted: &bullmqsource.Keep{Count: boundOf(i.Config.CRM.KeptCompleted)}, KeepFailed: &bullmqsource.Keep{Count: boundOf(i.Config.CRM.KeptFailed)},
		Report: func(r bullmqsource.Report) {
			i.Report(crmIntake, string(r.What), uint64(r.Count))
			log.Warn("something happened to jobs of BullMQ", "pipeline", crmIntake, "what", string(r.What), "count", r.Count, "jobs", r.IDs, "text", r.Text)
		}})
	if err != nil {
		return err
	}
	s.intakes = append(s.intakes, crm.Intake{Name: crmIntake, Source: source, Reopened: bullmqsource.Retried})
	i.Uses = append(i.Uses, fmt.Sprintf("BullMQ: %s, queue %s", c.URL, c.Queue))
	return nil
}

// ahead is how many events of CRM wait or are being handled.
func ahead(q queue.Desk) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		n, err := q.Stats(ctx, crm.Queue)
		return int(n.Waiting + n.Leased), err
	}
}

// crmHandlers are those of the configuration.
func (i *Instance) crmHandlers(ctx context.Context, s *crmStores) ([]handler.Spec, error) {
	var specs []handler.Spec
	var names []string
	for n := range i.Config.CRM.Handlers {
		h := &i.Config.CRM.Handlers[n]
		spec := h.Spec()
		var err error
		if h.Endpoint != nil {
			spec.Handler, err = i.crmEndpoint(h)
		} else {
			spec.Handler, err = s.attributes(h.Attributes)
		}
		if err != nil {
			return nil, fmt.Errorf("handler %s: %w", h.Name, err)
		}
		specs, names = append(specs, spec), append(names, h.Name+" for "+strings.Join(h.Types, ", "))
	}
	what := map[string]string{"skip": "skipped, and counted", "dead": "dead letters"}[i.Config.CRM.Unknown]
	if len(specs) == 0 {
		names = []string{"none: all events are " + what + " (set crm.handlers)"}
		i.Log.InfoContext(ctx, "no handlers are configured: events are taken in and are "+what+"; crm.handlers says what to do with them", "unknown", i.Config.CRM.Unknown)
	}
	i.Uses = append(i.Uses, "handlers: "+strings.Join(names, "; "))
	return specs, nil
}

func (i *Instance) crmEndpoint(h *config.CRMHandler) (handler.Handler, error) {
	o, err := i.Config.CRMEndpoint(h)
	if err != nil {
		return nil, err
	}
	o.Now, o.Connections = i.Now, max(i.Config.CRM.Workers, 1)
	e, err := webhook.New(o)
	if err != nil {
		return nil, err
	}
	i.OnClose(func() error { e.Close(); return nil })
	return e, nil
}
