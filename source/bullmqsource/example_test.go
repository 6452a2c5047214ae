package bullmqsource_test

import (
	"context"
	"fmt"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/source/bullmqsource"
)

// A pipeline that works on the jobs of a BullMQ queue. Its Retry has no end: a job's own attempts
// say how often it is tried.
func Example() {
	ctx := context.Background()
	client, err := redisconn.Open(ctx, tidemill.NewSecret("redis://localhost:6379"), redisconn.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	source, err := bullmqsource.New(client, bullmqsource.Options{Queue: "crm-events"})
	if err != nil {
		fmt.Println(err)
		return
	}
	steps := flow.Steps[[]byte]{
		Decode: func(m *tidemill.Message, data *[]byte) error { *data = m.Payload; return nil },
		Stages: []flow.Stage[[]byte]{{Name: "apply", Do: func(_ context.Context, batch []*flow.Item[[]byte]) error { return nil }}},
	}
	engine, err := flow.New(flow.Pipeline{Name: "crm", Source: source, Work: steps.Lane, Lanes: 10,
		Retry: policy.Retry{Tries: -1, Base: policy.Partner.Base, Factor: 2, Max: policy.Partner.Max}})
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = engine.Run(ctx)
}
