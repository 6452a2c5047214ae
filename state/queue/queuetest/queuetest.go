// Package queuetest is the contract of a queue.Store as a table of cases, each with its
// reason. It holds the contract of the store's sources too (package sourcetest). A
// backend's whole test is one call:
//
//	func TestContract(t *testing.T) { queuetest.Run(t, fresh) }
//
// A store at a server is tested in real time by RunLive.
package queuetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/source/sourcetest"
	"github.com/tidemill/tidemill/state/queue"
)

// Harness is one fresh, empty store.
type Harness struct {
	Store queue.Core
	// Kill drops everything that is not durable, as kill -9 does, and restarts on the same
	// data. nil: the store lasts as long as its data.
	Kill func() queue.Core
	// Whole says that the store is a queue.Store. Otherwise the promises of a Tuner, a
	// Mover and a Meter are not checked, nor those of settings: turns, priorities, limits,
	// order.
	Whole bool
	// Live says that the store is at a server, in real time: cases then run in parallel and
	// outside bubbles, and Advance moves the store's clock forward.
	Live    bool
	Advance func(d time.Duration)
}

// Fresh makes an empty store that holds capacity jobs a queue; 0 is the default. It is
// called inside a synctest bubble, unless the harness is Live, and so is what it registers
// with t.Cleanup.
type Fresh func(t *testing.T, capacity int) Harness

// lease is what every source of these tests is opened with; liveLease where time is real.
const (
	lease     = time.Minute
	liveLease = 3 * time.Second // its parts have to be longer than a busy machine's pauses
)

// Run holds every promise of the role against fresh stores.
func Run(t *testing.T, fresh Fresh) {
	run(t, fresh, func(t *testing.T, f func(*testing.T)) { synctest.Test(t, f) })
	t.Run("source", func(t *testing.T) { sourcetest.Run(t, Source(fresh, queue.Options{Lease: lease})) })
}

// RunOrdered checks the promises of every source against sources that keep order.
func RunOrdered(t *testing.T, fresh Fresh) {
	sourcetest.Run(t, Source(fresh, queue.Options{Lease: lease, Ordered: true}))
}

// RunLive holds every promise against stores at a server, in real time.
func RunLive(t *testing.T, fresh Fresh) {
	run(t, fresh, func(t *testing.T, f func(*testing.T)) {
		t.Parallel()
		f(t)
	})
	for name, o := range map[string]queue.Options{"source": {Lease: liveLease}, "ordered source": {Lease: liveLease, Ordered: true}} {
		t.Run(name, func(t *testing.T) {
			sourcetest.RunLive(t, 1, func(t *testing.T) sourcetest.Harness {
				t.Parallel()
				return Source(fresh, o)(t)
			})
		})
	}
}

func run(t *testing.T, fresh Fresh, world func(*testing.T, func(*testing.T))) {
	plain := [][]promise{adding, holding, failing, inspecting}
	whole := [][]promise{sharing, fairness, limiting, ordering, moving, died, tuning, standing, switching, storms} // of a queue.Store
	for i, table := range append(plain, whole...) {
		for _, p := range table {
			t.Run(p.name, func(t *testing.T) {
				world(t, func(t *testing.T) {
					b := &bench{T: t, Harness: fresh(t, p.capacity)}
					if i >= len(plain) && !b.Whole {
						return // the store does not claim it
					}
					p.holds(b)
					if t.Failed() {
						t.Log("why it matters:", p.reason)
					}
				})
			})
		}
	}
}

// Source makes a harness of package sourcetest of a queue of a fresh store.
func Source(fresh Fresh, o queue.Options) func(t *testing.T) sourcetest.Harness {
	return func(t *testing.T) sourcetest.Harness {
		b := &bench{T: t, Harness: fresh(t, 0)}
		if o.Ordered { // before the first job comes
			b.set(func(s *queue.Settings) { s.Ordered = true })
		}
		h := sourcetest.Harness{
			Accept: func(ms ...*tidemill.Message) {
				for _, m := range ms {
					m.To = "q"
				}
				b.add(queue.New, ms...)
			},
			Open:  func() tidemill.Source { return b.Store.Open("q", o) },
			Lease: o.Lease, Keeps: sourcetest.AllFields, ByID: true,
		}
		if b.Kill != nil {
			h.Kill = b.kill
		} else {
			h.Kill = func() {} // its sources are dropped, the store lasts
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
	ahead atomic.Int64 // how far the store's clock has jumped
}

// now is the store's clock.
func (b *bench) now() time.Time { return time.Now().Add(time.Duration(b.ahead.Load())) }

// sleep lets time pass for the store. A Receive that waits in a Live store may not notice.
func (b *bench) sleep(d time.Duration) {
	if !b.Live {
		time.Sleep(d)
		return
	}
	b.Advance(d)
	b.ahead.Add(int64(d))
}

// tick is the shortest time that cases tell apart.
func (b *bench) tick() time.Duration {
	if b.Live {
		return time.Second
	}
	return 2 * time.Millisecond
}

// same compares times, which may differ by the time between two reads of a server's clock.
func (b *bench) same(x, y time.Time) bool {
	if b.Live {
		return x.Sub(y).Abs() < 5*time.Second
	}
	return x.Equal(y)
}

// within says whether a time of the store's clock lies between two times of the test.
func (b *bench) within(at, from, to time.Time) bool {
	return !at.Before(from) && !at.After(to) || b.same(at, from) || b.same(at, to)
}

// whole is the store with all abilities.
func (b *bench) whole() queue.Store { return b.Store.(queue.Store) }

// set changes the settings of queue "q".
func (b *bench) set(change func(*queue.Settings)) {
	b.Helper()
	if _, err := b.whole().Set(b.Context(), "q", change); err != nil {
		b.Fatalf("set: %v", err)
	}
}

// patience is how long a Receive waits before nothing is said to come.
func (b *bench) patience() time.Duration {
	if b.Live {
		return 250 * time.Millisecond
	}
	return time.Millisecond
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

// take receives up to n due jobs; fewer when fewer are due.
func (b *bench) take(src tidemill.Source, n int) (all []*tidemill.Message) {
	b.Helper()
	for len(all) < n {
		got := b.receive(src, n-len(all), b.patience())
		if len(got) == 0 {
			break
		}
		all = append(all, got...)
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
		if e.Outcome != tidemill.Applied {
			b.Fatalf("settlement %d of %d (%q) was not applied: %v", i, len(ends), e.ID, e.Outcome)
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
	src := b.open(name)
	got, err := src.(tidemill.Bookkeeper).Books(b.Context())
	if err != nil {
		b.Fatalf("books of %q: %v", name, err)
	}
	if got != want {
		b.Fatalf("books of %q are %+v, want %+v", name, got, want)
	}
	if c, ok := src.(tidemill.Counter); ok {
		want.Pending = 0
		if got, err := c.Counters(b.Context()); err != nil || got != want {
			b.Fatalf("counters of %q are %+v, %v; want %+v", name, got, err, want)
		}
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
	case queue.Closed:
		return "closed"
	}
	return fmt.Sprintf("added(%d)", a)
}

// receive receives once, up to n jobs, and waits for them for at most d.
func (b *bench) receive(src tidemill.Source, n int, d time.Duration) []*tidemill.Message {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), d)
	defer cancel()
	into := make([]*tidemill.Message, n)
	for i := range into {
		into[i] = new(tidemill.Message)
	}
	got, err := src.Receive(ctx, into)
	if err != nil && ctx.Err() == nil {
		b.Fatalf("receive: %v", err)
	}
	return into[:got]
}

// takeNow is what one call hands out: all that may go now, up to n.
func (b *bench) takeNow(src tidemill.Source, n int) []*tidemill.Message {
	b.Helper()
	if b.Live {
		return b.receive(src, n, 60*time.Millisecond)
	}
	return b.receive(src, n, time.Microsecond)
}
