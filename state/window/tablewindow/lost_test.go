package tablewindow

import (
	"errors"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/table/memorytable"
	"github.com/tidemill/tidemill/state/window"
)

// Who reads under a lease that another followed, between its read and its count of what was
// missing, counts nothing; and nothing is counted twice.
func TestRecordsAreCountedAsLostOnceAndUnderTheLease(t *testing.T) {
	ctx := t.Context()
	s := inMemory(t, window.Options{}).(*Store[*memorytable.Tx])
	if err := s.Put(ctx, []window.Record{{Batch: "b", Kind: "event", ID: "1"}, {Batch: "b", Kind: "event", ID: "2"}}, nil); err != nil {
		t.Fatal(err)
	}
	if ok, err := s.CloseNow(ctx, "b"); !ok || err != nil {
		t.Fatal(ok, err)
	}
	src, m := s.Open(), []*tidemill.Message{{}}
	take := func() tidemill.Mark {
		t.Helper()
		if n, err := src.Receive(ctx, m); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		return m[0].Mark
	}
	old := take()
	if err := src.Settle(ctx, []tidemill.Settlement{{ID: m[0].ID, Mark: old, End: tidemill.Again}}); err != nil {
		t.Fatal(err)
	}
	now := take()
	for i, c := range []struct {
		mark tidemill.Mark
		lost int64
		err  error
		want int64
	}{{old, 1, window.ErrStale, 0}, {now, 1, nil, 1}, {now, 1, nil, 1}, {now, 2, nil, 2}, {now, 1, nil, 2}} {
		if err := s.noteLost(ctx, c.mark, c.lost); !errors.Is(err, c.err) {
			t.Errorf("%d: %v, want %v", i, err, c.err)
		}
		if info, err := s.Look(ctx, m[0].ID); err != nil || info.Lost != c.want {
			t.Errorf("%d: %+v, %v; want %d lost", i, info, err, c.want)
		}
	}
}
