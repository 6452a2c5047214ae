package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/test/promise"
)

// Names of events that the warehouse rejects, and that it panics at.
const (
	poison = "poison"
	bomb   = "bomb"
)

var projectID = uuid.MustParse("33333333-3333-4333-8333-333333333333")

const ingestKey = "sim-key"

func bad(e *promise.Event) bool { return e.Name == poison || e.Name == bomb }

// workload is what clients will send.
type workload struct {
	*promise.People
	events  []*promise.Event
	batches [][]*promise.Event
	claims  [][]*promise.Event // batches that one client sends in order
}

// newWorkload draws a history.
func newWorkload(rnd *rand.Rand) *workload {
	w := &workload{People: promise.NewPeople(rnd, 2+rnd.IntN(6))}
	start := time.Date(1999, 12, 31, 20, 0, 0, 0, time.UTC)
	draw := func() *promise.Event {
		e := w.Draw(rnd, len(w.events), start)
		w.events = append(w.events, &e)
		return &e
	}
	for range 40 + rnd.IntN(60) {
		e := draw()
		if rnd.IntN(10) == 0 {
			e.ID = uuid.Nil
		}
		switch roll := rnd.IntN(100); {
		case roll < 3:
			e.Name = poison
		case roll < 5:
			e.Name = bomb
		case e.ID != uuid.Nil && roll < 60:
			e.Change(rnd)
		}
	}
	for _, anonymous := range w.Claimed {
		for range 1 + rnd.IntN(2) {
			draw().Claim(rnd, w.People, anonymous)
		}
	}
	w.cut(rnd)
	return w
}

// cut cuts the events into batches, in any order.
func (w *workload) cut(rnd *rand.Rand) {
	order := slices.Clone(w.events)
	rnd.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for len(order) > 0 {
		k := min(1+rnd.IntN(8), len(order))
		same := rnd.IntN(4) == 0 // all within one millisecond
		for i, e := range order[:k] {
			if e.Place = i; same {
				e.At = order[0].At
			}
			e.Encode()
		}
		w.batches = append(w.batches, order[:k])
		if rnd.IntN(10) == 0 { // sent by another client too
			w.batches = append(w.batches, order[:k])
		}
		order = order[k:]
	}
}

// contend adds claims that depend on their order: the first makes user b an identified person,
// which the second must not merge. One client sends them, in batches cut anywhere.
func (w *workload) contend(rnd *rand.Rand) {
	at := time.Date(1999, 12, 31, 23, 30, 0, 0, time.UTC)
	var batch []*promise.Event
	for n := range 6 + rnd.IntN(8) {
		a, b, c := fmt.Sprint("a-", n), fmt.Sprint("b-", n), fmt.Sprint("c-", n)
		w.Owners[a] = b
		for _, claim := range [][2]string{{b, a}, {c, b}} {
			at = at.Add(time.Millisecond)
			e := w.Draw(rnd, len(w.events), at)
			e.Name, e.Distinct, e.Other, e.At, e.Place = "$identify", claim[0], claim[1], at, len(batch)
			e.Encode()
			w.events = append(w.events, &e)
			if batch = append(batch, &e); rnd.IntN(2) == 0 {
				w.claims = append(w.claims, batch)
				batch = nil
			}
		}
	}
	w.claims = append(w.claims, batch)
}

// persons says what each person must be.
func (w *workload) persons() map[string]*promise.Person {
	return promise.Persons(projectID, slices.DeleteFunc(slices.Clone(w.events), bad), w.Owners)
}
