package warehousetest

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// find finds an event that is there.
// asked asks again where a server that is busy with other cases gives up in the time that looking may take.
func asked(t *testing.T, s warehouse.Reader, project uuid.UUID, i int) (e *event.Event, err error) {
	t.Helper()
	for range 20 {
		if e, err = s.Find(t.Context(), project, id(i)); tidemill.KindOf(err) != tidemill.Timeout {
			break
		}
	}
	return e, err
}

func find(t *testing.T, s warehouse.Reader, project uuid.UUID, i int) uuid.UUID {
	t.Helper()
	e, err := asked(t, s, project, i)
	if err != nil {
		t.Fatalf("Find of event %d: %v", i, err)
	}
	if want := ev(i); e.ID != want.ID || e.Project != project || e.Name != want.Name || e.DistinctID != want.DistinctID || !e.Timestamp.Equal(want.Timestamp) || string(e.Properties) != string(want.Properties) {
		t.Fatalf("Find of event %d: %+v, want %+v", i, e, want)
	}
	return e.Person
}

func findsNot(t *testing.T, s warehouse.Reader, project uuid.UUID, i int) {
	t.Helper()
	if e, err := asked(t, s, project, i); !errors.Is(err, warehouse.ErrUnknown) {
		t.Fatalf("Find of event %d, which is not there: %+v, %v; want ErrUnknown", i, e, err)
	}
}

func findsByID(t *testing.T, h Harness) {
	insert(t, h.Store, evs(0, 3)...)
	other := ev(7)
	other.Project = projectB
	insert(t, h.Store, other)
	if who := find(t, h.Store, projectA, 1); who != ann {
		t.Errorf("the event is under %v, want %v", who, ann)
	}
	find(t, h.Store, projectB, 7)
	findsNot(t, h.Store, projectA, 7)
	findsNot(t, h.Store, projectA, 3)
	if err := h.Store.Override(t.Context(), []person.Override{{Ref: ev(1).Ref(), Person: bob, Version: 1}}); err != nil {
		t.Fatal(err)
	}
	if who := find(t, h.Store, projectA, 1); who != bob {
		t.Errorf("after the merge the event is under %v, want %v", who, bob)
	}
}

func findsLater(t *testing.T, h Harness) {
	for i := range 50 {
		insert(t, h.Store, evs(10*i, 10*i+10)...)
	}
	for i := range 500 {
		find(t, h.Store, projectA, i)
	}
	findsNot(t, h.Store, projectA, 500)
	if h.Reopen == nil {
		return
	}
	s := h.Reopen()
	for i := 0; i < 500; i += 7 {
		find(t, s, projectA, i)
	}
	findsNot(t, s, projectA, 500)
}
