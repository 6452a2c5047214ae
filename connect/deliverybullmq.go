package connect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/events"
	"github.com/tidemill/tidemill/source/bullmqsource"
	"github.com/tidemill/tidemill/systems/delivery"
)

// deliveryIntake is the pipeline that takes events of delivery from BullMQ.
const deliveryIntake = "delivery-bullmq"

// deliveryFromBullMQ takes events from a queue of BullMQ's, by the rules of the endpoints.
func (i *Instance) deliveryFromBullMQ(ctx context.Context, api *admin.Parts, door *events.Handler, d *deliveryStores) error {
	c, o := &i.Config.Delivery.BullMQ, i.Host
	client, err := i.Redis(ctx, c.URL)
	if err != nil {
		return err
	}
	source, err := bullmqsource.New(client, bullmqsource.Options{Queue: c.Queue, Prefix: c.Prefix, Lease: i.Config.Delivery.Lease, Letters: true,
		Metrics: int(c.Metrics / time.Minute), Concurrency: i.Config.Delivery.Workers,
		Ahead: func(ctx context.Context) (int, error) {
			n := 0
			for _, name := range delivery.Doors() {
				s, err := d.queues.Stats(ctx, name)
				if err != nil {
					return 0, err
				}
				n += int(s.Waiting + s.Leased)
			}
			return n, nil
		},
		Report: func(r bullmqsource.Report) {
			i.Report(deliveryIntake, string(r.What), uint64(r.Count))
			o.Log.Warn("something happened to jobs of BullMQ", "pipeline", deliveryIntake, "what", string(r.What), "count", r.Count, "jobs", r.IDs, "text", r.Text)
		}})
	if err != nil {
		return err
	}
	sys, err := delivery.NewIntake(delivery.Intake{Name: deliveryIntake, Source: source, Letters: d.letters, Reopened: bullmqsource.Retried, Log: o.Log, Now: o.Now,
		Accept: func(ctx context.Context, raws [][]byte) ([]error, error) {
			results, err := door.Accept(ctx, raws)
			if err != nil {
				return nil, err
			}
			refused := make([]error, len(results))
			for n := range results {
				if results[n].Status == "rejected" {
					refused[n] = errors.New(results[n].Why)
				}
			}
			return refused, nil
		}})
	if err != nil {
		return err
	}
	i.systems = append(i.systems, sys)
	i.engines.Add(sys.Pipelines, nil)
	api.Systems = append(api.Systems, admin.System{Name: sys.Name, Pipelines: sys.Pipelines})
	i.Uses = append(i.Uses, fmt.Sprintf("BullMQ: %s, queue %s", c.URL, c.Queue))
	return nil
}
