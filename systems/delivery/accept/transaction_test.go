package accept_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/systems/delivery/accept"
)

// atOnce runs a test on every backend that has a Transaction.
func atOnce(t *testing.T, run func(t *testing.T, s *stores)) {
	each(t, func(t *testing.T, s *stores) {
		if s.stroke != nil {
			run(t, s)
		}
	})
}

func TestWhatIsNewIsTakenInOneStroke(t *testing.T) {
	atOnce(t, func(t *testing.T, s *stores) {
		a, begins := s.acceptor(t), s.ledger.begins
		s.want(t, a, s.request("k", view(1, 1)), "accepted 000000000001")
		s.want(t, a, s.request("l", view(2, 1), purchase(3, "o"), view(2, 1)), "accepted 000000000002, accepted 000000000003, duplicate 000000000002 of 000000000002")
		if s.stroke.taken != 2 || s.ledger.begins != begins {
			t.Errorf("%d strokes and %d calls of the ledger; want 2 and none", s.stroke.taken, s.ledger.begins-begins)
		}
		// All of it is known from then on, step by step and at once.
		s.want(t, a, s.request("k", view(1, 1)), "accepted 000000000001 (again)")
		s.want(t, a, s.request("k", view(1, 2)), "reused")
		s.want(t, a, s.request("m", view(1, 1)), "duplicate 000000000001 of 000000000001")
		s.want(t, a, s.request("n", purchase(4, "o")), "duplicate 000000000004 of 000000000003")
		s.want(t, a, s.request("o", view(5, 5), purchase(3, "o")), "accepted 000000000005, duplicate 000000000003 of 000000000003")
		if s.stroke.taken != 2 {
			t.Errorf("%d strokes: what is known is taken", s.stroke.taken)
		}
		s.wantJobs(t, "standard "+id(1), "standard "+id(2), "high "+id(3), "standard "+id(5))
	})
}

// The Transaction fails, before or after its effect, once or permanently; the client may try again.
// The events are in their queues once.
func TestFaultsOfTheStroke(t *testing.T) {
	atOnce(t, func(t *testing.T, s *stores) {
		for name := range s.requests() {
			for _, after := range []bool{false, true} {
				for _, times := range []int{1, 3} {
					s.site = fmt.Sprintf("%s-%v-%d", strings.ReplaceAll(name, " ", "_"), after, times)
					a := s.acceptor(t)
					s.want(t, a, s.request("before", view(100, 1)), "accepted 000000000100")
					before := len(s.jobs(t))
					s.stroke.take = fault{call: 1, times: times, after: after}
					first := s.try(t, a, s.requests()[name]())
					second := s.try(t, s.acceptor(t), s.requests()[name]())
					s.stroke.take = fault{}
					if n := len(s.jobs(t)) - before; n != expected(name) {
						t.Errorf("%s: %s, then %s: %d jobs; want %d", s.site, first, second, n, expected(name))
					}
					if !strings.HasPrefix(first, "accepted") || strings.Contains(second, "duplicate") {
						t.Errorf("%s: %s, then %s", s.site, first, second)
					}
				}
			}
		}
	})
}

func TestAStrokeTakesAllOrNothing(t *testing.T) {
	atOnce(t, func(t *testing.T, s *stores) {
		q := s.capped(t) // has room for two
		stroke := s.stroke.of(q)
		if _, is := stroke.(memoryTransaction); is {
			return // it is the tests' own
		}
		s.queue.Queues, s.all, s.stroke.queue, s.stroke.Transaction = q, q, q, stroke
		a := s.acceptor(t)
		s.want(t, a, s.request("a", view(1, 1)), "accepted 000000000001")
		s.want(t, a, s.request("b", view(2, 2), view(3, 3)), "full")
		if s.stroke.taken != 1 {
			t.Errorf("%d strokes; want 1", s.stroke.taken)
		}
	})
}

func TestWhatTheDayIsChargedIsReturned(t *testing.T) {
	atOnce(t, func(t *testing.T, s *stores) {
		a, charged, left := s.acceptor(t), 0, 3
		request := func(key string, items ...accept.Item) *accept.Request {
			r, mine := s.request(key, items...), 0
			r.Admit = func(n int) error {
				if charged+n > left {
					return tidemill.Fail(tidemill.RateLimit, "no more today")
				}
				charged, mine = charged+n, n
				return nil
			}
			r.Return = func() { charged, mine = charged-mine, 0 }
			return r
		}
		s.want(t, a, request("a", view(1, 1), view(2, 2)), "accepted 000000000001, accepted 000000000002")
		s.want(t, a, request("a", view(1, 1), view(2, 2)), "accepted 000000000001, accepted 000000000002 (again)")
		s.want(t, a, request("b", view(1, 1)), "duplicate 000000000001 of 000000000001")
		if charged != 2 {
			t.Errorf("%d were charged; want 2: what came again is not new", charged)
		}
		s.want(t, a, request("c", view(3, 3), view(4, 4)), "error")
		s.want(t, a, request("d", view(5, 5)), "accepted 000000000005")
		s.want(t, a, request("d", view(5, 5)), "accepted 000000000005 (again)") // though nothing is left
		if charged != 3 {
			t.Errorf("%d were charged; want 3", charged)
		}
	})
}

// Requests accepted in one transaction are forgotten as all others are.
func TestWhatWasTakenAtOnceIsForgottenAfterADay(t *testing.T) {
	atOnce(t, func(t *testing.T, s *stores) {
		a := s.acceptor(t)
		s.want(t, a, s.request("k", purchase(1, "o")), "accepted 000000000001")
		s.add(25 * time.Hour)
		if err := a.Expire(t.Context()); err != nil {
			t.Fatal(err)
		}
		for e, err := range s.ledger.Range(t.Context(), ledger.Filter{}) {
			t.Errorf("%q is known: %v", e.Key, err)
		}
	})
}
