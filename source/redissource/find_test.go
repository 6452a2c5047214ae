package redissource

import (
	"testing"
	"time"

	"github.com/tidemill/tidemill"
)

// Where an entry stands is found by its id, whoever has it, and asking changes nothing.
func TestAnEntryIsFoundByItsID(t *testing.T) {
	each(t, func(b *table) {
		ids := b.add(4)
		asks, s := b.open(b.client, Options{Consumer: "asks"}), b.open(b.client, Options{})
		find := func(id string) *Standing {
			b.Helper()
			st, err := asks.Find(b.Context(), id)
			if err != nil {
				b.Fatal(err)
			}
			return st
		}
		if st := find(ids[0]); !st.Unread || st.Consumer != "" || st.Handed != 0 || st.ID != ids[0] || time.Since(st.Added).Abs() > time.Hour {
			b.Errorf("without a group: %+v", st)
		}
		got := b.take(s, 3, soon)
		if st := find(ids[0]); st.Unread || st.Consumer != "c" || st.Handed != 1 || st.Tries != 0 || !st.Due.IsZero() {
			b.Errorf("handed out: %+v", st)
		}
		if st := find(ids[3]); !st.Unread {
			b.Errorf("not handed out: %+v", st)
		}
		ends := []tidemill.Settlement{{ID: got[1].ID, Mark: got[1].Mark, Fate: tidemill.Delivered},
			{ID: got[2].ID, Mark: got[2].Mark, End: tidemill.Again, After: time.Hour, CountTry: true, Kind: tidemill.Partner, Cause: "refused, twice"}}
		if err := s.Settle(b.Context(), ends); err != nil {
			b.Fatal(err)
		}
		if st := find(ids[2]); st.Unread || st.Tries != 1 || st.Cause != "partner_error: refused, twice" || time.Until(st.Due) < 50*time.Minute || time.Until(st.Due) > 70*time.Minute {
			b.Errorf("delayed: %+v", st)
		}
		for _, id := range []string{ids[1], "0-0", "1-1", "", "nobody", "-", "+", "1700000000000", ids[0] + " ", "a/b 𝄞", "18446744073709551615-18446744073709551615"} {
			if st, err := asks.Find(b.Context(), id); tidemill.KindOf(err) != tidemill.NotFound {
				b.Errorf("%q: %+v, %v", id, st, err)
			}
		}
		b.books(s, tidemill.Books{Accepted: 4, Pending: 3, Settled: tidemill.Count{Delivered: 1}})
	})
}
