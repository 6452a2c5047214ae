package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/analytics"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
	"github.com/tidemill/tidemill/test/promise"
)

// check compares what is durable with what was sent.
func (w *world) check() {
	fault := w.fault
	ctx := context.Background()
	byN := map[int]*promise.Event{}
	for _, e := range w.load.events {
		byN[e.N] = e
	}
	want := w.load.persons()

	stored := map[int]int{}
	for e, err := range w.events.Events(ctx, warehouse.Filter{Project: projectID}) {
		if err != nil {
			fault("the warehouse cannot be read: %v", err)
			return
		}
		var props struct{ N *int }
		if err := json.Unmarshal(e.Properties, &props); err != nil || props.N == nil || byN[*props.N] == nil {
			fault("an event was stored that nobody sent: %s", e.Properties)
			continue
		}
		s := byN[*props.N]
		stored[s.N]++
		if bad(s) || e.Name != s.Name || e.DistinctID != s.Distinct || !e.Timestamp.Equal(s.At) {
			fault("event %d was stored as %s of %s at %v", s.N, e.Name, e.DistinctID, e.Timestamp)
		}
		if p := want[w.load.Of(s.Distinct)]; p != nil && e.Person != p.ID {
			fault("event %d of %s belongs to person %v, not %v", s.N, s.Distinct, e.Person, p.ID)
		}
	}
	dead := map[string]int{}
	var held uint64
	for l, err := range w.letters.List(ctx, deadletter.Filter{}) {
		if err != nil {
			fault("the dead letters cannot be read: %v", err)
			return
		}
		held++
		dead[string(l.Payload)]++
	}
	for _, e := range w.load.events {
		if promise.Arrived(e, bad(e), 1, stored[e.N], dead[string(e.Raw)], fault) {
			fault("acknowledged and lost: %v", e)
		}
		delete(dead, string(e.Raw))
	}
	for _, j := range w.junk {
		if dead[string(j)] != 1 {
			fault("what was no event is dead %d times, want 1, byte for byte", dead[string(j)])
		}
		delete(dead, string(j))
	}
	for _, payload := range slices.Sorted(maps.Keys(dead)) {
		fault("a dead letter has a payload that nobody sent: %q", payload)
	}
	w.checkPersons(want, fault)
	w.checkBooks(held, fault)
}

func (w *world) checkPersons(want map[string]*promise.Person, fault promise.Fault) {
	for _, who := range slices.Sorted(maps.Keys(want)) {
		p, err := w.persons.Show(context.Background(), person.Ref{Project: projectID, Distinct: who})
		if err != nil {
			fault("person of %s: %v", who, err)
			continue
		}
		got := &promise.Person{ID: p.ID, Identified: p.Identified, Distinct: map[string]bool{}, Properties: map[string]string{}}
		for _, d := range p.Distinct {
			got.Distinct[d] = true
		}
		for k, v := range p.Properties {
			got.Properties[k] = string(bytes.TrimSpace(v))
		}
		want[who].Check(who, got, fault)
	}
}

// checkBooks compares the product's own proof with the checker's.
func (w *world) checkBooks(held uint64, fault promise.Fault) {
	sys, err := analytics.New(analytics.Parts{Source: w.queues.Open(analytics.Name, queue.Options{}), Persons: w.persons, Warehouse: w.events,
		Definitions: w.defs, DeadLetters: w.letters, Locks: w.locks}, analytics.Options{})
	if err != nil {
		fault("%v", err)
		return
	}
	a, err := sys.Audit(context.Background())
	if err != nil {
		fault("audit: %v", err)
		return
	}
	if !a.Balanced {
		fault("the books do not balance: %+v", a)
	}
	if total := uint64(len(w.load.events) + len(w.junk)); a.Accepted != total || a.InFlight != 0 || a.Letters.Held != held {
		fault("the books say %d accepted, %d in flight, %d held; %d were sent, none is in flight, %d are held", a.Accepted, a.InFlight, a.Letters.Held, total, held)
	}
}
