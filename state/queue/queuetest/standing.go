package queuetest

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
)

// standing holds what is promised of looks at all queues.
var standing = []promise{
	{"says in one look how all queues stand",
		"a page with a hundred queues asks once", 0, standsAll},
	{"says in one look whose jobs wait in each queue",
		"a list of owners over all queues asks once", 0, tenantsOfAll},
	{"finds the deepest of many tenants, with many keys each",
		"an operator sees who fills a queue, however many use it", 0, findsDeepest},
	{"has a look at all queues fail that was given up",
		"a page that nobody waits for asks for nothing", 0, looksEnd},
}

// manyQueues are more than one question asks about.
const manyQueues = 40

func queueName(i int) string { return fmt.Sprintf("queue-%02d", i) }

// standsOf is how a queue stands by what is asked about it alone.
func (b *bench) standsOf(name string) (s queue.Standing) {
	b.Helper()
	var err error
	s.Queue = name
	if s.Stats, err = b.Store.Stats(b.Context(), name); err != nil {
		b.Fatalf("stats of %q: %v", name, err)
	}
	if s.Settings, err = b.whole().Settings(b.Context(), name); err != nil {
		b.Fatalf("settings of %q: %v", name, err)
	}
	if s.Books, err = b.open(name).(tidemill.Bookkeeper).Books(b.Context()); err != nil {
		b.Fatalf("books of %q: %v", name, err)
	}
	s.Books.Pending = 0
	return s
}

func standsAll(b *bench) {
	all := func() []queue.Standing {
		b.Helper()
		got, err := b.whole().Standing(b.Context())
		if err != nil {
			b.Fatalf("standing: %v", err)
		}
		return got
	}
	if got := all(); len(got) != 0 {
		b.Fatalf("a store without queues has %+v", got)
	}
	for i := range manyQueues {
		ms := many(i%3+1, "t", uint8(i%2))
		for _, m := range ms {
			m.To = queueName(i)
		}
		b.add(queue.New, ms...)
	}
	b.sleep(b.tick())
	if _, err := b.whole().Set(b.Context(), "only set", func(s *queue.Settings) { s.Paused = true }); err != nil {
		b.Fatal(err)
	}
	if _, err := b.whole().Set(b.Context(), queueName(2), func(s *queue.Settings) { s.Completed.Count, s.Failed.Count = 10, 10 }); err != nil {
		b.Fatal(err)
	}
	src := b.open(queueName(2))
	got := b.take(src, 2)
	b.settle(src, delivered(got[0]), tidemill.Settlement{ID: got[1].ID, Mark: got[1].Mark, End: tidemill.Done, Fate: tidemill.Dead, Kind: tidemill.Business})
	src = b.open(queueName(5))
	got = b.take(src, 2)
	b.settle(src, tidemill.Settlement{ID: got[0].ID, Mark: got[0].Mark, End: tidemill.Again, After: time.Hour})

	is := all()
	if len(is) != manyQueues+1 {
		b.Fatalf("%d queues stand, want %d", len(is), manyQueues+1)
	}
	for i, s := range is {
		name := "only set"
		if i > 0 {
			name = queueName(i - 1)
		}
		want := b.standsOf(name)
		if !b.same(s.Stats.Oldest, want.Stats.Oldest) || s.Stats.Oldest.IsZero() != want.Stats.Oldest.IsZero() {
			b.Errorf("the oldest of %s is of %v, want %v", name, s.Stats.Oldest, want.Stats.Oldest)
		}
		s.Stats.Oldest = want.Stats.Oldest
		if !reflect.DeepEqual(s, want) {
			b.Errorf("%s stands as %+v, want %+v", name, s, want)
		}
	}
	for i, want := range map[int]queue.Stats{1: {Waiting: 1}, 3: {Waiting: 1, Completed: 1, Failed: 1}, 6: {Waiting: 1, Delayed: 1, Leased: 1}} {
		st := is[i].Stats
		st.Oldest = time.Time{}
		if st != want {
			b.Errorf("%s has %+v, want %+v", is[i].Queue, st, want)
		}
	}
	if books, want := is[3].Books, (tidemill.Books{Accepted: 3, Settled: tidemill.Count{Delivered: 1, Dead: 1}}); books != want {
		b.Errorf("the books of %s are %+v, want %+v", is[3].Queue, books, want)
	}
	if !is[0].Settings.Paused || is[0].Stats != (queue.Stats{}) {
		b.Errorf("a queue that was only set stands as %+v", is[0])
	}
}

func tenantsOfAll(b *bench) {
	if got, err := b.whole().Tenants(b.Context(), "", 0); err != nil || len(got) != 0 {
		b.Fatalf("a store without queues has %+v, %v", got, err)
	}
	var from, to []time.Time // between which the jobs of a queue were added
	for i := range manyQueues {
		from = append(from, queue.Millis(b.now()))
		var ms []*tidemill.Message
		for t := range i%3 + 1 {
			ms = append(ms, many(t+1, fmt.Sprint("t", t), 0)...)
		}
		for _, m := range ms {
			m.To = queueName(i)
		}
		b.add(queue.New, ms...)
		to = append(to, b.now())
	}
	got, err := b.whole().Tenants(b.Context(), "", 2)
	if err != nil {
		b.Fatal(err)
	}
	for i := range manyQueues {
		deepest := i%3 + 1
		for t := deepest; t > max(0, deepest-2); t-- {
			want := queue.Depth{Queue: queueName(i), Tenant: fmt.Sprint("t", t-1), Waiting: int64(t)}
			if len(got) == 0 || got[0].Queue != want.Queue || got[0].Tenant != want.Tenant || got[0].Waiting != want.Waiting || !b.within(got[0].Oldest, from[i], to[i]) {
				b.Fatalf("%+v is left, want %+v first", got, want)
			}
			got = got[1:]
		}
	}
	if len(got) > 0 {
		b.Errorf("there are more: %+v", got)
	}
}

// Tenants of two priorities, of keys of their own, and of so many keys that a store that reads some lists at a
// time has to come again.
func findsDeepest(b *bench) {
	const tenants, keys = 150, 400
	var ms []*tidemill.Message
	for i := range tenants {
		of := many(i%5+1, fmt.Sprintf("t%03d", i), 0)
		if i == 77 {
			of = many(keys, "t077", 0)
		}
		for n, m := range of {
			m.Key = fmt.Append(nil, n)
		}
		ms = append(ms, of...)
	}
	b.addAll(ms)
	deepest := func(want ...queue.Depth) {
		b.Helper()
		got, err := b.whole().Tenants(b.Context(), "q", 15)
		if err != nil || len(got) != 15 {
			b.Fatalf("%d tenants, %v", len(got), err)
		}
		for i, w := range want {
			if got[i].Tenant != w.Tenant || got[i].Waiting != w.Waiting || got[i].Oldest.IsZero() {
				b.Errorf("number %d is %+v, want %+v", i, got[i], w)
			}
		}
	}
	deepest(queue.Depth{Tenant: "t077", Waiting: keys}, queue.Depth{Tenant: "t004", Waiting: 5}, queue.Depth{Tenant: "t009", Waiting: 5})
	b.add(queue.New, many(3, "t008", 1)...)
	deepest(queue.Depth{Tenant: "t077", Waiting: keys}, queue.Depth{Tenant: "t008", Waiting: 7}, queue.Depth{Tenant: "t004", Waiting: 5})
}

func looksEnd(b *bench) {
	b.add(queue.New, job("1"))
	ctx, cancel := context.WithCancel(b.Context())
	cancel()
	if got, err := b.whole().Standing(ctx); err == nil {
		b.Errorf("it has %+v", got)
	}
	if got, err := b.whole().Tenants(ctx, "", 0); err == nil {
		b.Errorf("the tenants are %+v", got)
	}
}
