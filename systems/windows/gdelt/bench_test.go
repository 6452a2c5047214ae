package gdelt_test

import (
	"path/filepath"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
	"github.com/tidemill/tidemill/systems/windows/gdelt"
	"github.com/tidemill/tidemill/systems/windows/gdelt/gdelttest"
	"github.com/tidemill/tidemill/systems/windows/gdelt/progress/tableprogress"
)

// A packed file of 50,000 events, checked, handed out and settled a thousand at a time.
func BenchmarkSource(b *testing.B) {
	const rows = 50_000
	batch := gdelttest.Batch{Stamp: "20250323151500", Events: rows}
	name, _ := batch.Names()
	packed := gdelttest.Zip(name, batch.Export())
	into := make([]*tidemill.Message, 1000)
	for i := range into {
		into[i] = new(tidemill.Message)
	}
	ends := make([]tidemill.Settlement, len(into))
	b.ReportAllocs()
	for b.Loop() {
		dir := b.TempDir()
		db, err := sqlitedb.Open(b.Context(), filepath.Join(dir, "t.db"), sqlitedb.Options{})
		if err != nil {
			b.Fatal(err)
		}
		known, err := sqlitetable.New(b.Context(), db, tableprogress.Spec())
		if err != nil {
			b.Fatal(err)
		}
		files, err := tableprogress.New(known, "in", tableprogress.Options{})
		if err != nil {
			b.Fatal(err)
		}
		dead, err := tabledeadletter.Memory(deadletter.Options{})
		if err != nil {
			b.Fatal(err)
		}
		s, err := gdelt.NewFolder(dir, files, dead, gdelt.Options{Quiet: -1})
		if err != nil {
			b.Fatal(err)
		}
		if err := gdelttest.Put(dir, name+".zip", packed); err != nil {
			b.Fatal(err)
		}
		for got := 0; got < rows; {
			n, err := s.Receive(b.Context(), into)
			if err != nil {
				b.Fatal(err)
			}
			for i, m := range into[:n] {
				ends[i] = tidemill.Settlement{ID: m.ID, Mark: m.Mark, Fate: tidemill.Delivered}
			}
			if err := s.Settle(b.Context(), ends[:n]); err != nil {
				b.Fatal(err)
			}
			got += n
		}
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
}
