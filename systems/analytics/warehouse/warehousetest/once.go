package warehousetest

import (
	"sync"
	"testing"

	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

func insertsOnce(t *testing.T, h Harness) {
	h.all(t, insert(t, h.Store, evs(0, 300)...), warehouse.Stored)
	h.all(t, insert(t, h.Store, evs(0, 300)...), warehouse.Again)
	wantCount(t, h.Store, projectA, 300)
	if got := list(t, h.Store, warehouse.Filter{Project: projectA}); len(got) != 300 {
		t.Fatalf("listed %d events, want 300", len(got))
	}
}

func tellsAgain(t *testing.T, h Harness) {
	other := func() *event.Event {
		e := ev(1)
		if e.Origin = 99; !h.Blind { // it may be stored once by its name too
			e.Name = "another"
		}
		return e
	}
	wantTook(t, insert(t, h.Store, ev(1)), warehouse.Stored)
	h.wantTook(t, insert(t, h.Store, ev(1)), warehouse.Again)
	h.wantTook(t, insert(t, h.Store, other()), warehouse.Duplicate)
	h.wantTook(t, insert(t, h.Store, other()), warehouse.Duplicate)
	h.wantTook(t, insert(t, h.Store, ev(1)), warehouse.Again)
	if got := list(t, h.Store, warehouse.Filter{Project: projectA}); len(got) != 1 || got[0].Name != "click" {
		t.Fatalf("the first sending is not what is kept: %+v", got)
	}
}

func twiceInBatch(t *testing.T, h Harness) {
	twin, other := ev(1), ev(1)
	other.Origin = 99
	wantTook(t, insert(t, h.Store, ev(1), twin, ev(2), other, other),
		warehouse.Stored, warehouse.Again, warehouse.Stored, warehouse.Duplicate, warehouse.Duplicate)
	took := insert(t, h.Store, other, ev(3), ev(3))
	h.wantTook(t, took[:1], warehouse.Duplicate)
	wantTook(t, took[1:], warehouse.Stored, warehouse.Again)
	wantCount(t, h.Store, projectA, 3)
}

func mixed(t *testing.T, h Harness) {
	insert(t, h.Store, evs(0, 10)...)
	took := insert(t, h.Store, evs(5, 15)...)
	h.all(t, took[:5], warehouse.Again)
	h.all(t, took[5:], warehouse.Stored)
	wantIDs(t, list(t, h.Store, warehouse.Filter{Project: projectA}), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14)
}

func idsPerProject(t *testing.T, h Harness) {
	b := ev(1)
	b.Project = projectB
	wantTook(t, insert(t, h.Store, ev(1), b), warehouse.Stored, warehouse.Stored)
	wantCount(t, h.Store, projectB, 1)
}

func concurrentInserts(t *testing.T, h Harness) {
	const workers, batches, size = 4, 15, 20
	var mu sync.Mutex
	stored := map[string]int{}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for b := range batches {
				rows := evs((b-w%2)*size, (b-w%2+1)*size+size/2) // overlapping, out of step
				took := make([]warehouse.Outcome, len(rows))
				if err := h.Store.Insert(t.Context(), rows, took); err != nil {
					t.Errorf("Insert: %v", err)
					return
				}
				mu.Lock()
				for i, e := range rows {
					if took[i] == warehouse.Stored {
						stored[e.ID.String()]++
					}
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for id, n := range stored {
		if n != 1 && !h.Blind {
			t.Errorf("event %s was stored %d times", id, n)
		}
	}
	const want = (batches+1)*size + size/2
	if len(stored) != want {
		t.Errorf("%d events were stored, want %d", len(stored), want)
	}
	wantCount(t, h.Store, projectA, want)
	if got := list(t, h.Store, warehouse.Filter{Project: projectA}); len(got) != want {
		t.Errorf("listed %d events, want %d", len(got), want)
	}
}

func knownLongAfter(t *testing.T, h Harness) {
	const n = 1000
	for i := 0; i < n; i += 50 {
		h.all(t, insert(t, h.Store, evs(i, i+50)...), warehouse.Stored)
	}
	for i := 0; i < n; i += 125 {
		h.all(t, insert(t, h.Store, evs(i, i+125)...), warehouse.Again)
	}
	wantCount(t, h.Store, projectA, n)
}

func knownAfterRestart(t *testing.T, h Harness) {
	if h.Reopen == nil {
		return // nothing survives, so nothing is promised
	}
	s := h.Store
	for i := range 6 {
		h.all(t, insert(t, s, evs(i*37, (i+1)*37)...), warehouse.Stored)
		s = h.Reopen()
		h.all(t, insert(t, s, evs(0, (i+1)*37)...), warehouse.Again)
		wantCount(t, s, projectA, int64((i+1)*37))
	}
}
