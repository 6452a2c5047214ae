package kafkasource_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/source/kafkasource"
)

// How long one settlement takes: the answer to a commit.
func BenchmarkSettleOne(b *testing.B) {
	w := newWorld(b, testenv.Kafka(b), 1)
	w.number(0, 3000)
	s := w.source(kafkasource.Options{})
	got := receive(b, s, 3000, 20*time.Second)
	b.ResetTimer()
	n := 0
	for b.Loop() {
		settle(b, s, tidemill.Applied, delivered(got[n])...)
		n++
	}
}

const benchRecords = 300_000

func filled(b *testing.B) *world {
	w := newWorld(b, testenv.Kafka(b), 3)
	for i := 0; i < benchRecords; i += 10_000 {
		w.number(i, i+10_000)
	}
	return w
}

// Records received and settled a second, 1,024 at a time as the engine asks for them and
// settled by another goroutine as the engine does.
func BenchmarkReceiveAndSettle(b *testing.B) {
	w := filled(b)
	for b.Loop() {
		s := w.source(kafkasource.Options{})
		batches, free := make(chan []*tidemill.Message, 3), make(chan []*tidemill.Message, 4)
		for range 4 {
			into := make([]*tidemill.Message, 1024)
			for i := range into {
				into[i] = new(tidemill.Message)
			}
			free <- into
		}
		go func() {
			defer close(batches)
			for total := 0; total < benchRecords; {
				into := (<-free)[:1024]
				n, err := s.Receive(b.Context(), into)
				if err != nil && !errors.Is(err, tidemill.ErrFlush) {
					b.Error(err)
					return
				}
				total += n
				batches <- into[:n]
			}
		}()
		for got := range batches {
			settle(b, s, tidemill.Applied, delivered(got...)...)
			free <- got
		}
		b.StopTimer()
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		ctx := context.Background()
		if _, err := w.admin.DeleteGroups(ctx, w.group); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(benchRecords)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

// The raw limit: franz-go alone, nothing settled.
func BenchmarkBarePoll(b *testing.B) {
	w := filled(b)
	for b.Loop() {
		c, err := w.cluster.Client(kgo.ConsumeTopics(w.topic), kgo.FetchMaxPartitionBytes(1<<20), kgo.FetchMaxBytes(8<<20))
		if err != nil {
			b.Fatal(err)
		}
		for total := 0; total < benchRecords; {
			f := c.PollRecords(b.Context(), 4096)
			total += f.NumRecords()
		}
		c.Close()
	}
	b.ReportMetric(float64(benchRecords)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}
