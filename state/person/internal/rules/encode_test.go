package rules

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"pgregory.net/rapid"

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

func TestDecodeDamage(t *testing.T) {
	rs := registersOf(change(1, 1, set("1"), person.Property{Op: person.Once, Key: "o", Value: []byte("2")}, person.Property{Op: person.Unset, Key: "u"}))
	whole := rs.AppendBinary(nil)
	for i := range whole {
		for bit := range 8 {
			b := bytes.Clone(whole)
			b[i] ^= 1 << bit
			if got, err := Decode(b); !errors.Is(err, ErrDamaged) {
				t.Fatalf("byte %d, bit %d flipped: %v, %v; want ErrDamaged", i, bit, got, err)
			}
		}
		if i > 0 {
			if got, err := Decode(whole[:i]); !errors.Is(err, ErrDamaged) {
				t.Fatalf("cut after %d bytes: %v, %v; want ErrDamaged", i, got, err)
			}
		}
	}
	if got, err := Decode(append(whole, 0)); !errors.Is(err, ErrDamaged) {
		t.Errorf("a byte too many: %v, %v; want ErrDamaged", got, err)
	}
	if got, err := Decode(nil); got != nil || err != nil {
		t.Errorf("nothing: %v, %v", got, err)
	}
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

// summed is a stored form with the right checksum.
func summed(body []byte) []byte {
	b := append([]byte{encodingVersion, 0, 0, 0, 0}, body...)
	binary.LittleEndian.PutUint32(b[1:], checksum(body))
	return b
}

func TestWhatWasNeverWrittenIsDamaged(t *testing.T) {
	one := func(flags holds, rest ...byte) []byte { return append([]byte{1, 1, 'k', byte(flags)}, rest...) }
	const set, first, last, unset = byte(hasSet), byte(hasFirst), byte(hasLast), byte(hasUnset)
	value := []byte{0, 1, '1'} // under the stamp before it
	for name, body := range map[string][]byte{
		"no part":                           one(0),
		"an unknown part":                   one(hasSet|0x40, value...),
		"a value of no $set_once":           one(hasSet|valued, value...),
		"a $set_once twice that is not":     one(hasFirst|valued|lastSame, value...),
		"a latest $set_once of no earliest": one(hasLast|lastSame, value...),
		"a $set_once twice without a value": one(hasFirst|hasLast|lastSame, 0),
		"a $set_once that nothing unset":    one(hasFirst, 0),
		"an empty value":                    one(hasSet, 0, 0),
		"a stamp of no kind":                one(hasUnset, 2),
		"a stamp cut short":                 one(hasUnset, append([]byte{1, 2, 0}, make([]byte, 15)...)...),
		"a key twice":                       {2, 1, 'k', set, 0, 1, '1', 1, 'k', set, 0, 1, '1'},
		"keys out of order":                 {2, 1, 'l', set, 0, 1, '1', 1, 'k', set, 0, 1, '1'},
		"too few registers":                 {2, 1, 'k', set, 0, 1, '1'},
		"too many registers":                {1, 1, 'k', set, 0, 1, '1', 1, 'l', set, 0, 1, '1'},
		"a number that does not end":        bytes.Repeat([]byte{0xff}, 11),
		"a $set_once twice after an $unset, without a value": append(append(one(hasFirst|hasLast|lastSame|hasUnset, 1, 4, 0), make([]byte, 16)...),
			append([]byte{1, 2, 0}, make([]byte, 16)...)...),
		"what an $unset has forgotten": {1, 1, 'k', set | unset, 0, 1, '1', 0},
	} {
		if rs, err := Decode(summed(body)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v, %v; want ErrDamaged", name, rs, err)
		}
	}
	for name, body := range map[string][]byte{
		"a set":                    one(hasSet, value...),
		"the least":                {1, 0, unset, 0},
		"a $set_once":              one(hasFirst|hasLast|valued|lastSame, value...),
		"an unset $set_once":       {1, 1, 'k', first | unset, 0, 0},
		"an earliest and a latest": {1, 1, 'k', first | last | byte(valued), 0, 1, '1', 0, 1, '2'},
	} {
		if _, err := Decode(summed(body)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzDecode damages what the checksum would catch, and repairs the checksum.
func FuzzDecode(f *testing.F) {
	for _, c := range []*person.Change{change(1, 1, set("1")), change(1, 1, once("1")), change(1, 1, unset()), change(1, 1, once("1"), unset()),
		change(1, 1, set("1"), person.Property{Op: person.Once, Key: "o", Value: []byte("2")}, person.Property{Op: person.Unset, Key: "u"})} {
		f.Add(registersOf(c).AppendBinary(nil)[encodingHead:])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		b := summed(body)
		rs, err := Decode(b)
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Errorf("Decode(%q): %v, want ErrDamaged", b, err)
			}
			return
		}
		got, err := Decode(rs.AppendBinary(nil))
		if err != nil || !reflect.DeepEqual(got, rs) {
			t.Errorf("%q is %v, but comes back as %v, %v", b, rs, got, err)
		}
		if object := rs.AppendJSON(nil); !json.Valid(object) {
			t.Errorf("%q is shown as %q, which is no JSON", b, object)
		}
	})
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
