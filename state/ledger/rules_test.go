package ledger_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/state/ledger"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestACauseIsKeptUpToItsEnd(t *testing.T) {
	whole := strings.Repeat("x", ledger.MaxErr-1)
	for in, want := range map[string]string{"": "", whole + "\xff": whole + "\xff", whole + "é": whole, whole + "xy": whole + "x"} {
		if got := ledger.Cause(in); got != want {
			t.Errorf("of %d bytes it has %d, want %d", len(in), len(got), len(want))
		}
	}
}

func TestAConflictTellsNothing(t *testing.T) {
	brought := ledger.Entry{Key: "k", Tenant: "t", Type: "y", Payload: []byte("p"), Print: []byte("f"), Holder: "h"}
	e := brought
	e.State, e.Token, e.Result, e.Err, e.Stale, e.Broken = ledger.Running, 7, []byte("r"), "why", true, true
	e.LastResult, e.LastErr, e.Tries, e.Created, e.Started, e.Ended = []byte("l"), "last", 3, noon, noon, noon
	e.Refuse()
	if brought.State = ledger.Conflict; !reflect.DeepEqual(e, brought) {
		t.Errorf("%+v, want %+v", e, brought)
	}
}

func TestTheEndOfWhatIsGoneChangesNothing(t *testing.T) {
	for _, s := range []ledger.State{0, ledger.Dropped} {
		r := ledger.Record{Entry: ledger.Entry{State: s}}
		e := ledger.Entry{State: ledger.Done, Token: 1}
		if r.End(&e, noon) || !e.Stale || r.State != s {
			t.Errorf("%v became %v, stale %v", s, r.State, e.Stale)
		}
	}
}

func TestATransactionIsAdmittedWhole(t *testing.T) {
	running := &ledger.Record{Entry: ledger.Entry{State: ledger.Running, Token: 1}}
	done := &ledger.Record{Entry: ledger.Entry{State: ledger.Done, Token: 1, Ended: noon}}
	mine := ledger.Entry{Token: 1}
	for name, c := range map[string]struct {
		es      []ledger.Entry
		records []*ledger.Record
		before  bool
		stale   []bool
		is      error
	}{
		"all run":                    {[]ledger.Entry{mine, mine}, []*ledger.Record{running, running}, false, []bool{false, false}, nil},
		"all are done":               {[]ledger.Entry{mine, mine}, []*ledger.Record{done, done}, true, []bool{false, false}, nil},
		"one is done":                {[]ledger.Entry{mine, mine}, []*ledger.Record{running, done}, false, []bool{false, true}, ledger.ErrStale},
		"one is gone":                {[]ledger.Entry{mine, mine}, []*ledger.Record{nil, running}, false, []bool{true, false}, ledger.ErrStale},
		"one is another's, one done": {[]ledger.Entry{{Token: 2}, mine}, []*ledger.Record{running, done}, false, []bool{true, true}, ledger.ErrStale},
		"one has no token":           {[]ledger.Entry{{}}, []*ledger.Record{{}}, false, []bool{true}, ledger.ErrStale},
	} {
		before, err := ledger.Admit(c.es, c.records)
		if before != c.before || !errors.Is(err, c.is) {
			t.Errorf("%s: %v, %v; want %v, %v", name, before, err, c.before, c.is)
		}
		for i := range c.es {
			if c.es[i].Stale != c.stale[i] {
				t.Errorf("%s: entry %d is stale: %v", name, i, c.es[i].Stale)
			}
			if c.before && !c.es[i].Ended.Equal(noon) {
				t.Errorf("%s: entry %d ended %v, want the end that there was", name, i, c.es[i].Ended)
			}
		}
	}
}
