package sqlitequeue

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/queue"
)

// Callers learn that their jobs are durable in any order: who hands out takes them up in the
// order in which they were written, each once, also where some have to be read from the file.
func TestWhoWasWrittenFirstMayBeLaterToSaySo(t *testing.T) {
	for _, big := range []bool{false, true} { // more than is handed over in memory
		t.Run(fmt.Sprint("big=", big), func(t *testing.T) {
			ctx := t.Context()
			db, err := sqlitedb.Open(ctx, filepath.Join(t.TempDir(), "t.db"), sqlitedb.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			s, err := New(ctx, db, Options{})
			if err != nil {
				t.Fatal(err)
			}
			const batches, each = 6, 40
			payload := make([]byte, 10)
			if big {
				payload = make([]byte, pageBytes/each+1)
			}
			var all []*batch
			for i := range batches {
				var jobs []*tidemill.Message
				for j := range each {
					jobs = append(jobs, &tidemill.Message{ID: fmt.Sprint(i*each + j), To: "q", Tenant: "t", Payload: payload})
				}
				in, err := s.prepare(ctx, jobs)
				if err != nil {
					t.Fatal(err)
				}
				in.fit(s.o.Capacity, 0, each)
				b := newBatch([]*intake{in})
				if err := b.write(ctx, s, nil); err != nil {
					t.Fatal(err)
				}
				all = append(all, b)
			}
			for _, i := range []int{1, 3, 2, 0, 5, 4} {
				all[i].finish(s, nil)
			}
			src := s.Open("q", queue.Options{})
			into := make([]*tidemill.Message, 64)
			for i := range into {
				into[i] = new(tidemill.Message)
			}
			for want := 0; want < batches*each; {
				n, err := src.Receive(ctx, into)
				if err != nil {
					t.Fatal(err)
				}
				ends := make([]tidemill.Settlement, n)
				for i, m := range into[:n] {
					if m.ID != fmt.Sprint(want) {
						t.Fatalf("handed out %s, want %d", m.ID, want)
					}
					want++
					ends[i] = tidemill.Settlement{ID: m.ID, Mark: m.Mark, Fate: tidemill.Delivered}
				}
				if err := src.Settle(ctx, ends); err != nil {
					t.Fatal(err)
				}
			}
			if st, err := s.Stats(ctx, "q"); err != nil || st != (queue.Stats{}) {
				t.Errorf("left: %+v, %v", st, err)
			}
		})
	}
}
