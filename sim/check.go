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
)

// check compares what is durable with what was sent. It uses none of the product's rules
// but the id of a person.
func (w *world) check() {
	fault := w.fault
	ctx := context.Background()
	byN := map[int]*sent{}
	for _, e := range w.load.events {
		byN[e.n] = e
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
		stored[s.n]++
		if s.bad() || e.Name != s.name || e.DistinctID != s.distinct || !e.Timestamp.Equal(s.at) {
			fault("event %d was stored as %s of %s at %v", s.n, e.Name, e.DistinctID, e.Timestamp)
		}
		if p := want[w.load.whose(s.distinct)]; p != nil && e.Person != p.id {
			fault("event %d of %s belongs to person %v, not %v", s.n, s.distinct, e.Person, p.id)
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
		n, d := stored[e.n], dead[string(e.raw)]
		switch {
		case e.bad() && (n != 0 || d != 1):
			fault("event %d (%s) is stored %d times and dead %d times, want 0 and 1", e.n, e.name, n, d)
		case !e.bad() && n == 0:
			fault("event %d was acknowledged and is lost (dead letters: %d)", e.n, d)
		case !e.bad() && (n > 1 || d > 0):
			fault("event %d is stored %d times and dead %d times, want 1 and 0", e.n, n, d)
		}
		delete(dead, string(e.raw))
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

func (w *world) checkPersons(want map[string]*expected, fault func(string, ...any)) {
	for _, who := range sortedKeys(want) {
		p, err := w.persons.Show(context.Background(), person.Ref{Project: projectID, Distinct: who})
		if err != nil {
			fault("person of %s: %v", who, err)
			continue
		}
		x := want[who]
		if p.ID != x.id || p.Identified != x.identified {
			fault("person of %s is %v identified=%v, want %v %v", who, p.ID, p.Identified, x.id, x.identified)
		}
		got := map[string]string{}
		for k, v := range p.Properties {
			got[k] = string(bytes.TrimSpace(v))
		}
		if !maps.Equal(got, x.properties) {
			fault("person of %s has %v, want %v", who, got, x.properties)
		}
	}
	for anonymous, user := range w.load.owner {
		if p, err := w.persons.Show(context.Background(), person.Ref{Project: projectID, Distinct: anonymous}); err != nil || p.ID != want[user].id {
			fault("distinct id %s does not belong to %s: %v", anonymous, user, err)
		}
	}
}

// checkBooks compares the product's own proof with the checker's.
func (w *world) checkBooks(held uint64, fault func(string, ...any)) {
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
