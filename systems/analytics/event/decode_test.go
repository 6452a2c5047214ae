package event

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/uuid"
)

func TestAnEventsTextsOutliveItsBytesAndItsDecoder(t *testing.T) {
	events := seeded(posthogEvent)[:64]
	m := endpoint(PostHog)
	m.At = now
	want := make([]string, len(events))
	for i, raw := range events {
		want[i] = texts(decoded(t, m, string(raw)))
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			var e Event
			buffer := make([]byte, 0, 2048)
			for i, raw := range events {
				buffer = append(buffer[:0], raw...)
				if err := Decode(&m, buffer, &e); err != nil {
					t.Error(err)
					return
				}
				clear(buffer)
				if got := texts(&e); got != want[i] {
					t.Errorf("got %s; want %s", got, want[i])
					return
				}
			}
		})
	}
	all.Wait()
}

// texts are all values of an event but those that point into its bytes.
func texts(e *Event) string {
	keys := make([]string, len(e.Changes))
	for i, c := range e.Changes {
		keys[i] = c.Key
	}
	shown := *e
	shown.Properties, shown.UserProperties, shown.Changes = nil, nil, nil
	return fmt.Sprint(e.ID, e.Timestamp, keys, show(&shown))
}

func TestAllocations(t *testing.T) {
	// Ids, addresses and paths are texts of their own, all else is remembered. The pool is left
	// out: it may drop a decoder at any time.
	for _, c := range []struct {
		format Format
		events [][]byte
		max    float64
	}{{PostHog, seeded(posthogEvent), 6}, {Native, seeded(nativeEvent), 6}, {Segment, seeded(segmentEvent), 14}} {
		m, d, e, i := endpoint(c.format), new(decoder), new(Event), 0
		got := testing.AllocsPerRun(2000, func() {
			e.Reset()
			if err := d.decode(&m, c.events[i%len(c.events)], e); err != nil {
				t.Fatal(err)
			}
			i++
		})
		if got > c.max {
			t.Errorf("format %d: %.1f allocations an event; at most %.0f are expected", c.format, got, c.max)
		}
	}
}

func ExampleDecode() {
	m := Meta{Format: PostHog, Project: uuid.MustParse("33333333-3333-4333-8333-333333333333"), Received: now}
	raw := []byte(`{"event":"$identify","distinct_id":"jane","properties":{"$anon_distinct_id":"0190-anon","$set":{"plan":"scale"}}}`)
	var e Event
	if err := Decode(&m, raw, &e); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(e.Name, e.DistinctID, "is", e.Other)
	for _, c := range e.Changes {
		fmt.Printf("%s = %s\n", c.Key, c.Value)
	}
	// Output:
	// $identify jane is 0190-anon
	// plan = "scale"
}
