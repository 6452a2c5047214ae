package flow_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
)

// endless is a source that costs nothing: what is measured is the engine.
type endless struct {
	left    int // to be handed out
	settled int
	total   int
	ids     []string
	payload []byte
	header  []tidemill.Field
	done    func()
}

func newEndless(n int, done func()) *endless {
	s := &endless{left: n, total: n, done: done, payload: make([]byte, 200)}
	for i := range 4096 {
		s.ids = append(s.ids, fmt.Sprint(i))
	}
	return s
}

func (s *endless) Traits() tidemill.Traits { return tidemill.Traits{Parks: true} }

func (s *endless) Receive(ctx context.Context, into []*tidemill.Message) (int, error) {
	if s.left == 0 {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	n := min(len(into), s.left)
	for i, m := range into[:n] {
		m.ID, m.Mark.Lo = s.ids[(s.left-i)&4095], uint64(s.left-i)
		m.Payload = append(m.Payload, s.payload...)
		m.Key = append(m.Key, m.ID...)
		m.Header = append(m.Header, s.header...)
	}
	s.left -= n
	return n, nil
}

func (s *endless) Settle(_ context.Context, ends []tidemill.Settlement) error {
	for i := range ends {
		ends[i].Outcome = tidemill.Applied
	}
	if s.settled += len(ends); s.settled == s.total {
		s.done()
	}
	return nil
}

type event struct {
	bytes int
	id    string
}

// steps do as little as steps can: one in three is skipped by the first stage.
func lightSteps() flow.Steps[event] {
	return flow.Steps[event]{
		Decode: func(m *tidemill.Message, e *event) error { e.bytes, e.id = len(m.Payload), m.ID; return nil },
		Stages: []flow.Stage[event]{
			{Name: "some", Do: func(_ context.Context, b []*flow.Item[event]) error {
				for _, it := range b {
					if it.Mark.Lo%3 == 0 {
						it.Skip("third")
					}
				}
				return nil
			}},
			{Name: "deliver", Do: func(context.Context, []*flow.Item[event]) error { return nil }},
		},
	}
}

// through runs n messages through a pipeline.
func through(tb testing.TB, n int, p flow.Pipeline) {
	ctx, cancel := context.WithCancel(tb.Context())
	defer cancel()
	p.Name, p.Source, p.Work = "bench", newEndless(n, cancel), lightSteps().Lane
	e, err := flow.New(p)
	if err != nil {
		tb.Fatal(err)
	}
	if err := e.Run(ctx); err != nil {
		tb.Fatal(err)
	}
	if got := e.Stats().Settled.Total(); got != uint64(n) {
		tb.Fatalf("%d settled of %d", got, n)
	}
}

// One operation is one message: source, ring, lane, steps, decisions, ring, settlement.
func BenchmarkEngine(b *testing.B) {
	for _, lanes := range []int{1, 4} {
		for _, batch := range []int{1, 10, 100, 1000} {
			for _, order := range []bool{false, true} {
				b.Run(fmt.Sprintf("lanes=%d/batch=%d/order=%v", lanes, batch, order), func(b *testing.B) {
					b.ReportAllocs()
					p := flow.Pipeline{Lanes: lanes, Batch: batch, InFlight: max(4*lanes*batch, 2000)}
					if order {
						p.Lane = flow.ByKey
					}
					through(b, b.N, p)
				})
			}
		}
	}
}

// The hot path allocates a few times a batch at most, and not at all for a message.
func TestAllocations(t *testing.T) {
	const n = 200_000
	for batch, limit := range map[int]float64{100: 0.05, 1000: 0.02} {
		p := flow.Pipeline{Lanes: 2, Batch: batch, InFlight: 4 * 2 * batch}
		through(t, n/10, p)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		through(t, n, p)
		runtime.ReadMemStats(&after)
		slots := float64(p.InFlight) * 4 // made once: slot, payload, key, ring cells
		if got := (float64(after.Mallocs-before.Mallocs) - slots - 4096 - 500) / n; got > limit {
			t.Errorf("batch %d: %.3f allocations a message, want at most %v", batch, got, limit)
		}
	}
}

// Large full batches do not wait for the linger: nothing more can come.
func BenchmarkStarved(b *testing.B) {
	b.ReportAllocs()
	through(b, b.N, flow.Pipeline{Lanes: 1, Batch: 1000, InFlight: 1000, Age: time.Second})
}
