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
