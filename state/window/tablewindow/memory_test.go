package tablewindow

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/window"
)

func inMemory(t *testing.T, o window.Options) window.Store {
	t.Helper()
	s, err := Memory(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Time in a bubble is exact: nothing is handed out a moment early, and nothing polls.
func TestWaitsExactly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inMemory(t, window.Options{})
		if err := s.Put(t.Context(), []window.Record{{Batch: "b", Kind: "event", ID: "1"}}, nil); err != nil {
			t.Fatal(err)
		}
		done, err := s.Sweep(t.Context())
		if err != nil || done != (window.Swept{Next: time.Minute}) {
			t.Fatalf("sweep: %+v, %v", done, err)
		}
		time.Sleep(done.Next)
		if done, err := s.Sweep(t.Context()); err != nil || done != (window.Swept{Closed: 1, Next: -1}) {
			t.Fatalf("sweep: %+v, %v", done, err)
		}
		a, b := s.Open(), s.Open()
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
		e := []tidemill.Settlement{{ID: m[0].ID, Mark: m[0].Mark, End: tidemill.Again, After: 5 * time.Minute}}
		if err := b.Settle(t.Context(), e); err != nil || e[0].Outcome != tidemill.Applied {
			t.Fatal(err, e[0].Outcome)
		}
		take(a, 5*time.Minute)
		for range 6 { // a keeps it for a minute, then dies too
			time.Sleep(a.Traits().Keep)
			if err := a.(tidemill.Keeper).Keep(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		take(b, 30*time.Second)
	})
}

// What is overwritten counts as it is now.
func TestBytesAreThoseOfTheBodies(t *testing.T) {
	s := inMemory(t, window.Options{})
	for i, c := range []struct {
		id, body string
		want     int64
	}{{"1", "1234567890", 10}, {"1", "1234", 4}, {"2", "123", 7}, {"1", "123456", 9}} {
		if err := s.Put(t.Context(), []window.Record{{Batch: "b", Kind: "event", ID: c.id, Body: []byte(c.body)}}, nil); err != nil {
			t.Fatal(err)
		}
		for info, err := range s.List(t.Context(), window.Filter{}) {
			if err != nil || info.Bytes != c.want {
				t.Errorf("after put %d: %+v, %v; want %d bytes", i+1, info, err, c.want)
			}
		}
	}
}
