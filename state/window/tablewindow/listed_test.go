package tablewindow

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidemill/tidemill/state/table/memorytable"
	"github.com/tidemill/tidemill/state/table/tabletest"
	"github.com/tidemill/tidemill/state/window"
)

// A page of windows reads what it shows, wherever it begins, with a state too.
func TestAListingReadsWhatItShows(t *testing.T) {
	db := memorytable.NewDB()
	windows, err := memorytable.New(db, Spec())
	if err != nil {
		t.Fatal(err)
	}
	blobs, err := memorytable.New(db, BlobSpec())
	if err != nil {
		t.Fatal(err)
	}
	c := &tabletest.Counting[Record, *memorytable.Tx]{Store: windows}
	s, err := New(t.Context(), c, blobs, Options{Options: window.Options{Now: func() time.Time { return time.UnixMilli(1000) }}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 400 {
		if err := s.Put(t.Context(), []window.Record{{Batch: fmt.Sprint("batch", i), Kind: "event", ID: "r", Body: []byte("{}")}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	const most = 51 // a page of 50, and one that says that there is another
	for _, back := range []bool{false, true} {
		for _, state := range []window.State{"", window.Active} {
			c.Read = 0
			shown := 0
			for _, err := range s.List(t.Context(), window.Filter{State: state, Back: back, Max: most}) {
				if shown++; err != nil {
					t.Fatal(err)
				}
			}
			if shown != most || c.Read != most {
				t.Errorf("state %q, back %t: %d windows are shown of %d that are read; want %d", state, back, shown, c.Read, most)
			}
		}
	}
}
