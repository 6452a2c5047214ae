package tabletrail

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/memorytable"
	"github.com/tidemill/tidemill/state/trail"
)

// TestWhatIsChangedOrTakenAwayIsFound does to the table what somebody does who may write it.
func TestWhatIsChangedOrTakenAwayIsFound(t *testing.T) {
	put := func(seq uint64, change func(*Record)) func(table.Tx[Record]) error {
		return func(tx table.Tx[Record]) error {
			found, err := tx.Get([]string{keyOf(seq)})
			if err != nil {
				return err
			}
			change(found[keyOf(seq)])
			return tx.Put([]*Record{found[keyOf(seq)]})
		}
	}
	for name, c := range map[string]struct {
		do   func(table.Tx[Record]) error
		want string
	}{
		"nothing":                         {func(table.Tx[Record]) error { return nil }, ""},
		"another person":                  {put(3, func(r *Record) { r.Who = "bob" }), "entry 3 was changed"},
		"another time":                    {put(3, func(r *Record) { r.At = r.At.Add(time.Second) }), "entry 3 was changed"},
		"another outcome, in the entry":   {put(1, func(r *Record) { r.Outcome = trail.Refused }), "entry 1 says something else of its end"},
		"no outcome, in the entry":        {put(1, func(r *Record) { r.End = trail.End{Outcome: trail.Unknown} }), "entry 1 says something else of its end"},
		"another outcome, in its end":     {put(2, func(r *Record) { r.Outcome = trail.Refused }), "entry 2 was changed"},
		"an end that nobody wrote":        {put(5, func(r *Record) { r.Outcome = trail.Done }), "entry 5 says how it ended, and the trail has no end of it"},
		"an entry that is gone":           {func(tx table.Tx[Record]) error { return tx.Delete([]string{keyOf(3)}) }, "entry 2 is followed by 4"},
		"the oldest that is gone":         {func(tx table.Tx[Record]) error { return tx.Delete([]string{keyOf(1)}) }, "entry 0 is followed by 2"},
		"the newest that is gone":         {func(tx table.Tx[Record]) error { return tx.Delete([]string{keyOf(5)}) }, "the newest entries are gone: the last one is 4"},
		"the head that is gone":           {func(tx table.Tx[Record]) error { return tx.Delete([]string{head}) }, "the newest entries are gone"},
		"one that was hashed anew, alone": {put(3, func(r *Record) { r.Who = "bob"; r.hash = hashOf(r.prev, 3, begun(r.Entry)) }), "entry 4 does not follow the one before it"},
	} {
		t.Run(name, func(t *testing.T) {
			s := memorytable.Alone(Spec())
			tr := New(s)
			for n := range 3 { // 1 and 3 end in 2 and 4; 5 does not
				seq, err := tr.Begin(t.Context(), trail.Entry{At: time.UnixMilli(1000), Who: "ada", Request: fmt.Sprint(n)})
				if err == nil && n < 2 {
					err = tr.End(t.Context(), seq, trail.End{Outcome: trail.Done, Ended: time.UnixMilli(2000)})
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Update(t.Context(), func(tx table.Tx[Record], _ *memorytable.Tx) error { return c.do(tx) }); err != nil {
				t.Fatal(err)
			}
			got, err := tr.Check(t.Context())
			if all := strings.Join(got.Wrong, "; "); err != nil || (c.want == "") != (all == "") || !strings.Contains(all, c.want) {
				t.Errorf("found %q, %v; want %q", all, err, c.want)
			}
		})
	}
}
