package answer

import (
	"context"

	"github.com/tidemill/tidemill/serve/api"
)

// A Finder is what a system knows of its own things by their ids. Its look-ups are point look-ups:
// none goes through a list that grows with what is stored.
type Finder interface {
	// Lookups are the places where a thing with that id may be, what its form hints at first. owner
	// is whose it is, as people say it; empty: anybody's. They are done at the same time.
	Lookups(id, owner string) []Lookup
	// Explain tells the life of an event, or refuses with 404 where nothing is known of it. A part
	// that cannot be asked is noted in the answer, and the other parts stay.
	Explain(ctx context.Context, owner, id string) (api.Explanation, error)
}

// Lookup is one place, which has things by their ids.
type Lookup struct {
	Where string                                     // the queue of crm
	Not   string                                     // why it is not looked there; empty: it is
	Do    func(context.Context) ([]api.Thing, error) // nil with Not
}

// MostOwners is for how many owners a thing is looked for whose owner is not said: each costs a point
// look-up.
const MostOwners = 1000

// Finds is how a program's system is found in: by its Finder, or why not.
type Finds struct {
	System  string
	Finder  Finder // nil: it does not run here, or has nothing to be found
	Missing string // why, as a sentence
}

// EventHit is an event that can be explained.
func EventHit(system, kind, owner, id, text string) api.Thing {
	p := map[string]string{"system": system, "id": id}
	if owner != "" {
		p["owner"] = owner
	}
	return api.Thing{Kind: kind, System: system, Owner: owner, ID: id, Text: text, Operation: api.Explain.ID, Parameters: p}
}

// JobHit is a job of a queue.
func JobHit(system, queue, owner, id, text string) api.Thing {
	return api.Thing{Kind: "job", System: system, Owner: owner, ID: id, Text: text, Operation: api.GetJob.ID,
		Parameters: map[string]string{"name": queue, "tenant": owner, "id": id}}
}
