package redissource

import (
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
)

func TestWhatAConsumerHadIsTakenOverAtOnce(t *testing.T) {
	each(t, func(b *table) {
		s := b.open(b.client, Options{Lease: time.Hour, Block: time.Second})
		b.books(s, tidemill.Books{})
		ids := b.add(5)
		b.abandon("gone", 3)
		p, err := s.Of(b.Context(), "gone")
		if err != nil || p.Pending != 3 || p.Held != 0 || len(p.Entries) != 3 || p.Entries[0].ID != ids[0] || p.Entries[0].Handed != 1 {
			b.Fatalf("it has %+v, %v", p, err)
		}
		if n, err := s.TakeOver(b.Context(), "gone"); n != 3 || err != nil {
			b.Fatalf("%d entries were taken over, %v", n, err)
		}
		got := b.take(s, 5, soon)
		b.want(got, "0", "1", "2", "3", "4") // those first, though their lease has an hour left
		if got[0].Handed != 2 || b.deliver(s, got...) != 5 {
			b.Errorf("%d hand-outs, or they could not be settled", got[0].Handed)
		}
		b.books(s, tidemill.Books{Accepted: 5, Settled: tidemill.Count{Delivered: 5}})
		if _, err := s.Of(b.Context(), "gone"); tidemill.KindOf(err) != tidemill.NotFound {
			b.Errorf("a consumer without anything is still there: %v", err)
		}
		if _, err := s.TakeOver(b.Context(), "gone"); tidemill.KindOf(err) != tidemill.NotFound {
			b.Errorf("a consumer that there is not is answered %v", err)
		}
	})
}

func TestOfAProcessThatRunsNothingIsTakenOver(t *testing.T) {
	each(t, func(b *table) {
		b.add(2)
		alive := b.open(b.client, Options{Consumer: "alive", Lease: time.Hour})
		kept := b.take(alive, 1, soon)
		s := b.open(b.client, Options{Lease: time.Hour, Block: time.Second})
		b.books(s, tidemill.Books{Accepted: 2, Pending: 2})
		p, err := s.Of(b.Context(), "alive")
		if err != nil || p.Held <= 0 {
			b.Fatalf("%+v, %v", p, err)
		}
		if n, err := s.TakeOver(b.Context(), "alive"); n != 0 || tidemill.KindOf(err) != tidemill.RateLimit || !strings.Contains(err.Error(), "stop it, or wait") {
			b.Errorf("%d entries were taken over, %v", n, err)
		}
		own := b.take(s, 1, soon)
		if n, err := s.TakeOver(b.Context(), s.name()); n != 0 || tidemill.KindOf(err) != tidemill.RateLimit {
			b.Errorf("of its own it took over %d, %v", n, err)
		}
		if b.deliver(s, own...)+b.deliver(alive, kept...) != 2 {
			b.Error("what was taken and kept could not be settled")
		}
		b.books(s, tidemill.Books{Accepted: 2, Settled: tidemill.Count{Delivered: 2}})
	})
}

func TestATakeOverLeavesWhatIsDelayedAndWhatIsGone(t *testing.T) {
	each(t, func(b *table) {
		ids := b.add(1200) // more than one page of it
		other := b.open(b.client, Options{Consumer: "other", Lease: time.Hour})
		first := b.take(other, 1, soon)
		later := tidemill.Settlement{ID: first[0].ID, Mark: first[0].Mark, End: tidemill.Again, After: time.Hour, CountTry: true, Kind: tidemill.Partner, Cause: "refused"}
		if err := other.Settle(b.Context(), []tidemill.Settlement{later}); err != nil {
			b.Fatal(err)
		}
		if err := other.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.abandon("other", 1199)
		b.do("XDEL", b.stream, ids[1])
		s := b.open(b.client, Options{Lease: time.Hour, Block: time.Second})
		if n, err := s.TakeOver(b.Context(), "other"); n != 1199 || err != nil {
			b.Fatalf("%d entries were taken over, %v; want all but the deleted one", n, err)
		}
		got := b.take(s, 1198, soon)
		if got[0].ID != ids[2] {
			b.Errorf("the first is %s, want %s: the one before is delayed, or gone", got[0].ID, ids[2])
		}
		if st, err := s.Find(b.Context(), ids[0]); err != nil || st.Consumer != s.name() || st.Tries != 1 || st.Due.IsZero() {
			b.Errorf("what is delayed stands so: %+v, %v", st, err)
		}
		p, err := s.Of(b.Context(), "other")
		if err != nil || p.Pending != 1 {
			b.Errorf("what is gone is no longer there to be counted: %+v, %v", p, err)
		}
	})
}
