//go:build servers

package faults

import (
	"strings"
	"testing"
	"time"
)

// TestTheCheckerOfDeliverySeesWhatIsWrong damages the reports of partners and product, and runs
// the checker.
func TestTheCheckerOfDeliverySeesWhatIsWrong(t *testing.T) {
	t.Parallel()
	deliveryRounds(t, onSQLite, func(w *deliveryWorld) {
		w.fourPartners()
		w.run(1)
		w.startDeliveryLoad(deliveryLoadOptions{Events: 300}).wait()
		a, letters := w.quiet(afterLease), w.letters()
		if w.complain(w.judge(a, letters, deliveryAllowance{})); w.Failed() {
			return
		}
		slow, best := w.partners[1], w.partners[3]
		var plain, bought *tracked // that both accepted
		for _, e := range w.journal() {
			switch {
			case e.invalid || e.private || letters["s2s.slow"][e.id].ID != "":
			case e.purchase:
				bought = e
			default:
				plain = e
			}
		}
		sees := func(what string, damage, mend func()) {
			t.Helper()
			damage()
			defer mend()
			if found := strings.Join(w.judge(a, letters, deliveryAllowance{}), "\n"); !strings.Contains(found, what) {
				t.Errorf("the checker does not see %q: %q", what, found)
			}
		}
		k := best.seen[plain.id]
		was := *k
		same := func() { *k = was }
		sees("lost", func() { k.yes = 0 }, same)
		sees("was taken by well 2 times", func() { k.yes = 2 }, same)
		sees("with other bytes", func() { k.odd = "x" }, same)
		sees("with other bytes", func() { k.body[0]++ }, same)
		sees("which it was not to have", func() { best.seen["nobody"] = k }, func() { delete(best.seen, "nobody") })
		sees("which it was not to have", func() { plain.private = true }, func() { plain.private = false })
		sees("invalid true", func() { plain.invalid = true }, func() { plain.invalid = false })
		twice := slow.seen[bought.id]
		sees("was done 2 times at slow", func() { twice.did++ }, func() { twice.did-- })
		at := plain.accepted
		sees("has no confirmation", func() { plain.accepted = time.Time{} }, func() { plain.accepted = at })

		of := letters["s2s.erring"]
		var id string // of an event that was dead after all its tries
		for i, l := range of {
			if l.Kind == "partner_error" {
				id = i
			}
		}
		if id == "" {
			t.Fatalf("nothing died of failures: %+v", of)
		}
		l := of[id]
		mend := func() { of[id] = l }
		wrong := func(change func(*deadLetter)) func() {
			return func() { bad := l; change(&bad); of[id] = bad }
		}
		sees("lost", func() { delete(of, id) }, mend)
		sees("want the bytes", wrong(func(l *deadLetter) { l.Payload += " " }), mend)
		sees("has the reason", wrong(func(l *deadLetter) { l.Reason = "timeout" }), mend)
		sees("is held although", wrong(func(l *deadLetter) { l.Kind = "unknown" }), mend)
		sees("tries, 3 are due", func() { w.partners[0].seen[id].came = 1 }, func() { w.partners[0].seen[id].came = 9 })
		sees("nobody sent", func() { of["nobody"] = l }, func() { delete(of, "nobody") })
		books := &a.Queues[len(a.Queues)-1]
		sees("the books", func() { books.Delivered++ }, func() { books.Delivered-- })
		sees("do not balance", func() { a.Balanced = false }, func() { a.Balanced = true })
	})
}
