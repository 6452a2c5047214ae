package rules

import (
	"testing"
	"time"

	"github.com/tidemill/tidemill/state/person"
)

func TestDeltasAreOnePerDistinctID(t *testing.T) {
	at := func(distinct string, hour int, ps ...person.Property) person.Change {
		c := *change(hour*3600, byte(hour), ps...)
		c.Distinct = distinct
		return c
	}
	got := Deltas([]person.Change{at("a", 2, set("2")), at("b", 5), at("a", 1, once("1")), at("b", 7), at("a", 3, set("3"))})
	if len(got) != 2 || got[0].Distinct != "a" || got[1].Distinct != "b" {
		t.Fatalf("%+v, want one of a and one of b", got)
	}
	const hour = int64(time.Hour / time.Millisecond)
	if d := got[0]; d.FirstMilli != hour || d.LastMilli != 3*hour || string(d.Properties.AppendJSON(nil)) != `{"k":3}` {
		t.Errorf("of a: %+v", d)
	}
	if d := got[1]; d.FirstMilli != 5*hour || d.LastMilli != 7*hour || len(d.Properties) != 0 {
		t.Errorf("of b: %+v", d)
	}
}

func TestWhatIsKnownIsCovered(t *testing.T) {
	known := registersOf(change(1, 1, set("1")))
	stored := known.AppendBinary(nil)
	d := func(first, last int64, rs Registers) *Delta {
		return &Delta{FirstMilli: first, LastMilli: last, Properties: rs}
	}
	for _, c := range []struct {
		name      string
		registers []byte
		d         *Delta
		want      bool
	}{
		{"the same", stored, d(1000, hour, known), true},
		{"no properties", stored, d(1000, hour, nil), true},
		{"no properties, of a damaged person", []byte("damaged"), d(1000, hour, nil), true},
		{"an earlier event", stored, d(999, hour, known), false},
		{"a later event of that hour", stored, d(1000, 2*hour-1, known), true},
		{"a later hour", stored, d(1000, 2*hour, known), false},
		{"another value", stored, d(1000, hour, registersOf(change(2, 2, set("2")))), false},
		{"properties of a damaged person", []byte("damaged"), d(1000, hour, known), false},
	} {
		if got := Covers(1000, hour, c.registers, c.d); got != c.want {
			t.Errorf("%s is covered: %v", c.name, got)
		}
	}
}
