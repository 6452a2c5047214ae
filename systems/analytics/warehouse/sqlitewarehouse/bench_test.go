package sqlitewarehouse

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// batches makes page views with random ids and 700 bytes of properties.
func batches(seed byte) func(n int) []*event.Event {
	rng := rand.NewChaCha8([32]byte{seed})
	properties := []byte(`{"a":1`)
	for i := 0; len(properties) < 700; i++ {
		properties = fmt.Appendf(properties, `,"property_%d":"value %d"`, i, i*i)
	}
	properties = append(properties, '}')
	at := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	return func(n int) []*event.Event {
		rows := make([]*event.Event, n)
		for i := range rows {
			e := &event.Event{Name: "$pageview", Type: "pageview", DistinctID: fmt.Sprintf("user-%05d", rng.Uint64()%20_000),
				SessionID: "0190f3c2-7d1a-7c3e-8f4b-0123456789ab", Page: event.Page{URL: "https://example.com/path/to/page"},
				Device: event.Device{DeviceType: "desktop", Browser: "Chrome", OS: "Windows", ScreenWidth: 1920, ScreenHeight: 1080},
				Sender: event.Sender{IP: "203.0.113.7"}, Location: event.Location{Country: "DE"}, Properties: properties,
				Timestamp: at, IngestedAt: at, Origin: rng.Uint64()}
			_, _ = rng.Read(e.ID[:])
			_, _ = rng.Read(e.Person[:])
			rows[i] = e
		}
		return rows
	}
}

// BenchmarkInsert stores batches of 1,000 new events, one after the other: rows/s is the rate
// of one caller, waiting for the disk each time.
func BenchmarkInsert(b *testing.B) {
	s := store(b, open(b), Options{})
	next := batches(1)
	took := make([]warehouse.Outcome, 1000)
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		rows := next(len(took))
		b.StartTimer()
		if err := s.Insert(b.Context(), rows, took); err != nil {
			b.Fatal(err)
		}
		n += len(rows)
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/1e3/float64(n), "µs/row")
}

// BenchmarkInsertAgain is what a redelivery costs.
func BenchmarkInsertAgain(b *testing.B) {
	s := store(b, open(b), Options{table: 20_000})
	next := batches(1)
	took := make([]warehouse.Outcome, 1000)
	var rows []*event.Event
	for range 100 {
		rows = next(len(took))
		if err := s.Insert(b.Context(), rows, took); err != nil {
			b.Fatal(err)
		}
	}
	n := 0
	for b.Loop() {
		if err := s.Insert(b.Context(), rows, took); err != nil {
			b.Fatal(err)
		}
		n += len(rows)
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkNewest asks for the newest 100 of a million events.
func BenchmarkNewest(b *testing.B) {
	s := store(b, open(b), Options{})
	next := batches(3)
	took := make([]warehouse.Outcome, 4000)
	for range 250 {
		rows := next(len(took))
		for _, e := range rows {
			e.Project = uuid.Max
		}
		if err := s.Insert(b.Context(), rows, took); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		n := 0
		for _, err := range s.Events(b.Context(), warehouse.Filter{Project: uuid.Max, Newest: true, Max: 100}) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != 100 {
			b.Fatalf("%d events", n)
		}
	}
}
