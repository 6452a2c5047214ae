// Command quickstart embeds the engine in a program: orders go into a queue in memory, a
// pipeline works on them, and the books say what became of each.
//
//	go run ./examples/quickstart
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
)

// order is what a payload decodes to.
type order struct {
	Item  string
	Count int
	Test  bool
}

func main() {
	if err := run(os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(out io.Writer) error {
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	queues := memoryqueue.New(memoryqueue.Options{})
	letters, err := tabledeadletter.Memory(deadletter.Options{})
	if err != nil {
		return err
	}

	jobs := []*tidemill.Message{
		{ID: "1", To: "orders", Payload: []byte(`{"item": "lamp", "count": 2}`)},
		{ID: "2", To: "orders", Payload: []byte(`{"item": "desk", "count": 1, "test": true}`)},
		{ID: "3", To: "orders", Payload: []byte(`{"item": "sofa", "count": -1}`)},
		{ID: "4", To: "orders", Payload: []byte(`not even JSON`)},
	}
	if err := queues.Add(ctx, jobs, nil); err != nil {
		return err
	}
	if err := queues.Add(ctx, jobs, nil); err != nil { // a producer may always send again
		return err
	}

	source := queues.Open("orders", queue.Options{})
	steps := flow.Steps[order]{
		Decode: decode,
		Stages: []flow.Stage[order]{
			{Name: "check", Do: check, Repeat: true},
			{Name: "ship", Do: ship(out), Retry: policy.Retry{Tries: 3, Base: 50 * time.Millisecond, Factor: 2}, Repeat: true},
		},
	}
	left := len(jobs)
	engine, err := flow.New(flow.Pipeline{
		Name: "orders", Source: source, Work: steps.Lane, Dead: letters, Batch: 100,
		Settled: func(ends []tidemill.Settlement) {
			for _, end := range ends {
				if end.End == tidemill.Done && end.Outcome == tidemill.Applied {
					left--
				}
			}
			if left == 0 {
				stop()
			}
		},
	})
	if err != nil {
		return err
	}
	if err := engine.Run(ctx); err != nil { // until every order has ended
		return err
	}
	return report(out, source.(tidemill.Bookkeeper), letters)
}

// decode refuses what is not an order: it becomes a dead letter at once.
func decode(m *tidemill.Message, o *order) error {
	if err := json.Unmarshal(m.Payload, o); err != nil {
		return tidemill.Fail(tidemill.Validation, "no order: %w", err)
	}
	return nil
}

// check ends single orders; the others go on.
func check(_ context.Context, batch []*flow.Item[order]) error {
	for _, it := range batch {
		switch {
		case it.Value.Count <= 0:
			it.Fail(tidemill.Fail(tidemill.Validation, "count is %d; 1 or more is needed", it.Value.Count))
		case it.Value.Test:
			it.Skip("a test order")
		}
	}
	return nil
}

// ship delivers the rest. Its first try fails, and the stage's retry repeats this stage alone.
func ship(out io.Writer) func(context.Context, []*flow.Item[order]) error {
	tries := 0
	return func(_ context.Context, batch []*flow.Item[order]) error {
		if tries++; tries == 1 {
			return tidemill.Fail(tidemill.Transient, "the warehouse is closed for a moment")
		}
		for _, it := range batch {
			fmt.Fprintf(out, "shipped %d × %s\n", it.Value.Count, it.Value.Item)
		}
		return nil
	}
}

// report shows the books and the dead letters.
func report(out io.Writer, source tidemill.Bookkeeper, letters deadletter.Store) error {
	ctx := context.Background()
	b, err := source.Books(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "accepted %d = delivered %d + skipped %d + dead %d + in flight %d\n",
		b.Accepted, b.Settled.Delivered, b.Settled.Skipped, b.Settled.Dead, b.Pending)
	for l, err := range letters.List(ctx, deadletter.Filter{}) {
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "dead: order %s, %s: %s\n", l.ID, l.Kind, l.Cause)
	}
	return nil
}
