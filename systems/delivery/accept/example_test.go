package accept_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/systems/delivery/accept"
	"github.com/tidemill/tidemill/systems/delivery/event"
)

// A purchase is sent twice under one key, then by another sender under another.
func Example() {
	ctx := context.Background()
	rules, err := event.New(event.Options{})
	if err != nil {
		log.Fatal(err)
	}
	endpoint, err := accept.New(tableledger.Memory(tableledger.Options{}), memoryqueue.New(memoryqueue.Options{}), accept.Options{})
	if err != nil {
		log.Fatal(err)
	}
	send := func(key, body string) {
		item := accept.Item{Raw: []byte(body)}
		if err := rules.Decode(item.Raw, event.Given{}, &item.Event); err != nil {
			item.Refused, _ = errors.AsType[*event.Invalid](err)
		}
		answer, err := endpoint.Accept(ctx, &accept.Request{Site: "shop", Key: key, Body: item.Raw, Items: []accept.Item{item}})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(string(answer.Results))
	}
	const purchase = `{"eventType":"purchase","timestamp":"2026-11-21T19:00:00Z","siteId":"shop","eventId":"7d9f0c7e-3f7b-4a55-9d7e-2f4f5a3c1b2d",
		"orderId":"o-1","value":9.5,"currency":"EUR","items":[{"id":"shoe"}]}`
	send("a", purchase)
	send("a", purchase)
	send("b", purchase)
	send("a", `{"eventType":"custom_event","timestamp":"2026-11-21T19:00:00Z","siteId":"shop"}`)
	send("c", `{"eventType":"page_view","timestamp":"2026-11-21T19:00:00Z","siteId":"shop"}`)
	// Output:
	// [{"eventId":"7d9f0c7e-3f7b-4a55-9d7e-2f4f5a3c1b2d","status":"accepted"}]
	// [{"eventId":"7d9f0c7e-3f7b-4a55-9d7e-2f4f5a3c1b2d","status":"accepted"}]
	// [{"eventId":"7d9f0c7e-3f7b-4a55-9d7e-2f4f5a3c1b2d","status":"duplicate","duplicateOf":"7d9f0c7e-3f7b-4a55-9d7e-2f4f5a3c1b2d"}]
	// the idempotency key was used for another request: use a new key for what is new
	// [{"status":"rejected","error":"validation_failed","details":[{"path":"context.page.url","message":"is missing","allowed":"a text of 1 to 2,048 characters"}]}]
}
