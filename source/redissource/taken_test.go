package redissource

import (
	"testing"

	"github.com/tidemill/tidemill"
)

// Between the search for entries without renewal and the script that takes one, its owner
// may have renewed it: then it is not taken, and not lost.
func TestWhatIsRenewedBetweenSearchAndTakeIsNotTaken(t *testing.T) {
	each(t, func(b *table) {
		b.add(2)
		owner := b.open(b.client, Options{Consumer: "owner"})
		got := b.take(owner, 2, soon)
		other := b.open(b.client, Options{Consumer: "other"})
		b.nothing(other, testLease/8) // it has joined
		if err := owner.Keep(b.Context()); err != nil {
			b.Fatal(err)
		}
		found := []string{got[0].ID, got[1].ID}
		other.reader.batch.reset()
		if err := other.reader.take(b.Context(), testLease, "", 10, found); err != nil {
			b.Fatal(err)
		}
		if n := len(other.reader.batch.entries); n != 0 {
			b.Fatalf("%d entries were taken from an owner who had renewed them", n)
		}
		if n := b.deliver(owner, got...); n != 2 {
			b.Fatalf("%d of the owner's settlements were applied, want both", n)
		}
		b.books(owner, tidemill.Books{Accepted: 2, Settled: tidemill.Count{Delivered: 2}})
	})
}
