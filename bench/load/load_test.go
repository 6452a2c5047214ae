package load

import (
	"testing"
	"time"
)

func TestACrowdGrowsToAllItsPersons(t *testing.T) {
	const persons, events = 5000, 100_000
	g := Growing(1, time.Now(), persons, events)
	seen, of := map[uint64]int{}, map[uint64]int{} // events of each, and of those in the last tenth
	for i := range events {
		e := g.Next()
		if seen[e.Person]++; i >= events*9/10 {
			of[e.Person]++
		}
		if i == 499 && len(seen) != 500 {
			t.Errorf("after 500 events %d persons have had one, want each of those who are active", len(seen))
		}
		if got := g.Known(); int(got) != len(seen) {
			t.Fatalf("after %d events %d persons are known, and it says %d", i+1, len(seen), got)
		}
	}
	if n := len(seen); n < persons-2 || n > persons {
		t.Errorf("%d persons have had an event, want %d", n, persons)
	}
	if n := len(of); n > 1000 {
		t.Errorf("%d persons had one of the last events, want those who were active then", n)
	}
}

func TestACrowdThatDoesNotGrowHasTheSamePersons(t *testing.T) {
	g := New(1, time.Now())
	of := map[uint64]int{}
	for range 200_000 {
		e := g.Next()
		if of[e.Person]++; e.Person >= Persons {
			t.Fatalf("an event is of person %d of %d", e.Person, Persons)
		}
	}
	if most := of[Persons-1]; most < 200 || len(of) < Persons/2 {
		t.Errorf("the most active one has %d events, and %d persons have one", most, len(of))
	}
}
