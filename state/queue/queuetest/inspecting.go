package queuetest

import (
	"context"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
)

// inspecting holds what operators are promised.
var inspecting = []promise{
	{"counts jobs by state",
		"an operator sees what waits, what is put off and what is out", 0, counts},
	{"lists jobs with their state, oldest first",
		"an operator looks inside", 0, lists},
	{"lists what a filter chooses",
		"an operator looks for one among millions", 0, filters},
	{"stops listing when asked to",
		"a page is a page", 0, stopsListing},
	{"shows once in pages what stays, while jobs come, go and change between them",
		"a person goes through a list that others work on", 0, pages},
	{"shows once in pages from the newest back what stays, while jobs come, go and change between them",
		"a person reads what came last", 0, pagesBack},
	{"lists back what it lists on, from each job",
		"a page before a page", 0, listsBack},
	{"lists the waiting jobs of a tenant without looking at those of others",
		"an owner with two jobs behind a million of others sees them at once", 0, listsTenant},
	{"says where it stopped to look for what is rare, and goes on there",
		"a page comes in time, and nothing is left out in silence", 0, rests},
	{"lists all queues by name",
		"a filter without a queue means all", 0, listsAll},
}

func counts(b *bench) {
	if got, err := b.Store.Stats(b.Context(), "q"); err != nil || got != (queue.Stats{}) {
		b.Fatalf("a queue that never was has %+v, %v", got, err)
	}
	src := b.open("q")
	start := queue.Millis(b.now())
	b.add(queue.New, jobs(6)...)
	b.sleep(time.Second)
	later := job("later")
	later.At = b.now().Add(time.Hour)
	b.add(queue.New, later)
	got := b.take(src, 3)
	b.settle(src, delivered(got[0]), tidemill.Settlement{ID: got[1].ID, Mark: got[1].Mark, End: tidemill.Again, After: time.Hour})
	b.stats(queue.Stats{Waiting: 3, Delayed: 2, Leased: 1, Oldest: start})
	b.sleep(2 * lease)
	b.stats(queue.Stats{Waiting: 4, Delayed: 2, Oldest: start})
	b.sleep(time.Hour)
	b.stats(queue.Stats{Waiting: 6, Oldest: start})
	for len(got) > 0 {
		got = b.take(src, 10)
		b.deliver(src, got...)
	}
	b.stats(queue.Stats{})
}

func (b *bench) stats(want queue.Stats) {
	b.Helper()
	got, err := b.Store.Stats(b.Context(), "q")
	if err != nil {
		b.Fatalf("stats: %v", err)
	}
	if got.Waiting != want.Waiting || got.Delayed != want.Delayed || got.Leased != want.Leased ||
		got.Completed != want.Completed || got.Failed != want.Failed || !b.same(got.Oldest, want.Oldest) {
		b.Fatalf("stats are %+v, want %+v", got, want)
	}
}

// counts checks all of the stats but the time of the oldest job.
func (b *bench) counts(want queue.Stats) {
	b.Helper()
	got, err := b.Store.Stats(b.Context(), "q")
	if err != nil {
		b.Fatalf("stats: %v", err)
	}
	want.Oldest = got.Oldest
	b.stats(want)
}

func (b *bench) list(f queue.Filter) (all []*queue.Job) {
	b.Helper()
	for j, err := range b.Store.List(b.Context(), f) {
		if err != nil {
			b.Fatalf("list %+v: %v", f, err)
		}
		all = append(all, j)
	}
	return all
}

func (b *bench) listed(f queue.Filter, ids ...string) []*queue.Job {
	b.Helper()
	all := b.list(f)
	ms := make([]*tidemill.Message, len(all))
	for i, j := range all {
		ms[i] = &j.Message
	}
	b.want(ms, ids...)
	return all
}

func lists(b *bench) {
	src := b.open("q")
	all := jobs(5)
	all[1].Key, all[1].Header = []byte("key"), []tidemill.Field{{Name: []byte("n"), Value: []byte("v")}}
	for _, m := range all {
		m.Tenant, m.Type, m.Priority = "t", "page", 3
	}
	b.add(queue.New, all...)
	got := b.take(src, 3)
	b.settle(src, delivered(got[0]), tidemill.Settlement{ID: "1", Mark: got[1].Mark, End: tidemill.Again, After: time.Hour, CountTry: true, Cause: "refused: 503"})
	at := queue.MillisUp(b.now().Add(time.Hour))
	is := b.listed(queue.Filter{Queue: "q"}, "1", "2", "3", "4")
	for i, want := range []queue.State{queue.Delayed, queue.Leased, queue.Waiting, queue.Waiting} {
		if is[i].State != want {
			b.Errorf("job %s is %s, want %s", is[i].ID, is[i].State, want)
		}
	}
	j := is[0]
	if j.Cause != "refused: 503" || j.Tries != 1 || j.Handed != 1 || !b.same(j.At, at) {
		b.Errorf("job 1 has cause %q, %d tries, %d hand-outs, comes at %v (want %v)", j.Cause, j.Tries, j.Handed, j.At, at)
	}
	if j.Tenant != "t" || j.Type != "page" || j.Priority != 3 || j.To != "q" || string(j.Key) != "key" || string(j.Get("n")) != "v" ||
		string(j.Payload) != "payload of 1" || !j.Time.Equal(all[1].Time) || !j.Mark.At(got[1].Mark) {
		b.Errorf("job 1 is listed as %+v", j.Message)
	}
	if is[1].Handed != 1 || is[2].Handed != 0 {
		b.Errorf("jobs 2 and 3 have %d and %d hand-outs, want 1 and 0", is[1].Handed, is[2].Handed)
	}
	ends := []tidemill.Settlement{delivered(&is[1].Message)}
	if err := src.Settle(b.Context(), ends); err != nil || ends[0].Outcome != tidemill.Stale {
		b.Errorf("a listed job was settled without a lease: %v, %v", ends[0].Outcome, err)
	}
	b.kill()
	if is := b.listed(queue.Filter{Queue: "q"}, "1", "2", "3", "4"); is[0].Cause != "refused: 503" || is[0].Tries != 1 {
		b.Errorf("after the kill job 1 has cause %q and %d tries", is[0].Cause, is[0].Tries)
	}
}

func filters(b *bench) {
	src := b.open("q")
	all := jobs(8)
	for i, m := range all {
		m.Tenant, m.Type = []string{"t", "u"}[i%2], []string{"a", "b", "c"}[i%3]
	}
	b.add(queue.New, all...)
	b.take(src, 2)
	for _, c := range []struct {
		f    queue.Filter
		want []string
	}{
		{queue.Filter{Queue: "q", Tenant: "u"}, []string{"1", "3", "5", "7"}},
		{queue.Filter{Queue: "q", Type: "b"}, []string{"1", "4", "7"}},
		{queue.Filter{Queue: "q", Tenant: "u", Type: "b"}, []string{"1", "7"}},
		{queue.Filter{Queue: "q", State: queue.Leased}, []string{"0", "1"}},
		{queue.Filter{Queue: "q", State: queue.Waiting, Max: 2}, []string{"2", "3"}},
		{queue.Filter{Queue: "q", IDs: []string{"7", "2", "nobody"}}, []string{"2", "7"}},
		{queue.Filter{Queue: "q", State: queue.Delayed}, nil},
		{queue.Filter{Queue: "elsewhere"}, nil},
	} {
		b.listed(c.f, c.want...)
	}
}

func stopsListing(b *bench) {
	b.add(queue.New, jobs(500)...)
	n := 0
	for _, err := range b.Store.List(b.Context(), queue.Filter{Queue: "q"}) {
		if err != nil {
			b.Fatal(err)
		}
		if n++; n == 3 {
			break
		}
	}
	if got := len(b.list(queue.Filter{Queue: "q"})); got != 500 {
		b.Fatalf("%d jobs are listed, want 500", got)
	}
	ctx, cancel := context.WithCancel(b.Context())
	cancel()
	for j, err := range b.Store.List(ctx, queue.Filter{Queue: "q"}) {
		if err == nil {
			b.Fatalf("job %s was listed under a context that has ended", j.ID)
		}
	}
}

func listsAll(b *bench) {
	for _, to := range []string{"s", "q", "r"} {
		for i := range 2 {
			m := job(to + string(rune('0'+i)))
			m.To = to
			b.add(queue.New, m)
		}
	}
	b.listed(queue.Filter{}, "q0", "q1", "r0", "r1", "s0", "s1")
	b.listed(queue.Filter{Max: 3}, "q0", "q1", "r0")
}
