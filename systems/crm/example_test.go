package crm_test

import (
	"context"
	"fmt"

	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/profile/tableprofile"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/handler"
)

// An application with the whole system inside: queue, sync log, profiles and a handler of its
// own. In memory here; in production on backends that outlive it.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	letters, err := tabledeadletter.Memory(deadletter.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	profiles, err := tableprofile.Memory(profile.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	welcomed := make(chan string)
	sys, err := crm.New(crm.Parts{
		Queues:      memoryqueue.New(memoryqueue.Options{}),
		DeadLetters: letters,
		Log:         tableledger.Memory(tableledger.Options{}),
		Replays:     tableledger.Memory(tableledger.Options{}),
		Profiles:    profiles,
		Handlers: []handler.Spec{{Name: "welcome", Types: []string{"member.created"}, Handler: handler.Func(func(_ context.Context, c *handler.Call) error {
			welcomed <- fmt.Sprintf("welcome %s, new: %v", c.Event.Identity.Email, c.New)
			return nil
		})}},
	}, crm.Options{Create: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error)
	go func() { ended <- sys.Run(ctx) }()

	results, err := sys.Acceptor().Accept(ctx, [][]byte{[]byte(`{
		"id": "evt-1", "type": "member.created", "tenantId": "club-7",
		"identity": {"email": "ann@example.com"}, "occurredAt": "2026-01-15T10:00:00Z"
	}`)}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(results[0].ID, results[0].Status)
	fmt.Println(<-welcomed)
	stop()
	fmt.Println(<-ended)
	// Output:
	// evt-1 accepted
	// welcome ann@example.com, new: true
	// <nil>
}

// A handler is tested with one call, and without any of that.
func Example_testOfAHandler() {
	greet := handler.Spec{Name: "greet", Types: []string{"member.*"}, Handler: handler.Func(func(_ context.Context, c *handler.Call) error {
		if c.New {
			panic("nobody to greet")
		}
		return nil
	})}
	event := []byte(`{"id":"e","type":"member.created","tenantId":"t","identity":{"phone":"+49301234"},"occurredAt":"2026-01-15T10:00:00Z"}`)
	for _, isNew := range []bool{false, true} {
		out, err := handler.Try(context.Background(), greet, event, handler.Who{New: isNew})
		fmt.Println(out.Then(), out.Err, err)
	}
	// Output:
	// completed <nil> <nil>
	// retried greet: the handler panicked: nobody to greet <nil>
}
