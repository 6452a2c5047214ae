package sourcetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
)

// bench is a harness on the table of one case, with the checks that cases share. Its
// methods end the test where it makes no sense to go on.
type bench struct {
	*testing.T
	Harness
	src      tidemill.Source
	traits   tidemill.Traits
	accepted int
}

func newBench(t *testing.T, h Harness) *bench {
	b := &bench{T: t, Harness: h, src: h.Open()}
	b.traits = b.src.Traits()
	return b
}

// soon bounds what ought to happen at once.
func (b *bench) soon() time.Duration {
	switch {
	case b.Soon > 0:
		return b.Soon
	case b.Lease > 0:
		return b.Lease / 4
	}
	return 5 * time.Second
}

// accept brings in messages named 0, 1, 2 … by their payload; the count goes on.
func (b *bench) accept(n int) {
	b.Helper()
	ms := make([]*tidemill.Message, n)
	for i := range ms {
		ms[i] = message(b.accepted + i)
	}
	b.Accept(ms...)
	b.accepted += n
}

func message(i int) *tidemill.Message {
	return &tidemill.Message{
		ID: fmt.Sprintf("id-%05d", i), Tenant: "tenant", Type: "type",
		Key: fmt.Appendf(nil, "key-%d", i), Payload: fmt.Appendf(nil, "%d", i), Time: time.UnixMilli(1_700_000_000_000),
	}
}

// kill drops what is not durable and opens a new source.
func (b *bench) kill() {
	b.Helper()
	b.Kill()
	b.src = b.Open()
}

// try receives up to n messages in one call that ends after d.
func (b *bench) try(src tidemill.Source, n int, d time.Duration) ([]*tidemill.Message, error) {
	ctx, cancel := context.WithTimeout(b.Context(), d)
	defer cancel()
	into := make([]*tidemill.Message, n)
	for i := range into {
		into[i] = new(tidemill.Message)
	}
	for {
		got, err := src.Receive(ctx, into)
		if !errors.Is(err, tidemill.ErrFlush) {
			return into[:got], err
		}
	}
}

// within receives exactly n messages, all of them within d; from a real server on a busy
// machine they may come later.
func (b *bench) within(src tidemill.Source, n int, d time.Duration) []*tidemill.Message {
	b.Helper()
	return b.collect(src, n, d, func() {})
}

// collect is within that calls between after each call.
func (b *bench) collect(src tidemill.Source, n int, d time.Duration, between func()) []*tidemill.Message {
	b.Helper()
	d = b.atMost(d)
	var all []*tidemill.Message
	for end := time.Now().Add(d); len(all) < n; {
		got, err := b.try(src, n-len(all), time.Until(end))
		if err != nil {
			b.Fatalf("received %d messages %v, then: %v; want %d within %v", len(all), names(all), err, n, d)
		}
		all = append(all, got...)
		between()
	}
	return all
}

// atMost is how long what has to come within d may take: on a real server of a busy machine it may be late.
func (b *bench) atMost(d time.Duration) time.Duration {
	if b.Live {
		d += 30 * time.Second
	}
	return d
}

// take receives exactly n messages that must be available.
func (b *bench) take(n int) []*tidemill.Message { b.Helper(); return b.within(b.src, n, b.soon()) }

// nothing checks that src hands out nothing for d.
func (b *bench) nothing(src tidemill.Source, d time.Duration) {
	b.Helper()
	if got, err := b.try(src, 10, d); len(got) > 0 || !errors.Is(err, context.DeadlineExceeded) {
		b.Fatalf("received %v, %v; want nothing for %v and the context's error", names(got), err, d)
	}
}

// settle settles and returns the source's answers.
func (b *bench) settle(src tidemill.Source, ends ...tidemill.Settlement) []tidemill.Outcome {
	b.Helper()
	if err := src.Settle(b.Context(), ends); err != nil {
		b.Fatalf("settle %d: %v", len(ends), err)
	}
	took := make([]tidemill.Outcome, len(ends))
	for i := range ends {
		took[i] = ends[i].Outcome
	}
	return took
}

// took settles one and checks the answer.
func (b *bench) took(src tidemill.Source, want tidemill.Outcome, end tidemill.Settlement) {
	b.Helper()
	if got := b.settle(src, end)[0]; got != want {
		b.Fatalf("settlement of %q was taken as %v, want %v", end.ID, tookName(got), tookName(want))
	}
}

// deliver settles all as delivered and checks that each is Applied.
func (b *bench) deliver(src tidemill.Source, ms ...*tidemill.Message) {
	b.Helper()
	ends := make([]tidemill.Settlement, len(ms))
	for i, m := range ms {
		ends[i] = done(m, tidemill.Delivered)
	}
	for i, took := range b.settle(src, ends...) {
		if took != tidemill.Applied {
			b.Fatalf("delivery of %s (%d of %d) was taken as %s, want applied", ms[i].Payload, i, len(ms), tookName(took))
		}
	}
}

// books reads the books and checks them, unless the source keeps none.
func (b *bench) books(want tidemill.Books) {
	b.Helper()
	keeper, ok := b.src.(tidemill.Bookkeeper)
	if !ok {
		return
	}
	got, err := keeper.Books(b.Context())
	if err != nil {
		b.Fatalf("books: %v", err)
	}
	if got != want {
		b.Fatalf("books are\n%+v, want\n%+v", got, want)
	}
}

// balanced checks that no message is unaccounted for.
func (b *bench) balanced() {
	b.Helper()
	if keeper, ok := b.src.(tidemill.Bookkeeper); ok {
		got, err := keeper.Books(b.Context())
		if err != nil {
			b.Fatalf("books: %v", err)
		}
		if got.Off() != 0 {
			b.Fatalf("books are off by %d: %+v", got.Off(), got)
		}
	}
}

func done(m *tidemill.Message, f tidemill.Fate) tidemill.Settlement {
	return tidemill.Settlement{ID: m.ID, Mark: m.Mark, End: tidemill.Done, Fate: f}
}

func again(m *tidemill.Message, after time.Duration, burn bool) tidemill.Settlement {
	return tidemill.Settlement{ID: m.ID, Mark: m.Mark, End: tidemill.Again, After: after, CountTry: burn,
		Kind: tidemill.Transient, Cause: "not yet"}
}

func left(m *tidemill.Message) tidemill.Settlement {
	return tidemill.Settlement{ID: m.ID, Mark: m.Mark, End: tidemill.Left}
}

func names(ms []*tidemill.Message) []string {
	out := make([]string, len(ms))
	for i, m := range ms {
		out[i] = string(m.Payload)
	}
	return out
}

func tookName(t tidemill.Outcome) string {
	switch t {
	case tidemill.Unanswered:
		return "unanswered"
	case tidemill.Applied:
		return "applied"
	case tidemill.Stale:
		return "stale"
	}
	return fmt.Sprintf("took(%d)", t)
}
