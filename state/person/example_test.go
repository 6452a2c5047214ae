package person_test

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/person/tableperson"
)

// An anonymous visitor tells who it is: from then on both distinct ids are one person.
func Example() {
	ctx := context.Background()
	store := tableperson.Memory(tableperson.Options{})
	project := uuid.MustParse("33333333-3333-4333-8333-333333333333")
	visitor := person.Ref{Project: project, Distinct: "visitor"}
	alice := person.Ref{Project: project, Distinct: "alice"}
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

	changes := []person.Change{
		{Ref: visitor, Event: uuid.UUID{1}, At: noon, Properties: []person.Property{{Op: person.Once, Key: "came_from", Value: []byte(`"search"`)}}},
		{Ref: alice, Event: uuid.UUID{2}, At: noon.Add(time.Minute), Properties: []person.Property{{Op: person.Set, Key: "plan", Value: []byte(`"free"`)}}},
	}
	merges := []person.Merge{{Ref: alice, Other: "visitor", Event: uuid.UUID{2}, At: noon.Add(time.Minute)}}
	outcomes := make([]person.Outcome, 1)
	if err := store.Apply(ctx, changes); err != nil {
		fmt.Println(err)
	}
	if err := store.Merge(ctx, merges, outcomes); err != nil {
		fmt.Println(err)
	}
	p, err := store.Show(ctx, visitor)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(outcomes[0], p.ID == person.ID(alice), p.Distinct, p.Identified)
	fmt.Printf("%s %s\n", p.Properties["came_from"], p.Properties["plan"])
	// Output:
	// merged true [alice visitor] true
	// "search" "free"
}
