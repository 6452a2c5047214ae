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

// How a stream stands is read without changing it: also before there is a stream.
func TestAStreamIsOutlined(t *testing.T) {
	each(t, func(b *table) {
		asks, s := b.open(b.client, Options{Consumer: "asks"}), b.open(b.client, Options{})
		outline := func() *Outline {
			b.Helper()
			o, err := asks.Outline(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			return o
		}
		if o := outline(); o.Length != 0 || !o.Oldest.IsZero() || o.Pending != 0 || len(o.Consumers) != 0 {
			b.Errorf("without a stream: %+v", o)
		}
		b.add(4)
		if o := outline(); o.Length != 4 || time.Since(o.Oldest).Abs() > time.Hour || len(o.Consumers) != 0 {
			b.Errorf("without a group: %+v", o)
		}
		got := b.take(s, 3, soon)
		ends := []tidemill.Settlement{{ID: got[0].ID, Mark: got[0].Mark, Fate: tidemill.Delivered},
			{ID: got[1].ID, Mark: got[1].Mark, End: tidemill.Again, After: time.Hour, CountTry: true, Kind: tidemill.Partner, Cause: "refused"}}
		if err := s.Settle(b.Context(), ends); err != nil {
			b.Fatal(err)
		}
		o := outline()
		if o.Length != 3 || o.Pending != 2 || o.Delayed != 1 || len(o.Consumers) != 1 || o.Consumers[0].Name != "c" || o.Consumers[0].Pending != 2 || o.Consumers[0].Idle < 0 || o.Consumers[0].Idle > time.Hour {
			b.Errorf("%+v", o)
		}
		b.books(s, tidemill.Books{Accepted: 4, Pending: 3, Settled: tidemill.Count{Delivered: 1}})
	})
}
