package tablewindow

import (
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/window"
)

// BenchmarkInSQLite takes windows of polls of 1,000 records of about a kilobyte through their
// lives: put, closed, read in pages, settled, cleared away. It reports the CPU of a record.
func BenchmarkInSQLite(b *testing.B) {
	for _, polls := range []int{1, 50} {
		b.Run(fmt.Sprintf("polls=%d", polls), func(b *testing.B) {
			db, err := sqlitedb.Open(b.Context(), filepath.Join(b.TempDir(), "t.db"), sqlitedb.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			live(b, onFile(b, db, window.Options{}), polls)
		})
	}
}

// cpu is the CPU time of this process.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

const each = 1000

// poll makes records as alike as those of one feed are.
func poll(n int) []window.Record {
	rs := make([]window.Record, each)
	x := uint64(n + 1)
	next := func() uint64 { x = x*6364136223846793005 + 1442695040888963407; return x >> 33 }
	for i := range rs {
		body := fmt.Appendf(nil, `{"globalEventId":%d,"day":20250323,`, n*each+i)
		for f := range 40 {
			body = fmt.Appendf(body, `"actor%dField%d":"%x",`, f%3, f, next())
		}
		rs[i] = window.Record{Batch: "b", Kind: "event", ID: fmt.Sprint(1_000_000_000 + n*each + i), Body: append(body, `"end":true}`...)}
	}
	return rs
}

func live(b *testing.B, s window.Store, polls int) {
	var all [][]window.Record
	for n := range polls {
		all = append(all, poll(n))
	}
	kept := make([]window.Kept, each)
	source, m := s.Open(), new(tidemill.Message)
	spent := map[string]time.Duration{}
	for b.Loop() {
		at := cpu(b)
		step := func(name string, err error) {
			if err != nil {
				b.Fatal(err)
			}
			now := cpu(b)
			spent[name] += now - at
			at = now
		}
		for _, rs := range all {
			step("put", s.Put(b.Context(), rs, kept))
		}
		_, err := s.CloseNow(b.Context(), "b")
		step("close", err)
		_, err = source.Receive(b.Context(), []*tidemill.Message{m})
		step("receive", err)
		page := make([]window.Record, 1000)
		for from, first := "", true; first || from != ""; first = false {
			p, err := s.Page(b.Context(), m.Mark, from, page)
			step("page", err)
			from = p.Next
		}
		step("settle", source.Settle(b.Context(), []tidemill.Settlement{{ID: m.ID, Mark: m.Mark, Fate: tidemill.Delivered}}))
		_, err = s.Sweep(b.Context())
		step("clear", err)
	}
	for name, d := range spent {
		b.ReportMetric(float64(d.Nanoseconds())/float64(b.N*polls*each), name+"-ns/record")
	}
}
