package memorydeadletter

import (
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
)

// Only letters that are replayed, of the pipeline that asks, say when it is to look again.
func TestWhatIsHeldOrOfOthersIsNotNext(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s, err := New(deadletter.Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	for i, pipeline := range []string{"a", "a", "b"} {
		l := tidemill.DeadLetter{Pipeline: pipeline, Message: &tidemill.Message{ID: string(rune('x' + i))}, At: now}
		if err := s.Put(t.Context(), []tidemill.DeadLetter{l}); err != nil {
			t.Fatal(err)
		}
	}
	if at, any := s.next("a"); any {
		t.Errorf("%v, though nothing is replayed", at)
	}
	if n, err := s.Replay(t.Context(), deadletter.Filter{}); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	src, m := s.Open("a"), []*tidemill.Message{{}}
	if n, err := src.Receive(t.Context(), m); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	again := tidemill.Settlement{ID: m[0].ID, Mark: m[0].Mark, End: tidemill.Again, After: time.Minute, Kind: tidemill.Partner}
	if err := src.Settle(t.Context(), []tidemill.Settlement{again}); err != nil {
		t.Fatal(err)
	}
	if n, err := src.Receive(t.Context(), m); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if err := src.Settle(t.Context(), []tidemill.Settlement{{ID: m[0].ID, Mark: m[0].Mark, End: tidemill.Done, Fate: tidemill.Dead, Kind: tidemill.Partner, Cause: "again"}}); err != nil {
		t.Fatal(err)
	}
	if held := src.(*source).out; len(held) != 0 {
		t.Errorf("%v is held after it was settled", held)
	}
	if at, any := s.next("a"); !any || !at.Equal(now.Add(time.Minute)) {
		t.Errorf("next at %v (%v), want in a minute", at, any)
	}
}
