package redisqueue

import (
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/queue"
)

// snapshot is all keys of the store; the function brings them back, as a replica does that
// lagged behind when it was promoted.
func (b *table) snapshot() (back func()) {
	b.Helper()
	keys, err := b.client.Do(b.Context(), b.client.B().Keys().Pattern(b.tags[0]+"*").Build()).AsStrSlice()
	if err != nil {
		b.Fatal(err)
	}
	was := map[string]string{}
	for _, k := range keys {
		if was[k], err = b.client.Do(b.Context(), b.client.B().Dump().Key(k).Build()).ToString(); err != nil {
			b.Fatal(err)
		}
	}
	return func() {
		b.Helper()
		b.wipe()
		for k, v := range was {
			if err := b.client.Do(b.Context(), b.client.B().Restore().Key(k).Ttl(0).SerializedValue(v).Build()).Error(); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// Who had a job from a Redis that lost the hand-out does not settle what another has since.
func TestLeasesOfALostState(t *testing.T) {
	for _, c := range []struct {
		name   string
		before int // jobs that Redis remembers
	}{{"all is lost", 0}, {"the newest is lost", 1}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newTable(t, redistest.Connect(t, testenv.Redis(t)), Options{})
			one := b.Open("q", queue.Options{})
			for _, m := range numbered(0, c.before) {
				b.add(m)
				b.deliver(one, b.take(one, 1)...)
			}
			back := b.snapshot()
			b.add(&tidemill.Message{ID: "X", To: "q"})
			x := b.take(one, 1)[0]
			back()
			s, err := New(b.client, b.o)
			if err != nil {
				t.Fatal(err)
			}
			b.add(&tidemill.Message{ID: "Y", To: "q"})
			two := s.Open("q", queue.Options{})
			y := b.take(two, 1)
			if x.Mark.Lo != y[0].Mark.Lo {
				t.Fatalf("marks %+v and %+v: want one position", x.Mark, y[0].Mark)
			}
			ends := []tidemill.Settlement{delivered(x)}
			if err := one.Settle(t.Context(), ends); err != nil || ends[0].Outcome != tidemill.Stale {
				t.Errorf("the settlement of what was lost is %v, %v; want it stale", ends[0].Outcome, err)
			}
			b.deliver(two, y...)
		})
	}
}
