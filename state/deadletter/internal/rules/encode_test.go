package rules_test

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/wire"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/internal/rules"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Every part of a message is read back as it was written.
func TestMessagesAreReadBack(t *testing.T) {
	whole := tidemill.Message{Type: "type", To: "to", Key: []byte("k\x00"), Time: noon.Add(1), At: noon.Add(2), Tries: 3, Handed: 4,
		Mark:   tidemill.Mark{Shard: 5, Epoch: 6, Hi: 7, Lo: 8},
		Header: []tidemill.Field{{Name: []byte("n"), Value: []byte("v")}, {Name: []byte("n"), Value: []byte{0xff}}}}
	for _, want := range []tidemill.Message{whole, {Header: []tidemill.Field{}}} {
		b := rules.AppendMessage([]byte("before"), &want)
		r := wire.NewReader(b[len("before"):])
		var got tidemill.Message
		rules.ReadMessage(r, &got)
		if got.Key == nil {
			got.Key = []byte{}
		}
		if want.Key == nil {
			want.Key = []byte{}
		}
		if err := r.End(); err != nil || !got.Time.Equal(want.Time) || !got.At.Equal(want.At) {
			t.Errorf("%v: %+v", err, got)
		}
		got.Time, got.At = want.Time, want.At
		if !reflect.DeepEqual(got, want) {
			t.Errorf("\n got %+v\nwant %+v", got, want)
		}
	}
}

// So is a history; one of an unknown form, or damaged anywhere, is not.
func TestHistoriesAreReadBack(t *testing.T) {
	for name, want := range map[string][]deadletter.Failure{
		"none":    {},
		"one":     {{At: noon, Kind: tidemill.Partner, Cause: "why", Tries: 3}},
		"answers": {{At: noon, Cause: "first", Answer: []byte("no")}, {At: noon.Add(time.Second), Kind: tidemill.Timeout, Tries: 1}, {At: noon, Answer: []byte{}}},
	} {
		b := rules.EncodeHistory(want)
		got, err := rules.DecodeHistory(b)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v\n got %+v\nwant %+v", name, err, got, want)
		}
		for i := range b {
			torn := bytes.Clone(b)
			torn[i] ^= 1
			if _, err := rules.DecodeHistory(torn); !errors.Is(err, wire.ErrDamaged) {
				t.Errorf("%s: damaged at %d: %v", name, i, err)
			}
			if _, err := rules.DecodeHistory(b[:i]); !errors.Is(err, wire.ErrDamaged) {
				t.Errorf("%s: cut at %d: %v", name, i, err)
			}
		}
	}
}

// The checksum is of every part, and of where each ends.
func TestSumsOfDeadLetters(t *testing.T) {
	l := deadletter.Letter{}
	l.Pipeline, l.Tenant, l.ID, l.Payload, l.Row = "p", "t", "i", []byte("payload"), []byte("row")
	sums := map[uint64]string{}
	note := func(what string, change func(*deadletter.Letter), head string) {
		t.Helper()
		x := l
		if change != nil {
			change(&x)
		}
		sum := rules.SumOf(&x, []byte(head))
		if before, twice := sums[sum]; twice {
			t.Errorf("%s has the sum of %s", what, before)
		}
		sums[sum] = what
	}
	note("the dead letter", nil, "head")
	note("another head", nil, "other")
	note("another pipeline", func(x *deadletter.Letter) { x.Pipeline = "q" }, "head")
	note("another tenant", func(x *deadletter.Letter) { x.Tenant = "q" }, "head")
	note("another id", func(x *deadletter.Letter) { x.ID = "q" }, "head")
	note("a name divided elsewhere", func(x *deadletter.Letter) { x.Pipeline, x.Tenant = "pt", "" }, "head")
	note("another payload", func(x *deadletter.Letter) { x.Payload = []byte("q") }, "head")
	note("another row", func(x *deadletter.Letter) { x.Row = []byte("q") }, "head")
	note("an edited one", func(x *deadletter.Letter) { x.Edited = noon }, "head")
	note("an edited one with its original", func(x *deadletter.Letter) { x.Edited, x.Original = noon, []byte("o") }, "head")
	x := l
	if x.Original = []byte("o"); rules.SumOf(&x, []byte("head")) != rules.SumOf(&l, []byte("head")) {
		t.Error("what was not edited has no original")
	}
}
