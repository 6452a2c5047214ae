package sqlitewindow_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/sqlitewindow"
)

// One round is a window of 50 polls of 1,000 records of 1.2 KB: put, read in pages, settled,
// cleared away.
func BenchmarkLife(b *testing.B) {
	db, err := sqlitedb.Open(b.Context(), filepath.Join(b.TempDir(), "t.db"), sqlitedb.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	s, err := sqlitewindow.New(b.Context(), db, window.Options{})
	if err != nil {
		b.Fatal(err)
	}
	const polls, each = 50, 1000
	body := []byte(strings.Repeat("x", 1200))
	rs, kept := make([]window.Record, each), make([]window.Kept, each)
	source, m := s.Open(), new(tidemill.Message)
	var put, read, settle, clean time.Duration
	for b.Loop() {
		t := time.Now()
		for p := range polls {
			for i := range rs {
				rs[i] = window.Record{Batch: "b", Kind: "event", ID: fmt.Sprint(1_000_000_000 + p*each + i), Body: body}
			}
			if err := s.Put(b.Context(), rs, kept); err != nil {
				b.Fatal(err)
			}
		}
		put, t = put+time.Since(t), time.Now()
		if _, err := s.CloseNow(b.Context(), "b"); err != nil {
			b.Fatal(err)
		}
		if _, err := source.Receive(b.Context(), []*tidemill.Message{m}); err != nil {
			b.Fatal(err)
		}
		page := make([]window.Record, 1000)
		for from, first := "", true; first || from != ""; first = false {
			p, err := s.Page(b.Context(), m.Mark, from, page)
			if err != nil {
				b.Fatal(err)
			}
			from = p.Next
		}
		read, t = read+time.Since(t), time.Now()
		if err := source.Settle(b.Context(), []tidemill.Settlement{{ID: m.ID, Mark: m.Mark, Fate: tidemill.Delivered}}); err != nil {
			b.Fatal(err)
		}
		settle, t = settle+time.Since(t), time.Now()
		if _, err := s.Sweep(b.Context()); err != nil {
			b.Fatal(err)
		}
		clean += time.Since(t)
	}
	for name, d := range map[string]time.Duration{"put": put, "read": read, "settle": settle, "clean": clean} {
		b.ReportMetric(float64(d.Nanoseconds())/float64(b.N)/polls/each, name+"-ns/record")
	}
}
