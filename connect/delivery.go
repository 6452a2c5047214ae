package connect

import (
	"context"
	"fmt"

	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/endpoint"
	"github.com/tidemill/tidemill/serve/events/limit/redislimit"
	"github.com/tidemill/tidemill/serve/metrics"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/redisdeadletter"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/postgresledger"
	"github.com/tidemill/tidemill/state/ledger/redisledger"
	"github.com/tidemill/tidemill/state/ledger/sqliteledger"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/redisqueue"
	"github.com/tidemill/tidemill/systems/delivery"
	"github.com/tidemill/tidemill/systems/delivery/accept"
	"github.com/tidemill/tidemill/systems/delivery/accept/redisaccept"
	"github.com/tidemill/tidemill/systems/delivery/accept/sqliteaccept"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

// deliveryStores are what stands behind delivery's roles.
type deliveryStores struct {
	queues   queue.Whole
	letters  deadletter.Store
	keys     ledger.Store     // idempotency
	stroke   accept.Stroke    // of both; nil: there is none
	sent     ledger.Store     // purchases
	projects project.Projects // of the embedded database; nil: there is none
	meter    endpoint.Meter   // nil: one in memory
}

// delivery puts the delivery system together with its door, on the Redis that is named or
// embedded.
func (i *Instance) delivery(ctx context.Context, api *admin.Parts) error {
	c, o := &i.Config.Delivery, i.Host
	stores := &deliveryStores{}
	open := i.deliveryEmbedded
	if i.Config.DeliveryRedis() != "" {
		open = i.deliveryOnRedis
	}
	if err := open(ctx, stores); err != nil {
		return err
	}
	if i.Config.Postgres.URL != "" {
		if err := i.sentInPostgres(ctx, stores); err != nil {
			return err
		}
	}
	if err := i.Judge(ctx); err != nil {
		return err
	}
	skip := map[string]bool{}
	for _, s := range c.Sites {
		skip[s.ID] = s.Consent == "skip"
	}
	sys, err := delivery.New(
		delivery.Parts{Queues: stores.queues, Letters: stores.letters, Sent: stores.sent, Partners: c.Partners, Env: partner.Env{Secret: i.Config.Secret}},
		delivery.Options{Workers: c.Workers, Most: max(c.MaxWorkers, c.Workers), Lease: c.Lease, Keep: c.SentLife,
			Kept: queue.Keep{Count: c.Kept, Age: c.KeptFor}, Limit: c.QueueMax, Tenants: c.Limits(), Absent: func(site string) bool { return !skip[site] },
			Log: o.Log, Now: o.Now, Observe: i.Observe})
	if err != nil {
		return err
	}
	i.checks = append(i.checks, func(ctx context.Context) []preflight.Finding {
		return checkPartners(ctx, sys, stores.queues, c.QueueMax)
	})
	door, err := i.deliveryDoor(ctx, sys, stores)
	if err != nil {
		return err
	}
	i.systems = append(i.systems, sys.System)
	books := sys.Books()
	i.engines.Add(sys.Pipelines, books)
	i.Metrics.MustRegister(metrics.NewDelivery(sys, stores.queues))
	api.Systems = append(api.Systems, admin.System{Name: sys.Name, Pipelines: sys.Pipelines, Books: books, Decodes: sys.Decodes, Audit: func(ctx context.Context) (any, bool, error) {
		a, err := sys.Audit(ctx)
		return a, a.Balanced, err
	}})
	api.Queues, api.Delivery, api.SendDelivery = stores.queues, sys, door.Accept
	api.AddLetters(delivery.Name, stores.letters)
	if c.BullMQ.URL != "" {
		return i.deliveryFromBullMQ(ctx, api, door, stores)
	}
	return nil
}

// deliveryEmbedded puts the embedded database behind every role.
func (i *Instance) deliveryEmbedded(ctx context.Context, d *deliveryStores) (err error) {
	f, err := i.File(ctx)
	if err != nil {
		return err
	}
	d.queues, d.letters, d.projects = f.Queues, f.Letters, f.Projects
	keys, err := sqliteledger.New(ctx, f.DB, sqliteledger.Options{Name: "keys", Now: i.Now})
	if err != nil {
		return err
	}
	d.keys, d.stroke = keys, sqliteaccept.New(keys, f.Queues)
	d.sent, err = sqliteledger.New(ctx, f.DB, sqliteledger.Options{Name: "sent", Now: i.Now})
	return err
}

// sentInPostgres keeps what was sent in a PostgreSQL.
func (i *Instance) sentInPostgres(ctx context.Context, d *deliveryStores) error {
	db, err := i.Postgres(ctx, i.Config.Postgres.URL)
	if err != nil {
		return err
	}
	if d.sent, err = postgresledger.New(ctx, db, postgresledger.Options{Name: "sent"}); err != nil {
		return err
	}
	i.Uses = append(i.Uses, fmt.Sprintf("what was sent: PostgreSQL, %s", i.Config.Postgres.URL))
	return nil
}

// deliveryOnRedis puts a Redis behind every role.
func (i *Instance) deliveryOnRedis(ctx context.Context, d *deliveryStores) error {
	c, address := &i.Config.Delivery, i.Config.DeliveryRedis()
	client, err := i.Redis(ctx, address)
	if err != nil {
		return err
	}
	queues, err := redisqueue.New(client, redisqueue.Options{Capacity: c.QueueMax, Shards: c.Shards})
	if err != nil {
		return err
	}
	if d.letters, err = redisdeadletter.New(ctx, client, redisdeadletter.Options{
		Options: deadletter.Options{Max: c.DeadMax, Now: i.Now}, Stream: "delivery:dlq", Pipeline: delivery.Name}); err != nil {
		return err
	}
	keys, err := redisledger.New(client, redisledger.Options{Name: "keys"})
	if err != nil {
		return err
	}
	d.queues, d.keys, d.stroke = queues, keys, redisaccept.New(keys, queues)
	if d.sent, err = redisledger.New(client, redisledger.Options{Name: "sent"}); err != nil {
		return err
	}
	if d.meter, err = redislimit.New(client, redislimit.Options{Prefix: "delivery:", Now: i.Now}); err != nil {
		return err
	}
	i.Uses = append(i.Uses, fmt.Sprintf("queues: Redis, %s", address))
	return nil
}
