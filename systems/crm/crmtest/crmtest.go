// Package crmtest puts CRM systems together for tests of other things: their stores are in
// memory.
package crmtest

import (
	"context"
	"testing"

	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/profile/tableprofile"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/handler"
)

// Parts are new ones in memory, with these handlers.
func Parts(t testing.TB, handlers ...handler.Spec) crm.Parts {
	t.Helper()
	letters, err := tabledeadletter.Memory(deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	profiles, err := tableprofile.Memory(profile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return crm.Parts{Queues: memoryqueue.New(memoryqueue.Options{}), DeadLetters: letters, Log: tableledger.Memory(tableledger.Options{}),
		Replays: tableledger.Memory(tableledger.Options{}), Profiles: profiles, Handlers: handlers}
}

// New makes a system of parts.
func New(t testing.TB, p crm.Parts, o crm.Options) *crm.System {
	t.Helper()
	sys, err := crm.New(p, o)
	if err != nil {
		t.Fatal(err)
	}
	return sys
}

// Run runs a system; stop ends it.
func Run(t testing.TB, sys *crm.System) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- sys.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
