package redissource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
)

// soon is how long something may take that ought to happen at once, on a machine that
// others keep busy.
const soon = 20 * time.Second

// table is a stream on the table of one test.
type table struct {
	*testing.T
	client rueidis.Client // for what others do to the stream
	stream string
	n      int

	mu      sync.Mutex
	reports []Report
}

func newTable(t *testing.T, url string) *table {
	return &table{T: t, client: redistest.Connect(t, url), stream: testenv.Name("faults")}
}

// do runs a command of somebody else's.
func (b *table) do(words ...string) rueidis.RedisResult {
	b.Helper()
	r := b.client.Do(b.Context(), b.client.B().Arbitrary(words[0]).Keys(words[1]).Args(words[2:]...).Build())
	if err := r.Error(); err != nil && !rueidis.IsRedisNil(err) {
		b.Fatalf("%q: %v", words, err)
	}
	return r
}

// add adds entries with one field, numbered on, and returns their ids.
func (b *table) add(n int) []string {
	b.Helper()
	var ids []string
	for range n {
		id, err := b.do("XADD", b.stream, "*", "n", fmt.Sprint(b.n)).ToString()
		if err != nil {
			b.Fatal(err)
		}
		b.n++
		ids = append(ids, id)
	}
	return ids
}

func (b *table) open(client rueidis.Client, o Options) *Source {
	b.Helper()
	o.Stream = b.stream
	if o.Consumer == "" {
		o.Consumer = "c"
	}
	if o.Lease == 0 {
		o.Lease = testLease
	}
	o.Report = func(r Report) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.reports = append(b.reports, r)
	}
	s, err := New(client, o)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// reported is how many messages reports of a subject were about; -1: there was none.
func (b *table) reported(w What) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := -1
	for _, r := range b.reports {
		if r.What == w {
			n = max(n, 0) + int(r.Count)
		}
	}
	return n
}

// take receives n messages within d.
func (b *table) take(s *Source, n int, d time.Duration) []*tidemill.Message {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), d)
	defer cancel()
	var all []*tidemill.Message
	for len(all) < n {
		into := make([]*tidemill.Message, n-len(all))
		for i := range into {
			into[i] = new(tidemill.Message)
		}
		got, err := s.Receive(ctx, into)
		all = append(all, into[:got]...)
		if err != nil {
			b.Fatalf("received %d of %d (%q), then: %v", len(all), n, payloads(all), err)
		}
	}
	return all
}

// nothing checks that nothing is handed out for d.
func (b *table) nothing(s *Source, d time.Duration) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), d)
	defer cancel()
	into := []*tidemill.Message{new(tidemill.Message)}
	if n, err := s.Receive(ctx, into); n > 0 || !errors.Is(err, context.DeadlineExceeded) {
		b.Fatalf("received %q, %v; want nothing", payloads(into[:n]), err)
	}
}

// deliver settles and returns how many were applied.
func (b *table) deliver(s *Source, ms ...*tidemill.Message) (applied int) {
	b.Helper()
	ends := make([]tidemill.Settlement, len(ms))
	for i, m := range ms {
		ends[i] = tidemill.Settlement{ID: m.ID, Mark: m.Mark, Fate: tidemill.Delivered}
	}
	if err := s.Settle(b.Context(), ends); err != nil {
		b.Fatal(err)
	}
	for _, e := range ends {
		if e.Outcome == tidemill.Applied {
			applied++
		}
	}
	return applied
}

func (b *table) books(s *Source, want tidemill.Books) {
	b.Helper()
	got, err := s.Books(b.Context())
	if err != nil || got != want {
		b.Fatalf("books are\n%+v (%v), want\n%+v", got, err, want)
	}
}

func payloads(ms []*tidemill.Message) []string {
	out := make([]string, len(ms))
	for i, m := range ms {
		out[i] = string(m.Payload)
	}
	return out
}

func (b *table) want(ms []*tidemill.Message, payload ...string) {
	b.Helper()
	if got := payloads(ms); !slices.Equal(got, payload) {
		b.Fatalf("received %q, want %q", got, payload)
	}
}
