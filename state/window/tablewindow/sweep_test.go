package tablewindow

import (
	"fmt"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/internal/blob"
)

// What was settled is cleared away by the sweeps that follow, also after a restart, and
// nothing else is.
func TestNothingIsLeftBehind(t *testing.T) {
	ctx, file := t.Context(), newFile(t)
	open := func() *Store[*sqlitetable.Tx] {
		t.Helper()
		return onFile(t, file.Open(), window.Options{})
	}
	s := open()
	const large = (clearBlobs*2 + 10) * blob.MaxRecords
	for batch, n := range map[string]int{"large": large, "small": 10, "kept": 10} {
		rs := make([]window.Record, n)
		for i := range rs {
			rs[i] = window.Record{Batch: batch, Kind: "event", ID: fmt.Sprint(i), Body: []byte("body")}
		}
		if err := s.Put(ctx, rs, nil); err != nil {
			t.Fatal(err)
		}
		if batch != "kept" {
			if ok, err := s.CloseNow(ctx, batch); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
	}
	source, ms := s.Open(), []*tidemill.Message{{}, {}}
	if n, err := source.Receive(ctx, ms); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	for _, m := range ms {
		if err := source.Settle(ctx, []tidemill.Settlement{{ID: m.ID, Mark: m.Mark, Fate: tidemill.Delivered}}); err != nil {
			t.Fatal(err)
		}
	}
	there := func(want int) {
		t.Helper()
		var n int
		if err := file.DB().Read(ctx, func(tx *sqlitedb.Tx) error { return tx.QueryRow("SELECT count(*) FROM window_blob").Scan(&n) }); err != nil || n != want {
			t.Fatalf("%d blobs are there, want %d (%v)", n, want, err)
		}
	}
	there(clearBlobs*2 + 10 + 1) // a large window is not deleted at once
	if more, err := s.clear(ctx); !more || err != nil {
		t.Fatal(more, err)
	}
	there(clearBlobs + 10 + 1)
	s = open()
	if _, err := s.Sweep(ctx); err != nil {
		t.Fatal(err)
	}
	there(1)
	if more, err := s.clear(ctx); more || err != nil {
		t.Fatal(more, err)
	}
}
