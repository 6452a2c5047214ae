package sqlitequeue

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/queue"
)

// namesIn counts rows of the tables of names.
func namesIn(t *testing.T, s *Store) (logs, runs, blocks int) {
	t.Helper()
	err := s.db.Read(t.Context(), func(tx *sqlitedb.Tx) error {
		return tx.QueryRow(`SELECT (SELECT count(*) FROM queue_name_log), (SELECT count(*) FROM queue_name_run),
			(SELECT count(*) FROM queue_name_block)`).Scan(&logs, &runs, &blocks)
	})
	if err != nil {
		t.Fatal(err)
	}
	return logs, runs, blocks
}

func TestNamesAreMergedAndForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFile(t, Options{tableNames: 400})
		s := f.open()
		src := s.Open("q", queue.Options{})
		part := func(p int) []*tidemill.Message {
			ms := make([]*tidemill.Message, 500)
			for i := range ms {
				ms[i] = &tidemill.Message{ID: fmt.Sprintf("%d/%d", p, i), To: "q"}
			}
			return ms
		}
		settle := func(n int) {
			into := make([]*tidemill.Message, n)
			for i := range into {
				into[i] = new(tidemill.Message)
			}
			for n > 0 {
				k, err := src.Receive(t.Context(), into[:n])
				if err != nil {
					t.Fatal(err)
				}
				ends := make([]tidemill.Settlement, k)
				for i, m := range into[:k] {
					ends[i] = tidemill.Settlement{ID: m.ID, Mark: m.Mark, End: tidemill.Done, Fate: tidemill.Delivered}
				}
				if err := src.Settle(t.Context(), ends); err != nil {
					t.Fatal(err)
				}
				n -= k
			}
		}
		const parts = 70 // eight runs are merged, and eight of those
		for p := range parts {
			if err := s.Add(t.Context(), part(p), nil); err != nil {
				t.Fatal(err)
			}
			settle(500)
			if err := s.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		_, runs, blocks := namesIn(t, s)
		if runs > 2+7+7 || blocks > parts*500/160+2*runs {
			t.Errorf("%d names are in %d runs of %d blocks", parts*500, runs, blocks)
		}
		check := func(want queue.Added) {
			t.Helper()
			added := make([]queue.Added, 500)
			for p := range parts {
				if err := s.Add(t.Context(), part(p), added); err != nil {
					t.Fatal(err)
				}
				for i, a := range added {
					if a != want {
						t.Fatalf("job %d/%d became %v, want %v", p, i, a, want)
					}
				}
			}
		}
		check(queue.Known)
		f.close()
		s = f.open()
		src = s.Open("q", queue.Options{})
		check(queue.Known)

		time.Sleep(queue.Remember + time.Hour)
		if err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, runs, blocks := namesIn(t, s); runs > 0 || blocks > 0 {
			t.Errorf("a day later there are %d runs of %d blocks", runs, blocks)
		}
	})
}

func TestNamesOfHeldJobsOutliveTheirRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFile(t, Options{tableNames: 100})
		s := f.open()
		jobs := make([]*tidemill.Message, 300)
		for i := range jobs {
			jobs[i] = &tidemill.Message{ID: fmt.Sprint(i), To: "q"}
			if i%3 == 0 {
				jobs[i].At = time.Now().Add(30 * 24 * time.Hour)
			}
		}
		if err := s.Add(t.Context(), jobs, nil); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := s.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, runs, _ := namesIn(t, s); runs != 1 {
				t.Fatalf("names are in %d runs, want one", runs)
			}
			f.close()
			s = f.open()
			added := make([]queue.Added, len(jobs))
			if err := s.Add(t.Context(), jobs, added); err != nil {
				t.Fatal(err)
			}
			for i, a := range added {
				if a != queue.Known {
					t.Fatalf("held job %d became %v, want known", i, a)
				}
			}
			time.Sleep(queue.Remember + time.Second)
		}
	})
}
