package deadletter_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// dead is a dead letter of a message as it dies.
func dead(payload, cause string) *tidemill.DeadLetter {
	return &tidemill.DeadLetter{Pipeline: "p", Kind: tidemill.Partner, Cause: cause, Tries: 1, At: noon, Row: []byte("row"),
		Message: &tidemill.Message{ID: "a", Tenant: "t", Key: []byte("k"), Payload: []byte(payload), Header: []tidemill.Field{{Name: []byte("n"), Value: []byte("v")}}}}
}

func TestATimeThatIsNoneStaysNone(t *testing.T) {
	if got := deadletter.Instant(time.Time{}); !got.IsZero() {
		t.Errorf("Instant of no time = %v", got)
	}
	if got := deadletter.Instant(noon.Add(1500 * time.Microsecond)); !got.Equal(noon.Add(time.Millisecond)) {
		t.Errorf("Instant = %v, want whole milliseconds", got)
	}
}

func TestASoundMessageMendsADamagedLetter(t *testing.T) {
	var r deadletter.Record
	r.Put(dead("x", "first"))
	r.Damaged = "torn"
	if changed, another := r.Put(dead("x", "first")); !changed || another || r.Damaged != "" {
		t.Errorf("put again: changed %v, another %v, damaged %q; want it sound", changed, another, r.Damaged)
	}
}

func TestACauseIsKeptUpToItsEnd(t *testing.T) {
	whole := strings.Repeat("x", deadletter.MaxCause-1)
	for in, want := range map[string]string{whole + "\xff": whole + "\xff", whole + "é": whole, whole + "xy": whole + "x"} {
		var r deadletter.Record
		if r.Put(dead("x", in)); r.Cause != want {
			t.Errorf("of %d bytes it has %d, want %d", len(in), len(r.Cause), len(want))
		}
	}
}

func TestOnlyAChangeIsAnEdit(t *testing.T) {
	var r deadletter.Record
	r.Put(dead("x", "why"))
	if changed, err := r.Edit([]byte("x"), "", noon); changed || err != nil || !r.Edited.IsZero() {
		t.Errorf("the same payload: %v, %v", changed, err)
	}
	r.Replay()
	if changed, err := r.Edit([]byte("y"), "", noon); changed || err == nil {
		t.Errorf("while it replays: %v, %v", changed, err)
	}
	r.Damaged = "torn"
	if changed, err := r.Edit([]byte("y"), "", noon); changed || err == nil {
		t.Errorf("where it is damaged: %v, %v", changed, err)
	}
}

func TestSettlementsThatSayNothingAreRefused(t *testing.T) {
	for _, s := range []tidemill.Settlement{{}, {End: tidemill.Left + 1, Fate: tidemill.Delivered}, {Fate: tidemill.Dead + 1}, {End: tidemill.Again, Fate: tidemill.Dead + 1}} {
		if deadletter.CheckSettle([]tidemill.Settlement{{Fate: tidemill.Delivered}, s}) == nil {
			t.Errorf("%+v is let pass", s)
		}
	}
	for _, s := range []tidemill.Settlement{{Fate: tidemill.Delivered}, {Fate: tidemill.Dead}, {End: tidemill.Again}, {End: tidemill.Left}} {
		if err := deadletter.CheckSettle([]tidemill.Settlement{s}); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

func TestALetterThatIsGoneCountsOnce(t *testing.T) {
	one, two := tidemill.Count{Delivered: 1}, tidemill.Count{Delivered: 1, Skipped: 1}
	for _, c := range []struct {
		s    tidemill.Settlement
		want tidemill.Count
	}{
		{tidemill.Settlement{Fate: tidemill.Delivered}, one},
		{tidemill.Settlement{Fate: tidemill.Skipped}, tidemill.Count{Skipped: 1}},
		{tidemill.Settlement{Fate: tidemill.Skipped, Records: one}, one},
		{tidemill.Settlement{Fate: tidemill.Skipped, Records: two}, tidemill.Count{Skipped: 1}},
		{tidemill.Settlement{Fate: tidemill.Delivered, Records: two}, one},
		{tidemill.Settlement{Fate: tidemill.Delivered, Records: tidemill.Count{Dead: 1}}, one},
	} {
		if got := deadletter.Ended(&c.s); got != c.want {
			t.Errorf("%+v counts %+v, want %+v", c.s, got, c.want)
		}
	}
}

func TestACopySharesNothing(t *testing.T) {
	var r, same deadletter.Record
	for _, r := range []*deadletter.Record{&r, &same} {
		r.Put(dead("x", "why"))
		r.Original = []byte("o")
	}
	c := r.Clone()
	for _, b := range [][]byte{r.Payload, r.Row, r.Original, r.Key, r.Header[0].Name, r.Header[0].Value} {
		copy(b, bytes.Repeat([]byte("!"), len(b)))
	}
	r.History[0].Cause = "!"
	if !reflect.DeepEqual(c, &same.Letter) {
		t.Errorf("it became %+v, want %+v", c, same.Letter)
	}
}

func TestAShortHistoryIsDamaged(t *testing.T) {
	whole := deadletter.EncodeHistory([]deadletter.Failure{{At: noon, Cause: "why", Answer: []byte("no")}})
	for n := range whole {
		if h, err := deadletter.DecodeHistory(whole[:n]); err == nil {
			t.Errorf("%d of %d bytes are read as %+v", n, len(whole), h)
		}
	}
	if h, err := deadletter.DecodeHistory(whole); err != nil || len(h) != 1 || string(h[0].Answer) != "no" {
		t.Errorf("read as %+v, %v", h, err)
	}
}

func TestWhatMayReplay(t *testing.T) {
	for _, c := range []struct {
		state   deadletter.State
		damaged string
		want    bool
	}{{deadletter.Held, "", true}, {deadletter.Held, "torn", false}, {deadletter.Replaying, "", false}, {deadletter.Replaying, "torn", false}} {
		var r deadletter.Record
		r.Put(dead("x", "why"))
		r.State, r.Damaged, r.Handed, r.Burnt, r.Until = c.state, c.damaged, 3, 2, noon
		if got := r.Replay(); got != c.want || got != (r.Asked == 1) || got != (r.Handed == 0 && r.Burnt == 0 && r.Until.IsZero()) {
			t.Errorf("%+v: %v, %+v", c, got, r)
		}
	}
}

// Each hand-out has a number of its own, which grows.
func TestHandOutsAreNumbered(t *testing.T) {
	var r deadletter.Record
	r.Put(dead("x", "why"))
	r.Replay()
	for n := uint32(1); n <= 3; n++ {
		if r.Lease(noon, time.Minute); r.Epoch != n || r.Handed != int(n) || !r.Until.Equal(noon.Add(time.Minute)) || r.Position().Epoch != n || r.Next() != r.Until {
			t.Errorf("hand-out %d: %+v", n, r)
		}
	}
}
