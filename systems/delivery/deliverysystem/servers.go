//go:build !embedded

package deliverysystem

import (
	"context"
	"fmt"

	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/redisdeadletter"
	"github.com/tidemill/tidemill/state/ledger/postgresledger"
	"github.com/tidemill/tidemill/state/ledger/redisledger"
	"github.com/tidemill/tidemill/state/queue/redisqueue"
	"github.com/tidemill/tidemill/systems/delivery"
	"github.com/tidemill/tidemill/systems/delivery/accept/redisaccept"
	"github.com/tidemill/tidemill/systems/delivery/deliveryingest/limit/redislimit"
)

// sentInPostgres keeps what was sent in a PostgreSQL.
func (w *wiring) sentInPostgres(ctx context.Context, d *stores) error {
	db, err := w.Postgres(ctx, w.Config.Postgres.URL)
	if err != nil {
		return err
	}
	if d.sent, err = postgresledger.New(ctx, db, postgresledger.Options{Name: "sent"}); err != nil {
		return err
	}
	w.Uses = append(w.Uses, fmt.Sprintf("what was sent: PostgreSQL, %s", w.Config.Postgres.URL))
	return nil
}

// onRedis puts a Redis behind every role.
func (w *wiring) onRedis(ctx context.Context, d *stores) error {
	c, address := w.own, w.own.Redis()
	client, err := w.Redis(ctx, address)
	if err != nil {
		return err
	}
	queues, err := redisqueue.New(client, redisqueue.Options{Capacity: c.QueueMax, Shards: c.Shards})
	if err != nil {
		return err
	}
	if d.letters, err = redisdeadletter.New(ctx, client, redisdeadletter.Options{
		Options: deadletter.Options{Max: c.DeadMax}, Stream: "delivery:dlq", Pipeline: delivery.Name}); err != nil {
		return err
	}
	keys, err := redisledger.New(client, redisledger.Options{Name: "keys"})
	if err != nil {
		return err
	}
	d.queues, d.keys, d.transaction = queues, keys, redisaccept.New(keys, queues)
	if d.sent, err = redisledger.New(client, redisledger.Options{Name: "sent"}); err != nil {
		return err
	}
	if d.meter, err = redislimit.New(client, redislimit.Options{Prefix: "delivery:", Now: w.Now}); err != nil {
		return err
	}
	w.Uses = append(w.Uses, fmt.Sprintf("queues: Redis, %s", address))
	return nil
}
