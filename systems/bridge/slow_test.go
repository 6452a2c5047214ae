package bridge

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
)

// receive makes a subscriber work on published messages, one after the other, each for as long
// as takes says, and acknowledge them; below 0: never.
func (w *world) receive(takes func(id string) time.Duration) {
	waiting := make(chan string, 1_000_000)
	w.broker.set(func() {
		w.broker.fail = func(m *tidemill.Message) error { waiting <- m.ID; return nil }
	})
	go func() {
		for over := w.Context().Done(); ; {
			select {
			case id := <-waiting:
				d := takes(id)
				if d < 0 {
					continue
				}
				select {
				case <-time.After(d):
				case <-over:
					return
				}
				select {
				case w.broker.acks <- fmt.Sprintf(`{"id":%q,"ack":true}`, id):
				case <-over:
					return
				}
			case <-over:
				return
			}
		}
	}()
}

// addMany adds entries 1 to n.
func (w *world) addMany(n int) {
	w.Helper()
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint(i + 1)
	}
	w.add(all...)
}

// times is how often entries were published in total, and how many entries were published.
func (w *world) times() (published, entries int) {
	seen := map[string]bool{}
	all := w.broker.ids()
	for _, id := range all {
		seen[id] = true
	}
	return len(all), len(seen)
}

func TestAReceiverSlowerThanTheBridgeGetsNothingTwice(t *testing.T) {
	for _, c := range []struct {
		name  string
		n     int
		takes time.Duration
	}{
		{"two a second", 600, 500 * time.Millisecond},
		{"a hundred a second", 20_000, 10 * time.Millisecond},
		{"five thousand a second, and more than clients can have under way", 80_000, 200 * time.Microsecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			with(t, func(o *Options, _ *Parts) { o.Batch, o.Buffer = 1000, 100_000 }, func(w *world) {
				most := uint64(0)
				w.receive(func(string) time.Duration { return c.takes })
				w.addMany(c.n)
				busy := time.Duration(c.n) * c.takes // without a rest
				for range 100 {
					w.rest(busy / 100)
					s := w.bridge.Stats()
					most = max(most, s.Published-s.Acked)
				}
				w.rest(time.Second + busy/50)
				w.books(tidemill.Books{Accepted: uint64(c.n), Settled: tidemill.Count{Delivered: uint64(c.n)}})
				if published, _ := w.times(); published != c.n {
					t.Errorf("%d entries were published %d times", c.n, published)
				}
				if most > 1<<15+2000 { // published by lanes and not reported yet
					t.Errorf("%d were out at once", most)
				}
			})
		})
	}
}

func TestNobodyWaitsForAReceiverThatIsAway(t *testing.T) {
	with(t, func(o *Options, _ *Parts) { o.Buffer = 10_000 }, func(w *world) {
		w.addMany(1000)
		w.rest(time.Second)
		if _, entries := w.times(); entries != 64 || !w.bridge.Pipeline.Stats().Paced {
			t.Errorf("%d were published at first, paced is %v", entries, w.bridge.Pipeline.Stats().Paced)
		}
		w.rest(10 * time.Second)
		if _, entries := w.times(); entries != 1000 || w.bridge.Pipeline.Stats().Paced {
			t.Errorf("%d were published after a while, paced is %v", entries, w.bridge.Pipeline.Stats().Paced)
		}
		w.rest(2 * lease) // each is published again, as long as it takes
		if published, _ := w.times(); published < 2000 {
			t.Errorf("published %d times", published)
		}
		w.receive(func(string) time.Duration { return 0 }) // it is up
		w.rest(2 * lease)
		w.books(tidemill.Books{Accepted: 1000, Settled: tidemill.Count{Delivered: 1000}})
	})
}

func TestAReceiverThatGoesAwayStopsNobodyForLong(t *testing.T) {
	with(t, func(o *Options, _ *Parts) { o.Buffer = 100_000 }, func(w *world) {
		var away atomic.Bool
		w.receive(func(string) time.Duration {
			if away.Load() {
				return -1
			}
			return 0
		})
		w.addMany(5000)
		w.rest(time.Second)
		w.books(tidemill.Books{Accepted: 5000, Settled: tidemill.Count{Delivered: 5000}})
		away.Store(true)
		all := make([]string, 20_000)
		for i := range all {
			all[i] = fmt.Sprint("later-", i)
		}
		w.add(all...)
		w.rest(11 * time.Second)
		if _, entries := w.times(); entries != 25_000 {
			t.Errorf("%d of 25000 were published", entries)
		}
		away.Store(false)
		w.rest(2 * lease)
		w.books(tidemill.Books{Accepted: 25_000, Settled: tidemill.Count{Delivered: 25_000}})
	})
}

func TestWhoNeverAcksHoldsUpNobodyElse(t *testing.T) {
	with(t, func(o *Options, _ *Parts) { o.Batch, o.Buffer = 100, 100_000 }, func(w *world) {
		w.receive(func(id string) time.Duration {
			if id[len(id)-1] == '0' {
				return 0
			}
			return -1 // it is for an absent device
		})
		w.addMany(20_000)
		w.rest(time.Second)
		if _, entries := w.times(); entries != 20_000 {
			t.Errorf("%d of 20000 were published", entries)
		}
		if got := w.bridge.Stats().Acked; got != 2000 {
			t.Errorf("%d were acked", got)
		}
	})
}

func TestAReceiverThatAcksLateIsGivenAllItCanTake(t *testing.T) {
	with(t, func(o *Options, _ *Parts) { o.Batch, o.Buffer = 100, 100_000 }, func(w *world) {
		const late = 5 * time.Second // and any number at once
		w.broker.set(func() {
			w.broker.fail = func(m *tidemill.Message) error {
				id := m.ID
				time.AfterFunc(late, func() { w.broker.ack(id) })
				return nil
			}
		})
		w.addMany(20_000)
		w.rest(time.Minute)
		if published, entries := w.times(); entries != 20_000 || published != entries {
			t.Errorf("%d of 20000 were published, %d times", entries, published)
		}
	})
}
