//go:build unix

package sqliteperson

import (
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/state/person"
)

// A flush of 1,000 events of 800 persons; 20% carry a $set of 5 properties: what Resolve
// and Apply cost together. cpu-ms is the process's, without waiting for the disk.
func BenchmarkFlush(b *testing.B) {
	const active = 25 // flushes of persons: 20,000
	for _, c := range []struct {
		name  string
		known int // flushes done before
		flush func(i int) []person.Change
	}{
		{"warm", active, func(i int) []person.Change { return flush(i%active*800, i+1) }},
		{"warm, and nothing new", active, func(i int) []person.Change { return flush(i%active*800, 0) }},
		{"a new hour", active, func(i int) []person.Change { return flush(i%active*800, (i+1)*3600) }},
		{"all new", 0, func(i int) []person.Change { return flush(i*800, 0) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := benchStore(b)
			for i := range c.known {
				doFlush(b, s, flush(i*800, 0))
			}
			var changes []person.Change
			measure(b, func(i int) { changes = c.flush(i) }, func() { doFlush(b, s, changes) })
		})
	}
}

// 50 identifies of a flush: each merges a stored anonymous person into a new user.
func BenchmarkMerge50(b *testing.B) {
	s := benchStore(b)
	outcomes := make([]person.Outcome, 50)
	var merges []person.Merge
	measure(b, func(i int) {
		merges = merges[:0]
		var changes []person.Change
		for k := range 50 {
			c := change(i*50+k, 0)
			changes = append(changes, c)
			merges = append(merges, person.Merge{Ref: person.Ref{Project: project, Distinct: "user-" + c.Distinct}, Other: c.Distinct, At: c.At})
		}
		if err := s.Apply(b.Context(), changes); err != nil {
			b.Fatal(err)
		}
	}, func() {
		if err := s.Merge(b.Context(), merges, outcomes); err != nil || outcomes[49] != person.Merged {
			b.Fatal(outcomes, err)
		}
	})
}

var project = uuid.MustParse("33333333-3333-4333-8333-333333333333")

func benchStore(b *testing.B) *Store {
	_, s := open(b, filepath.Join(b.TempDir(), "t.db"), Options{})
	return s
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

func change(n, seconds int) person.Change {
	return person.Change{
		Ref:   person.Ref{Project: project, Distinct: fmt.Sprintf("0191f3c2-%012d-anonymous", n)},
		Event: uuid.NewSHA1(project, fmt.Append(nil, n, seconds)),
		At:    time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC).Add(time.Duration(seconds) * time.Second),
	}
}

// flush is 1,000 events of the 800 persons from first on; every fifth carries a $set.
func flush(first, seconds int) []person.Change {
	changes := make([]person.Change, 1000)
	for i := range changes {
		changes[i] = change(first+i%800, seconds)
		if i%5 == 0 {
			value := fmt.Append(nil, `"value-`, seconds, `"`)
			for _, k := range []string{"email", "name", "plan", "company", "last_seen_version"} {
				changes[i].Properties = append(changes[i].Properties, person.Property{Op: person.Set, Key: k, Value: value})
			}
		}
	}
	return changes
}

func doFlush(b *testing.B, s *Store, changes []person.Change) {
	refs := make([]person.Ref, len(changes))
	for i := range changes {
		refs[i] = changes[i].Ref
	}
	if err := s.Resolve(b.Context(), refs, make([]uuid.UUID, len(refs))); err != nil {
		b.Fatal(err)
	}
	if err := s.Apply(b.Context(), changes); err != nil {
		b.Fatal(err)
	}
}
