// Package queuetest is the contract of a queue.Store as a table of cases, each with its
// reason. It holds the contract of the store's sources too (package sourcetest). A
// backend's whole test is one call:
//
//	func TestContract(t *testing.T) { queuetest.Run(t, fresh) }
package queuetest

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/source/sourcetest"
	"github.com/tidemill/tidemill/state/queue"
)

// Harness is one fresh, empty store.
type Harness struct {
	Store queue.Store
	// Kill drops everything that is not durable, as kill -9 does, and starts anew on
	// the same data. nil: the store lasts as long as its data.
	Kill func() queue.Store
}

// Fresh makes an empty store that holds capacity jobs a queue; 0 is the default. It is
// called inside a synctest bubble, and so is what it registers with t.Cleanup.
type Fresh func(t *testing.T, capacity int) Harness

// lease is what every source of these tests is opened with.
const lease = time.Minute

// Run holds every promise of the role against fresh stores.
func Run(t *testing.T, fresh Fresh) {
	for _, table := range [][]promise{adding, holding, desk} {
		for _, p := range table {
			t.Run(p.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p.holds(&bench{T: t, Harness: fresh(t, p.capacity)})
					if t.Failed() {
						t.Log("why it matters:", p.reason)
					}
				})
			})
		}
	}
	t.Run("source", func(t *testing.T) { sourcetest.Run(t, Source(fresh)) })
}

// Source is how package sourcetest sees a queue of a fresh store.
func Source(fresh Fresh) func(t *testing.T) sourcetest.Harness {
	return func(t *testing.T) sourcetest.Harness {
		b := &bench{T: t, Harness: fresh(t, 0)}
		h := sourcetest.Harness{
			Accept: func(ms ...*tidemill.Message) {
				for _, m := range ms {
					m.To = "q"
				}
				b.add(queue.New, ms...)
			},
			Open:  func() tidemill.Source { return b.open("q") },
			Lease: lease, Keeps: sourcetest.AllFields, ByID: true,
		}
		if b.Kill != nil {
			h.Kill = b.kill
		} else {
			h.Kill = func() {} // its sources are forgotten, the store lasts
		}
		return h
	}
}

// A promise is one case: its name as a sentence and why it must hold.
type promise struct {
	name, reason string
	capacity     int // of every queue; 0: the default
	holds        func(*bench)
}

// bench is a store on the table of one case, with the checks that cases share.
type bench struct {
	*testing.T
	Harness
}

func (b *bench) open(name string) tidemill.Source {
	return b.Store.Open(name, queue.Options{Lease: lease})
}

func (b *bench) kill() {
	if b.Kill != nil {
		b.Store = b.Kill()
	}
}

// job makes a job for queue "q".
func job(id string) *tidemill.Message {
	return &tidemill.Message{ID: id, To: "q", Payload: []byte("payload of " + id), Time: time.UnixMilli(1_700_000_000_000)}
}

func jobs(n int) []*tidemill.Message {
	ms := make([]*tidemill.Message, n)
	for i := range ms {
		ms[i] = job(fmt.Sprint(i))
	}
	return ms
}

// try adds and returns the answers.
func (b *bench) try(ms ...*tidemill.Message) []queue.Added {
	b.Helper()
	added := make([]queue.Added, len(ms))
	if err := b.Store.Add(b.Context(), ms, added); err != nil {
		b.Fatalf("add %d jobs: %v", len(ms), err)
	}
	return added
}

// add adds and checks that the answer is the same for all.
func (b *bench) add(want queue.Added, ms ...*tidemill.Message) {
	b.Helper()
	for i, got := range b.try(ms...) {
		if got != want {
			b.Fatalf("job %d of %d (%q) became %v, want %v", i, len(ms), ms[i].ID, addedName(got), addedName(want))
		}
	}
}

// take receives up to n jobs that are due; fewer when there are not as many.
func (b *bench) take(src tidemill.Source, n int) (all []*tidemill.Message) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), time.Millisecond)
	defer cancel()
	for len(all) < n {
		into := make([]*tidemill.Message, n-len(all))
		for i := range into {
			into[i] = new(tidemill.Message)
		}
		got, err := src.Receive(ctx, into)
		all = append(all, into[:got]...)
		if err != nil {
			break
		}
	}
	return all
}

// want checks which jobs came, by ID.
func (b *bench) want(got []*tidemill.Message, ids ...string) {
	b.Helper()
	have := make([]string, len(got))
	for i, m := range got {
		have[i] = m.ID
	}
	if fmt.Sprintf("%q", have) != fmt.Sprintf("%q", ids) {
		b.Fatalf("jobs are %q, want %q", have, ids)
	}
}

// settle settles and checks that each is applied.
func (b *bench) settle(src tidemill.Source, ends ...tidemill.Settlement) {
	b.Helper()
	if err := src.Settle(b.Context(), ends); err != nil {
		b.Fatalf("settle %d: %v", len(ends), err)
	}
	for i, e := range ends {
		if e.Took != tidemill.Applied {
			b.Fatalf("settlement %d of %d (%q) was not applied: %v", i, len(ends), e.ID, e.Took)
		}
	}
}

func (b *bench) deliver(src tidemill.Source, ms ...*tidemill.Message) {
	b.Helper()
	ends := make([]tidemill.Settlement, len(ms))
	for i, m := range ms {
		ends[i] = delivered(m)
	}
	b.settle(src, ends...)
}

func delivered(m *tidemill.Message) tidemill.Settlement {
	return tidemill.Settlement{ID: m.ID, Mark: m.Mark, End: tidemill.Done, Fate: tidemill.Delivered}
}

func (b *bench) books(name string, want tidemill.Books) {
	b.Helper()
	got, err := b.open(name).(tidemill.Bookkeeper).Books(b.Context())
	if err != nil {
		b.Fatalf("books of %q: %v", name, err)
	}
	if got != want {
		b.Fatalf("books of %q are %+v, want %+v", name, got, want)
	}
}

func addedName(a queue.Added) string {
	switch a {
	case queue.New:
		return "new"
	case queue.Known:
		return "known"
	case queue.Full:
		return "full"
	}
	return fmt.Sprintf("added(%d)", a)
}
