package register

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"
)

// drawn is any register that a history can lead to.
func drawn(t *rapid.T, label string) Register {
	r := Register{Key: "k"}
	for range rapid.IntRange(0, 6).Draw(t, label) {
		w := Write{Stamp{Micro: int64(rapid.IntRange(-2, 2).Draw(t, "at")), Order: uint64(rapid.IntRange(0, 1).Draw(t, "order"))},
			[]byte(rapid.SampledFrom([]string{"1", `"2"`, "null"}).Draw(t, "value"))}
		w.Event[0] = byte(rapid.IntRange(0, 2).Draw(t, "event"))
		one := Register{Key: "k"}
		one.Write(rapid.SampledFrom([]Parts{HasSet, Once, HasUnset}).Draw(t, "operation"), w)
		r.Join(&one)
	}
	return r
}

// TestTheLawsOfJoin: what is known does not depend on the order in which it came, nor on how often.
func TestTheLawsOfJoin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := drawn(t, "a"), drawn(t, "b"), drawn(t, "c")
		join := func(a, b Register) Register { a.Join(&b); return a }
		equal := func(law string, x, y Register) {
			if !x.Equal(&y) || !reflect.DeepEqual(x, y) {
				t.Errorf("join is not %s:\na %v\nb %v\nc %v\n%v\n%v", law, a, b, c, x, y)
			}
		}
		equal("commutative", join(a, b), join(b, a))
		equal("associative", join(join(a, b), c), join(a, join(b, c)))
		equal("idempotent", join(join(a, b), b), join(a, b))
		equal("neutral to nothing", join(a, Register{Key: "k"}), a)
	})
}

// TestStampsAndWritesAreInATotalOrder: two are the same in no order unless they are one.
func TestStampsAndWritesAreInATotalOrder(t *testing.T) {
	ws := []Write{{Stamp{-1, 9, uuid.UUID{9}}, []byte("9")}, {Stamp{1, 0, uuid.UUID{9}}, []byte("9")}, {Stamp{1, 1, uuid.UUID{}}, []byte("9")},
		{Stamp{1, 1, uuid.UUID{15: 1}}, []byte("9")}, {Stamp{1, 1, uuid.UUID{1}}, []byte("1")}, {Stamp{1, 1, uuid.UUID{1}}, []byte("2")}}
	for i := range ws {
		for j := range ws {
			if got, want := ws[i].Compare(ws[j]), sign(i-j); got != want {
				t.Errorf("%v compared with %v is %d, want %d", ws[i], ws[j], got, want)
			}
		}
	}
}

func sign(n int) int { return min(1, max(-1, n)) }

// mine is a register with a part that its role adds.
type mine struct {
	Register
	more []byte
}

func encoded(rs []mine) []byte {
	e := Begin([]byte("before"), len(rs))
	for i := range rs {
		if e.Register(&rs[i].Register, rs[i].more != nil); rs[i].more != nil {
			e.Value(rs[i].more)
		}
	}
	return e.End()[len("before"):]
}

func decoded(b []byte) ([]mine, error) {
	d, n := Open(b)
	rs := make([]mine, n)
	for i := range rs {
		if d.Register(&rs[i].Register) {
			rs[i].more = d.Value()
		}
	}
	return rs, d.End()
}

func TestWhatIsStoredIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rs []mine
		for _, key := range []string{"", "a", "b\x00", "\xff"} {
			m := mine{Register: drawn(t, "register")}
			if m.Key = key; rapid.Bool().Draw(t, "more") {
				m.more = []byte("more")
			}
			if m.Has != 0 || m.more != nil {
				rs = append(rs, m)
			}
		}
		if len(rs) == 0 {
			return
		}
		b := encoded(rs)
		got, err := decoded(bytes.Clone(b))
		if err != nil || !reflect.DeepEqual(got, rs) {
			t.Fatalf("decoded %v, %v; want %v", got, err, rs)
		}
		at := rapid.IntRange(0, len(b)-1).Draw(t, "damaged")
		if _, err := decoded(b[:at]); at > 0 && err == nil {
			t.Errorf("cut after %d bytes it is read", at)
		}
		if _, err := decoded(append(bytes.Clone(b), 0)); err == nil {
			t.Error("with a byte too many it is read")
		}
		b[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if _, err := decoded(b); err == nil {
			t.Errorf("with byte %d damaged it is read", at)
		}
	})
}

// summed is a stored form with the right checksum.
func summed(body []byte) []byte {
	b := append([]byte{version, 0, 0, 0, 0}, body...)
	binary.LittleEndian.PutUint32(b[1:], checksum(body))
	return b
}

func TestWhatWasNeverWrittenIsDamaged(t *testing.T) {
	one := func(flags Parts, rest ...byte) []byte { return append([]byte{1, 1, 'k', byte(flags)}, rest...) }
	const set, unset = byte(HasSet), byte(HasUnset)
	value := []byte{same, 1, '1'} // under the stamp before it
	stamp := func(micro byte) []byte { return append([]byte{withEvent, micro, 0}, make([]byte, 16)...) }
	for name, body := range map[string][]byte{
		"no part":                                one(0),
		"an unknown part":                        one(HasSet|1<<7, value...),
		"a value of no once":                     one(HasSet|valued, value...),
		"a once twice that is not":               one(HasFirst|valued|lastSame, value...),
		"a latest once of no earliest":           one(HasLast|lastSame, value...),
		"a once twice without a value":           one(Once|lastSame, 0),
		"a once that nothing unset":              one(HasFirst, 0),
		"an empty value":                         one(HasSet, 0, 0),
		"a stamp of no kind":                     one(HasUnset, withHash+1),
		"a stamp cut short":                      one(HasUnset, stamp(2)[:18]...),
		"a hash cut short":                       one(HasUnset, withHash, 2, 1, 2, 3, 4, 5, 6, 7),
		"a key twice":                            {2, 1, 'k', set, 0, 1, '1', 1, 'k', set, 0, 1, '1'},
		"the empty key twice":                    {2, 0, set, 0, 1, '1', 0, set, 0, 1, '1'},
		"keys out of order":                      {2, 1, 'l', set, 0, 1, '1', 1, 'k', set, 0, 1, '1'},
		"too few registers":                      {2, 1, 'k', set, 0, 1, '1'},
		"too many registers":                     {1, 1, 'k', set, 0, 1, '1', 1, 'l', set, 0, 1, '1'},
		"no registers":                           {0},
		"a number that does not end":             bytes.Repeat([]byte{0xff}, 11),
		"a once twice after an unset, no value":  append(one(Once|lastSame|HasUnset, stamp(4)...), stamp(2)...),
		"what an unset has forgotten":            {1, 1, 'k', set | unset, 0, 1, '1', 0},
		"an own part that is not there":          one(HasSet|added, value...),
		"an event's stamp without all its parts": one(HasUnset, withEvent, 2),
	} {
		if rs, err := decoded(summed(body)); err == nil {
			t.Errorf("%s: %v", name, rs)
		}
	}
	for name, body := range map[string][]byte{
		"a set":                    one(HasSet, value...),
		"the least":                {1, 0, unset, 0},
		"a once":                   one(Once|valued|lastSame, value...),
		"an unset once":            one(HasFirst|HasUnset, 0, 0),
		"an earliest and a latest": one(Once|valued, 0, 1, '1', 0, 1, '2'),
		"a stamp with a hash":      one(HasUnset, withHash, 2, 1, 2, 3, 4, 5, 6, 7, 8),
		"an own part alone":        one(added, 1, '2'),
		"an own part":              one(HasSet|added, append(value, 1, '2')...),
	} {
		if _, err := decoded(summed(body)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, b := range [][]byte{{version}, append([]byte{version + 1}, summed([]byte{1, 0, unset, 0})[1:]...)} {
		if rs, err := decoded(b); err == nil {
			t.Errorf("%v: %v", b, rs)
		}
	}
}

// FuzzDecode damages what the checksum would catch, and repairs the checksum.
func FuzzDecode(f *testing.F) {
	w := Write{Stamp{Micro: 1, Order: 2, Event: uuid.UUID{3}}, []byte("1")}
	rs := []mine{{Register: Register{Key: "a"}}, {Register: Register{Key: "b"}}, {Register: Register{Key: "c"}}, {Register: Register{Key: "d"}, more: []byte("2")}}
	for i, part := range []Parts{HasSet, Once, HasUnset} {
		rs[i].Write(part, w)
	}
	for i := range rs {
		f.Add(encoded(rs[i:])[head:])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		b := summed(body)
		rs, err := decoded(b)
		if err != nil {
			return
		}
		if len(rs) > len(body) {
			t.Errorf("%d registers of %d bytes", len(rs), len(body))
		}
		if got, err := decoded(encoded(rs)); err != nil || !reflect.DeepEqual(got, rs) {
			t.Errorf("%q is %v, but comes back as %v, %v", b, rs, got, err)
		}
	})
}
