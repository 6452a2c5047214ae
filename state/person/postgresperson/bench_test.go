//go:build unix

package postgresperson

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/person/internal/rules"
	"github.com/tidemill/tidemill/state/person/persontest"
)

const (
	active  = 20_000 // persons
	perCall = 1000   // changes
)

// Calls of 1,000 changes, over 20,000 persons that are stored. changes/s is what a
// pipeline gets; rows/s is how many rows of persons that wrote.
func BenchmarkApply(b *testing.B) {
	testenv.Need(b)
	for _, c := range []struct {
		name string
		o    Options
		call func(r *rand.Rand, i int, project uuid.UUID) []person.Change
	}{
		{"nothing new", Options{}, func(r *rand.Rand, _ int, p uuid.UUID) []person.Change { return call(r, p, 1, 0.2, 0) }},
		{"nothing new, the cache misses", Options{CacheMiB: -1}, func(r *rand.Rand, _ int, p uuid.UUID) []person.Change { return call(r, p, 1, 0.2, 0) }},
		{"every fifth has a new $set", Options{}, func(r *rand.Rand, i int, p uuid.UUID) []person.Change { return call(r, p, i+2, 0.2, 0) }},
		{"every fifth has a new $set, the cache misses", Options{CacheMiB: -1}, func(r *rand.Rand, i int, p uuid.UUID) []person.Change { return call(r, p, i+2, 0.2, 0) }},
		{"all have a new $set", Options{}, func(r *rand.Rand, i int, p uuid.UUID) []person.Change { return call(r, p, i+2, 1, 0) }},
		{"a new hour", Options{}, func(r *rand.Rand, i int, p uuid.UUID) []person.Change { return call(r, p, (i+1)*3600, 0, 0) }},
		{"all new", Options{}, func(r *rand.Rand, i int, p uuid.UUID) []person.Change { return call(r, p, 1, 0.2, (i+1)*active) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			db, s := open(b, testenv.Postgres(b), c.o)
			project := newProject(b, db)
			store(b, s, project)
			r := rand.New(rand.NewPCG(1, 2))
			before := written(b, s)
			i := 0
			for b.Loop() {
				b.StopTimer()
				changes := c.call(r, i, project)
				i++
				b.StartTimer()
				if err := s.Apply(b.Context(), changes); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(i*perCall)/b.Elapsed().Seconds(), "changes/s")
			b.ReportMetric(float64(written(b, s)-before)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// The same rows by one bare upsert: what PostgreSQL can do at most.
func BenchmarkBareUpsert(b *testing.B) {
	testenv.Need(b)
	db, s := open(b, testenv.Postgres(b), Options{})
	project := newProject(b, db)
	store(b, s, project)
	r := rand.New(rand.NewPCG(1, 2))
	rows, i := 0, 0
	for b.Loop() {
		b.StopTimer()
		var c columns
		for _, d := range rules.Deltas(call(r, project, i+2, 1, 0)) {
			c.whole(&row{Record: rules.Record{ID: person.ID(d.Ref), Project: project, Properties: d.Properties, CreatedMilli: d.FirstMilli, UpdatedMilli: d.LastMilli}})
		}
		i++
		rows += len(c.ids)
		b.StartTimer()
		if _, err := db.Exec(b.Context(), `INSERT INTO persons(id, project_id, identified, created_at, updated_at, properties, registers)
			SELECT k.id, k.project, k.identified, k.created, k.updated, k.properties::jsonb, k.registers
			FROM unnest($1::uuid[], $2::uuid[], $3::bool[], $4::timestamptz[], $5::timestamptz[], $6::text[], $7::bytea[])
				k(id, project, identified, created, updated, properties, registers)
			ON CONFLICT (id) DO UPDATE SET created_at = excluded.created_at, updated_at = excluded.updated_at,
				properties = excluded.properties, registers = excluded.registers`,
			c.ids, c.projects, c.identified, c.created, c.updated, c.properties, c.registers); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
}

func BenchmarkResolve(b *testing.B) {
	testenv.Need(b)
	db, s := open(b, testenv.Postgres(b), Options{})
	project := newProject(b, db)
	store(b, s, project)
	r := rand.New(rand.NewPCG(1, 2))
	refs, ids := make([]person.Ref, perCall), make([]uuid.UUID, perCall)
	for b.Loop() {
		b.StopTimer()
		for i := range refs {
			refs[i] = person.Ref{Project: project, Distinct: distinct(r.IntN(active))}
		}
		b.StartTimer()
		if err := s.Resolve(b.Context(), refs, ids); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*perCall)/b.Elapsed().Seconds(), "refs/s")
}

func BenchmarkFlush(b *testing.B) {
	testenv.Need(b)
	persontest.Bench(b, func(b *testing.B) (person.Store, uuid.UUID) {
		db, s := open(b, testenv.Postgres(b), Options{})
		return s, newProject(b, db)
	})
}

func after0(seconds int) time.Time {
	return time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC).Add(time.Duration(seconds) * time.Second)
}

func distinct(n int) string { return fmt.Sprintf("0191f3c2-%012d-anonymous", n) }

// call is 1,000 changes of random persons from first on, at so many seconds; a part of
// them carries a $set of 5 properties.
func call(r *rand.Rand, project uuid.UUID, seconds int, part float64, first int) []person.Change {
	changes := make([]person.Change, perCall)
	for i := range changes {
		n := first + r.IntN(active)
		if first > 0 {
			n = first + i
		}
		changes[i] = change(project, n, seconds, float64(i%10) < part*10)
	}
	return changes
}

func change(project uuid.UUID, n, seconds int, sets bool) person.Change {
	c := person.Change{Ref: person.Ref{Project: project, Distinct: distinct(n)}, Event: uuid.NewSHA1(project, fmt.Append(nil, n, seconds)), At: after0(seconds)}
	if sets {
		value := fmt.Append(nil, `"value-`, seconds, `"`)
		for _, k := range []string{"email", "name", "plan", "company", "last_seen_version"} {
			c.Properties = append(c.Properties, person.Property{Op: person.Set, Key: k, Value: value})
		}
	}
	return c
}

// store stores all active persons with a $set each, of the first second.
func store(b *testing.B, s *Store, project uuid.UUID) {
	for i := 0; i < active; i += perCall {
		var changes []person.Change
		for n := range perCall {
			changes = append(changes, change(project, i+n, 1, true))
		}
		if err := s.Apply(b.Context(), changes); err != nil {
			b.Fatal(err)
		}
	}
}
