package person

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

func TestEncode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rs := drawn(t, "registers")
		b, err := rs.AppendBinary([]byte("before"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(b[len("before"):])
		if err != nil || len(got) != len(rs) || len(rs) > 0 && !reflect.DeepEqual(got, rs) {
			t.Errorf("decoded %v, %v; want %v", got, err, rs)
		}
	})
}

func TestDecodeDamage(t *testing.T) {
	rs := change(1, 1, set("1"), Property{Once, "o", []byte("2")}, Property{Op: Unset, Key: "u"}).registers()
	whole, err := rs.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
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

// FuzzDecode damages what the checksum would catch, and repairs the checksum.
func FuzzDecode(f *testing.F) {
	for _, c := range []*Change{change(1, 1, set("1")), change(1, 1, once("1")), change(1, 1, unset()), change(1, 1, once("1"), unset()),
		change(1, 1, set("1"), Property{Once, "o", []byte("2")}, Property{Op: Unset, Key: "u"})} {
		b, err := c.registers().AppendBinary(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[encodingHead:])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		b := append([]byte{encodingVersion, 0, 0, 0, 0}, body...)
		binary.LittleEndian.PutUint32(b[1:], checksum(body))
		rs, err := Decode(b)
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Errorf("Decode(%q): %v, want ErrDamaged", b, err)
			}
			return
		}
		again, err := rs.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(again)
		if err != nil || !reflect.DeepEqual(got, rs) {
			t.Errorf("%q is %v, but comes back as %v, %v", b, rs, got, err)
		}
		if object := rs.AppendJSON(nil); !json.Valid(object) {
			t.Errorf("%q is shown as %q, which is no JSON", b, object)
		}
	})
}

func TestAppendJSON(t *testing.T) {
	p := func(k, v string) Property { return Property{Set, k, []byte(v)} }
	rs := change(1, 1, p("n", "12345678901234567890"), p("o", `{"b":1, "a":2,"a":3}`), p("\xff\"\x00", `"\u0000"`), p("bad", "{"), p("raw", "\"\x00\""),
		p("none", "1"), Property{Op: Unset, Key: "none"}).registers()
	want := `{"bad":"{","n":12345678901234567890,"o":{"b":1, "a":2,"a":3},"raw":"�","�\"�":"�"}`
	if got := string(rs.AppendJSON(nil)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
