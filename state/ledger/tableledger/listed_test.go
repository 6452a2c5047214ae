package tableledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/table/memorytable"
	"github.com/tidemill/tidemill/state/table/tabletest"
)

// A page of the log reads what it shows, wherever it begins, with a filter too.
func TestAListingReadsWhatItShows(t *testing.T) {
	c := &tabletest.Counting[ledger.Record, *memorytable.Tx]{Store: memorytable.Alone(tableledger.Spec("log"))}
	l := tableledger.New(c, tableledger.Options{Now: func() time.Time { return time.UnixMilli(1000) }})
	var es []*ledger.Entry
	for i := range 1000 {
		es = append(es, &ledger.Entry{Key: fmt.Sprintf("%04d", i), Tenant: fmt.Sprint(i % 2)})
	}
	if err := l.Begin(t.Context(), es, ledger.Begin{}); err != nil {
		t.Fatal(err)
	}
	const most = 51 // a page of 50, and one that says that there is another
	for _, f := range []ledger.Filter{{}, {Back: true}, {From: time.UnixMilli(1000), After: "0500"}, {Back: true, To: time.UnixMilli(1000), After: "0500"}, {Tenant: "1"}, {Back: true, Tenant: "1"}} {
		f.Max, c.Read = most, 0
		shown := 0
		for _, err := range l.Range(t.Context(), f) {
			if shown++; err != nil {
				t.Fatal(err)
			}
		}
		if shown != most || c.Read != most {
			t.Errorf("%+v shows %d entries of %d that it reads; want %d", f, shown, c.Read, most)
		}
	}
}
