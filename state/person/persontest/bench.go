//go:build unix

package persontest

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/state/person"
)

// Bench measures what a flush of 1,000 events of 800 persons costs, of which 20% carry a $set of 5
// properties: Resolve and Apply together. Cpu-ms is that of this process, without waiting for the
// disk. Open opens an empty store, and says the project of the persons.
func Bench(b *testing.B, open func(b *testing.B) (person.Store, uuid.UUID)) {
	const active = 25 // flushes of persons: 20,000
	for _, c := range []struct {
		name  string
		known int // flushes done before
		flush func(f *flusher, i int) []person.Change
	}{
		{"warm", active, func(f *flusher, i int) []person.Change { return f.flush(i%active*800, i+1) }},
		{"warm, and nothing new", active, func(f *flusher, i int) []person.Change { return f.flush(i%active*800, 0) }},
		{"a new hour", active, func(f *flusher, i int) []person.Change { return f.flush(i%active*800, (i+1)*3600) }},
		{"all new", 0, func(f *flusher, i int) []person.Change { return f.flush(i*800, 0) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			f := newFlusher(b, open)
			for i := range c.known {
				f.do(f.flush(i*800, 0))
			}
			var changes []person.Change
			measure(b, func(i int) { changes = c.flush(f, i) }, func() { f.do(changes) })
		})
	}
	b.Run("merge 50", func(b *testing.B) { benchMerge(b, newFlusher(b, open)) })
}

// benchMerge does 50 identifies of a flush: each merges a stored anonymous person into a new user.
func benchMerge(b *testing.B, f *flusher) {
	outcomes := make([]person.Outcome, 50)
	var merges []person.Merge
	measure(b, func(i int) {
		merges = merges[:0]
		var changes []person.Change
		for k := range 50 {
			c := f.change(i*50+k, 0)
			changes = append(changes, c)
			merges = append(merges, person.Merge{Ref: person.Ref{Project: f.project, Distinct: "user-" + c.Distinct}, Other: c.Distinct, At: c.At})
		}
		if err := f.s.Apply(b.Context(), changes); err != nil {
			b.Fatal(err)
		}
	}, func() {
		if err := f.s.Merge(b.Context(), merges, outcomes); err != nil || outcomes[49] != person.Merged {
			b.Fatal(outcomes, err)
		}
	})
}

type flusher struct {
	b       *testing.B
	s       person.Store
	project uuid.UUID
}

func newFlusher(b *testing.B, open func(b *testing.B) (person.Store, uuid.UUID)) *flusher {
	s, project := open(b)
	return &flusher{b, s, project}
}

// measure times do, and not what prepares it.
func measure(b *testing.B, prepare func(i int), do func()) {
	b.ReportAllocs()
	i := 0
	var spent time.Duration
	for b.Loop() {
		b.StopTimer()
		prepare(i)
		i++
		before := cpu(b)
		b.StartTimer()
		do()
		spent += cpu(b) - before
	}
	b.ReportMetric(float64(spent.Microseconds())/1000/float64(i), "cpu-ms/op")
}

func cpu(b *testing.B) time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func (f *flusher) change(n, seconds int) person.Change {
	return person.Change{
		Ref:   person.Ref{Project: f.project, Distinct: fmt.Sprintf("0191f3c2-%012d-anonymous", n)},
		Event: uuid.NewSHA1(f.project, fmt.Append(nil, n, seconds)),
		At:    time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC).Add(time.Duration(seconds) * time.Second),
	}
}

// flush is 1,000 events of the 800 persons from first on; every fifth carries a $set.
func (f *flusher) flush(first, seconds int) []person.Change {
	changes := make([]person.Change, 1000)
	for i := range changes {
		changes[i] = f.change(first+i%800, seconds)
		if i%5 == 0 {
			value := fmt.Append(nil, `"value-`, seconds, `"`)
			for _, k := range []string{"email", "name", "plan", "company", "last_seen_version"} {
				changes[i].Properties = append(changes[i].Properties, person.Property{Op: person.Set, Key: k, Value: value})
			}
		}
	}
	return changes
}

func (f *flusher) do(changes []person.Change) {
	refs := make([]person.Ref, len(changes))
	for i := range changes {
		refs[i] = changes[i].Ref
	}
	if err := f.s.Resolve(f.b.Context(), refs, make([]uuid.UUID, len(refs))); err != nil {
		f.b.Fatal(err)
	}
	if err := f.s.Apply(f.b.Context(), changes); err != nil {
		f.b.Fatal(err)
	}
}
