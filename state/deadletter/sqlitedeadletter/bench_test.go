package sqlitedeadletter_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/sqlitedeadletter"
)

// BenchmarkLetters puts batches of dead letters and takes them through a replay.
func BenchmarkLetters(b *testing.B) {
	const batch = 500
	setup := func(b *testing.B) (*sqlitedeadletter.Store, func()) {
		db, err := sqlitedb.Open(b.Context(), filepath.Join(b.TempDir(), "b.db"), sqlitedb.Options{})
		if err != nil {
			b.Fatal(err)
		}
		s, err := sqlitedeadletter.New(b.Context(), db, deadletter.Options{Max: 1 << 40})
		if err != nil {
			b.Fatal(err)
		}
		return s, func() { _ = db.Close() }
	}
	n := 0
	fill := func(b *testing.B, s *sqlitedeadletter.Store) {
		ls := make([]tidemill.DeadLetter, batch)
		for i := range ls {
			n++
			ls[i] = tidemill.DeadLetter{Pipeline: "p", Kind: tidemill.Partner, Cause: "answered 500: internal server error", Tries: 3, At: time.Now(), Row: make([]byte, 300),
				Message: &tidemill.Message{ID: fmt.Sprint("message-", n), Tenant: "tenant", Payload: make([]byte, 1000), Time: time.Now(), Mark: tidemill.Mark{Lo: uint64(n)}}}
		}
		if err := s.Put(b.Context(), ls); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("put", func(b *testing.B) {
		s, done := setup(b)
		defer done()
		for b.Loop() {
			fill(b, s)
		}
		b.ReportMetric(float64(b.N)*batch/b.Elapsed().Seconds(), "letters/s")
	})
	b.Run("mark", func(b *testing.B) {
		s, done := setup(b)
		defer done()
		const many = 20 * batch
		for b.Loop() {
			b.StopTimer()
			for range many / batch {
				fill(b, s)
			}
			b.StartTimer()
			if k, err := s.Replay(b.Context(), deadletter.Filter{Pipeline: "p"}); k != many || err != nil {
				b.Fatal(k, err)
			}
		}
		b.ReportMetric(float64(b.N)*many/b.Elapsed().Seconds(), "letters/s")
	})
	b.Run("replay", func(b *testing.B) {
		s, done := setup(b)
		defer done()
		src := s.Open("p")
		into := make([]*tidemill.Message, batch)
		for i := range into {
			into[i] = new(tidemill.Message)
		}
		left := 0
		for b.Loop() {
			if left == 0 {
				b.StopTimer()
				for range 20 {
					fill(b, s)
				}
				b.StartTimer()
				k, err := s.Replay(b.Context(), deadletter.Filter{Pipeline: "p"})
				if err != nil {
					b.Fatal(err)
				}
				left = k
			}
			for done := 0; done < batch; {
				k, err := src.Receive(b.Context(), into)
				if err != nil {
					b.Fatal(err)
				}
				ends := make([]tidemill.Settlement, k)
				for i, m := range into[:k] {
					ends[i] = tidemill.Settlement{ID: m.ID, Mark: m.Mark, Fate: tidemill.Delivered}
				}
				if err := src.Settle(b.Context(), ends); err != nil {
					b.Fatal(err)
				}
				done, left = done+k, left-k
				if left == 0 {
					break
				}
			}
		}
		b.ReportMetric(float64(b.N)*batch/b.Elapsed().Seconds(), "letters/s")
	})
}
