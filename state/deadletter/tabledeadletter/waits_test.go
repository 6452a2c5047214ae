package tabledeadletter_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
)

// Time in a bubble is exact: nothing is handed out a moment early, and nothing polls.
func TestWaitsExactly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := tabledeadletter.Memory(deadletter.Options{})
		if err != nil {
			t.Fatal(err)
		}
		l := tidemill.DeadLetter{Pipeline: "p", Message: &tidemill.Message{ID: "a"}, At: time.Now()}
		if err := s.Put(t.Context(), []tidemill.DeadLetter{l}); err != nil {
			t.Fatal(err)
		}
		if n, err := s.Replay(t.Context(), deadletter.Filter{}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		a, b := s.Open("p"), s.Open("p")
		m := []*tidemill.Message{{}}
		take := func(from tidemill.Source, want time.Duration) {
			t.Helper()
			start := time.Now()
			if n, err := from.Receive(t.Context(), m); n != 1 || err != nil {
				t.Fatalf("Receive: %d, %v", n, err)
			}
			if took := time.Since(start); took != want {
				t.Errorf("received after %v, want %v", took, want)
			}
		}
		take(a, 0)
		take(b, 30*time.Second) // the lease of a, who is dead
		e := []tidemill.Settlement{{ID: "a", Mark: m[0].Mark, End: tidemill.Again, After: 5 * time.Minute}}
		if err := b.Settle(t.Context(), e); err != nil || e[0].Outcome != tidemill.Applied {
			t.Fatal(err, e[0].Outcome)
		}
		take(a, 5*time.Minute)
		kept := m[0].Mark
		for range 6 { // a keeps it for a minute, then dies too
			time.Sleep(a.Traits().Keep)
			if err := a.(tidemill.Keeper).Keep(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		take(b, 30*time.Second)
		if m[0].Mark == kept || m[0].Handed != 4 {
			t.Errorf("mark %+v after %+v, handed %d", m[0].Mark, kept, m[0].Handed)
		}
	})
}
