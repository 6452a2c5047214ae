//go:build servers

package faults

import (
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/test/promise"
)

// TestTheBridgesCheckerSeesWhatIsWrong damages what arrived, and runs the checker.
func TestTheBridgesCheckerSeesWhatIsWrong(t *testing.T) {
	t.Parallel()
	bridgeRounds(t, func(w *bridgeWorld) {
		w.run(farOptions{Buries: true}, "one")
		w.pass(6 * time.Second)
		w.finish(afterFault, bridgeAllowance{})
		if t.Failed() {
			return
		}
		a, err := w.audit()
		if err != nil {
			t.Fatal(err)
		}
		f := w.far
		var plain, dead string // an id that was delivered, and one that is dead
		for id, h := range f.seen {
			if len(h.Letters) > 0 {
				dead = id
			} else {
				plain = id
			}
		}
		if plain == "" || dead == "" {
			t.Fatalf("delivered %q, dead %q: one of each is needed", plain, dead)
		}
		sees := func(what string, a audit, damage func()) {
			t.Helper()
			f.mu.Lock()
			was, is, odd := *f.seen[plain], *f.seen[dead], f.odd
			damage()
			f.mu.Unlock()
			found := w.judge(a, bridgeAllowance{})
			if !strings.Contains(strings.Join(found, "\n"), what) {
				t.Errorf("the checker does not see %q: %q", what, found)
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			f.seen[plain], f.seen[dead], f.odd = &was, &is, odd
			delete(f.seen, "1-1")
		}
		off, lost, more := a, a, a
		off.Balanced, lost.Lost, more.Accepted = false, 1, a.Accepted+1
		more.Delivered++
		sees("never came to the receiver", a, func() { delete(f.seen, plain) })
		sees("want", a, func() { f.seen[plain].Other = "{}" })
		sees("without an ack of the receiver", a, func() { f.seen[plain].Acked = 0 })
		sees("that nobody added", a, func() { f.seen["1-1"] = &promise.Heard{Times: 1, Data: "1", Acked: 1} })
		sees("is no message of a bridge", a, func() { f.odd = append(f.odd, "x") })
		sees("without an ack of the receiver", a, func() { f.seen[dead].Letters = nil })
		sees("refusals", a, func() { f.seen[dead].Refused = promise.MostRefusals - 1 })
		sees("the letter of", a, func() { f.seen[dead].Letters = []promise.Letter{{Original: "x", ID: dead}} })
		sees("do not balance", off, func() {})
		sees("do not balance", lost, func() {})
		sees("were added", more, func() {})
		if found := w.judge(a, bridgeAllowance{}); len(found) > 0 {
			t.Errorf("all is as it was, and it finds %q", found)
		}
	})
}
