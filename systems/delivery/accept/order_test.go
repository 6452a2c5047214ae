package accept_test

import "testing"

// An order is not accepted twice after the answer of the first time was lost, whatever key and
// event id it comes under then.
func TestAnOrderIsAcceptedOnceWhateverHappensInBetween(t *testing.T) {
	for _, n := range []int{0, 2} { // the second time: without an id, with another one
		t.Run("the queue's answer is lost", func(t *testing.T) {
			each(t, func(t *testing.T, s *stores) {
				a := s.acceptor(t)
				s.queue.add = fault{call: 1, after: true}
				s.try(t, a, s.request("a", purchase(0, "o")))
				s.try(t, a, s.request("b", purchase(n, "o")))
				if got := s.jobs(t); len(got) != 1 {
					t.Errorf("order o is in the queue as %q; want one job", got)
				}
			})
		})
		t.Run("the process dies after the queue has it", func(t *testing.T) {
			each(t, func(t *testing.T, s *stores) {
				a, other := s.acceptor(t), s.acceptor(t)
				s.queue.died = func() { s.ledger.mu.Lock(); s.ledger.dead = true; s.ledger.mu.Unlock() }
				s.try(t, a, s.request("a", purchase(0, "o")))
				s.queue.died, s.ledger.dead = nil, false
				s.add(60e9)
				s.try(t, other, s.request("b", purchase(n, "o")))
				if got := s.jobs(t); len(got) != 1 {
					t.Errorf("order o is in the queue as %q; want one job", got)
				}
			})
		})
	}
}
