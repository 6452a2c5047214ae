package answer

import (
	"testing"
	"time"

	"github.com/tidemill/tidemill/serve/api"
)

// TestAStoryBeginsWithTheComing has an ingest API whose clock is behind that of the queue.
func TestAStoryBeginsWithTheComing(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := NewStory("delivery", "event", "shop", "a", at.Add(time.Minute))
	s.Step(at.Add(time.Millisecond), "accepted", "ingest API", "it came in")
	s.Step(at.Add(time.Second), "routed", "queue", "it was routed")
	s.Step(at, "queued", "queue", "it was queued")
	e, err := s.Tell()
	if err != nil || len(e.Steps) != 3 {
		t.Fatal(e.Steps, err)
	}
	for i, want := range []api.Step{{What: "accepted", At: &at}, {What: "queued", At: &at}, {What: "routed"}} {
		if got := e.Steps[i]; got.What != want.What || want.At != nil && !got.At.Equal(*want.At) || got.After != nil && *got.After < 0 {
			t.Errorf("step %d is %s at %v, want %s at %v", i, got.What, got.At, want.What, want.At)
		}
	}
}
