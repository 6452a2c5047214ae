package accept_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/delivery/accept"
)

// requests are of every kind that a fault may hit.
func (s *stores) requests() map[string]func() *accept.Request {
	return map[string]func() *accept.Request{
		"an event with an id":    func() *accept.Request { return s.request("k", view(1, 1)) },
		"an event without an id": func() *accept.Request { return s.request("k", view(0, 1)) },
		"a purchase":             func() *accept.Request { return s.request("k", purchase(1, "o")) },
		"a batch":                func() *accept.Request { return s.request("k", view(1, 1), purchase(2, "o"), view(0, 3)) },
		"an id that was used": func() *accept.Request {
			return s.request("k", view(100, 2))
		},
		"keys for each": func() *accept.Request {
			return s.request("", keyed(view(1, 1), "k1"), keyed(view(0, 2), "k2"), keyed(purchase(3, "o"), "k3"))
		},
	}
}

// expected are the jobs that a request makes.
func expected(name string) int {
	return map[bool]int{true: 3, false: 1}[name == "a batch" || name == "keys for each"]
}

// A call fails, before or after its effect, once or permanently; the client tries again. In any
// case, the events are in their queues once.
func TestFaultsBetweenTheSteps(t *testing.T) {
	each(t, func(t *testing.T, s *stores) {
		a := s.acceptor(t)
		s.want(t, a, s.request("before", view(100, 1)), "accepted 000000000100")
		for name := range s.requests() {
			for _, at := range []string{"begin", "add", "end", "begin apart"} {
				for _, after := range []bool{false, true} {
					for _, times := range []int{1, 2} {
						site := s.site
						s.site = fmt.Sprintf("%s-%s-%s-%v-%d", site, strings.ReplaceAll(name, " ", "_"), strings.ReplaceAll(at, " ", "_"), after, times)
						s.faultThenRetry(t, name, at, after, times)
						s.site = site
					}
				}
			}
		}
	})
}

func (s *stores) faultThenRetry(t *testing.T, name, at string, after bool, times int) {
	t.Helper()
	a, other := s.acceptor(t), s.acceptor(t)
	s.want(t, a, s.request("before", view(100, 1)), "accepted 000000000100")
	before := len(s.jobs(t))
	f := fault{call: 1, times: times, after: after}
	switch at {
	case "begin":
		s.ledger.begin = f
	case "begin apart":
		f.call = 2
		s.ledger.begin = f
	case "add":
		s.queue.add = f
	case "end":
		s.ledger.end = f
	}
	make := s.requests()[name]
	what := fmt.Sprintf("%s, %s fails, after its effect: %v, %d times", name, at, after, times)
	first := s.try(t, a, make())
	s.ledger.begin, s.ledger.end, s.queue.add = fault{}, fault{}, fault{}
	queued := len(s.jobs(t)) - before
	if !strings.HasPrefix(first, "error") && queued != expected(name) {
		t.Errorf("%s: %s, but %d jobs", what, first, queued)
	}
	// A request that failed before it was queued leaves no key behind. If the first call that
	// begins it is lost for good that cannot be known, and its lease has to end.
	if first == "error" && queued == 0 && at != "begin" && at != "begin apart" {
		if got := s.try(t, other, make()); got == "running" || got == "reused" || strings.Contains(got, "error") {
			t.Errorf("%s: the same again at once: %s", what, got)
		}
	}
	s.add(time.Minute)
	got := s.try(t, other, make())
	if strings.Contains(got, "error") || strings.Contains(got, "running") || strings.Contains(got, "duplicate") || strings.Contains(got, "rejected") {
		t.Errorf("%s: first %s, then %s", what, first, got)
	}
	if n := len(s.jobs(t)) - before; n != expected(name) {
		t.Errorf("%s: first %s, then %s: %d jobs; want %d", what, first, got, n, expected(name))
	}
	if end := s.try(t, a, make()); !strings.HasSuffix(end, "(again)") && name != "keys for each" {
		t.Errorf("%s: at last %s", what, end)
	}
}

// The process dies between two steps: nothing more of it is done.
func TestCrashes(t *testing.T) {
	each(t, func(t *testing.T, s *stores) {
		for name := range s.requests() {
			for _, at := range []string{"after begin", "after add"} {
				site := s.site
				s.site = fmt.Sprintf("%s-%s-%s", site, strings.ReplaceAll(name, " ", "_"), strings.ReplaceAll(at, " ", "_"))
				s.crashThenRetry(t, name, at)
				s.site = site
			}
		}
	})
}

func (s *stores) crashThenRetry(t *testing.T, name, at string) {
	t.Helper()
	a, other := s.acceptor(t), s.acceptor(t)
	s.want(t, a, s.request("before", view(100, 1)), "accepted 000000000100")
	before := len(s.jobs(t))
	die := func() { s.ledger.mu.Lock(); s.ledger.dead = true; s.ledger.mu.Unlock() }
	if at == "after add" {
		s.queue.died = die
	} else {
		s.queue.add = fault{call: 1, times: 2}
		s.ledger.end = fault{call: 1, times: 2}
	}
	make := s.requests()[name]
	s.try(t, a, make()) // the answer is lost
	s.queue.died, s.ledger.dead, s.queue.add, s.ledger.end = nil, false, fault{}, fault{}
	if got := s.try(t, other, make()); got != "running" {
		t.Errorf("%s, %s: at once %s; want running", name, at, got)
	}
	s.add(time.Minute)
	if got := s.try(t, other, make()); !strings.HasPrefix(got, "accepted") || strings.Contains(got, "duplicate") {
		t.Errorf("%s, %s: after the lease %s; want accepted", name, at, got)
	}
	if n := len(s.jobs(t)) - before; n != expected(name) {
		t.Errorf("%s, %s: %d jobs; want %d", name, at, n, expected(name))
	}
}

// An event whose adding was not answered may be in its queue: another event under its id must
// not be confused with it.
func TestAnotherTimeAfterALostAnswer(t *testing.T) {
	each(t, func(t *testing.T, s *stores) {
		a := s.acceptor(t)
		s.queue.add = fault{call: 1, after: true}
		s.want(t, a, s.request("a", view(1, 1)), "error")
		other := view(1, 2)
		s.want(t, a, s.request("a", other), "accepted "+partOf(s, other)) // the key is free
		s.want(t, a, s.request("b", view(1, 1)), "accepted 000000000001")
		s.wantJobs(t, "standard "+id(1), "standard "+id(0)[:24]+partOf(s, other))
	})
}

// A request whose lease expired during its work has not lost, and nothing is doubled.
func TestALeaseThatRunsOut(t *testing.T) {
	each(t, func(t *testing.T, s *stores) {
		a, other := s.acceptor(t), s.acceptor(t)
		hold := make(chan struct{})
		s.queue.hold, s.queue.in = hold, make(chan struct{}, 1)
		first := make(chan string)
		go func() {
			got, err := a.Accept(t.Context(), s.request("k", purchase(1, "o")))
			first <- outcome(t, got, err)
		}()
		<-s.queue.in
		s.queue.mu.Lock()
		s.queue.hold = nil
		s.queue.mu.Unlock()
		s.add(time.Minute)
		s.want(t, other, s.request("k", purchase(1, "o")), "accepted 000000000001")
		close(hold)
		if got := <-first; got != "accepted 000000000001" {
			t.Errorf("the first: %s", got)
		}
		s.want(t, other, s.request("k", purchase(1, "o")), "accepted 000000000001 (again)")
		s.want(t, a, s.request("l", purchase(2, "o")), "duplicate 000000000002 of 000000000001")
		s.wantJobs(t, "high "+id(1))
	})
}

func TestWhatMayNotComeInLeavesNothingBehind(t *testing.T) {
	each(t, func(t *testing.T, s *stores) {
		a := s.acceptor(t)
		admitted, last := 0, 0
		r := s.request("k", view(1, 1), view(1, 1), purchase(2, "o"))
		r.Admit = func(int) error { return errFault }
		r.Return = func() { admitted, last = admitted-last, 0 }
		s.want(t, a, r, "error")
		s.wantJobs(t)
		r.Admit = func(n int) error { admitted, last = admitted+n, n; return nil }
		s.want(t, a, r, "accepted 000000000001, duplicate 000000000001 of 000000000001, accepted 000000000002")
		s.want(t, a, r, "accepted 000000000001, duplicate 000000000001 of 000000000001, accepted 000000000002 (again)")
		if admitted != 2 {
			t.Errorf("%d events are admitted; want 2: what is not new is not", admitted)
		}
	})
}

func TestAFullQueueLeavesNoKeyBehind(t *testing.T) {
	each(t, func(t *testing.T, s *stores) {
		s.all = s.capped(t)
		s.queue.Queues = s.all
		a := s.acceptor(t)
		s.want(t, a, s.request("a", view(1, 1)), "accepted 000000000001")
		s.want(t, a, s.request("b", view(2, 2), view(3, 3)), "full") // one of them is in
		s.want(t, a, s.request("b", view(4, 4)), "full")             // the key is free
		if n := len(s.jobs(t)); n != 2 {
			t.Fatalf("%d jobs; want 2", n)
		}
		drain(t, s.all, accept.Standard)
		s.want(t, a, s.request("b", view(2, 2), view(3, 3)), "accepted 000000000002, accepted 000000000003")
		s.want(t, a, s.request("b", view(2, 2), view(3, 3)), "accepted 000000000002, accepted 000000000003 (again)")
		s.wantJobs(t, "standard "+id(3)) // the other was in before, and has been delivered
	})
}

// An order that is in a queue is known, even if the rest of its request was not accepted.
func TestAnOrderOfAHalfFullRequestIsKnown(t *testing.T) {
	each(t, func(t *testing.T, s *stores) {
		s.all = s.capped(t)
		s.queue.Queues = s.all
		a := s.acceptor(t)
		s.want(t, a, s.request("a", purchase(1, "o-1"), purchase(2, "o-2"), purchase(3, "o-3")), "full")
		drain(t, s.all, accept.High)
		s.want(t, a, s.request("b", purchase(4, "o-1"), purchase(5, "o-3")), "duplicate 000000000004 of 000000000001, accepted 000000000005")
		s.want(t, a, s.request("a", purchase(1, "o-1"), purchase(2, "o-2"), purchase(3, "o-3")), "accepted 000000000001, accepted 000000000002, duplicate 000000000003 of 000000000005")
		s.wantJobs(t, "high "+id(5))
	})
}

// drain delivers all jobs of a queue.
func drain(t *testing.T, q queue.Core, name string) {
	t.Helper()
	src := q.Open(name, queue.Options{})
	room := make([]*tidemill.Message, 10)
	for i := range room {
		room[i] = &tidemill.Message{}
	}
	n, err := src.Receive(t.Context(), room)
	if err != nil || n == 0 {
		t.Fatalf("receive: %d, %v", n, err)
	}
	ends := make([]tidemill.Settlement, n)
	for i := range ends {
		ends[i] = tidemill.Settlement{ID: room[i].ID, Mark: room[i].Mark, End: tidemill.Done, Fate: tidemill.Delivered}
	}
	if err := src.Settle(t.Context(), ends); err != nil {
		t.Fatal(err)
	}
}
