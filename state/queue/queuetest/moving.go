package queuetest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
)

// moving holds what a Mover promises, and what is kept of ended jobs.
var moving = []promise{
	{"keeps nothing of what has ended, unless it is told to",
		"a store grows by what is to be done, not by what was", 0, keepsNone},
	{"keeps as many completed and failed jobs as it is told",
		"an operator looks at what became of them", 0, keepsByCount},
	{"keeps them for as long as it is told",
		"old failures say nothing", 0, keepsByAge},
	{"lets a failed job wait again as if it were new",
		"the destination is repaired", 0, retries},
	{"knows the name of a job for as long as it is kept, and of one that was retried as if it were new",
		"a producer that sends again makes no second job of one that an operator retries", 0, knowsKept},
	{"retries no more than there is room for, and none where it is closed",
		"by hand is no way around a bound", 3, retriesInBounds},
	{"makes delayed jobs due",
		"an operator knows that the destination is back", 0, promotes},
	{"removes jobs that wait, counted as skipped",
		"what is removed by hand is accounted for too", 0, removes},
	{"cleans by state and age",
		"a queue is tidied up, not emptied", 0, cleans},
	{"leaves what is out alone",
		"somebody works on it", 0, leavesOut},
	{"shows one job, or says that there is none",
		"a click on one among millions", 0, looksAtOne},
	{"edits a payload that nobody works on",
		"one wrong field must not cost the job", 0, edits},
	{"edits a payload to an empty one, and back",
		"an empty payload is a payload", 0, editsToNothing},
	{"refuses an edit of what was seen once it is another",
		"two people mend one job, and the second has not seen what the first did", 0, editsWhatWasSeen},
	{"makes exactly one of concurrent edits of what all have seen",
		"the others have not seen it", 0, editsOnce},
}

func (b *bench) keepBoth(k queue.Keep) {
	b.Helper()
	b.set(func(s *queue.Settings) { s.Completed, s.Failed = k, k })
}

// end takes all jobs and ends them: those of prefix "bad" die, "odd" ones are skipped, others are
// delivered.
func (b *bench) end(src tidemill.Source, n int) {
	b.Helper()
	for _, m := range b.take(src, n) {
		e := delivered(m)
		switch {
		case strings.HasPrefix(m.ID, "bad"):
			e.Fate, e.Cause, e.Kind = tidemill.Dead, "gave up on "+m.ID, tidemill.Partner
		case strings.HasPrefix(m.ID, "odd"):
			e.Fate, e.Cause = tidemill.Skipped, "filtered"
		}
		b.settle(src, e)
	}
}

// did checks what a move answered.
func (b *bench) did(want int) func(n int, err error) {
	b.Helper()
	return func(n int, err error) {
		b.Helper()
		if n != want || err != nil {
			b.Fatalf("%d jobs were moved, %v; want %d", n, err, want)
		}
	}
}

func keepsNone(b *bench) {
	src := b.open("q")
	b.add(queue.New, job("good"), job("bad"))
	b.end(src, 2)
	b.stats(queue.Stats{})
	b.listed(queue.Filter{Queue: "q", State: queue.Completed})
	b.listed(queue.Filter{Queue: "q", State: queue.Failed})
}

func keepsByCount(b *bench) {
	src := b.open("q")
	b.set(func(s *queue.Settings) { s.Completed.Count, s.Failed.Count = 3, 2 })
	for i := range 6 {
		b.add(queue.New, job(fmt.Sprint("good", i)), job(fmt.Sprint("odd", i)), job(fmt.Sprint("bad", i)))
	}
	began := queue.Millis(b.now())
	b.end(src, 18)
	over := b.now()
	b.stats(queue.Stats{Completed: 3, Failed: 2})
	b.books("q", tidemill.Books{Accepted: 18, Settled: tidemill.Count{Delivered: 6, Skipped: 6, Dead: 6}})
	done := b.listed(queue.Filter{Queue: "q", State: queue.Completed}, "odd4", "good5", "odd5")
	if done[0].Fate != tidemill.Skipped || done[0].Cause != "filtered" || done[1].Fate != tidemill.Delivered || !b.within(done[1].Ended, began, over) {
		b.Errorf("completed jobs are %+v and %+v", done[0], done[1])
	}
	b.kill()
	dead := b.listed(queue.Filter{Queue: "q", State: queue.Failed}, "bad4", "bad5")
	if d := dead[0]; d.Fate != tidemill.Dead || d.Cause != "gave up on bad4" || string(d.Payload) != "payload of bad4" || d.Handed != 1 {
		b.Errorf("the failed job is %+v", d)
	}
	b.listed(queue.Filter{Queue: "q"}) // only jobs that have not ended
	b.set(func(s *queue.Settings) { s.Completed.Count = 1 })
	b.add(queue.New, job("good6"))
	b.end(b.open("q"), 1)
	b.listed(queue.Filter{Queue: "q", State: queue.Completed}, "good6")
	b.add(queue.Known, job("good0"), job("bad5"))
}

func keepsByAge(b *bench) {
	src := b.open("q")
	b.keepBoth(queue.Keep{Count: 100, Age: time.Hour})
	b.add(queue.New, job("bad1"), job("good1"))
	b.end(src, 2)
	b.sleep(40 * time.Minute)
	b.add(queue.New, job("bad2"), job("good2"))
	b.end(src, 2)
	b.stats(queue.Stats{Completed: 2, Failed: 2})
	b.sleep(40 * time.Minute)
	b.add(queue.New, job("good3"))
	b.end(src, 1) // ends tidy up kept jobs
	b.stats(queue.Stats{Completed: 2, Failed: 1})
	b.listed(queue.Filter{Queue: "q", State: queue.Failed}, "bad2")
}

func retries(b *bench) {
	src := b.open("q")
	b.keepBoth(queue.Keep{Count: 100})
	b.add(queue.New, job("bad1"), job("bad2"), job("good"), job("bad3"))
	got := b.take(src, 4)
	b.settle(src, again(got[0], 0))
	first := b.take(src, 1)[0]
	var ends []tidemill.Settlement
	for _, m := range []*tidemill.Message{first, got[1], got[3]} {
		ends = append(ends, tidemill.Settlement{ID: m.ID, Mark: m.Mark, Fate: tidemill.Dead, Cause: "dead"})
	}
	b.settle(src, ends...)
	b.deliver(src, got[2])
	b.did(2)(b.whole().Retry(b.Context(), queue.Filter{Queue: "q", IDs: []string{"bad1", "bad3", "good"}}))
	b.counts(queue.Stats{Waiting: 2, Completed: 1, Failed: 1})
	b.kill()
	src = b.open("q")
	got = b.take(src, 10)
	b.want(got, "bad1", "bad3")
	if m := got[0]; m.Tries != 0 || m.Handed != 1 || m.Mark.At(first.Mark) || string(m.Payload) != "payload of bad1" {
		b.Fatalf("the retried job came as %+v: want it as if it were new, at another position than %+v", m, first.Mark)
	}
	b.deliver(src, got...)
	b.books("q", tidemill.Books{Accepted: 6, Settled: tidemill.Count{Delivered: 3, Dead: 3}})
	b.add(queue.Known, job("bad1"), job("bad2"))
	b.did(1)(b.whole().Retry(b.Context(), queue.Filter{Queue: "q", Max: 5}))
	b.did(0)(b.whole().Retry(b.Context(), queue.Filter{Queue: "q"}))
	if _, err := b.whole().Retry(b.Context(), queue.Filter{}); tidemill.KindOf(err) != tidemill.Validation {
		b.Fatalf("a move in no queue says %v", err)
	}
}

func knowsKept(b *bench) {
	src := b.open("q")
	b.keepBoth(queue.Keep{Count: 100})
	b.add(queue.New, job("bad"), job("good"))
	b.end(src, 2)
	for range 4 { // more than two days, in parts
		b.sleep(queue.Remember*3/5 + time.Second)
		b.sweep()
		b.kill()
		b.add(queue.Known, job("bad"), job("good"))
	}
	b.did(1)(b.whole().Retry(b.Context(), queue.Filter{Queue: "q"}))
	src = b.open("q")
	b.keepBoth(queue.Keep{})
	b.deliver(src, b.take(src, 2)...)
	b.sleep(queue.Remember - time.Hour)
	b.sweep()
	b.add(queue.Known, job("bad"))
}

func retriesInBounds(b *bench) {
	src := b.open("q")
	b.keepBoth(queue.Keep{Count: 100})
	b.add(queue.New, job("bad1"), job("bad2"))
	b.end(src, 2)
	b.add(queue.New, jobs(2)...)
	n, err := b.whole().Retry(b.Context(), queue.Filter{Queue: "q"})
	if n != 1 || tidemill.KindOf(err) != tidemill.RateLimit {
		b.Fatalf("retrying 2 jobs with room for one: %d, %v; want 1 and kind rate_limit", n, err)
	}
	b.set(func(s *queue.Settings) { s.Closed = true })
	if n, err := b.whole().Retry(b.Context(), queue.Filter{Queue: "q"}); n != 0 || !errors.Is(err, queue.ErrClosed) {
		b.Fatalf("retrying in a closed queue: %d, %v", n, err)
	}
	b.counts(queue.Stats{Waiting: 3, Failed: 1})
}

func promotes(b *bench) {
	src := b.open("q")
	all := jobs(4)
	all[0].At, all[2].At = b.now().Add(time.Hour), b.now().Add(2*time.Hour)
	b.add(queue.New, all...)
	got := b.take(src, 10)
	b.want(got, "1", "3")
	b.settle(src, again(got[0], 3*time.Hour))
	b.did(1)(b.whole().Promote(b.Context(), queue.Filter{Queue: "q", IDs: []string{"2", "3"}}))
	got = b.take(src, 10)
	b.want(got, "2")
	b.did(2)(b.whole().Promote(b.Context(), queue.Filter{Queue: "q"}))
	b.counts(queue.Stats{Waiting: 2, Leased: 2})
	got = b.take(src, 10)
	b.want(got, "0", "1")
	if got[1].Tries != 1 || !got[0].At.IsZero() {
		b.Fatalf("promoted jobs came as %+v and %+v", got[0], got[1])
	}
}

func removes(b *bench) {
	src := b.open("q")
	all := jobs(6)
	all[4].At = b.now().Add(time.Hour)
	b.add(queue.New, all...)
	got := b.take(src, 1)
	b.settle(src, again(got[0], time.Hour))
	b.did(3)(b.whole().Remove(b.Context(), queue.Filter{Queue: "q", IDs: []string{"0", "2", "4", "nobody"}}))
	b.counts(queue.Stats{Waiting: 3})
	b.books("q", tidemill.Books{Accepted: 6, Settled: tidemill.Count{Skipped: 3}, Pending: 3})
	b.add(queue.Known, job("2"))
	b.sleep(2 * time.Hour)
	b.want(b.take(src, 10), "1", "3", "5")
}

func cleans(b *bench) {
	src := b.open("q")
	b.keepBoth(queue.Keep{Count: 100})
	b.add(queue.New, job("bad1"), job("good1"))
	b.end(src, 2)
	b.sleep(time.Hour)
	cut := b.now()
	b.sleep(time.Minute)
	later := job("later")
	later.At = b.now().Add(time.Hour)
	b.add(queue.New, job("bad2"), job("good2"))
	b.end(src, 2)
	b.add(queue.New, job("waits"), later)
	b.did(1)(b.whole().Remove(b.Context(), queue.Filter{Queue: "q", State: queue.Failed, Before: cut}))
	b.listed(queue.Filter{Queue: "q", State: queue.Failed}, "bad2")
	b.did(2)(b.whole().Remove(b.Context(), queue.Filter{Queue: "q", State: queue.Completed}))
	b.did(1)(b.whole().Remove(b.Context(), queue.Filter{Queue: "q", State: queue.Delayed}))
	b.counts(queue.Stats{Waiting: 1, Failed: 1})
	b.did(2)(b.whole().Remove(b.Context(), queue.Filter{Queue: "q"}))
	b.stats(queue.Stats{})
	b.books("q", tidemill.Books{Accepted: 6, Settled: tidemill.Count{Delivered: 2, Dead: 2, Skipped: 2}})
}

func leavesOut(b *bench) {
	src := b.open("q")
	b.keepBoth(queue.Keep{Count: 5})
	b.add(queue.New, job("out"))
	got := b.take(src, 1)
	name := queue.Name{Queue: "q", ID: "out"}
	all := queue.Filter{Queue: "q"}
	b.did(0)(b.whole().Remove(b.Context(), all))
	b.did(0)(b.whole().Promote(b.Context(), all))
	b.did(0)(b.whole().Retry(b.Context(), all))
	if err := b.whole().Edit(b.Context(), name, []byte("x"), ""); !errors.Is(err, queue.ErrOut) {
		b.Fatalf("editing a job that is out says %v, want %v", err, queue.ErrOut)
	}
	b.deliver(src, got...)
	if err := b.whole().Edit(b.Context(), name, []byte("x"), ""); !errors.Is(err, queue.ErrNotFound) {
		b.Fatalf("editing a completed job says %v, want %v", err, queue.ErrNotFound)
	}
}

func looksAtOne(b *bench) {
	m := job("a")
	m.Tenant = "t"
	b.add(queue.New, job("a"), m)
	j, err := b.whole().Look(b.Context(), queue.Name{Queue: "q", Tenant: "t", ID: "a"})
	if err != nil || j.Tenant != "t" || j.State != queue.Waiting || string(j.Payload) != "payload of a" || !b.same(j.Added, queue.Millis(b.now())) {
		b.Fatalf("the job is %+v, %v", j, err)
	}
	for _, n := range []queue.Name{{Queue: "q", Tenant: "u", ID: "a"}, {Queue: "q", ID: "b"}, {Queue: "r", ID: "a"}} {
		if _, err := b.whole().Look(b.Context(), n); !errors.Is(err, queue.ErrNotFound) || tidemill.KindOf(err) != tidemill.NotFound {
			b.Fatalf("looking at %+v says %v, want %v", n, err, queue.ErrNotFound)
		}
	}
	src := b.open("q")
	b.deliver(src, b.take(src, 2)...)
	if _, err := b.whole().Look(b.Context(), queue.Name{Queue: "q", ID: "a"}); !errors.Is(err, queue.ErrNotFound) {
		b.Fatalf("looking at a job that has ended says %v", err)
	}
}
