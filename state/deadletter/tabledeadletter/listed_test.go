package tabledeadletter

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/table/memorytable"
	"github.com/tidemill/tidemill/state/table/tabletest"
)

// A page of dead letters reads what it shows of each state that it asks for, wherever it begins, with
// a filter too.
func TestAListingReadsWhatItShows(t *testing.T) {
	c := &tabletest.Counting[Record, *memorytable.Tx]{Store: memorytable.Alone(Spec())}
	s, err := New(t.Context(), c, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var ls []tidemill.DeadLetter
	for i := range 1000 {
		ls = append(ls, tidemill.DeadLetter{Pipeline: "p", Cause: "c", At: time.UnixMilli(1), Message: &tidemill.Message{ID: fmt.Sprint(i), Tenant: fmt.Sprint(i % 2)}})
	}
	if err := s.Put(t.Context(), ls); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Replay(t.Context(), deadletter.Filter{Pipeline: "p", Max: 500}); n != 500 || err != nil {
		t.Fatal(n, err)
	}
	const most = 51 // a page of 50, and one that says that there is another
	for _, back := range []bool{false, true} {
		for _, tenant := range []string{"", "1"} {
			for state, states := range map[deadletter.State]int{deadletter.Held: 1, deadletter.Replaying: 1, "": 2} {
				shown := 0
				c.Read = 0
				for _, err := range s.List(t.Context(), deadletter.Filter{Pipeline: "p", State: state, Tenant: tenant, Back: back, Max: most}) {
					if shown++; err != nil {
						t.Fatal(err)
					}
				}
				if shown != most || c.Read > states*most {
					t.Errorf("state %q, tenant %q, back %t: %d dead letters are shown of %d that are read; want %d of %d at most", state, tenant, back, shown, c.Read, most, states*most)
				}
			}
		}
	}
}

// A page of the dead letters of many pipelines reads few of each: those that it shows, and where each
// goes on.
func TestAListingOfManyPipelinesReadsFewOfEach(t *testing.T) {
	c := &tabletest.Counting[Record, *memorytable.Tx]{Store: memorytable.Alone(Spec())}
	s, err := New(t.Context(), c, Options{})
	if err != nil {
		t.Fatal(err)
	}
	const pipelines, most = 40, 51
	var ls []tidemill.DeadLetter
	for i := range 4000 {
		of := i % pipelines
		if i > 3900 { // the newest are all of one
			of = 7
		}
		ls = append(ls, tidemill.DeadLetter{Pipeline: fmt.Sprint("p", of), Cause: "c", At: time.UnixMilli(1), Message: &tidemill.Message{ID: fmt.Sprint(i)}})
	}
	if err := s.Put(t.Context(), ls); err != nil {
		t.Fatal(err)
	}
	few := pipelines + 2*pipelines*(1+2*most/(2*pipelines)) + 4*most
	for state, read := range map[deadletter.State]int{"": most, deadletter.Held: few} { // by their numbers; by pipeline and state
		for _, back := range []bool{false, true} {
			whole, first := []int64{}, []int64{}
			for l, err := range s.List(t.Context(), deadletter.Filter{State: state, Back: back}) {
				if err != nil {
					t.Fatal(err)
				}
				whole = append(whole, l.Seq)
			}
			c.Read = 0
			for l, err := range s.List(t.Context(), deadletter.Filter{State: state, Back: back, Max: most}) {
				if err != nil {
					t.Fatal(err)
				}
				first = append(first, l.Seq)
			}
			if !slices.Equal(first, whole[:most]) {
				t.Errorf("state %q, back %t: the first are %v, want %v", state, back, first, whole[:most])
			}
			if c.Read > read {
				t.Errorf("state %q, back %t: %d are read, want %d at most", state, back, c.Read, read)
			}
		}
	}
}

// A page of the dead letters of a rare cause reads these alone, among whatever others, whether a group
// counts them or there was no room for one.
func TestAListingOfACauseReadsItsDeadLettersAlone(t *testing.T) {
	c := &tabletest.Counting[Record, *memorytable.Tx]{Store: memorytable.Alone(Spec())}
	s, err := New(t.Context(), c, Options{})
	if err != nil {
		t.Fatal(err)
	}
	died := func(pipeline string, i int, cause string) tidemill.DeadLetter {
		return tidemill.DeadLetter{Pipeline: pipeline, Kind: tidemill.Partner, Cause: cause, At: time.UnixMilli(1), Message: &tidemill.Message{ID: fmt.Sprint(i)}}
	}
	var ls []tidemill.DeadLetter
	for i := range deadletter.MaxGroups {
		ls = append(ls, died("p", i, fmt.Sprintf("cause %c%c", 'a'+i/26, 'a'+i%26)))
	}
	for i := range 3000 {
		ls = append(ls, died("p", 1000+i, "common"), died("q", 1000+i, "common"))
		if i%1000 == 999 {
			ls = append(ls, died("p", 5000+i, "rare"), died("q", 5000+i, "rare"))
		}
	}
	if err := s.Put(t.Context(), ls); err != nil {
		t.Fatal(err)
	}
	const found, most = 6, 6 + 2 // and the pipelines
	for _, by := range []deadletter.Filter{{Cause: "rare", Max: 51}, {Cause: "rare", Max: 51, Back: true}, {Cause: "rare"}, {Cause: "rare", State: deadletter.Held, Max: 51}} {
		shown := 0
		c.Read = 0
		for l, err := range s.List(t.Context(), by) {
			if shown++; err != nil || l.Cause != "rare" {
				t.Fatal(l, err)
			}
		}
		if shown != found || c.Read > most {
			t.Errorf("by %+v: %d dead letters are shown of %d records that are read; want %d of %d at most", by, shown, c.Read, found, most)
		}
	}
}
