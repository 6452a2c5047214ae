package warehousetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// page reads one page that is full or the last, going on where a search ended early.
func page(t *testing.T, s warehouse.Reader, l warehouse.Listing) (ids []int, keys []string) {
	t.Helper()
	for {
		got, err := s.List(t.Context(), l)
		if err != nil {
			t.Fatalf("List(%+v): %v", l, err)
		}
		if len(got.Keys) != len(got.Events) || len(got.Events) > l.Most() || got.Rest != "" && len(got.Events) == l.Most() {
			t.Fatalf("List(%+v): %d events, %d keys, rest %q", l, len(got.Events), len(got.Keys), got.Rest)
		}
		for i, e := range got.Events {
			if !l.Match(e) {
				t.Fatalf("List(%+v) has %+v, which does not match", l, e)
			}
			ids, keys = append(ids, number[e.ID]), append(keys, got.Keys[i])
		}
		if got.Rest == "" {
			return ids, keys
		}
		l.After, l.Max = got.Rest, l.Most()-len(got.Events)
	}
}

// pages reads all pages of so many.
func pages(t *testing.T, s warehouse.Reader, l warehouse.Listing, size int) (ids []int) {
	t.Helper()
	for l.Max = size; ; {
		some, keys := page(t, s, l)
		if ids = append(ids, some...); len(some) < size {
			return ids
		}
		if len(ids) > len(number) {
			t.Fatalf("List(%+v): the pages never end", l)
		}
		l.After = keys[size-1]
	}
}

// byTime are those events that match, the oldest first.
func byTime(es []*event.Event, f warehouse.Filter) (ids []int) {
	var found []*event.Event
	for _, e := range es {
		if f.Match(e) {
			found = append(found, e)
		}
	}
	slices.SortStableFunc(found, func(a, b *event.Event) int { return a.Timestamp.Compare(b.Timestamp) })
	for _, e := range found {
		ids = append(ids, number[e.ID])
	}
	return ids
}

// shuffled are events that are stored in another order than that of their times.
func shuffled(from, to int) []*event.Event {
	es := evs(from, to)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(es), func(i, j int) { es[i], es[j] = es[j], es[i] })
	return es
}

func insertAll(t *testing.T, s warehouse.Warehouse, es []*event.Event) {
	t.Helper()
	for some := range slices.Chunk(es, 60) {
		insert(t, s, some...)
	}
}

func pagesBothWays(t *testing.T, h Harness) {
	insertAll(t, h.Store, shuffled(0, 300))
	other := ev(400)
	other.Project = projectB
	insert(t, h.Store, other)
	check := func(s warehouse.Reader) {
		t.Helper()
		for _, size := range []int{1, 100, 300} {
			f := warehouse.Filter{Project: projectA}
			if size == 1 {
				f.To = ev(3).Timestamp
			}
			want := byTime(evs(0, 300), f)
			wantEqual(t, fmt.Sprintf("the oldest by %d", size), pages(t, s, warehouse.Listing{Filter: f, Oldest: true}, size), want)
			slices.Reverse(want)
			wantEqual(t, fmt.Sprintf("the newest by %d", size), pages(t, s, warehouse.Listing{Filter: f}, size), want)
		}
		first, keys := page(t, s, warehouse.Listing{Filter: warehouse.Filter{Project: projectA, Max: 50}})
		second, more := page(t, s, warehouse.Listing{Filter: warehouse.Filter{Project: projectA, Max: 50}, After: keys[49]})
		before, _ := page(t, s, warehouse.Listing{Filter: warehouse.Filter{Project: projectA, Max: 50}, After: more[0], Oldest: true})
		slices.Reverse(before)
		wantEqual(t, "the page before the second", before, first)
		wantEqual(t, "the second", second, backFrom(249, 50))
	}
	check(h.Store)
	if h.Reopen != nil {
		check(h.Reopen())
	}
}

func backFrom(i, n int) (ids []int) {
	for ; n > 0; n-- {
		ids = append(ids, i)
		i--
	}
	return ids
}

func wantEqual(t *testing.T, what string, got, want []int) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
}

// Events of one time keep their order, and each is on one page.
func pagesOfOneTime(t *testing.T, h Harness) {
	es := evs(0, 200)
	for _, e := range es {
		e.Timestamp = noon.Add(time.Duration(number[e.ID]/100) * time.Millisecond)
	}
	insertAll(t, h.Store, es)
	newest := pages(t, h.Store, warehouse.Listing{Filter: warehouse.Filter{Project: projectA}}, 30)
	oldest := pages(t, h.Store, warehouse.Listing{Filter: warehouse.Filter{Project: projectA}, Oldest: true}, 45)
	slices.Reverse(oldest)
	wantEqual(t, "the newest, and the oldest turned round", newest, oldest)
	for _, i := range newest[:100] {
		if i < 100 {
			t.Fatalf("event %d is among the newer ones", i)
		}
	}
	slices.Sort(newest)
	wantEqual(t, "all, in order", newest, slices.Sorted(slices.Values(backFrom(199, 200))))
}

func pagesAreSteady(t *testing.T, h Harness) {
	even := func(from, to int) (es []*event.Event) {
		for i := from; i < to; i += 2 {
			es = append(es, ev(i))
		}
		return es
	}
	insertAll(t, h.Store, even(100, 300))
	for _, oldest := range []bool{false, true} {
		l := warehouse.Listing{Filter: warehouse.Filter{Project: projectA, Max: 10}, Oldest: oldest}
		var seen []int
		for n := 0; ; n++ {
			some, keys := page(t, h.Store, l)
			seen = append(seen, some...)
			if len(some) < 10 {
				break
			}
			l.After = keys[9]
			at := 300 + n // newer than all
			if oldest {
				at = 99 - n // older than all
			}
			insert(t, h.Store, ev(at), ev(101+2*n)) // and one between
		}
		stays := slices.DeleteFunc(seen, func(i int) bool { return i%2 > 0 || i < 100 || i >= 300 })
		if oldest {
			slices.Reverse(stays)
		}
		want := []int{}
		for i := 298; i >= 100; i -= 2 {
			want = append(want, i)
		}
		wantEqual(t, fmt.Sprintf("those that were there all the time, oldest first %t", oldest), stays, want)
	}
}

func pagesAfterTrim(t *testing.T, h Harness) {
	tr, ok := h.Store.(warehouse.Trimmer)
	if !ok {
		return // it removes old events by itself, by its own clock, or never
	}
	insertAll(t, h.Store, shuffled(0, 300))
	f := warehouse.Filter{Project: projectA, Max: 20}
	_, keys := page(t, h.Store, warehouse.Listing{Filter: f, Oldest: true})
	last := list(t, h.Store, warehouse.Filter{Project: projectA, Newest: true, Max: 1})[0].ID
	for more := true; more; {
		var err error
		if _, more, err = tr.Trim(t.Context(), ev(200).Timestamp); err != nil {
			t.Fatal(err)
		}
	}
	var want []int
	for i := range 300 {
		if i >= 200 || id(i) == last {
			want = append(want, i)
		}
	}
	wantEqual(t, "the oldest", pages(t, h.Store, warehouse.Listing{Filter: f, Oldest: true}, 7), want)
	wantEqual(t, "after the key of one that is gone", pages(t, h.Store, warehouse.Listing{Filter: f, Oldest: true, After: keys[19]}, 7), slices.DeleteFunc(slices.Clone(want), func(i int) bool { return i < 20 }))
	slices.Reverse(want)
	wantEqual(t, "the newest", pages(t, h.Store, warehouse.Listing{Filter: f}, 7), want)
	if h.Reopen != nil {
		wantEqual(t, "the newest after a restart", pages(t, h.Reopen(), warehouse.Listing{Filter: f}, 7), want)
	}
}

func pagesFiltered(t *testing.T, h Harness) {
	es := shuffled(0, 240)
	people := []uuid.UUID{ann, bob}
	for _, e := range es {
		i := number[e.ID]
		e.Name = fmt.Sprint("name ", i%3)
		e.DistinctID, e.Person = fmt.Sprint("d", i%8), people[i%2]
		if i%10 == 9 {
			e.Project = projectB
		}
	}
	insertAll(t, h.Store, es)
	for _, p := range []uuid.UUID{projectA, projectB} {
		for combination := range 16 {
			if p == projectB && combination&(combination-1) > 0 {
				continue // one part at a time
			}
			f := warehouse.Filter{Project: p}
			if combination&1 > 0 {
				f.Name = "name 1"
			}
			if combination&2 > 0 {
				f.Distinct = "d3"
			}
			if combination&4 > 0 {
				f.Person = bob
			}
			if combination&8 > 0 {
				f.From, f.To = ev(30).Timestamp.Add(1), ev(200).Timestamp
			}
			want := byTime(es, f)
			wantEqual(t, fmt.Sprintf("the oldest of %+v", f), pages(t, h.Store, warehouse.Listing{Filter: f, Oldest: true}, 60), want)
			slices.Reverse(want)
			wantEqual(t, fmt.Sprintf("the newest of %+v", f), pages(t, h.Store, warehouse.Listing{Filter: f}, 60), want)
		}
	}
	for _, f := range []warehouse.Filter{{Name: "none"}, {Distinct: "none"}, {Person: uuid.Max}, {From: ev(500).Timestamp}, {To: ev(0).Timestamp}} {
		f.Project = projectA
		wantEqual(t, fmt.Sprintf("%+v", f), pages(t, h.Store, warehouse.Listing{Filter: f}, 5), nil)
	}
}

func pagesOfAPerson(t *testing.T, h Harness) {
	es := shuffled(0, 120)
	people := []uuid.UUID{ann, bob, uuid.MustParse("33333333-0000-5000-8000-000000000003")}
	for _, e := range es {
		i := number[e.ID] % 6
		e.DistinctID, e.Person = fmt.Sprint("d", i), people[i/2]
	}
	insertAll(t, h.Store, es)
	check := func() {
		t.Helper()
		for _, p := range people {
			f := warehouse.Filter{Project: projectA, Person: p}
			want := byTime(es, f)
			wantEqual(t, fmt.Sprint("the oldest of ", p), pages(t, h.Store, warehouse.Listing{Filter: f, Oldest: true}, 35), want)
			slices.Reverse(want)
			wantEqual(t, fmt.Sprint("the newest of ", p), pages(t, h.Store, warehouse.Listing{Filter: f}, 35), want)
		}
	}
	move := func(distinct string, to uuid.UUID, version uint64) {
		t.Helper()
		override(t, h.Store, person.Override{Ref: ref(distinct), Person: to, Version: version})
		for _, e := range es {
			if e.DistinctID == distinct {
				e.Person = to
			}
		}
	}
	check()
	move("d2", ann, 1)
	check()
	move("d3", ann, 1)
	move("d0", people[2], 1)
	check()
	move("d0", ann, 2)
	move("d1", ann, 1) // whose it was
	late := ev(200)
	late.DistinctID, late.Person = "d3", bob // stored under the person before the merge
	insert(t, h.Store, late)
	moved := *late
	moved.Person = ann
	es = append(es, &moved)
	check()
}

// pagesOfManyDistinct has a person who was given more distinct ids than can be looked for one by one.
func pagesOfManyDistinct(t *testing.T, h Harness) {
	es := shuffled(0, 600)
	var given []person.Override
	for _, e := range es {
		i := number[e.ID] % 300
		e.DistinctID, e.Person = fmt.Sprint("d", i), uuid.NewSHA1(bob, fmt.Append(nil, i))
	}
	insertAll(t, h.Store, es)
	for i := range 299 { // one stays whose it was
		given = append(given, person.Override{Ref: ref(fmt.Sprint("d", i)), Person: ann, Version: 1})
	}
	override(t, h.Store, given...)
	for _, e := range es {
		if e.DistinctID != "d299" {
			e.Person = ann
		}
	}
	for _, f := range []warehouse.Filter{{Project: projectA, Person: ann}, {Project: projectA, Person: ann, Name: es[0].Name}} {
		wantEqual(t, fmt.Sprintf("the oldest of %+v", f), pages(t, h.Store, warehouse.Listing{Filter: f, Oldest: true}, 200), byTime(es, f))
	}
}

func pagesRefused(t *testing.T, h Harness) {
	insert(t, h.Store, ev(1))
	if _, err := h.Store.List(t.Context(), warehouse.Listing{}); err == nil {
		t.Error("a page of no project was read")
	}
	for _, key := range []string{"x", "1", "1.", "1.x", " 1.2", "1.2.3"} {
		_, err := h.Store.List(t.Context(), warehouse.Listing{Filter: warehouse.Filter{Project: projectA}, After: key})
		if tidemill.KindOf(err) != tidemill.Validation {
			t.Errorf("after %q: %v; want an error of validation", key, err)
		}
	}
	got, err := h.Store.List(t.Context(), warehouse.Listing{Filter: warehouse.Filter{Project: projectB}})
	if err != nil || len(got.Events) > 0 || got.Rest != "" {
		t.Errorf("a project without events: %+v, %v", got, err)
	}
}
