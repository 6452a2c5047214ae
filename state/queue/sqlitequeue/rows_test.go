package sqlitequeue

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/internal/rules"
)

// A page of a tenant's waiting jobs reads rows of that tenant alone, wherever they are among others.
func TestAListingOfATenantReadsWhatItShows(t *testing.T) {
	const most, inRow = 51, 64
	s := newFile(t, Options{}).open()
	for i := range 200 {
		jobs := make([]*tidemill.Message, 1000)
		for k := range jobs {
			jobs[k] = &tidemill.Message{ID: fmt.Sprint(i, "-", k), To: "q", Tenant: fmt.Sprint(k / 100 % 10 * i % 20), Priority: uint8(i % 2)}
		}
		if err := s.Add(t.Context(), jobs, nil); err != nil {
			t.Fatal(err)
		}
	}
	q := s.find("q")
	for _, back := range []bool{false, true} {
		for _, tenant := range []string{"0", "7", "nobody"} {
			f := queue.Filter{Queue: "q", State: queue.Waiting, Tenant: tenant, Back: back, Max: most, Look: 1}
			shown, read := 0, 0
			for items, err := range q.pagesOf(t.Context(), s, f, &rules.Looks{Most: f.Look}) {
				if err != nil {
					t.Fatal(err)
				}
				for i := range items {
					if !f.Matches(s.job(q, &items[i])) {
						t.Fatalf("of %q there is %+v", tenant, items[i])
					}
				}
				if shown, read = shown+len(items), read+len(items); shown >= most {
					break
				}
			}
			if want := most; tenant == "nobody" && shown != 0 || tenant != "nobody" && shown < want || read > most+2*inRow {
				t.Errorf("tenant %q, back %t: %d jobs are shown of %d that are read; want %d of %d at most", tenant, back, shown, read, most, most+2*inRow)
			}
		}
	}
}

// A page of jobs reads those that it shows, and what else lies in the last row with one, wherever
// those of its state are among others. Those that have ended are read by an index that has their
// state (see TestNoStatementScansATable).
func TestAListingReadsWhatItShows(t *testing.T) {
	const some, most, inRow = 60, 51, 64 // a page of 50, and one that says that there is another
	s := newFile(t, Options{}).open()
	id := 0
	add := func(n int, at time.Time) {
		jobs := make([]*tidemill.Message, n)
		for i := range jobs {
			id++
			jobs[i] = &tidemill.Message{ID: fmt.Sprint(id), To: "q", At: at}
		}
		if err := s.Add(t.Context(), jobs, nil); err != nil {
			t.Fatal(err)
		}
	}
	add(100*some, time.Time{})
	for range 2 {
		add(some, time.Now().Add(time.Hour))
		add(100*some, time.Time{})
	}
	q := s.find("q")
	for state, over := range map[queue.State]int{"": inRow, queue.Waiting: inRow, queue.Delayed: 0} {
		for _, back := range []bool{false, true} {
			f := queue.Filter{Queue: "q", State: state, Back: back, Max: most}
			shown, read := 0, 0
			for items, err := range q.pages(t.Context(), s, f) {
				if err != nil {
					t.Fatal(err)
				}
				for i := range items {
					if f.Matches(s.job(q, &items[i])) {
						shown++
					}
				}
				if read += len(items); shown >= most {
					break
				}
			}
			if shown < most || read > most+over {
				t.Errorf("state %q, back %t: %d jobs are shown of %d that are read; want %d of %d at most", state, back, shown, read, most, most+over)
			}
		}
	}
}
