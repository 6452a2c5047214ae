package accept_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/systems/delivery/accept"
	"github.com/tidemill/tidemill/systems/delivery/event"
)

func TestTheSameRequestGetsTheFirstAnswer(t *testing.T) {
	each(t, func(t *testing.T, s *stores) {
		a, other := s.acceptor(t), s.acceptor(t) // two instances
		r := s.request("k", view(1, 1))
		first, err := a.Accept(t.Context(), r)
		if err != nil || first.Again || first.Accepted != 1 {
			t.Fatalf("%+v, %v", first, err)
		}
		if want := `[{"eventId":"` + id(1) + `","status":"accepted"}]`; string(first.Results) != want {
			t.Errorf("results %s; want %s", first.Results, want)
		}
		for _, a := range []*accept.Acceptor{a, other} {
			again, err := a.Accept(t.Context(), s.request("k", view(1, 1)))
			if err != nil || !again.Again || string(again.Results) != string(first.Results) {
				t.Errorf("the same again: %+v, %v", again, err)
			}
			s.want(t, a, s.request("k", view(2, 2)), "reused")
		}
		s.wantJobs(t, "standard "+id(1))
		// Another endpoint's key is another key, and another site's too.
		r = s.request("k", view(3, 3))
		r.Scope = "collect"
		s.want(t, a, r, "accepted 000000000003")
		s.site += "x"
		s.want(t, a, s.request("k", view(4, 4)), "accepted 000000000004")
	})
}

// The key of an event in a request that has its own is a key of that endpoint too.
func TestAnEventsOwnKeyIsOfItsDoor(t *testing.T) {
	each(t, func(t *testing.T, s *stores) {
		a := s.acceptor(t)
		at := func(endpoint, key string, it accept.Item) *accept.Request {
			r := s.request(key, it)
			r.Scope = endpoint
			return r
		}
		s.want(t, a, at("events", "m1", keyed(view(1, 1), "k")), "accepted 000000000001")
		s.want(t, a, at("collect", "m2", keyed(view(2, 2), "k")), "accepted 000000000002")
		s.want(t, a, at("collect", "m1", keyed(view(3, 3), "l")), "accepted 000000000003")
		s.want(t, a, at("collect", "m3", keyed(view(2, 2), "k")), "accepted 000000000002")
		s.want(t, a, at("events", "m4", keyed(view(2, 2), "k")), "reused")
		s.wantJobs(t, "standard "+id(1), "standard "+id(2), "standard "+id(3))
		// If no id identifies an event, its made name belongs to one endpoint as well.
		s.want(t, a, at("events", "n1", keyed(view(0, 5), "n")), "accepted")
		s.want(t, a, at("collect", "n2", keyed(view(0, 5), "n")), "accepted")
		if n := len(s.jobs(t)); n != 5 {
			t.Errorf("%d jobs: %q; want 5", n, s.jobs(t))
		}
	})
}

func TestKeysAreForgottenAfterADay(t *testing.T) {
	each(t, func(t *testing.T, s *stores) {
		a := s.acceptor(t)
		s.want(t, a, s.request("k", view(0, 1)), "accepted")
		s.add(23 * time.Hour)
		if err := a.Expire(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.want(t, a, s.request("k", view(0, 2)), "reused")
		s.add(2 * time.Hour)
		if err := a.Expire(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.want(t, a, s.request("k", view(0, 2)), "accepted")
		if n := len(s.jobs(t)); n != 2 {
			t.Errorf("%d jobs; want 2", n)
		}
	})
}

// Queues may remember names for longer: an event of such a name is not reported as accepted.
func TestAnIDThatOnlyTheQueueKnows(t *testing.T) {
	each(t, func(t *testing.T, s *stores) {
		a := s.acceptor(t)
		s.want(t, a, s.request("a", view(1, 1)), "accepted 000000000001")
		s.add(25 * time.Hour)
		if err := a.Expire(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.want(t, a, s.request("b", view(1, 2)), "duplicate 000000000001 of 000000000001")
		s.want(t, a, s.request("b", view(1, 2)), "duplicate 000000000001 of 000000000001 (again)")
		s.want(t, a, s.request("c", view(2, 2), view(1, 1), view(3, 3)), "accepted 000000000002, duplicate 000000000001 of 000000000001, accepted 000000000003")
		s.wantJobs(t, "standard "+id(1), "standard "+id(2), "standard "+id(3))
	})
}

// Nothing was accepted under the order that comes with such an id: it is free.
func TestAnIDThatOnlyTheQueueKnowsEndsNoOrder(t *testing.T) {
	each(t, func(t *testing.T, s *stores) {
		a := s.acceptor(t)
		s.want(t, a, s.request("a", purchase(1, "o-1")), "accepted 000000000001")
		s.add(25 * time.Hour)
		if err := a.Expire(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.want(t, a, s.request("b", purchase(1, "o-2")), "duplicate 000000000001 of 000000000001")
		s.want(t, a, s.request("c", purchase(2, "o-2")), "accepted 000000000002")
		s.want(t, a, s.request("d", purchase(3, "o-2")), "duplicate 000000000003 of 000000000002")
		s.want(t, a, s.request("e", purchase(4, "o-4"), purchase(1, "o-5")), "accepted 000000000004, duplicate 000000000001 of 000000000001")
		s.want(t, a, s.request("f", purchase(5, "o-5")), "accepted 000000000005")
		s.wantJobs(t, "high "+id(1), "high "+id(2), "high "+id(4), "high "+id(5))
	})
}

// And the next event of the request with that order is accepted.
func TestAnOrderBehindAnIDThatOnlyTheQueueKnowsIsAccepted(t *testing.T) {
	each(t, func(t *testing.T, s *stores) {
		a := s.acceptor(t)
		s.want(t, a, s.request("a", purchase(1, "o-1"), purchase(2, "o-2")), "accepted 000000000001, accepted 000000000002")
		s.add(25 * time.Hour)
		if err := a.Expire(t.Context()); err != nil {
			t.Fatal(err)
		}
		r := func() *accept.Request {
			return s.request("b", purchase(1, "o"), purchase(2, "o"), view(4, 4), purchase(3, "o"), purchase(5, "o"), purchase(3, "o-3"))
		}
		want := "duplicate 000000000001 of 000000000001, duplicate 000000000002 of 000000000002, accepted 000000000004, " +
			"accepted 000000000003, duplicate 000000000005 of 000000000003, duplicate 000000000003 of 000000000003"
		s.want(t, a, r(), want)
		s.want(t, a, r(), want+" (again)")
		s.want(t, a, s.request("c", purchase(6, "o")), "duplicate 000000000006 of 000000000003")
		s.want(t, a, s.request("d", purchase(5, "o-5")), "accepted 000000000005")
		s.wantJobs(t, "high "+id(1), "high "+id(2), "standard "+id(4), "high "+id(3), "high "+id(5))
	})
}

func TestDuplicatesUnderAnotherKey(t *testing.T) {
	each(t, func(t *testing.T, s *stores) {
		a := s.acceptor(t)
		s.want(t, a, s.request("a", purchase(1, "o-1")), "accepted 000000000001")
		for _, c := range []struct {
			name string
			it   accept.Item
			want string
		}{
			{"the same event", purchase(1, "o-1"), "duplicate 000000000001 of 000000000001"},
			{"the same order in another event", purchase(2, "o-1"), "duplicate 000000000002 of 000000000001"},
			{"the same order in an event without an id", purchase(0, "o-1"), "duplicate 000000000001 of 000000000001"},
			{"another order", purchase(3, "o-2"), "accepted 000000000003"},
		} {
			key := "k-" + c.name
			s.want(t, a, s.request(key, c.it), c.want)
			s.want(t, a, s.request(key, c.it), c.want+" (again)")
		}
		// A duplicate event leaves nothing behind under its own id.
		s.want(t, a, s.request("b", purchase(2, "o-3")), "accepted 000000000002")
		s.wantJobs(t, "high "+id(1), "high "+id(2), "high "+id(3))
		// Another site has its own orders and ids.
		s.site += "x"
		s.want(t, a, s.request("a", purchase(1, "o-1")), "accepted 000000000001")
	})
}

func TestAnIDWithAnotherTimeIsAnotherEvent(t *testing.T) {
	each(t, func(t *testing.T, s *stores) {
		a := s.acceptor(t)
		s.want(t, a, s.request("a", view(1, 1)), "accepted 000000000001")
		other := view(1, 2)
		other.Event.Site = s.site
		hash := other.Event.Hash()
		name := fmt.Sprintf("%s.%x", id(1), hash[:4])
		s.want(t, a, s.request("b", view(1, 2)), "accepted "+name[24:])
		s.want(t, a, s.request("b", view(1, 2)), "accepted "+name[24:]+" (again)")
		s.want(t, a, s.request("c", view(1, 2)), "duplicate 000000000001 of "+name[24:])
		s.want(t, a, s.request("d", view(1, 1)), "duplicate 000000000001 of 000000000001")
		s.wantJobs(t, "standard "+id(1), "standard "+name)
		// Even if both come together, and if one is a purchase: its queue is another.
		buy := purchase(5, "o")
		buy.Event.Time = start
		s.want(t, a, s.request("e", view(5, 5), buy, view(5, 5), buy), "accepted 000000000005, accepted "+partOf(s, buy)+
			", duplicate 000000000005 of 000000000005, duplicate 000000000005 of "+partOf(s, buy))
	})
}

func partOf(s *stores, it accept.Item) string {
	it.Event.Site = s.site
	hash := it.Event.Hash()
	return fmt.Sprintf("%s.%x", it.Event.ID, hash[:4])[24:]
}

func TestBatches(t *testing.T) {
	each(t, func(t *testing.T, s *stores) {
		a := s.acceptor(t)
		wrong := view(9, 9)
		wrong.Refused = &event.Invalid{Problems: []event.Problem{{Path: "x", Wrong: "is wrong"}}}
		// One key for all, with all possible outcomes of an event.
		batch := func() *accept.Request {
			return s.request("batch", view(1, 1), view(1, 1), wrong, purchase(2, "o"), purchase(3, "o"), view(0, 4), view(0, 4))
		}
		want := "accepted 000000000001, duplicate 000000000001 of 000000000001, rejected 000000000009 validation_failed, accepted 000000000002, duplicate 000000000003 of 000000000002, accepted, accepted"
		s.want(t, a, batch(), want)
		s.want(t, a, batch(), want+" (again)")
		s.want(t, a, s.request("batch", view(1, 1)), "reused")
		if n := len(s.jobs(t)); n != 4 {
			t.Errorf("%d jobs: %q; want 4", n, s.jobs(t))
		}

		// A key for each, in any order, alone or not; the same key twice.
		k := func(n int) accept.Item { return keyed(view(0, n), fmt.Sprint("k", n)) }
		s.want(t, a, s.request("", k(11), k(12)), "accepted, accepted")
		first, err := a.Accept(t.Context(), s.request("", k(11)))
		if err != nil || first.Accepted+first.Duplicate != 0 {
			t.Fatalf("%+v, %v", first, err)
		}
		s.want(t, a, s.request("", k(13), k(12), k(13), keyed(view(0, 99), "k13"), keyed(view(0, 99), "k12")), "accepted, accepted, accepted, rejected idempotency_key_reused, rejected idempotency_key_reused")
		s.want(t, a, s.request("", keyed(view(0, 98), "k11")), "reused")

		// Both: an item's own key is in addition to that of the whole.
		mixed := func(key string, more ...accept.Item) *accept.Request {
			return s.request(key, append(more, k(11), view(21, 21))...)
		}
		s.want(t, a, mixed("m1"), "accepted, accepted 000000000021")
		s.want(t, a, mixed("m1"), "accepted, accepted 000000000021 (again)")
		s.want(t, a, mixed("m2", k(22)), "accepted, accepted, duplicate 000000000021 of 000000000021")
		s.want(t, a, s.request("", k(22)), "accepted")
		// The same key in both places is one key.
		s.want(t, a, s.request("k30", k(0), keyed(view(0, 30), "k30")), "accepted, accepted")
		s.want(t, a, s.request("", keyed(view(0, 31), "k30")), "reused")
		if n := len(s.jobs(t)); n != 4+3+1+1+2 {
			t.Errorf("%d jobs: %q; want 11", n, s.jobs(t))
		}
	})
}

// One event is the body, byte for byte, so its key is the same in either place.
func TestAKeyInTheOtherPlace(t *testing.T) {
	each(t, func(t *testing.T, s *stores) {
		a := s.acceptor(t)
		alone := func(key string, it accept.Item) *accept.Request {
			r := s.request(key, it)
			r.Body = it.Raw
			return r
		}
		s.want(t, a, alone("k1", view(1, 1)), "accepted 000000000001")
		s.want(t, a, alone("", keyed(view(1, 1), "k1")), "accepted 000000000001")
		s.want(t, a, s.request("", keyed(view(1, 1), "k1"), view(2, 2)), "accepted 000000000001, accepted 000000000002")
		s.want(t, a, alone("", keyed(view(3, 3), "k2")), "accepted 000000000003")
		s.want(t, a, alone("k2", view(3, 3)), "accepted 000000000003 (again)")
		s.wantJobs(t, "standard "+id(1), "standard "+id(2), "standard "+id(3))
	})
}

func TestOneOfWhichAllEventsAreWrongIsNotKept(t *testing.T) {
	each(t, func(t *testing.T, s *stores) {
		a := s.acceptor(t)
		wrong := view(1, 1)
		wrong.Refused = &event.Invalid{Problems: []event.Problem{{Wrong: "is wrong"}}}
		s.want(t, a, s.request("k", wrong), "rejected 000000000001 validation_failed")
		s.want(t, a, s.request("k", view(2, 2)), "accepted 000000000002")
	})
}

func TestQueues(t *testing.T) {
	each(t, func(t *testing.T, s *stores) {
		a := s.acceptor(t, func(o *accept.Options) {
			o.Batch = 3
			o.Class = func(e *event.Event, _ []byte) string { return map[string]string{id(8): "ingest.special"}[e.ID] }
		})
		conversion := view(2, 2)
		conversion.Event.Conversion = true
		s.want(t, a, s.request("a", view(1, 1), conversion, purchase(3, "o")), "accepted 000000000001, accepted 000000000002, accepted 000000000003")
		s.want(t, a, s.request("b", view(4, 4), view(5, 5), view(6, 6), purchase(7, "p")), "accepted 000000000004, accepted 000000000005, accepted 000000000006, accepted 000000000007")
		low := s.request("c", view(9, 9))
		low.Low = true
		s.want(t, a, low, "accepted 000000000009")
		s.want(t, a, s.request("d", view(8, 8)), "accepted 000000000008")
		s.wantJobs(t, "standard "+id(1), "high "+id(2), "high "+id(3), "low "+id(4), "low "+id(5), "low "+id(6), "high "+id(7), "low "+id(9))
		for j, err := range s.all.List(t.Context(), queue.Filter{Queue: "ingest.special"}) {
			if err != nil || j.ID != id(8) {
				t.Errorf("ingest.special: %+v, %v", j, err)
			}
		}
	})
}

func TestWhatAJobIs(t *testing.T) {
	each(t, func(t *testing.T, s *stores) {
		a := s.acceptor(t)
		it := view(1, 1)
		it.Raw = []byte(` {"b":1.0,"a":"\u00e4"} `)
		it.Event.Session, it.Event.Device, it.Event.User = "s", "d", "u"
		r := s.request("k", it)
		r.Header = []tidemill.Field{{Name: []byte("gpc"), Value: []byte("1")}}
		s.want(t, a, r, "accepted 000000000001")
		for j, err := range s.all.List(t.Context(), queue.Filter{Queue: accept.Standard}) {
			if err != nil {
				t.Fatal(err)
			}
			if string(j.Payload) != string(it.Raw) || j.Tenant != s.site || j.Type != "page_view" || string(j.Key) != "u" || !j.Time.Equal(it.Event.Time) || string(j.Get("gpc")) != "1" {
				t.Errorf("%+v", j)
			}
		}
	})
}

func TestManyAtOnceMakeOneEvent(t *testing.T) {
	each(t, func(t *testing.T, s *stores) {
		instances := []*accept.Acceptor{s.acceptor(t), s.acceptor(t)}
		s.queue.hold, s.queue.in = make(chan struct{}), make(chan struct{}, 1)
		const n = 50
		var wg sync.WaitGroup
		got := make([]string, n)
		try := func(i int) {
			defer wg.Done()
			answer, err := instances[i%2].Accept(t.Context(), s.request("k", purchase(1, "o")))
			if got[i] = outcome(t, answer, err); err == nil {
				got[i] = string(answer.Results)
			}
		}
		wg.Add(1)
		go try(0)
		<-s.queue.in // the first is running
		wg.Add(n - 1)
		var others sync.WaitGroup
		others.Add(n - 1)
		for i := 1; i < n; i++ {
			go func() { defer others.Done(); try(i) }()
		}
		others.Wait()
		for i := 1; i < n; i++ {
			if got[i] != "running" {
				t.Errorf("while the first runs: %s", got[i])
			}
		}
		close(s.queue.hold)
		wg.Wait()
		wg.Add(n)
		for i := range n {
			if i > 0 {
				got[i] = ""
			}
			go try(i)
		}
		wg.Wait()
		for i := range n {
			if got[i] != `[{"eventId":"`+id(1)+`","status":"accepted"}]` {
				t.Errorf("after a wait: %s", got[i])
			}
		}
		s.wantJobs(t, "high "+id(1))
	})
}

func TestARaceOfManyKeysForOneOrder(t *testing.T) {
	each(t, func(t *testing.T, s *stores) {
		instances := []*accept.Acceptor{s.acceptor(t), s.acceptor(t)}
		var wg sync.WaitGroup
		var mu sync.Mutex
		count := map[string]int{}
		for i := range 50 {
			wg.Go(func() {
				for {
					got, err := instances[i%2].Accept(t.Context(), s.request(fmt.Sprint("k", i), purchase(i+1, "o")))
					what, _, _ := strings.Cut(outcome(t, got, err), " ")
					mu.Lock()
					count[what]++
					mu.Unlock()
					if what != "running" {
						return
					}
				}
			})
		}
		wg.Wait()
		if delete(count, "running"); count["accepted"] != 1 || count["duplicate"] != 49 || len(s.jobs(t)) != 1 {
			t.Errorf("%v, jobs %q; want one accepted and 49 duplicates", count, s.jobs(t))
		}
	})
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	l, q := tableledger.Memory(tableledger.Options{}), memoryqueue.New(memoryqueue.Options{})
	for _, o := range []accept.Options{{Keep: time.Second}, {Timeout: -1}, {Batch: -1}, {Lease: 15 * time.Second}, {Gather: ledger.GatherOptions{Calls: -1}}} {
		if _, err := accept.New(l, q, o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
	if _, err := accept.New(nil, q, accept.Options{}); err == nil {
		t.Error("no ledger is taken")
	}
	if _, err := accept.New(l, nil, accept.Options{}); err == nil {
		t.Error("no queue is taken")
	}
}

func TestAClientThatIsGoneLeavesNothingRunning(t *testing.T) {
	each(t, func(t *testing.T, s *stores) {
		a := s.acceptor(t)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		answer, err := a.Accept(gone, s.request("k", view(1, 1)))
		if got := outcome(t, answer, err); got != "accepted 000000000001" {
			t.Error(got)
		}
		s.want(t, a, s.request("k", view(1, 1)), "accepted 000000000001 (again)")
	})
}
