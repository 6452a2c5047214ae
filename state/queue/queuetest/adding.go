package queuetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
)

// adding holds what Add promises.
var adding = []promise{
	{"takes a job once by its name",
		"a producer that got no answer sends again", 0, takesOnce},
	{"takes a name given twice in one call once",
		"a producer's batch may repeat itself", 0, takesOnceInOneCall},
	{"tells tenants and queues apart",
		"one tenant's ids must not swallow another's events", 0, tellsApart},
	{"knows names of every shape apart",
		"a short form of a name must not make two jobs one", 0, knowsShapes},
	{"knows a job that has ended, for a day",
		"the repetition may come after the work was done", 0, knowsEnded},
	{"knows a job for as long as it is held",
		"a backlog of days must not double", 0, knowsHeld},
	{"knows the names of a long day",
		"remembering must hold for many names, not for the last few", 0, knowsMany},
	{"knows for a day what it put away early",
		"of many names at once some leave memory within the second", 0, knowsPutAway},
	{"says which names it knows, and remembers none for being asked",
		"who has to know whether a job is its own asks before it adds it", 0, saysWhatItKnows},
	{"takes one of many concurrent adds",
		"clients repeat themselves at the same moment", 0, takesOneOfMany},
	{"takes no more than it may hold",
		"a queue without a bound ends in a full disk", 10, takesNoMore},
	{"says so by an error where no answers are asked for",
		"a job must not vanish for want of an answer", 2, saysFull},
	{"has room again when jobs end",
		"full is a state, not a fate", 3, hasRoomAgain},
	{"knows a name in a full queue",
		"repeating what was accepted must succeed", 1, knowsWhenFull},
	{"lets a settlement wait for room",
		"a child must not be lost, nor its parent end without it", 2, settlementWaits},
	{"keeps nothing of the caller's memory",
		"buffers are reused", 0, keepsNothing},
	{"refuses a job without a queue or a name",
		"it could never be found again", 0, refusesNonsense},
	{"adds nothing under a context that has ended",
		"nobody waits for the answer", 0, addsNothing},
	{"is a sink whose full queue fails single messages",
		"the pipeline retries those, and those only", 2, sinkPartial},
}

func takesOnce(b *bench) {
	b.add(queue.New, job("a"))
	b.add(queue.Known, job("a"))
	other := job("a")
	other.Payload = []byte("another payload under the same name")
	b.add(queue.Known, other)
	b.kill()
	b.add(queue.Known, job("a"))
	got := b.take(b.open("q"), 10)
	b.want(got, "a")
	if string(got[0].Payload) != "payload of a" {
		b.Fatalf("payload is %q, want the first one's", got[0].Payload)
	}
	b.books("q", tidemill.Books{Accepted: 1, Pending: 1})
}

func takesOnceInOneCall(b *bench) {
	got := b.try(job("a"), job("b"), job("a"), job("a"), job("c"))
	want := []queue.Added{queue.New, queue.New, queue.Known, queue.Known, queue.New}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		b.Fatalf("the jobs became %v, want %v", got, want)
	}
	b.want(b.take(b.open("q"), 10), "a", "b", "c")
	b.books("q", tidemill.Books{Accepted: 3, Pending: 3})
}

func tellsApart(b *bench) {
	var ms []*tidemill.Message
	for _, tenant := range []string{"", "t", "u", "t\x00", "0190163d-8694-739b-aea5-966c26f8ad91"} {
		for _, to := range []string{"q", "r"} {
			m := job("same")
			m.Tenant, m.To = tenant, to
			ms = append(ms, m)
		}
	}
	split := job("b") // tenant and ID are two things, not one text
	split.Tenant = "a"
	joined := job("ab")
	ms = append(ms, split, joined)
	b.add(queue.New, ms...)
	b.add(queue.Known, ms...)
	b.books("q", tidemill.Books{Accepted: 7, Pending: 7})
	b.books("r", tidemill.Books{Accepted: 5, Pending: 5})
}

func knowsShapes(b *bench) {
	long := make([]byte, 3000)
	for i := range long {
		long[i] = byte('a' + i%26)
	}
	ids := []string{"1", "01", "1 ", "\x00", "\x00\x00", "\xff", "é", "e\u0301",
		"0190163d-8694-739b-aea5-966c26f8ad91", "0190163D-8694-739B-AEA5-966C26F8AD91", "0190163d8694739baea5966c26f8ad91",
		"{0190163d-8694-739b-aea5-966c26f8ad91}", "\x01\x90\x16\x3d\x86\x94\x73\x9b\xae\xa5\x96\x6c\x26\xf8\xad\x91",
		string(long), string(long[:2999]), string(long[1:])}
	ms := make([]*tidemill.Message, len(ids))
	for i, id := range ids {
		ms[i] = job(id)
	}
	b.add(queue.New, ms...)
	b.add(queue.Known, ms...)
	b.want(b.take(b.open("q"), 100), ids...)
}

func knowsEnded(b *bench) {
	src := b.open("q")
	b.add(queue.New, jobs(5)...)
	b.deliver(src, b.take(src, 5)...)
	b.add(queue.Known, jobs(5)...)
	b.sleep(queue.Remember - time.Second)
	b.sweep()
	b.add(queue.Known, jobs(5)...)
	b.kill()
	b.add(queue.Known, jobs(5)...)
	b.want(b.take(b.open("q"), 10))
}

func knowsHeld(b *bench) {
	src := b.open("q")
	all := jobs(6)
	all[5].At = b.now().Add(30 * 24 * time.Hour)
	b.add(queue.New, all...)
	b.deliver(src, b.take(src, 2)...)
	for range 4 { // more than two days, in parts
		b.sleep(queue.Remember*3/5 + time.Second)
		b.sweep()
		b.kill()
		b.add(queue.Known, all[2:]...)
	}
	b.want(b.take(b.open("q"), 10), "2", "3", "4")
}

func knowsMany(b *bench) {
	const parts, each = 8, 2500
	part := func(p int) []*tidemill.Message {
		ms := make([]*tidemill.Message, each)
		for i := range ms {
			ms[i] = job(fmt.Sprintf("%d/%d", p, i))
		}
		return ms
	}
	src := b.open("q")
	for p := range parts {
		b.add(queue.New, part(p)...)
		b.deliver(src, b.take(src, each)...)
		b.sleep(queue.Remember / parts / 2)
		b.sweep()
	}
	for p := range parts {
		b.add(queue.Known, part(p)...)
	}
	b.kill()
	for p := range parts {
		b.add(queue.Known, part(p)...)
	}
	b.books("q", tidemill.Books{Accepted: parts * each, Settled: tidemill.Count{Delivered: parts * each}})
}

func saysWhatItKnows(b *bench) {
	src := b.open("q")
	all := jobs(3)
	b.add(queue.New, all...)
	b.deliver(src, b.take(src, 1)...)
	names := []queue.Name{{Queue: "q", ID: "0"}, {Queue: "q", ID: "1"}, {Queue: "q", ID: "3"}, {Queue: "q", Tenant: "t", ID: "0"}, {Queue: "r", ID: "0"}, {Queue: "q", ID: "2"}}
	const want = "[true true false false false true]"
	asked := func(want string) {
		b.Helper()
		known := []bool{true, false, true, false, true, false} // the content before the call has no effect
		if err := b.Store.Knows(b.Context(), names, known); err != nil || fmt.Sprint(known) != want {
			b.Fatalf("of %v it knows %v: %v; want %s", names, known, err, want)
		}
	}
	asked(want)
	asked(want)
	b.kill()
	asked(want)
	b.add(queue.New, job("3")) // it was only asked about
	b.sleep(queue.Remember - time.Second)
	b.sweep()
	asked("[true true true false false true]")
	if err := b.Store.Knows(b.Context(), names, make([]bool, 1)); err == nil {
		b.Fatalf("it answers %d questions in one place", len(names))
	}
}

func knowsPutAway(b *bench) {
	src := b.open("q")
	all := jobs(3000)
	for part := range slices.Chunk(all, 500) {
		b.add(queue.New, part...)
	}
	b.deliver(src, b.take(src, len(all))...)
	for hour := range 23 {
		b.sleep(queue.Remember / 24)
		b.sweep()
		for n := range 10 { // others come all the time
			b.add(queue.New, job(fmt.Sprint("hour ", hour, " ", n)))
		}
		b.add(queue.Known, all[hour*100:hour*100+100]...)
	}
	names, known := make([]queue.Name, 0, len(all)+1), make([]bool, len(all)+1)
	for _, m := range all {
		names = append(names, queue.Name{Queue: m.To, Tenant: m.Tenant, ID: m.ID})
	}
	names = append(names, queue.Name{Queue: "q", ID: "nobody's"})
	for range 2 { // the second time after a kill
		if err := b.Store.Knows(b.Context(), names, known); err != nil || slices.Index(known, false) != len(all) {
			b.Fatalf("of %d names and one that nobody has, number %d is the first that it does not know: %v", len(all), slices.Index(known, false), err)
		}
		b.kill()
	}
	b.add(queue.Known, all...)
}

// sweep lets a store that has housekeeping do it.
func (b *bench) sweep() {
	if s, ok := b.Store.(interface{ Sweep(context.Context) error }); ok {
		if err := s.Sweep(b.Context()); err != nil {
			b.Fatalf("sweep: %v", err)
		}
	}
}

func takesOneOfMany(b *bench) {
	const callers, names = 16, 40
	var mu sync.Mutex
	fresh := map[string]int{}
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			ms := jobs(names)
			for i := range ms { // each in its own order
				j := (i*7 + c*13) % names
				ms[i], ms[j] = ms[j], ms[i]
			}
			for len(ms) > 0 {
				part := ms[:min(len(ms), 1+c)]
				ms = ms[len(part):]
				added := make([]queue.Added, len(part))
				if err := b.Store.Add(b.Context(), part, added); err != nil {
					b.Errorf("add: %v", err)
				}
				mu.Lock()
				for i, a := range added {
					if a == queue.New {
						fresh[part[i].ID]++
					}
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	for id, times := range fresh {
		if times != 1 {
			b.Errorf("job %s was new %d times", id, times)
		}
	}
	if len(fresh) != names {
		b.Errorf("%d of %d jobs were new", len(fresh), names)
	}
	b.books("q", tidemill.Books{Accepted: names, Pending: names})
}

func takesNoMore(b *bench) {
	got := b.try(jobs(13)...)
	for i, a := range got {
		want := queue.New
		if i >= 10 {
			want = queue.Full
		}
		if a != want {
			b.Fatalf("job %d became %s, want %s", i, addedName(a), addedName(want))
		}
	}
	other := job("elsewhere")
	other.To = "r"
	b.add(queue.New, other)
	b.books("q", tidemill.Books{Accepted: 10, Pending: 10})
	b.kill()
	b.add(queue.Full, job("11"))
}

func saysFull(b *bench) {
	err := b.Store.Add(b.Context(), jobs(3), nil)
	if tidemill.KindOf(err) != tidemill.RateLimit {
		b.Fatalf("adding to a full queue says %v, want kind rate_limit", err)
	}
	if err := b.Store.Add(b.Context(), jobs(2), nil); err != nil {
		b.Fatalf("adding known jobs to a full queue says %v", err)
	}
}

func hasRoomAgain(b *bench) {
	src := b.open("q")
	b.add(queue.New, jobs(3)...)
	got := b.take(src, 3)
	b.add(queue.Full, job("x"))
	b.settle(src, delivered(got[0]), tidemill.Settlement{ID: got[1].ID, Mark: got[1].Mark, End: tidemill.Again})
	b.add(queue.New, job("x"))
	b.add(queue.Full, job("y"))
}

func knowsWhenFull(b *bench) {
	b.add(queue.New, job("a"))
	got := b.try(job("b"), job("a"))
	if got[0] != queue.Full || got[1] != queue.Known {
		b.Fatalf("the jobs became %s and %s, want full and known", addedName(got[0]), addedName(got[1]))
	}
}

func settlementWaits(b *bench) {
	src := b.open("q")
	b.add(queue.New, jobs(2)...)
	next := func(id string) *tidemill.Message {
		m := job(id)
		m.To = "r"
		return m
	}
	b.add(queue.New, next("r1"))
	got := b.take(src, 2)
	ends := []tidemill.Settlement{delivered(got[0]), delivered(got[1])}
	ends[0].Next = []*tidemill.Message{next("c1"), next("c2")} // one of them has room
	ends[1].Next = []*tidemill.Message{next("r1")}             // there already
	if err := src.Settle(b.Context(), ends); tidemill.KindOf(err) != tidemill.RateLimit {
		b.Fatalf("settling into a full queue says %v, want kind rate_limit", err)
	}
	if ends[0].Outcome != tidemill.Unanswered || ends[1].Outcome != tidemill.Applied {
		b.Fatalf("the settlements were taken as %v and %v, want unanswered and applied", ends[0].Outcome, ends[1].Outcome)
	}
	b.books("r", tidemill.Books{Accepted: 1, Pending: 1})
	r := b.open("r")
	b.deliver(r, b.take(r, 1)...)
	b.settle(src, ends[0])
	got = b.take(r, 5)
	b.want(got, "c1", "c2")
	b.books("q", tidemill.Books{Accepted: 2, Settled: tidemill.Count{Delivered: 2}})
	b.books("r", tidemill.Books{Accepted: 3, Settled: tidemill.Count{Delivered: 1}, Pending: 2})
	ends = []tidemill.Settlement{delivered(got[0])}
	ends[0].Next = []*tidemill.Message{next("d1"), next("d2")} // its own end makes room for one
	if err := r.Settle(b.Context(), ends); tidemill.KindOf(err) != tidemill.RateLimit || ends[0].Outcome != tidemill.Unanswered {
		b.Fatalf("forwarding two where the own end makes room for one says %v, taken as %v; want kind rate_limit, unanswered", err, ends[0].Outcome)
	}
	ends[0].Next = ends[0].Next[:1]
	b.settle(r, ends[0])
	b.books("r", tidemill.Books{Accepted: 4, Settled: tidemill.Count{Delivered: 2}, Pending: 2})
}

func keepsNothing(b *bench) {
	m := job("a")
	m.Key, m.Header = []byte("key"), []tidemill.Field{{Name: []byte("n"), Value: []byte("v")}}
	payload := m.Payload
	b.add(queue.New, m)
	for _, p := range [][]byte{payload, m.Key, m.Header[0].Name, m.Header[0].Value} {
		clear(p)
	}
	src := b.open("q")
	for range 2 {
		got := b.take(src, 1)
		b.want(got, "a")
		if g := got[0]; string(g.Payload) != "payload of a" || string(g.Key) != "key" || string(g.Get("n")) != "v" {
			b.Fatalf("the job came out as %+v", g)
		}
		b.settle(src, tidemill.Settlement{ID: "a", Mark: got[0].Mark, End: tidemill.Again})
	}
}

func refusesNonsense(b *bench) {
	for _, m := range []*tidemill.Message{{ID: "a"}, {To: "q"}} {
		if err := b.Store.Add(b.Context(), []*tidemill.Message{job("good"), m}, nil); tidemill.KindOf(err) != tidemill.Validation {
			b.Fatalf("adding %+v says %v, want kind validation", m, err)
		}
	}
	if err := b.Store.Add(b.Context(), jobs(2), make([]queue.Added, 1)); err == nil {
		b.Fatal("adding two jobs with room for one answer says nothing")
	}
	b.books("q", tidemill.Books{})
	b.add(queue.New)
	src := b.open("q")
	b.add(queue.New, job("a"))
	got := b.take(src, 1)
	ends := []tidemill.Settlement{{ID: "a", Mark: got[0].Mark, End: tidemill.Done}}
	if err := src.Settle(b.Context(), ends); err == nil {
		b.Fatal("an end without a fate was taken: the books would be off by one")
	}
	b.deliver(src, got...)
}

func addsNothing(b *bench) {
	ctx, cancel := context.WithCancel(b.Context())
	cancel()
	if err := b.Store.Add(ctx, jobs(1), nil); err == nil {
		b.Fatal("a job was added under a context that has ended")
	}
	b.books("q", tidemill.Books{})
	b.add(queue.New, jobs(1)...)
}

func sinkPartial(b *bench) {
	err := queue.Sink(b.Store).Write(b.Context(), jobs(3))
	p, ok := err.(*tidemill.Partial)
	if !ok || len(p.Failed) != 1 || p.Failed[0].Index != 2 || tidemill.KindOf(p.Failed[0].Err) != tidemill.RateLimit {
		b.Fatalf("writing 3 jobs into a queue for 2 says %v; want a partial failure of the last", err)
	}
	if err := queue.Sink(b.Store).Write(b.Context(), jobs(2)); err != nil {
		b.Fatalf("writing known jobs says %v", err)
	}
}
