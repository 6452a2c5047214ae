package queuetest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
)

// tuning holds what a Tuner and a Meter promise.
var tuning = []promise{
	{"keeps settings for all instances and through a kill",
		"a pause must not end with a restart", 0, keepsSettings},
	{"loses nobody's change",
		"one operator pauses while another sets a limit", 0, losesNoChange},
	{"refuses settings that make no sense",
		"a typo must not stop a queue", 0, refusesSettings},
	{"hands out nothing while paused, and resumes",
		"an operator stops the work, not the intake", 0, pauses},
	{"finishes what is there and takes nothing new while it drains",
		"a queue is taken out of service without loss", 0, drains},
	{"lets a settlement wait that forwards into a queue that drains",
		"a child must not be lost, nor its parent end without it", 0, drainWaits},
	{"wakes a waiting source when it is resumed",
		"jobs that came meanwhile must not wait for the next one", 0, resumeWakes},
	{"counts what waits of each tenant, whatever was done to its jobs",
		"an operator looks for who holds up the rest", 0, countsTenants},
	{"holds as many jobs as its settings say, be it fewer or more than the store allows",
		"one destination that is away fills its own queue, not those of others", 3, holdsAsSet},
	{"names its queues",
		"an operator sees what there is", 0, namesQueues},
}

func keepsSettings(b *bench) {
	if s, err := b.whole().Settings(b.Context(), "q"); err != nil || !reflect.DeepEqual(s, queue.Settings{}) {
		b.Fatalf("a queue that never was has settings %+v, %v", s, err)
	}
	want := queue.Settings{Paused: true, Closed: true, Weights: map[uint8]int{0: 3, 255: 7}, Fair: queue.ByKey, Ordered: true,
		Limit: queue.Limit{PerSecond: 12.5, Burst: 3, AtOnce: 4}, Tenant: queue.Limit{PerSecond: 1e-3},
		Tenants: map[string]queue.Limit{"t": {AtOnce: 2}, "": {}}, Key: queue.Limit{AtOnce: 9},
		Configured: queue.Configured{Limit: queue.Limit{AtOnce: 4}, Tenants: map[string]queue.Limit{"t": {AtOnce: 2}}},
		Max:        123, FailingSince: time.UnixMilli(1_700_000_000_000).UTC(), Off: time.UnixMilli(1_700_000_001_000).UTC(),
		Completed: queue.Keep{Count: 1000}, Failed: queue.Keep{Count: 5000, Age: 7 * 24 * time.Hour}}
	b.set(func(s *queue.Settings) { *s = want.Clone() })
	b.kill()
	if got, err := b.whole().Settings(b.Context(), "q"); err != nil || !reflect.DeepEqual(got, want) {
		b.Fatalf("settings are %+v, %v; want %+v", got, err, want)
	}
	if got, err := b.whole().Settings(b.Context(), "r"); err != nil || !reflect.DeepEqual(got, queue.Settings{}) {
		b.Fatalf("another queue has settings %+v, %v", got, err)
	}
}

func holdsAsSet(b *bench) {
	b.set(func(s *queue.Settings) { s.Max = 5 })
	for i, a := range b.try(jobs(6)...) {
		if want := map[bool]queue.Added{true: queue.New, false: queue.Full}[i < 5]; a != want {
			b.Fatalf("job %d of a queue that may hold 5 became %s, want %s", i, addedName(a), addedName(want))
		}
	}
	other := func(id string) *tidemill.Message {
		m := job(id)
		m.To = "r"
		return m
	}
	b.add(queue.New, other("a"), other("b"), other("c"))
	b.add(queue.Full, other("d"))
	b.kill()
	b.add(queue.Full, job("x"))
	// forwarded jobs keep to it too
	from := b.open("r")
	got := b.take(from, 1)
	forward := func() *tidemill.Settlement {
		ends := []tidemill.Settlement{{ID: got[0].ID, Mark: got[0].Mark, End: tidemill.Done, Fate: tidemill.Delivered, Next: []*tidemill.Message{job("forwarded")}}}
		if err := from.Settle(b.Context(), ends); err != nil && tidemill.KindOf(err) != tidemill.RateLimit {
			b.Fatalf("settle: %v", err)
		}
		return &ends[0]
	}
	if e := forward(); e.Outcome == tidemill.Applied {
		b.Fatal("a settlement forwarded into a full queue")
	}
	b.set(func(s *queue.Settings) { s.Max = 6 })
	if e := forward(); e.Outcome != tidemill.Applied {
		b.Fatalf("with room for one more it is %v", e.Outcome)
	}
	b.set(func(s *queue.Settings) { s.Max = 1 })
	b.add(queue.Full, job("x"))
	b.books("q", tidemill.Books{Accepted: 6, Pending: 6})
	b.set(func(s *queue.Settings) { s.Max = 0 })
	b.add(queue.Full, job("x")) // as the store says
	if _, err := b.whole().Set(b.Context(), "q", func(s *queue.Settings) { s.Max = -1 }); tidemill.KindOf(err) != tidemill.Validation {
		b.Fatalf("a queue for -1 jobs: %v", err)
	}
}

func losesNoChange(b *bench) {
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			if _, err := b.whole().Set(b.Context(), "q", func(s *queue.Settings) {
				if s.Weights == nil {
					s.Weights = map[uint8]int{}
				}
				s.Weights[uint8(i)] = i + 1
			}); err != nil {
				b.Errorf("set: %v", err)
			}
		})
	}
	all.Wait()
	if got, err := b.whole().Settings(b.Context(), "q"); err != nil || len(got.Weights) != 8 {
		b.Fatalf("of eight changes at once %v are left, %v", got.Weights, err)
	}
}

func refusesSettings(b *bench) {
	for name, change := range map[string]func(*queue.Settings){
		"a weight of nothing":   func(s *queue.Settings) { s.Weights = map[uint8]int{3: 0} },
		"an unknown fairness":   func(s *queue.Settings) { s.Fair = "fairly" },
		"a negative limit":      func(s *queue.Settings) { s.Limit.PerSecond = -1 },
		"a negative bound":      func(s *queue.Settings) { s.Tenants = map[string]queue.Limit{"t": {AtOnce: -1}} },
		"a name without a text": func(s *queue.Settings) { s.Tenants = map[string]queue.Limit{"\xff": {AtOnce: 1}, "\xfe": {AtOnce: 2}} },
		"too many kept":         func(s *queue.Settings) { s.Failed.Count = queue.MaxKept + 1 },
	} {
		if _, err := b.whole().Set(b.Context(), "q", change); tidemill.KindOf(err) != tidemill.Validation {
			b.Errorf("%s says %v, want kind validation", name, err)
		}
	}
	if got, err := b.whole().Settings(b.Context(), "q"); err != nil || !reflect.DeepEqual(got, queue.Settings{}) {
		b.Fatalf("after refused settings they are %+v, %v", got, err)
	}
}

func pauses(b *bench) {
	src := b.open("q")
	b.add(queue.New, jobs(3)...)
	got := b.takeNow(src, 1)
	b.set(func(s *queue.Settings) { s.Paused = true })
	b.want(b.takeNow(src, 10))
	b.deliver(src, got...) // leased jobs are settled
	b.add(queue.New, job("3"))
	b.kill()
	src = b.open("q")
	b.want(b.takeNow(src, 10))
	b.counts(queue.Stats{Waiting: 3})
	b.set(func(s *queue.Settings) { s.Paused = false })
	b.want(b.takeNow(src, 10), "1", "2", "3")
}

func drains(b *bench) {
	src := b.open("q")
	b.add(queue.New, jobs(3)...)
	got := b.takeNow(src, 1)
	b.set(func(s *queue.Settings) { s.Closed = true })
	b.add(queue.Closed, job("new"))
	b.add(queue.Known, job("1"))
	other := job("elsewhere")
	other.To = "r"
	b.add(queue.New, other)
	err := b.Store.Add(b.Context(), []*tidemill.Message{job("new")}, nil)
	if !errors.Is(err, queue.ErrClosed) || tidemill.KindOf(err) != tidemill.RateLimit {
		b.Fatalf("adding to a closed queue says %v, want %v of kind rate_limit", err, queue.ErrClosed)
	}
	p, ok := queue.Sink(b.Store).Write(b.Context(), []*tidemill.Message{job("1"), job("new")}).(*tidemill.Partial)
	if !ok || len(p.Failed) != 1 || p.Failed[0].Index != 1 || !errors.Is(p.Failed[0].Err, queue.ErrClosed) {
		b.Fatalf("writing a known and a new job to a closed queue says %v", p)
	}
	b.settle(src, again(got[0], 0))
	got = b.takeNow(src, 10)
	b.want(got, "0", "1", "2")
	b.deliver(src, got...)
	b.stats(queue.Stats{})
	b.set(func(s *queue.Settings) { s.Closed = false })
	b.add(queue.New, job("new"))
}

func drainWaits(b *bench) {
	src := b.open("r")
	parent := job("parent")
	parent.To = "r"
	b.add(queue.New, parent)
	b.set(func(s *queue.Settings) { s.Closed = true })
	ends := []tidemill.Settlement{delivered(b.take(src, 1)[0])}
	ends[0].Next = []*tidemill.Message{job("parent/q")}
	if err := src.Settle(b.Context(), ends); !errors.Is(err, queue.ErrClosed) || ends[0].Outcome != tidemill.Unanswered {
		b.Fatalf("forwarding into a closed queue says %v, the settlement was taken as %v", err, ends[0].Outcome)
	}
	b.books("q", tidemill.Books{})
	b.books("r", tidemill.Books{Accepted: 1, Pending: 1})
	b.set(func(s *queue.Settings) { s.Closed = false })
	b.settle(src, ends...)
	b.books("q", tidemill.Books{Accepted: 1, Pending: 1})
}

func resumeWakes(b *bench) {
	src := b.open("q")
	var took time.Duration
	for _, id := range []string{"a", "b", "c", "d", "e"} { // a server's machine may be busy, but not each time
		b.set(func(s *queue.Settings) { s.Paused = true })
		got := make(chan []*tidemill.Message, 1)
		go func() { got <- b.receive(src, 1, 20*time.Second) }()
		b.add(queue.New, job(id))
		b.want(b.takeNow(b.open("q"), 1)) // so that the other one has begun to wait, or will soon
		start := time.Now()
		b.set(func(s *queue.Settings) { s.Paused = false })
		woken := <-got
		b.want(woken, id)
		b.deliver(src, woken...)
		if took = time.Since(start); took < 800*time.Millisecond {
			return
		}
	}
	b.Fatalf("the job came %v after the queue was resumed, want it at once", took)
}

func countsTenants(b *bench) {
	for _, name := range []string{"any order", "strict order"} {
		if _, err := b.whole().Set(b.Context(), name, func(s *queue.Settings) { s.Ordered = name == "strict order" }); err != nil {
			b.Fatal(err)
		}
		want := func(when string, waits ...int64) {
			b.Helper()
			got, err := b.whole().Tenants(b.Context(), name, 0)
			for i := range got {
				if i >= len(waits) || got[i].Waiting != waits[i] {
					err = errors.Join(err, fmt.Errorf("number %d", i))
				}
			}
			if err != nil || len(got) != len(waits) {
				b.Errorf("%s, %s: tenants have %+v, %v; want %v", name, when, got, err, waits)
			}
			for i, tenant := range []string{"t", "u"} {
				b.waitsOf(tenant, when, name, slices.Concat(waits, []int64{0, 0})[i])
			}
		}
		for i, m := range jobs(10) {
			m.To, m.Tenant = name, "t"
			if i < 8 {
				m.Key = []byte("k")
			} else if i == 9 {
				m.Tenant = "u"
			}
			b.add(queue.New, m)
		}
		want("at first", 9, 1)
		b.did(3)(b.whole().Remove(b.Context(), queue.Filter{Queue: name, IDs: []string{"0", "3", "8"}}))
		want("after three were removed", 6, 1)
		src := b.open(name)
		got := b.take(src, 1)
		want("after one was taken", 5, 1)
		b.settle(src, tidemill.Settlement{ID: got[0].ID, Mark: got[0].Mark, End: tidemill.Again})
		want("after it came back", 6, 1)
		b.settle(src, tidemill.Settlement{ID: "4", End: tidemill.Done, Fate: tidemill.Delivered},
			tidemill.Settlement{ID: "5", End: tidemill.Again}, tidemill.Settlement{ID: "6", End: tidemill.Again, After: time.Hour})
		want("after some were settled by their names", 4, 1)
		for n := 0; n < 5; {
			some := b.take(src, 10)
			if len(some) == 0 {
				b.Fatalf("%s: %d jobs of 5 came", name, n)
			}
			b.deliver(src, some...)
			n += len(some)
		}
		want("after all were taken")
	}
}

// waitsOf checks how many jobs of a tenant wait in a queue, and the age of the oldest against that
// of Tenants, among which the tenant is.
func (b *bench) waitsOf(tenant, when, name string, want int64) {
	b.Helper()
	all, err := b.whole().Tenant(b.Context(), tenant)
	if err != nil || !slices.IsSortedFunc(all, func(x, y queue.Depth) int { return strings.Compare(x.Queue, y.Queue) }) {
		b.Errorf("%s: jobs of %q wait in %+v, %v", when, tenant, all, err)
	}
	at := slices.IndexFunc(all, func(d queue.Depth) bool { return d.Queue == name })
	if at < 0 {
		if want != 0 {
			b.Errorf("%s: no job of %q waits in %q; want %d", when, tenant, name, want)
		}
		return
	}
	tenants, err := b.whole().Tenants(b.Context(), name, 0)
	if err != nil {
		b.Fatal(err)
	}
	of := slices.IndexFunc(tenants, func(d queue.Depth) bool { return d.Tenant == tenant })
	if d := all[at]; d.Waiting != want || d.Tenant != tenant || of < 0 || !d.Oldest.Equal(tenants[of].Oldest) {
		b.Errorf("%s: of %q there is %+v; want %d that wait, and what is among %+v", when, tenant, d, want, tenants)
	}
}

func namesQueues(b *bench) {
	names := func(want ...string) {
		b.Helper()
		got, err := b.whole().Queues(b.Context())
		got = slices.DeleteFunc(got, func(n string) bool { return n == "q" && !slices.Contains(want, n) })
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			b.Fatalf("queues are %q, %v; want %q", got, err, want)
		}
	}
	names()
	for _, n := range []string{"s2s.b", "ingest.low", "é \x00{}:"} {
		m := job("a")
		m.To = n
		b.add(queue.New, m)
		b.books(n, tidemill.Books{Accepted: 1, Pending: 1})
	}
	if _, err := b.whole().Set(b.Context(), "set only", func(s *queue.Settings) { s.Paused = true }); err != nil {
		b.Fatal(err)
	}
	b.kill()
	names("ingest.low", "s2s.b", "set only", "é \x00{}:")
}
