package redissource

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
)

// consumers are the names in the group.
func (b *table) consumers() (names []string) {
	b.Helper()
	rows, err := b.client.Do(b.Context(), b.client.B().XinfoConsumers().Key(b.stream).Group(Group).Build()).ToArray()
	if err != nil {
		b.Fatal(err)
	}
	for i := range rows {
		c, err := rows[i].AsMap()
		if err != nil {
			b.Fatal(err)
		}
		name, err := field(c, "name").ToString()
		if err != nil {
			b.Fatal(err)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func TestIdleConsumersAreRemoved(t *testing.T) {
	each(t, func(b *table) {
		const idle = time.Second
		s := b.open(b.client, Options{ClaimEvery: time.Hour})
		held := b.open(b.client, Options{Consumer: "held"}) // goes by its name, though it asks for nothing
		b.add(2)
		b.deliver(s, b.take(s, 1, soon)...)
		b.deliver(held, b.take(held, 1, soon)...)
		b.add(1)
		b.abandon("loaded", 1)
		for i := range 120 {
			b.do("XGROUP", "CREATECONSUMER", b.stream, Group, fmt.Sprint("idle-", i))
		}
		time.Sleep(idle + 50*time.Millisecond)
		for _, source := range []*Source{s, held} {
			if err := source.Keep(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		fresh := b.add(1)
		b.abandon("fresh", 1)
		b.do("XACK", b.stream, Group, fresh[0])
		n, err := s.CleanUp(b.Context(), idle)
		if err != nil || n != 120 {
			b.Fatalf("%d consumers were removed (%v), want 120", n, err)
		}
		if got := b.consumers(); !slices.Equal(got, []string{"c", "fresh", "held", "loaded"}) {
			b.Errorf("what is left: %q", got)
		}
		if n := b.reported(Removed); n != 120 {
			b.Errorf("%d were reported", n)
		}
		// What it had is taken over; then it goes too.
		if n, err := s.CleanUp(b.Context(), time.Hour); n != 0 || err != nil {
			b.Errorf("%d were removed within an hour (%v)", n, err)
		}
		greedy := b.open(b.client, Options{Consumer: "greedy"})
		b.deliver(greedy, b.take(greedy, 1, soon)...)
		time.Sleep(idle + 50*time.Millisecond)
		if n, err := s.CleanUp(b.Context(), idle); err != nil || n < 1 || slices.Contains(b.consumers(), "loaded") {
			b.Errorf("%d were removed (%v), left are %q", n, err, b.consumers())
		}
	})
}

// Consumers of somebody else's come and go while they are cleaned up: what one is given
// must not go with it.
func TestCleanUpNeverTakesAnEntryWithIt(t *testing.T) {
	each(t, func(b *table) {
		s := b.open(b.client, Options{ClaimEvery: time.Hour})
		b.books(s, tidemill.Books{})
		ctx, stop := context.WithTimeout(b.Context(), soon)
		defer stop()
		var all sync.WaitGroup
		removed := 0
		all.Go(func() {
			for ctx.Err() == nil {
				n, err := s.CleanUp(b.Context(), time.Millisecond)
				if err != nil {
					b.Error(err)
				}
				if removed += n; removed >= 20 {
					stop()
				}
			}
		})
		given := 0
		for ctx.Err() == nil {
			name := fmt.Sprint("f", given%20)
			b.do("XGROUP", "CREATECONSUMER", b.stream, Group, name)
			time.Sleep(time.Duration(given%8) * time.Millisecond)
			b.add(1)
			b.abandon(name, 1)
			given++
		}
		all.Wait()
		pending, err := b.do("XPENDING", b.stream, Group).ToArray()
		if err != nil {
			b.Fatal(err)
		}
		if n, err := pending[0].AsInt64(); err != nil || int(n) != given || given == 0 {
			b.Errorf("%d entries are pending (%v), %d were given out", n, err, given)
		}
		if removed == 0 {
			b.Error("nothing was removed: the test is vacuous")
		}
	})
}
