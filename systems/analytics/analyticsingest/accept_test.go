package analyticsingest

import (
	"errors"
	"testing"

	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
)

// What is sent into a queue that takes nothing is not said to be accepted.
func TestAcceptIntoAQueueThatTakesNothing(t *testing.T) {
	for name, closed := range map[string]bool{"full": false, "drained": true} {
		t.Run(name, func(t *testing.T) {
			capacity := 1
			if closed {
				capacity = 100
			}
			q := memoryqueue.New(memoryqueue.Options{Capacity: capacity})
			d := newTestIngest(t, func(o *Options) { o.Intake = q })
			taken, other := []byte(`{"event":"order paid","distinct_id":"a"}`), []byte(`{"event":"order paid","distinct_id":"b"}`)
			if got, err := d.Accept(t.Context(), goodProject, [][]byte{taken}); got.Accepted != 1 || err != nil {
				t.Fatalf("accepted %d, %v", got.Accepted, err)
			}
			if _, err := q.Set(t.Context(), d.queueOf(goodProject), func(s *queue.Settings) { s.Closed = closed }); err != nil {
				t.Fatal(err)
			}
			if got, err := d.Accept(t.Context(), goodProject, [][]byte{other}); got.Accepted != 0 || len(got.Refused) != 0 || !errors.Is(err, ErrFull) {
				t.Errorf("%+v, %v; want ErrFull", got, err)
			}
		})
	}
}

// What was accepted before is told apart from what is new.
func TestAcceptTellsWhatIsKnown(t *testing.T) {
	q := memoryqueue.New(memoryqueue.Options{})
	d := newTestIngest(t, func(o *Options) { o.Intake = q })
	old := []byte(`{"event":"order paid","distinct_id":"a","event_id":"5f0f2a1c-53b5-4a6c-9c3b-1d6a5f6d0001"}`)
	fresh := []byte(`{"event":"order paid","distinct_id":"a","event_id":"5f0f2a1c-53b5-4a6c-9c3b-1d6a5f6d0002"}`)
	if got, err := d.Accept(t.Context(), goodProject, [][]byte{old}); got.Accepted != 1 || got.Known != 0 || err != nil {
		t.Fatalf("%+v, %v", got, err)
	}
	if got, err := d.Accept(t.Context(), goodProject, [][]byte{old, fresh, []byte("x")}); got.Accepted != 1 || got.Known != 1 || len(got.Refused) != 1 || err != nil {
		t.Errorf("%+v, %v; want one new, one known, one refused", got, err)
	}
}
