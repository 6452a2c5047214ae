package clickhousewarehouse

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/clickhousehttp"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// batch makes page views with random ids and 700 bytes of properties.
func batch(rng *rand.ChaCha8, n int) []*event.Event {
	properties := []byte(`{"a":1`)
	for i := 0; len(properties) < 700; i++ {
		properties = fmt.Appendf(properties, `,"property_%d":"value %d"`, i, i*i)
	}
	properties = append(properties, '}')
	rows := make([]*event.Event, n)
	for i := range rows {
		e := &event.Event{Name: "$pageview", Type: "pageview", DistinctID: fmt.Sprintf("user-%05d", rng.Uint64()%20_000),
			SessionID: "0190f3c2-7d1a-7c3e-8f4b-0123456789ab", Page: event.Page{URL: "https://example.com/path/to/page"},
			Device: event.Device{DeviceType: "desktop", Browser: "Chrome", OS: "Windows", ScreenWidth: 1920, ScreenHeight: 1080},
			Sender: event.Sender{IP: "203.0.113.7"}, Location: event.Location{Country: "DE"}, Properties: properties,
			Timestamp: noon.Add(time.Duration(rng.Uint64()%3600) * time.Second), IngestedAt: noon, Origin: rng.Uint64()}
		_, _ = rng.Read(e.ID[:])
		_, _ = rng.Read(e.Person[:])
		rows[i] = e
	}
	return rows
}

const benchRows = 2000

// BenchmarkEncode is our own part of an insert: choosing, columns, block and token.
func BenchmarkEncode(b *testing.B) {
	rows := batch(rand.NewChaCha8([32]byte{1}), benchRows)
	c := newBlock()
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		for i, e := range rows {
			c.seen[key{e.Project, e.ID}] = e.Origin
			c.add(e, int64(i))
		}
		encoded, _, err := c.encode()
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(encoded)))
		c.reset()
		n += len(rows)
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkInsert stores batches of 2,000 new events; lanes is how many at the same time.
func BenchmarkInsert(b *testing.B) {
	for _, c := range []struct {
		name  string
		lanes int
		o     Options
	}{
		{"one lane", 1, Options{}},
		{"one lane, not waiting for the disk", 1, Options{NoSync: true}},
		{"one lane, the server may gather", 1, Options{Async: true}},
		{"three lanes", 3, Options{}},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := store(b, fresh(b), c.o)
			var todo [][]*event.Event
			rng := rand.NewChaCha8([32]byte{byte(c.lanes)})
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				todo = todo[:0]
				for range c.lanes {
					todo = append(todo, batch(rng, benchRows))
				}
				b.StartTimer()
				var wg sync.WaitGroup
				for _, rows := range todo {
					wg.Go(func() {
						if err := s.Insert(b.Context(), rows, make([]warehouse.Outcome, len(rows))); err != nil {
							b.Error(err)
						}
					})
				}
				wg.Wait()
				n += c.lanes * benchRows
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// BenchmarkRaw sends blocks that were encoded before: the server's limit.
func BenchmarkRaw(b *testing.B) {
	s := store(b, fresh(b), Options{})
	c := newBlock()
	for i, e := range batch(rand.NewChaCha8([32]byte{9}), benchRows) {
		c.add(e, int64(i))
	}
	encoded, _, err := c.encode()
	if err != nil {
		b.Fatal(err)
	}
	encoded = slices.Clone(encoded)
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		if err := s.conn.Insert(b.Context(), s.into, encoded, clickhousehttp.Set("async_insert", "0"), clickhousehttp.Set("insert_deduplication_token", fmt.Sprint(n))); err != nil {
			b.Fatal(err)
		}
		n += benchRows
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkSmall is what the smallest insert and the shortest listing cost.
func BenchmarkSmall(b *testing.B) {
	rng := rand.NewChaCha8([32]byte{7})
	b.Run("insert of one event", func(b *testing.B) {
		s := store(b, fresh(b), Options{})
		for b.Loop() {
			if err := s.Insert(b.Context(), batch(rng, 1), make([]warehouse.Outcome, 1)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("listing of ten events", func(b *testing.B) {
		s := store(b, fresh(b), Options{})
		rows := batch(rng, 10)
		project := ev(0).Project
		for _, e := range rows {
			e.Project = project
		}
		insert(b, s, rows...)
		for b.Loop() {
			if n := len(list(b, s, warehouse.Filter{Project: project})); n != 10 {
				b.Fatal(n)
			}
		}
	})
}

// BenchmarkInsertWhileMonthsGo is what removing months costs the intake: rows a second without, and while
// a month of twenty thousand events goes for every ten inserts.
func BenchmarkInsertWhileMonthsGo(b *testing.B) {
	for _, going := range []bool{false, true} {
		b.Run(fmt.Sprintf("going=%t", going), func(b *testing.B) {
			s := store(b, fresh(b), Options{Recent: -1})
			rng := rand.NewChaCha8([32]byte{3})
			const months = 24
			for m := range months {
				rows := batch(rng, 20_000)
				for _, e := range rows {
					e.Timestamp = e.Timestamp.AddDate(0, -3-m, 0)
				}
				for part := range slices.Chunk(rows, 4000) {
					if err := s.Insert(b.Context(), part, make([]warehouse.Outcome, len(part))); err != nil {
						b.Fatal(err)
					}
				}
			}
			n, went, at := 0, int64(0), 0
			stop := make(chan struct{})
			next := make(chan struct{}, 1)
			over := make(chan struct{})
			go func() {
				defer close(over)
				for {
					select {
					case <-next:
						gone, _, err := s.Bound(b.Context(), 1, noon.AddDate(0, -1, 0))
						if err != nil && went < months*20_000 {
							b.Error(err)
						}
						went += gone
					case <-stop:
						return
					}
				}
			}()
			for b.Loop() {
				b.StopTimer()
				rows := batch(rng, benchRows)
				took := make([]warehouse.Outcome, len(rows))
				b.StartTimer()
				if err := s.Insert(b.Context(), rows, took); err != nil {
					b.Fatal(err)
				}
				n += len(rows)
				if at++; going && at%10 == 0 {
					select {
					case next <- struct{}{}:
					default:
					}
				}
			}
			close(stop)
			<-over
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "rows/s")
			b.ReportMetric(float64(went), "removed")
		})
	}
}
