package gdelt_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/tidemill/tidemill/systems/windows/gdelt"
	"github.com/tidemill/tidemill/systems/windows/gdelt/gdelttest"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// For any bytes, each row with an id is a record, and reading ends.
func FuzzReader(f *testing.F) {
	b := gdelttest.Batch{Stamp: "20250323151500", Events: 2, Mentions: 2}
	f.Add(b.Export(), false)
	f.Add(b.MentionsFile(), true)
	f.Add([]byte("1\t00\t.5\t-\t+.\t1e\t1E+5\n\xef\xbb\xbf2\t\x00\n"), false)
	f.Fuzz(func(t *testing.T, in []byte, mention bool) {
		kind := record.Event
		if mention {
			kind = record.Mention
		}
		r := gdelt.NewReader(kind, bytes.NewReader(in), gdelt.Limits{Line: 4096, File: 1 << 20})
		var rec record.Record
		for {
			err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if damage, ok := errors.AsType[*gdelt.Damage](err); ok && damage.Why != "" {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			row := r.AppendJSON(nil)
			if err := record.Decode(kind, row, &rec); err != nil || rec.ID != r.ID() {
				t.Fatalf("row %q of id %d: %v", row, r.ID(), err)
			}
		}
		if lines := uint64(bytes.Count(in, []byte("\n")) + 1); r.Rows()+r.Idless() > lines {
			t.Errorf("%d rows and %d without id in %d lines", r.Rows(), r.Idless(), lines)
		}
	})
}

func FuzzParseName(f *testing.F) {
	f.Add("20250323151500.translation.export.CSV.zip")
	f.Fuzz(func(t *testing.T, name string) {
		n, ok := gdelt.ParseName(name)
		if ok && (record.CheckBatchID(n.Batch) != nil || n.Kind.Fields() == 0) {
			t.Errorf("%q is taken as %+v", name, n)
		}
	})
}

func BenchmarkReader(b *testing.B) {
	content := gdelttest.Batch{Stamp: "20250323151500", Events: 1000}.Export()
	b.SetBytes(int64(len(content)))
	b.ReportAllocs()
	var row []byte
	for b.Loop() {
		r := gdelt.NewReader(record.Event, bytes.NewReader(content), gdelt.Limits{})
		for r.Next() == nil {
			row = r.AppendJSON(row[:0])
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/row")
}
