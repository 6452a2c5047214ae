//go:build !embedded

package deliverysystem

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/source/bullmqsource"
	"github.com/tidemill/tidemill/systems/delivery"
	"github.com/tidemill/tidemill/systems/delivery/deliveryingest"
)

// intakeName is the pipeline that takes events of delivery from BullMQ.
const intakeName = "delivery-bullmq"

// fromBullMQ takes events from a queue of BullMQ's, by the rules of the endpoints.
func (w *wiring) fromBullMQ(ctx context.Context, endpoint *deliveryingest.Handler, d *stores) (r system.Running, err error) {
	c, o := &w.own.BullMQ, w.Host
	client, err := w.Redis(ctx, c.URL)
	if err != nil {
		return r, err
	}
	source, err := bullmqsource.New(client, bullmqsource.Options{Queue: c.Queue, Prefix: c.Prefix, Lease: w.own.Lease, DeadLetters: true,
		Metrics: int(c.Metrics / time.Minute), Concurrency: w.own.Workers, Trace: o.Tracer != nil,
		Ahead: func(ctx context.Context) (int, error) {
			n := 0
			for _, name := range delivery.EventQueues() {
				s, err := d.queues.Stats(ctx, name)
				if err != nil {
					return 0, err
				}
				n += int(s.Waiting + s.Leased)
			}
			return n, nil
		},
		Report: func(r bullmqsource.Report) { w.OfJobs(w.Log, intakeName, r) }})
	if err != nil {
		return r, err
	}
	sys, err := delivery.NewIntake(delivery.Intake{Name: intakeName, Source: source, DeadLetters: d.letters, Reopened: bullmqsource.Retried, Log: o.Log, Now: o.Now,
		Accept: func(ctx context.Context, raws [][]byte, traces []*tidemill.Trace) ([]error, error) {
			results, err := endpoint.AcceptUnder(ctx, raws, traces)
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
		return r, err
	}
	w.Uses = append(w.Uses, fmt.Sprintf("BullMQ: %s, queue %s", c.URL, c.Queue))
	return system.Running{System: sys}, nil
}
