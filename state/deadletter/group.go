package deadletter

import (
	"cmp"
	"slices"

	"github.com/tidemill/tidemill"
)

// MaxGroups is how many groups a pipeline has, and how many are shown of all; the dead letters of
// others are counted together.
const MaxGroups = 500

// Group is how many dead letters of a pipeline are there for the same cause, its numbers aside.
type Group struct {
	Pipeline string
	Kind     tidemill.Kind
	Cause    string // with # for its numbers; empty: several
	Count    int    // held or being replayed
}

// MaxOwners is how many owners of a pipeline are shown.
const MaxOwners = 1000

// Owner is how many dead letters of a pipeline are those of an owner.
type Owner struct {
	Pipeline, Tenant string
	Count            int // held or being replayed
}

// Groups are the dead letters of a store by why they died.
type Groups struct {
	Groups []Group // at most MaxGroups, the largest first
	Other  int     // dead letters that are in none of them
}

// Largest keeps the largest groups, and counts the others together.
func (g *Groups) Largest() {
	slices.SortFunc(g.Groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Pipeline, b.Pipeline), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Cause, b.Cause))
	})
	if len(g.Groups) > MaxGroups {
		for _, rest := range g.Groups[MaxGroups:] {
			g.Other += rest.Count
		}
		g.Groups = g.Groups[:MaxGroups]
	}
}
