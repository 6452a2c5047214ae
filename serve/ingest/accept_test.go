package ingest

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
			d := newDoor(t, func(o *Options) { o.Intake = q })
			taken, other := []byte(`{"event":"order paid","distinct_id":"a"}`), []byte(`{"event":"order paid","distinct_id":"b"}`)
			if n, _, err := d.Accept(t.Context(), goodProject, [][]byte{taken}); n != 1 || err != nil {
				t.Fatalf("accepted %d, %v", n, err)
			}
			if _, err := q.Set(t.Context(), d.queueOf(goodProject), func(s *queue.Settings) { s.Closed = closed }); err != nil {
				t.Fatal(err)
			}
			if n, refused, err := d.Accept(t.Context(), goodProject, [][]byte{other}); n != 0 || len(refused) != 0 || !errors.Is(err, ErrFull) {
				t.Errorf("accepted %d, refused %v, %v; want ErrFull", n, refused, err)
			}
		})
	}
}
