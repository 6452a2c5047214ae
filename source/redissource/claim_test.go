package redissource

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
)

// abandon lets a consumer of somebody else's read n entries and go away.
func (b *table) abandon(consumer string, n int) {
	b.Helper()
	b.do("XREADGROUP", "GROUP", Group, consumer, "COUNT", fmt.Sprint(n), "STREAMS", b.stream, ">")
}

func TestAClaimTakesBatchAfterBatch(t *testing.T) {
	each(t, func(b *table) {
		s := b.open(b.client, Options{ClaimBatch: 3, ClaimEvery: testLease / 4})
		b.books(s, tidemill.Books{})
		b.add(10)
		b.abandon("gone", 10)
		start := time.Now()
		b.want(b.take(s, 10, soon), "0", "1", "2", "3", "4", "5", "6", "7", "8", "9")
		if took := time.Since(start); took < testLease {
			b.Errorf("they were taken over after %v, before their lease ended", took)
		}
		if n := b.reported(Claimed); n != 10 {
			b.Errorf("%d entries were reported claimed, want 10", n)
		}
	})
}

func TestAClaimMayTakeOneBatchARound(t *testing.T) {
	each(t, func(b *table) {
		every := testLease / 2
		s := b.open(b.client, Options{ClaimBatch: 2, ClaimOnce: true, ClaimEvery: every})
		b.books(s, tidemill.Books{})
		b.add(5)
		b.abandon("gone", 5)
		settle := func(want ...string) {
			b.Helper()
			got := b.take(s, len(want), soon)
			b.want(got, want...)
			b.deliver(s, got...)
		}
		settle("0", "1")
		start := time.Now()
		settle("2", "3") // the next round goes on where the last one stopped
		settle("4")
		if took := time.Since(start); took < 3*every/2 {
			b.Errorf("two more rounds took %v, want %v at least", took, 3*every/2)
		}
		// And begins anew when it has come to the end.
		b.add(1)
		b.abandon("gone", 1)
		settle("5")
	})
}

func TestNewEntriesAreReadBetweenTheBatchesOfAClaim(t *testing.T) {
	each(t, func(b *table) {
		s := b.open(b.client, Options{ClaimBatch: 1, ClaimPause: testLease / 2, ClaimEvery: testLease / 4})
		b.books(s, tidemill.Books{})
		b.add(3)
		b.abandon("gone", 3)
		b.deliver(s, b.take(s, 1, soon)...)
		start := time.Now()
		b.add(2)
		late := b.take(s, 2, soon)
		b.want(late, "3", "4")
		b.deliver(s, late...)
		if took := time.Since(start); took > testLease/3 {
			b.Logf("new entries waited for %v", took) // on a busy machine
		}
		b.want(b.take(s, 2, soon), "1", "2")
		if took := time.Since(start); took < 3*testLease/4 {
			b.Errorf("two more batches took %v, want a pause before each", took)
		}
	})
}

func TestAClaimLeavesWhatIsRenewedAlone(t *testing.T) {
	each(t, func(b *table) {
		b.add(4)
		alive := b.open(b.client, Options{Consumer: "alive"})
		kept := b.take(alive, 2, soon)
		b.abandon("gone", 1)
		left := b.take(alive, 1, soon)
		ends := []tidemill.Settlement{{ID: left[0].ID, Mark: left[0].Mark, End: tidemill.Left}}
		if err := alive.Settle(b.Context(), ends); err != nil {
			b.Fatal(err)
		}
		greedy := b.open(b.client, Options{ClaimEvery: time.Millisecond})
		ctx, cancel := context.WithTimeout(b.Context(), 3*testLease)
		defer cancel()
		into := []*tidemill.Message{new(tidemill.Message)}
		var got []string
		for ctx.Err() == nil {
			step, end := context.WithTimeout(ctx, alive.Traits().Keep/2)
			if n, _ := greedy.Receive(step, into); n == 1 {
				got = append(got, string(into[0].Payload))
				if b.deliver(greedy, into[0]) != 1 {
					b.Errorf("%s could not be settled", into[0].Payload)
				}
			}
			end()
			if err := alive.Keep(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		if fmt.Sprint(got) != "[2 3]" { // abandoned and left: published once more
			b.Errorf("%q were taken over, want 2 and 3 only", got)
		}
		if n := b.deliver(alive, kept...); n != 2 {
			b.Errorf("%d of what was renewed could be settled, want 2", n)
		}
		b.books(alive, tidemill.Books{Accepted: 4, Settled: tidemill.Count{Delivered: 4}})
	})
}
