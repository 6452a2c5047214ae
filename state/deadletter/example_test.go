package deadletter_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
)

// A message dies, an operator asks for its replay, and it is delivered.
func Example() {
	ctx := context.Background()
	store, err := tabledeadletter.Memory(deadletter.Options{})
	if err != nil {
		log.Fatal(err)
	}
	died := tidemill.DeadLetter{Pipeline: "orders", Kind: tidemill.Partner, Cause: "answered 500", Tries: 3, At: time.Now(),
		Message: &tidemill.Message{ID: "order-1", Payload: []byte(`{"total":12}`)}}
	if err := store.Put(ctx, []tidemill.DeadLetter{died}); err != nil {
		log.Fatal(err)
	}
	for l, err := range store.List(ctx, deadletter.Filter{Pipeline: "orders"}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(l.State, l.ID, l.Kind, l.Cause)
	}
	if _, err := store.Replay(ctx, deadletter.Filter{Pipeline: "orders", NotKinds: []tidemill.Kind{tidemill.Validation}}); err != nil {
		log.Fatal(err)
	}
	replays := store.Open("orders") // in production the source of a pipeline
	m := new(tidemill.Message)
	if _, err := replays.Receive(ctx, []*tidemill.Message{m}); err != nil {
		log.Fatal(err)
	}
	fmt.Println("again:", m.ID, string(m.Payload))
	if err := replays.Settle(ctx, []tidemill.Settlement{{ID: m.ID, Mark: m.Mark, Fate: tidemill.Delivered}}); err != nil {
		log.Fatal(err)
	}
	books, err := replays.(tidemill.Bookkeeper).Books(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("put", books.Accepted, "replayed", books.Settled.Delivered, "there", books.Pending, "off", books.Off())
	// Output:
	// held order-1 partner_error answered 500
	// again: order-1 {"total":12}
	// put 1 replayed 1 there 0 off 0
}
