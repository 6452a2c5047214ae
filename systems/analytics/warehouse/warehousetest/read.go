package warehousetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

func listsInOrder(t *testing.T, h Harness) {
	want := []int{}
	for i := 449; i >= 0; i -= 3 { // not in the order of time
		insert(t, h.Store, ev(i), ev(i-1), ev(i-2))
		want = append(want, i, i-1, i-2)
	}
	wantIDs(t, list(t, h.Store, warehouse.Filter{Project: projectA}), want...)
	wantIDs(t, list(t, h.Store, warehouse.Filter{Project: projectA, Max: 250}), want[:250]...)
	n := 0
	for _, err := range h.Store.Events(t.Context(), warehouse.Filter{Project: projectA}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 7 {
			break // a reader may stop early
		}
	}
}

func listingEnds(t *testing.T, h Harness) {
	insert(t, h.Store, evs(0, 3)...)
	n := 0
	for _, err := range h.Store.Events(t.Context(), warehouse.Filter{Project: projectA}) {
		if err != nil {
			t.Fatal(err)
		}
		insert(t, h.Store, evs(10*n+10, 10*n+20)...) // writing while listing does not block
		n++
	}
	if n != 3 {
		t.Fatalf("a listing of 3 events yielded %d", n)
	}
}

func listsNewest(t *testing.T, h Harness) {
	for i := 0; i < 900; i += 3 {
		insert(t, h.Store, ev(i), ev(i+1), ev(i+2))
	}
	other := ev(1000)
	other.Project = projectB
	insert(t, h.Store, other)
	newest := func(f warehouse.Filter) warehouse.Filter { f.Project, f.Newest = projectA, true; return f }
	wantIDs(t, list(t, h.Store, newest(warehouse.Filter{Max: 4})), 896, 897, 898, 899)
	wantIDs(t, list(t, h.Store, newest(warehouse.Filter{Max: 1})), 899)
	if got := list(t, h.Store, newest(warehouse.Filter{Max: 450})); len(got) != 450 || got[0].ID != id(450) {
		t.Errorf("of the newest 450 there are %d, the first is event %d", len(got), number[got[0].ID])
	}
	if got := list(t, h.Store, newest(warehouse.Filter{Max: 2000})); len(got) != 900 || got[0].ID != id(0) {
		t.Errorf("of the newest 2,000 there are %d, of 900", len(got))
	}
	wantIDs(t, list(t, h.Store, newest(warehouse.Filter{Max: 2, To: ev(10).Timestamp})), 8, 9)
	wantIDs(t, list(t, h.Store, newest(warehouse.Filter{Max: 2, Name: "nothing"})))
	n := 0
	for _, err := range h.Store.Events(t.Context(), newest(warehouse.Filter{})) {
		if n++; err == nil {
			t.Fatal("the newest were listed without a number")
		}
	}
	if n != 1 {
		t.Fatalf("the newest without a number: %d errors, want 1", n)
	}
}

func listingFollows(t *testing.T, h Harness) {
	insert(t, h.Store, evs(0, 5)...)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got := make(chan int)
	ended := make(chan error, 1)
	go func() {
		for e, err := range h.Store.Events(ctx, warehouse.Filter{Project: projectA, Newest: true, Max: 2, Follow: true, Distinct: "ann"}) {
			if err != nil {
				ended <- err
				return
			}
			got <- number[e.ID]
		}
		ended <- nil
	}()
	want := func(want ...int) {
		t.Helper()
		for _, w := range want {
			select {
			case g := <-got:
				if g != w {
					t.Fatalf("event %d came, want %d", g, w)
				}
			case err := <-ended:
				t.Fatalf("it ended before event %d: %v", w, err)
			}
		}
	}
	want(3, 4)
	for round := range 3 { // each is waited for before the next is stored
		b := ev(100 + 10*round)
		b.DistinctID = "bob"
		insert(t, h.Store, b, ev(101+10*round), ev(102+10*round))
		want(101+10*round, 102+10*round)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v, want the error of its context", err)
	}
}

func filters(t *testing.T, h Harness) {
	insert(t, h.Store, evs(0, 6)...)
	two, four := ev(10), ev(11)
	two.DistinctID, two.Person, two.Name = "bob", bob, "buy"
	four.DistinctID, four.Person, four.Project = "bob", bob, projectB
	insert(t, h.Store, two, four)
	at := func(i int) time.Time { return ev(i).Timestamp }
	for _, c := range []struct {
		name string
		f    warehouse.Filter
		want []int
	}{
		{"all of a project", warehouse.Filter{}, []int{0, 1, 2, 3, 4, 5, 10}},
		{"by distinct id", warehouse.Filter{Distinct: "bob"}, []int{10}},
		{"by name", warehouse.Filter{Name: "buy"}, []int{10}},
		{"by person", warehouse.Filter{Person: ann}, []int{0, 1, 2, 3, 4, 5}},
		{"from is inclusive", warehouse.Filter{From: at(4)}, []int{4, 5, 10}},
		{"to is exclusive", warehouse.Filter{To: at(2)}, []int{0, 1}},
		{"between, finer than a row's time", warehouse.Filter{From: at(1).Add(1), To: at(3).Add(1)}, []int{2, 3}},
		{"all together", warehouse.Filter{Distinct: "ann", Name: "click", Person: ann, From: at(1), To: at(5), Max: 2}, []int{1, 2}},
		{"none", warehouse.Filter{Distinct: "carl"}, []int{}},
	} {
		c.f.Project = projectA
		t.Run(c.name, func(t *testing.T) { wantIDs(t, list(t, h.Store, c.f), c.want...) })
	}
}

func filterNeedsProject(t *testing.T, h Harness) {
	insert(t, h.Store, ev(1))
	n := 0
	for e, err := range h.Store.Events(t.Context(), warehouse.Filter{}) {
		if n++; err == nil {
			t.Fatalf("a filter without a project yielded %+v", e)
		}
	}
	if n != 1 {
		t.Fatalf("a filter without a project yielded %d errors, want 1", n)
	}
}

func ref(distinct string) person.Ref { return person.Ref{Project: projectA, Distinct: distinct} }

func override(t *testing.T, s warehouse.Store, os ...person.Override) {
	t.Helper()
	if err := s.Override(t.Context(), os); err != nil {
		t.Fatalf("Override: %v", err)
	}
}

// wantPersons checks whose the listed events are, in order.
func wantPersons(t *testing.T, s warehouse.Store, want ...uuid.UUID) {
	t.Helper()
	var got []uuid.UUID
	for _, e := range list(t, s, warehouse.Filter{Project: projectA}) {
		got = append(got, e.Person)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("events belong to %v, want %v", got, want)
	}
}

func overrides(t *testing.T, h Harness) {
	b := ev(2)
	b.DistinctID, b.Person = "bob", bob
	insert(t, h.Store, ev(1), b)
	wantPersons(t, h.Store, ann, bob)
	override(t, h.Store, person.Override{Ref: ref("bob"), Person: ann, Version: 1})
	wantPersons(t, h.Store, ann, ann)
	late := ev(3)
	late.DistinctID, late.Person = "bob", bob
	insert(t, h.Store, late)
	wantPersons(t, h.Store, ann, ann, ann)
}

func overrideVersions(t *testing.T, h Harness) {
	insert(t, h.Store, ev(1))
	carl := uuid.MustParse("33333333-0000-5000-8000-000000000003")
	override(t, h.Store, person.Override{Ref: ref("ann"), Person: bob, Version: 2})
	override(t, h.Store, person.Override{Ref: ref("ann"), Person: carl, Version: 1})
	wantPersons(t, h.Store, bob)
	override(t, h.Store, person.Override{Ref: ref("ann"), Person: bob, Version: 2})
	override(t, h.Store, // both in one call, the higher first
		person.Override{Ref: ref("ann"), Person: carl, Version: 4},
		person.Override{Ref: ref("ann"), Person: ann, Version: 3},
		person.Override{Ref: ref("bob"), Person: ann, Version: 1})
	wantPersons(t, h.Store, carl)
	override(t, h.Store)
}

func overridesPerProject(t *testing.T, h Harness) {
	insert(t, h.Store, ev(1))
	override(t, h.Store, person.Override{Ref: person.Ref{Project: projectB, Distinct: "ann"}, Person: bob, Version: 1})
	wantPersons(t, h.Store, ann)
}

func filterByPerson(t *testing.T, h Harness) {
	b := ev(2)
	b.DistinctID, b.Person = "bob", bob
	insert(t, h.Store, ev(1), b)
	override(t, h.Store, person.Override{Ref: ref("bob"), Person: ann, Version: 1})
	wantIDs(t, list(t, h.Store, warehouse.Filter{Project: projectA, Person: ann}), 1, 2)
	wantIDs(t, list(t, h.Store, warehouse.Filter{Project: projectA, Person: bob}))
}

func warnings(t *testing.T, h Harness) {
	warn := func(i int) warehouse.Warning {
		return warehouse.Warning{Project: projectA, Type: "invalid_event", Event: "click", Distinct: "ann",
			Reason: fmt.Sprintf("reason %d", i), At: noon.Add(time.Duration(i) * time.Minute)}
	}
	other := warn(9)
	other.Project = projectB
	twin := warn(2)
	twin.Reason = "the same minute, later"
	for _, ws := range [][]warehouse.Warning{{warn(3), warn(1)}, {warn(2), other, twin}, nil} {
		if err := h.Store.Warn(t.Context(), ws); err != nil {
			t.Fatalf("Warn: %v", err)
		}
	}
	want := []warehouse.Warning{warn(3), twin, warn(2), warn(1)}
	read := func(f warehouse.WarningFilter) (ws []warehouse.Warning, first, last string) {
		f.Project = projectA
		ws, err := h.Store.Warnings(t.Context(), f)
		if err != nil {
			t.Fatalf("Warnings(%+v): %v", f, err)
		}
		for i := range ws {
			if last = ws[i].Key; i == 0 {
				first = last
			}
			ws[i].Key = ""
		}
		return ws, first, last
	}
	for _, oldest := range []bool{false, true} {
		for most, n := range map[int]int{0: 4, 2: 2, 10: 4} {
			if got, _, _ := read(warehouse.WarningFilter{Oldest: oldest, Max: most}); !slices.Equal(got, want[:n]) {
				t.Errorf("Warnings(oldest %t, max %d) =\n%+v\nwant\n%+v", oldest, most, got, want[:n])
			}
		}
		for n := 1; n < len(want); n++ {
			page, first, last := read(warehouse.WarningFilter{Oldest: oldest, Max: n})
			rest, next, _ := read(warehouse.WarningFilter{Oldest: oldest, After: last})
			back, _, _ := read(warehouse.WarningFilter{Oldest: !oldest, After: next})
			slices.Reverse(back)
			if !slices.Equal(append(page, rest...), want) || !slices.Equal(back, page) {
				t.Errorf("%d warnings, oldest %t: %+v, then %+v, and before these %+v", n, oldest, page, rest, back)
			}
			if none, _, _ := read(warehouse.WarningFilter{Oldest: !oldest, After: first}); len(none) > 0 {
				t.Errorf("before the first: %+v", none)
			}
		}
		slices.Reverse(want)
	}
	for _, key := range []string{"x", "1", "1.", "1.2.3", "1.x", " 1.2"} {
		if _, err := h.Store.Warnings(t.Context(), warehouse.WarningFilter{Project: projectA, After: key}); tidemill.KindOf(err) != tidemill.Validation {
			t.Errorf("after %q: %v; want an error of validation", key, err)
		}
	}
}

func warningsExpire(t *testing.T, h Harness) {
	e, ok := h.Store.(warehouse.Expirer)
	if !ok {
		return // it expires warnings by itself, by its own clock
	}
	var ws []warehouse.Warning
	for i := range 2500 {
		ws = append(ws, warehouse.Warning{Project: projectA, Reason: fmt.Sprint(i), At: noon.Add(time.Duration(i%50) * time.Hour)})
	}
	if err := h.Store.Warn(t.Context(), ws); err != nil {
		t.Fatalf("Warn: %v", err)
	}
	sum := int64(0)
	for more := true; more; {
		var n int64
		var err error
		if n, more, err = e.Expire(t.Context(), noon.Add(48*time.Hour)); err != nil {
			t.Fatalf("Expire: %v", err)
		}
		sum += n
	}
	if sum != 2400 {
		t.Errorf("%d expired, want 2400", sum)
	}
	got, err := h.Store.Warnings(t.Context(), warehouse.WarningFilter{Project: projectA})
	if err != nil || len(got) != 100 {
		t.Fatalf("%d warnings are left (%v), want 100", len(got), err)
	}
	for _, w := range got {
		if w.At.Before(noon.Add(48 * time.Hour)) {
			t.Fatalf("an expired warning is left: %+v", w)
		}
	}
}

func counts(t *testing.T, h Harness) {
	wantCount(t, h.Store, projectA, 0)
	wantCount(t, h.Store, uuid.Nil, 0)
	rows := evs(0, 30)
	for _, e := range rows[10:15] {
		e.Project = projectB
	}
	insert(t, h.Store, rows...)
	insert(t, h.Store, append(rows[5:], ev(40))...)
	wantCount(t, h.Store, projectA, 26)
	wantCount(t, h.Store, projectB, 5)
	wantCount(t, h.Store, uuid.Nil, 31)
}
