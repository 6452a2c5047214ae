package rules

import (
	"encoding/hex"
	"errors"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemill/tidemill/state/internal/register"
	"github.com/tidemill/tidemill/state/person"
)

func TestEncode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rs := drawn(t, "registers")
		b := rs.AppendBinary([]byte("before"))
		got, err := Decode(b[len("before"):])
		if err != nil || len(got) != len(rs) || len(rs) > 0 && !reflect.DeepEqual(got, rs) {
			t.Errorf("decoded %v, %v; want %v", got, err, rs)
		}
	})
}

// Stores hold these bytes: another version has to read them.
func TestTheStoredFormStays(t *testing.T) {
	later, _ := registersOf(change(1, 1, once("1"), set("2"))).Join(registersOf(change(2, 2, once("3"))))
	for want, rs := range map[string]Registers{
		"": nil,
		"02066e8b3001016b010180897a00010000000000000000000000000000000131":                                                       registersOf(change(1, 1, set("1"))),
		"02c3c2419201016b360180897a00010000000000000000000000000000000131":                                                       registersOf(change(1, 1, once("1"))),
		"022a1d32ab01016b080180897a0001000000000000000000000000000000":                                                           registersOf(change(1, 1, unset())),
		"02475dfabe01016b170180897a00010000000000000000000000000000000132000131018092f40100020000000000000000000000000000000133": later,
	} {
		if got := hex.EncodeToString(rs.AppendBinary(nil)); got != want {
			t.Errorf("stored as %s, want %s", got, want)
		}
	}
}

// What is not a person's register is damaged, also one of a profile, which has a part more.
func TestWhatWasNeverWrittenIsDamaged(t *testing.T) {
	e := register.Begin(nil, 1)
	e.Register(&Register{Key: "k", Has: register.HasUnset}, true)
	for name, b := range map[string][]byte{"a part of another role": e.End(), "no register": []byte("none")} {
		if rs, err := Decode(b); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v, %v; want ErrDamaged", name, rs, err)
		}
	}
}

func TestAppendJSON(t *testing.T) {
	p := func(k, v string) person.Property { return person.Property{Op: person.Set, Key: k, Value: []byte(v)} }
	rs := registersOf(change(1, 1, p("n", "12345678901234567890"), p("o", `{"b":1, "a":2,"a":3}`), p("\xff\"\x00", `"\u0000"`), p("bad", "{"), p("raw", "\"\x00\""),
		p("none", "1"), person.Property{Op: person.Unset, Key: "none"}))
	want := `{"bad":"{","n":12345678901234567890,"o":{"b":1, "a":2,"a":3},"raw":"�","�\"�":"�"}`
	if got := string(rs.AppendJSON(nil)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
