package kafkasource_test

import (
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/source/kafkasource"
)

// An end with the mark of an older hand-out is Stale, also while a newer one has left the record:
// there are no leases in which the suite could try it.
func TestTheMarkOfAnOlderHandOutEndsNothingThatIsLeft(t *testing.T) {
	t.Parallel()
	_, w := refusing(t)
	s := w.source(kafkasource.Options{Left: 100 * time.Millisecond})
	w.number(0, 1)
	leave := func(m *tidemill.Message) tidemill.Settlement {
		return tidemill.Settlement{ID: m.ID, Mark: m.Mark, End: tidemill.Left}
	}
	old := receive(t, s, 1, 10*time.Second)[0]
	mark := old.Mark
	settle(t, s, tidemill.Applied, leave(old))
	newer := receive(t, s, 1, 10*time.Second)[0]
	if newer.Mark == mark {
		t.Fatalf("both hand-outs have the mark %v", mark)
	}
	settle(t, s, tidemill.Applied, leave(newer))
	settle(t, s, tidemill.Stale, tidemill.Settlement{ID: old.ID, Mark: mark, End: tidemill.Done, Fate: tidemill.Delivered})
	settle(t, s, tidemill.Stale, tidemill.Settlement{ID: old.ID, Mark: mark, End: tidemill.Again, CountTry: true})
	w.books(s, tidemill.Books{Accepted: 1, Pending: 1})
	last := receive(t, s, 1, 10*time.Second)[0]
	if last.Tries != 0 {
		t.Errorf("it comes again with %d tries, want none", last.Tries)
	}
	settle(t, s, tidemill.Applied, delivered(last)...)
	w.books(s, tidemill.Books{Accepted: 1, Settled: tidemill.Count{Delivered: 1}})
}
