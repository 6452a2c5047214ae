package accept_test

import (
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/delivery/accept"
)

// An event whose id only the queue knows is a duplicate, and the next event of its order is
// accepted, even if the process dies between any two calls and its request comes again.
func TestACrashBehindAnEventThatOnlyItsQueueKnows(t *testing.T) {
	for _, at := range []string{"after begin", "after add"} {
		t.Run(at, func(t *testing.T) {
			each(t, func(t *testing.T, s *stores) {
				a, other := s.acceptor(t), s.acceptor(t)
				past := &tidemill.Message{ID: id(1), Tenant: s.site, To: accept.High}
				if err := s.all.Add(t.Context(), []*tidemill.Message{past}, nil); err != nil {
					t.Fatal(err)
				}
				drain(t, s.all, accept.High)
				make := func() *accept.Request { return s.request("k", purchase(1, "o"), purchase(2, "o")) }
				if at == "after add" {
					s.queue.died = func() { s.ledger.mu.Lock(); s.ledger.dead = true; s.ledger.mu.Unlock() }
				} else {
					s.queue.add = fault{call: 1, times: 2}
					s.ledger.end = fault{call: 1, times: 2}
				}
				s.try(t, a, make()) // the answer is lost
				s.queue.died, s.ledger.dead, s.queue.add, s.ledger.end = nil, false, fault{}, fault{}
				s.add(time.Minute)
				s.want(t, other, make(), "duplicate 000000000001 of 000000000001, accepted 000000000002")
				s.want(t, other, make(), "duplicate 000000000001 of 000000000001, accepted 000000000002 (again)")
				s.wantJobs(t, "high "+id(2))
			})
		})
	}
}

// So is one whose id has another time by now, under its second name.
func TestAnEventApartThatOnlyItsQueueKnows(t *testing.T) {
	each(t, func(t *testing.T, s *stores) {
		a, other := s.acceptor(t), view(1, 2)
		past := &tidemill.Message{ID: id(0)[:24] + partOf(s, other), Tenant: s.site, To: accept.Standard}
		if err := s.all.Add(t.Context(), []*tidemill.Message{past}, nil); err != nil {
			t.Fatal(err)
		}
		drain(t, s.all, accept.Standard)
		s.want(t, a, s.request("a", view(1, 1)), "accepted 000000000001")
		s.want(t, a, s.request("b", other), "duplicate 000000000001 of "+partOf(s, other))
		s.wantJobs(t, "standard "+id(1))
	})
}
