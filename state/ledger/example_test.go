package ledger_test

import (
	"context"
	"fmt"
	"log"

	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
)

// A request with an idempotency key is sent twice, and answered twice, but executed once.
func Example() {
	ctx := context.Background()
	l := tableledger.Memory(tableledger.Options{})
	for range 2 {
		e := &ledger.Entry{Key: "shop/POST/orders/7f3a", Payload: []byte("hash of the request")}
		if err := l.Begin(ctx, []*ledger.Entry{e}, ledger.Begin{}); err != nil {
			log.Fatal(err)
		}
		switch e.State {
		case ledger.Fresh:
			fmt.Println("doing it")
			e.State, e.Result = ledger.Done, []byte("201 order 12")
			if err := l.End(ctx, []*ledger.Entry{e}); err != nil {
				log.Fatal(err)
			}
		case ledger.Running:
			fmt.Println("409: the first is still at work")
		case ledger.Done:
			fmt.Println("not again:", string(e.Result))
		}
	}
	// Output:
	// doing it
	// not again: 201 order 12
}
