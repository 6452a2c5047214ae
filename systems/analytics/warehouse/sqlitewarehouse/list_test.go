package sqlitewarehouse

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// listed are the names of the events of a project, page by page, and how many pages ended early.
func listed(t testing.TB, s *Store, l warehouse.Listing) (names []string, early int) {
	t.Helper()
	for {
		got, err := s.List(t.Context(), l)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range got.Events {
			names = append(names, e.Name)
		}
		switch {
		case got.Rest != "":
			early++
			l.After = got.Rest
		case len(got.Events) == l.Most():
			l.After = got.Keys[len(got.Keys)-1]
		default:
			return names, early
		}
	}
}

// named are n events, a minute after each other.
func named(project uuid.UUID, n int, name func(i int) string) []*event.Event {
	all := dated(project, n, func(i int) time.Duration { return time.Duration(n-i) * time.Minute })
	for i, e := range all {
		e.Name = name(i)
	}
	return all
}

// A file of the form without the index is taken over: all of its events are in pages.
func TestEventsOfBeforeTheIndexAreListed(t *testing.T) {
	db := open(t)
	s := store(t, db, Options{})
	project := uuid.New()
	insert(t, s, named(project, 3000, func(i int) string { return fmt.Sprint(i) }))
	if err := db.Write(t.Context(), func(tx *sqlitedb.Tx) error { // as the step before left it
		for _, q := range []string{"DROP TABLE warehouse_list_run", "DROP TABLE warehouse_list_block", "DROP TABLE warehouse_list_gone", "DROP INDEX warehouse_override_person",
			fmt.Sprintf("UPDATE tidemill_schema SET version = %d WHERE component = 'warehouse'", len(schema)-1)} {
			if _, err := tx.Exec(q); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	s = store(t, db, Options{table: 512})
	names, _ := listed(t, s, warehouse.Listing{Filter: warehouse.Filter{Project: project, Max: 50}, Oldest: true})
	if len(names) != 3000 || names[0] != "0" || names[2999] != "2999" {
		t.Errorf("%d events are listed, want 3000", len(names))
	}
	if n := number(t, s, "SELECT count(*) FROM warehouse_list_run"); n < 1 {
		t.Error("there is no run of them")
	}
}

// A page whose filter few events match ends after a bounded number of them, and says where to go on.
func TestASearchForFewEndsEarlyAndGoesOn(t *testing.T) {
	s := store(t, open(t), Options{table: 1000})
	project := uuid.New()
	all := named(project, 10_000, func(i int) string {
		if i%3000 == 17 {
			return "rare"
		}
		return "usual"
	})
	insert(t, s, all)
	f := warehouse.Filter{Project: project, Distinct: "ada", Name: "rare", Max: 50}
	names, early := listed(t, s, warehouse.Listing{Filter: f})
	if len(names) != 4 || early < 3 || early > 10_000/listLooks {
		t.Errorf("%d events, %d pages that ended early; want 4, and one each %d events", len(names), early, listLooks)
	}
	f.Distinct = ""
	if names, early := listed(t, s, warehouse.Listing{Filter: f}); len(names) != 4 || early > 0 {
		t.Errorf("by the name alone: %d events, %d pages that ended early; want 4 at once", len(names), early)
	}
	f.From, f.To = all[16].Timestamp, all[18].Timestamp
	if names, early := listed(t, s, warehouse.Listing{Filter: f}); len(names) != 1 || early > 0 {
		t.Errorf("by name and time: %d events, %d pages that ended early; want 1 at once", len(names), early)
	}
}

// A page of one filter reads the rows that it shows: no others.
func TestAPageReadsNoMoreRowsThanItShows(t *testing.T) {
	looked := 0
	s := store(t, open(t), Options{table: 500})
	project := uuid.New()
	all := named(project, 6000, func(i int) string { return fmt.Sprint("name ", i%20) })
	for i, e := range all {
		e.DistinctID = fmt.Sprint("user ", i%30)
		e.Person[0] = byte(i%30 + 1)
	}
	insert(t, s, all)
	if err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]warehouse.Filter{
		"all": {}, "by name": {Name: "name 7"}, "by distinct id": {Distinct: "user 7"}, "by person": {Person: uuid.UUID{8}},
		"by time": {From: all[1000].Timestamp, To: all[4000].Timestamp}, "by name and time": {Name: "name 7", From: all[1000].Timestamp, To: all[4000].Timestamp},
	} {
		f.Project, f.Max = project, 51
		for _, oldest := range []bool{false, true} {
			g := &gathering{store: s, l: warehouse.Listing{Filter: f, Oldest: oldest}, most: 51, p: &listing{project: project}}
			if err := g.between(); err != nil {
				t.Fatal(err)
			}
			if err := g.prepare(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := s.index.Search(t.Context(), g.search, g.most, g.look); err != nil {
				t.Fatal(err)
			}
			if looked = g.looked; looked != 51 || len(g.out.Events) != 51 {
				t.Errorf("%s: %d rows were looked at for %d events, want 51", name, looked, len(g.out.Events))
			}
		}
	}
}

// What is stored is in the very next page, also where the writer of the index is told of nothing.
func TestAnEventIsListedAsSoonAsItIsStored(t *testing.T) {
	db := open(t)
	s := store(t, db, Options{table: 64})
	project := uuid.New()
	var want []string
	for i, e := range named(project, 500, func(i int) string { return fmt.Sprint(i) }) {
		other := s
		if i%50 == 49 {
			other = store(t, db, Options{table: 64}) // s is not told of what it stores
		}
		insert(t, other, []*event.Event{e})
		want = append(want, e.Name)
		got, err := s.List(t.Context(), warehouse.Listing{Filter: warehouse.Filter{Project: project, Max: 1}})
		if err != nil || len(got.Events) != 1 || got.Events[0].Name != e.Name {
			t.Fatalf("after event %d: %+v, %v", i, got, err)
		}
		s = other
	}
	names, _ := listed(t, s, warehouse.Listing{Filter: warehouse.Filter{Project: project, Max: 70}, Oldest: true})
	if !slices.Equal(names, want) {
		t.Errorf("%d events are listed, want %d", len(names), len(want))
	}
}

func TestACopyOfTheFileListsTheSame(t *testing.T) {
	db := open(t)
	s := store(t, db, Options{table: 200})
	project := uuid.New()
	insert(t, s, named(project, 1500, func(i int) string { return fmt.Sprint(i) }))
	if err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	to := t.TempDir() + "/copy.db"
	if err := db.Copy(t.Context(), to, nil); err != nil {
		t.Fatal(err)
	}
	c, err := sqlitedb.Open(t.Context(), to, sqlitedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	l := warehouse.Listing{Filter: warehouse.Filter{Project: project, Max: 40}}
	want, _ := listed(t, s, l)
	if got, _ := listed(t, store(t, c, Options{table: 200}), l); !slices.Equal(got, want) || len(got) != 1500 {
		t.Errorf("the copy lists %d events, want %d", len(got), len(want))
	}
}
