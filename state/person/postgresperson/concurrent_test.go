package postgresperson

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/person/tableperson"
)

// work is what one process does in one call.
type work struct {
	changes []person.Change
	merges  []person.Merge
}

func (w *work) do(ctx context.Context, s person.Persons) error {
	if err := s.Merge(ctx, w.merges, make([]person.Outcome, len(w.merges))); err != nil {
		return err
	}
	return s.Apply(ctx, w.changes)
}

// randomWork merges anybody into anybody, by force, so that who belongs together in the
// end does not depend on the order.
func randomWork(r *rand.Rand, project uuid.UUID, ids int) (w work) {
	name := func() string { return fmt.Sprint("id", r.IntN(ids)) }
	at := func() time.Time { return noon.Add(time.Duration(r.IntN(300)) * time.Minute) }
	event := func() (id uuid.UUID) { return uuid.UUID{byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32())} }
	for range r.IntN(30) {
		c := person.Change{Ref: person.Ref{Project: project, Distinct: name()}, Event: event(), At: at()}
		for range r.IntN(3) {
			op := person.Op(1 + r.IntN(3))
			p := person.Property{Op: op, Key: fmt.Sprint("k", r.IntN(4))}
			if op != person.Unset {
				p.Value = fmt.Append(nil, r.IntN(1000))
			}
			c.Properties = append(c.Properties, p)
		}
		w.changes = append(w.changes, c)
	}
	for range r.IntN(5) {
		w.merges = append(w.merges, person.Merge{Ref: person.Ref{Project: project, Distinct: name()}, Other: name(), Event: event(), At: at(), Force: true})
	}
	return w
}

// sameAs compares what is stored with what one process after the other would have stored.
// Only which of the ids of a person survives may depend on the order.
func sameAs(t *testing.T, s *Store, project uuid.UUID, ids int, all []work) {
	t.Helper()
	reference := tableperson.Memory(tableperson.Options{})
	for _, w := range all {
		if err := w.do(t.Context(), reference); err != nil {
			t.Fatal(err)
		}
	}
	for i := range ids {
		ref := person.Ref{Project: project, Distinct: fmt.Sprint("id", i)}
		want, wantErr := reference.Show(t.Context(), ref)
		got, err := s.Show(t.Context(), ref)
		if (err == nil) != (wantErr == nil) {
			t.Errorf("Show %q: %v, want %v", ref.Distinct, err, wantErr)
			continue
		}
		if err != nil {
			continue
		}
		if !slices.ContainsFunc(got.Distinct, func(d string) bool { return person.ID(person.Ref{Project: project, Distinct: d}) == got.ID }) {
			t.Errorf("person %v is none of %q", got.ID, got.Distinct)
		}
		id := make([]uuid.UUID, 1)
		if err := s.Resolve(t.Context(), []person.Ref{ref}, id); err != nil || id[0] != got.ID {
			t.Errorf("Resolve %q: %v, %v; want %v", ref.Distinct, id[0], err, got.ID)
		}
		if want.ID = got.ID; !reflect.DeepEqual(got, want) {
			t.Errorf("Show %q:\n%+v\nwant\n%+v", ref.Distinct, got, want)
		}
	}
	whole(t, s)
}

// whole checks what always holds: every person has a distinct id, and of each distinct
// id's overrides, which are numbered without a gap, the newest says whose it is.
func whole(t *testing.T, s *Store) {
	t.Helper()
	for name, query := range map[string]string{
		"persons without a distinct id": "SELECT count(*) FROM persons p WHERE NOT EXISTS (SELECT FROM person_distinct_ids d WHERE d.person_id = p.id)",
		"distinct ids whose newest override says something else": `SELECT count(*) FROM person_distinct_ids d WHERE version <>
			(SELECT count(*) FROM tidemill_person_overrides o WHERE o.project_id = d.project_id AND o.distinct_id = convert_to(d.distinct_id, 'UTF8'))
			OR version > 0 AND NOT EXISTS (SELECT FROM tidemill_person_overrides o WHERE o.project_id = d.project_id
				AND o.distinct_id = convert_to(d.distinct_id, 'UTF8') AND o.version = d.version AND o.person_id = d.person_id)`,
	} {
		if n := count(t, s.db, query); n != 0 {
			t.Errorf("%d %s", n, name)
		}
	}
}

func count(t testing.TB, db *postgresdb.DB, query string, args ...any) (n int) {
	t.Helper()
	if err := db.Query(context.Background(), func(r pgx.Rows) error { return r.Scan(&n) }, query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

func deadlocks(t testing.TB, db *postgresdb.DB) int {
	return count(t, db, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
}

func TestProcessesAtOnceComeToTheSame(t *testing.T) {
	testenv.Need(t)
	url := testenv.Postgres(t)
	var stores []*Store
	for i := range 5 {
		_, s := open(t, url, Options{CacheMiB: i%2 - 1}) // some without a cache to speak of
		stores = append(stores, s)
	}
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 8 {
		project := newProject(t, stores[0].db)
		ids := 2 + r.IntN(14)
		all := make([]work, 60)
		for i := range all {
			all[i] = randomWork(r, project, ids)
		}
		var wg sync.WaitGroup
		for g, s := range stores {
			for lane := range 2 {
				wg.Go(func() {
					for i := g*2 + lane; i < len(all); i += 2 * len(stores) {
						if err := all[i].do(t.Context(), s); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		wg.Wait()
		sameAs(t, stores[0], project, ids, all)
		if t.Failed() {
			return
		}
	}
	if n := deadlocks(t, stores[0].db); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

// All processes meet the same new persons at once, in batches in any order.
func TestProcessesCreateTheSamePersons(t *testing.T) {
	testenv.Need(t)
	url := testenv.Postgres(t)
	var stores []*Store
	for range 4 {
		_, s := open(t, url, Options{})
		stores = append(stores, s)
	}
	project := newProject(t, stores[0].db)
	for round := range 10 {
		var wg sync.WaitGroup
		for g, s := range stores {
			wg.Go(func() {
				var w work
				r := rand.New(rand.NewPCG(uint64(round), uint64(g)))
				for _, n := range r.Perm(200) {
					d := fmt.Sprint(round, "-", n)
					w.changes = append(w.changes, person.Change{Ref: person.Ref{Project: project, Distinct: d}, At: noon, Properties: []person.Property{set(fmt.Sprint("p", g), "1")}})
					if n%10 == 0 {
						w.merges = append(w.merges, person.Merge{Ref: person.Ref{Project: project, Distinct: fmt.Sprint(round, "-user", n)}, Other: d, At: noon})
					}
				}
				if err := w.do(t.Context(), s); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for n := range 200 {
			p, err := stores[0].Show(t.Context(), person.Ref{Project: project, Distinct: fmt.Sprint(round, "-", n)})
			if err != nil || len(p.Properties) != len(stores) || p.Identified != (n%10 == 0) {
				t.Fatalf("person %d: %+v, %v; want a property of each process", n, p, err)
			}
		}
	}
	whole(t, stores[0])
	if n := deadlocks(t, stores[0].db); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

// A relay that reads and removes while others merge gets every override, in order.
func TestTheOutboxLosesNothing(t *testing.T) {
	testenv.Need(t)
	url := testenv.Postgres(t)
	var stores []*Store
	for range 4 {
		_, s := open(t, url, Options{})
		stores = append(stores, s)
	}
	project := newProject(t, stores[0].db)
	done := make(chan struct{})
	var wg, relay sync.WaitGroup
	newest := map[string]uint64{}
	relay.Go(func() {
		last := int64(0)
		for ended := false; ; {
			select {
			case <-done:
				ended = true
			default:
			}
			some, err := stores[0].Overrides(t.Context(), 7)
			if err != nil {
				t.Error(err)
				return
			}
			if len(some) == 0 && ended {
				return
			}
			for _, o := range some {
				if o.Seq != last+1 || o.Version != newest[o.Distinct]+1 {
					t.Errorf("override %+v came after number %d and version %d", o, last, newest[o.Distinct])
				}
				last, newest[o.Distinct] = o.Seq, o.Version
			}
			if err := stores[0].Relayed(t.Context(), last); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for g, s := range stores {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			for range 40 {
				w := randomWork(r, project, 10)
				if err := s.Merge(t.Context(), w.merges, make([]person.Outcome, len(w.merges))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	close(done)
	relay.Wait()
	for d, version := range newest {
		if n := count(t, stores[0].db, "SELECT version FROM person_distinct_ids WHERE distinct_id = $1", d); n != int(version) {
			t.Errorf("%q has version %d, the relay saw %d", d, n, version)
		}
	}
}

// What one process knows of a person that another merges meanwhile must not mislead it.
func TestNewsOfOthersIsFollowed(t *testing.T) {
	testenv.Need(t)
	url := testenv.Postgres(t)
	_, a := open(t, url, Options{})
	_, b := open(t, url, Options{})
	project := newProject(t, a.db)
	ref := func(d string) person.Ref { return person.Ref{Project: project, Distinct: d} }
	says := func(d string, minutes int, ps ...person.Property) []person.Change {
		return []person.Change{{Ref: ref(d), At: noon.Add(time.Duration(minutes) * time.Minute), Properties: ps}}
	}
	for i, c := range []struct {
		s       *Store
		changes []person.Change
	}{{a, says("x", 0, set("k", "1"))}, {b, says("x", 1, set("k", "2"))}, {a, says("x", 2, set("l", "3"))}} {
		if err := c.s.Apply(t.Context(), c.changes); err != nil {
			t.Fatal(i, err)
		}
	}
	if err := b.Merge(t.Context(), []person.Merge{{Ref: ref("u"), Other: "x", At: noon}}, make([]person.Outcome, 1)); err != nil {
		t.Fatal(err)
	}
	if err := a.Apply(t.Context(), says("x", 5, set("m", "4"))); err != nil {
		t.Fatal(err)
	}
	p, err := b.Show(t.Context(), ref("u"))
	if err != nil || p.ID != person.ID(ref("u")) || string(p.Properties["k"]) != "2" || string(p.Properties["l"]) != "3" || string(p.Properties["m"]) != "4" {
		t.Errorf("Show: %+v, %v; want u with k 2, l 3 and m 4", p, err)
	}
	whole(t, a)
}
