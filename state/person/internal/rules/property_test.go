package rules

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/tidemill/tidemill/state/person"
)

func change(seconds int, event byte, ps ...person.Property) *person.Change {
	return &person.Change{Event: uuid.UUID{event}, At: time.Unix(int64(seconds), 0), Properties: ps}
}

func set(v string) person.Property {
	return person.Property{Op: person.Set, Key: "k", Value: []byte(v)}
}

func once(v string) person.Property {
	return person.Property{Op: person.Once, Key: "k", Value: []byte(v)}
}

func unset() person.Property { return person.Property{Op: person.Unset, Key: "k"} }

func TestValue(t *testing.T) {
	for _, c := range []struct {
		name string
		want string // empty: none
		of   []*person.Change
	}{
		{"nothing", "", nil},
		{"a set", "1", []*person.Change{change(1, 1, set("1"))}},
		{"the later set", "2", []*person.Change{change(1, 1, set("1")), change(2, 1, set("2"))}},
		{"the set of the greater event where times are equal", "2", []*person.Change{change(1, 1, set("1")), change(1, 2, set("2"))}},
		{"the greater value where one event came with two", "2", []*person.Change{change(1, 1, set("1")), change(1, 1, set("2"))}},
		{"the earliest once", "1", []*person.Change{change(1, 1, once("1")), change(2, 1, once("2"))}},
		{"a set, also after a once", "2", []*person.Change{change(1, 1, once("1")), change(2, 1, set("2"))}},
		{"a set, also before a once", "1", []*person.Change{change(1, 1, set("1")), change(2, 1, once("2"))}},
		{"none after an unset", "", []*person.Change{change(1, 1, set("1")), change(2, 1, once("2")), change(3, 1, unset())}},
		{"a set after an unset", "3", []*person.Change{change(1, 1, set("1")), change(2, 1, unset()), change(3, 1, set("3"))}},
		{"a once after an unset of a set", "3", []*person.Change{change(1, 1, set("1")), change(2, 1, unset()), change(3, 1, once("3"))}},
		{"a once after an unset of a once", "3", []*person.Change{change(1, 1, once("1")), change(2, 1, unset()), change(3, 1, once("3"))}},
		{"the latest once, where the earliest was unset", "4", []*person.Change{change(1, 1, once("1")), change(2, 1, unset()), change(3, 1, once("3")), change(4, 1, once("4"))}},
		{"none after an unset of the same event", "", []*person.Change{change(1, 1, unset(), set("1"), once("1"))}},
		{"none after an unset of the same time and a greater event", "", []*person.Change{change(1, 1, set("1")), change(1, 2, unset())}},
		{"the set after an unset of the same time and a smaller event", "1", []*person.Change{change(1, 2, set("1")), change(1, 1, unset())}},
		{"a set of the year 9999", "1", []*person.Change{change(253402300799, 1, set("1")), change(1, 1, unset())}},
		{"none where a value is missing", "", []*person.Change{change(1, 1, set(""))}},
		{"none for an operation that does not exist", "", []*person.Change{change(1, 1, person.Property{Op: 7, Key: "k", Value: []byte("1")})}},
	} {
		orders := [][]*person.Change{c.of, slices.Clone(c.of)}
		slices.Reverse(orders[1])
		for _, of := range orders {
			var rs Registers
			for _, ch := range of {
				rs, _ = rs.Join(registersOf(ch))
			}
			want := map[string][]byte{}
			if c.want != "" {
				want["k"] = []byte(c.want)
			}
			if got := rs.Properties(); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %q, want %q", c.name, got, want)
			}
		}
	}
}

func TestUnsetForgets(t *testing.T) {
	rs, _ := registersOf(change(1, 1, set(`"secret"`))).Join(registersOf(change(1, 2, once(`"secret"`))))
	rs, _ = rs.Join(registersOf(change(2, 1, unset())))
	if b := rs.AppendBinary(nil); bytes.Contains(b, []byte("secret")) {
		t.Errorf("after an unset the value is still stored: %q", b)
	}
}

var churn = []string{"$browser", "$browser_version", "$os", "$os_version", "$device_type", "$screen_width", "$screen_height",
	"$viewport_width", "$viewport_height", "$current_url", "$referrer", "$referring_domain", "$pathname", "$ip",
	"$geoip_country_code", "$geoip_city_name", "$timezone", "$language"}

func TestChurn(t *testing.T) {
	for _, k := range churn {
		if !Churn(k) {
			t.Errorf("Churn(%q) is false", k)
		}
		if rs := registersOf(change(1, 1, person.Property{Op: person.Set, Key: k, Value: []byte("1")})); len(rs) != 0 {
			t.Errorf("%q was kept: %v", k, rs)
		}
	}
	for _, k := range []string{"", "os", "$initial_os", "$OS", "email"} {
		if Churn(k) {
			t.Errorf("Churn(%q) is true", k)
		}
	}
}

func TestUntimed(t *testing.T) {
	read := func(owner byte, object string) Registers {
		rs, err := Untimed(uuid.UUID{owner}, []byte(object))
		if err != nil {
			t.Fatal(err)
		}
		return rs
	}
	join := func(a, b Registers) Registers { j, _ := a.Join(b); return j }
	check := func(what string, rs Registers, want string) {
		t.Helper()
		if got := string(rs.AppendJSON(nil)); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	a, b, c := read(9, `{"k":1,"a":12345678901234567890,"a":2}`), read(1, ` {"k" : [1, 2], "b":"\u0000"} `), read(5, `{"k":3}`)
	check("what was stored", a, `{"a":2,"k":1}`)
	check("an event of the year 1 is newer", join(registersOf(change(-62135596800, 1, set("7"))), a), `{"a":2,"k":7}`)
	check("so is its unset", join(registersOf(change(-62135596800, 1, unset())), a), `{"a":2}`)
	check("a once does not overwrite", join(registersOf(change(1, 1, once("7"))), b), `{"b":"\u0000","k":[1, 2]}`)
	check("the survivor's wins", join(a, b.demoted()), `{"a":2,"b":"\u0000","k":1}`)
	check("the survivor's wins, the other way round", join(b, a.demoted()), `{"a":2,"b":"\u0000","k":[1, 2]}`)
	for _, rs := range []Registers{join(join(b, a.demoted()), c.demoted()), join(join(b, c.demoted()), a.demoted())} {
		check("of two others, in either order", rs, `{"a":2,"b":"\u0000","k":[1, 2]}`)
	}
	x := read(2, `{}`)
	if l, r := join(join(x, a.demoted()), c.demoted()), join(join(x, c.demoted()), a.demoted()); !reflect.DeepEqual(l, r) {
		t.Errorf("two merged into a third depend on their order: %v, %v", l, r)
	}
	for _, bad := range []string{"", "null", "[]", `{"k":}`, `{"k":1`, `{"k"`} {
		if rs, err := Untimed(uuid.UUID{}, []byte(bad)); err == nil {
			t.Errorf("Untimed(%q) = %v, want an error", bad, rs)
		}
	}
}

// drawn is any registers that a history can lead to.
func drawn(t *rapid.T, label string) Registers {
	var rs Registers
	for i := range rapid.IntRange(0, 6).Draw(t, label) {
		c := change(rapid.IntRange(0, 4).Draw(t, "at"), byte(rapid.IntRange(0, 2).Draw(t, "event")))
		for range rapid.IntRange(0, 4).Draw(t, "properties") {
			c.Properties = append(c.Properties, person.Property{
				Op:    rapid.SampledFrom([]person.Op{person.Set, person.Once, person.Unset}).Draw(t, "operation"),
				Key:   rapid.SampledFrom([]string{"", "a", "b\x00", "\xff"}).Draw(t, "key"),
				Value: []byte(rapid.SampledFrom([]string{"1", `"2"`, "null", `"\u0000"`, fmt.Sprint(i)}).Draw(t, "value")),
			})
		}
		rs, _ = rs.Join(registersOf(c))
	}
	if rapid.IntRange(0, 3).Draw(t, "stored") == 0 {
		old, err := Untimed(uuid.UUID{byte(rapid.IntRange(0, 3).Draw(t, "owner"))}, []byte(`{"a":0,"c":1}`))
		if err != nil {
			t.Fatal(err)
		}
		rs, _ = rs.Join(old)
	}
	if rapid.Bool().Draw(t, "merged") {
		rs = rs.demoted()
	}
	return rs
}

func TestJoin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := drawn(t, "a"), drawn(t, "b"), drawn(t, "c")
		join := func(a, b Registers) Registers { j, _ := a.Join(b); return j }
		equal := func(law string, x, y Registers) {
			if !slices.EqualFunc(x, y, func(r, o Register) bool { return r.Equal(&o) }) {
				t.Errorf("join is not %s:\na %v\nb %v\nc %v\n%v\n%v", law, a, b, c, x, y)
			}
		}
		before := a.Clone()
		equal("commutative", join(a, b), join(b, a))
		equal("associative", join(join(a, b), c), join(a, join(b, c)))
		equal("idempotent", join(join(a, b), b), join(a, b))
		equal("pure", a, before)
		equal("demoting alike", join(a, b).demoted(), join(a.demoted(), b.demoted()))
		ab, more := a.Join(b)
		if same := slices.EqualFunc(ab, a, func(r, o Register) bool { return r.Equal(&o) }); more == same {
			t.Errorf("joining %v to %v says %v, and came to %v", b, a, more, ab)
		}
	})
}

func TestRegistersAreTheSameWhereNothingWasJoined(t *testing.T) {
	one, other := registersOf(change(1, 1, set("1"))), registersOf(change(1, 1, set("1")))
	joined, _ := one.Join(other)
	for name, c := range map[string]struct {
		a, b Registers
		want bool
	}{
		"nothing new": {one, joined, true}, "equal ones": {one, other, false}, "none and none": {nil, Registers{}, true}, "none and one": {nil, one, false},
	} {
		if c.a.Same(c.b) != c.want || c.b.Same(c.a) != c.want {
			t.Errorf("%s are the same: %v", name, !c.want)
		}
	}
}

// Processed one by one in order of time, the plain meaning of the words comes to the same,
// as long as at most one $set_once follows an $unset: of several the rule takes the last.
func TestPlainMeaning(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var changes []*person.Change
		value, onces, unsets := "", 0, 0
		for i := range rapid.IntRange(1, 8).Draw(t, "events") {
			c := change(i, byte(i))
			op := rapid.SampledFrom([]person.Op{person.Set, person.Once, person.Unset}).Draw(t, "operation")
			if op == person.Once && unsets > 0 && onces > 0 {
				op = person.Set
			}
			v := fmt.Sprint(i)
			switch op {
			case person.Set:
				value = v
				c.Properties = []person.Property{set(v)}
			case person.Once:
				if onces++; value == "" {
					value = v
				}
				c.Properties = []person.Property{once(v)}
			case person.Unset:
				unsets++
				onces, value = 0, ""
				c.Properties = []person.Property{unset()}
			}
			changes = append(changes, c)
		}
		var rs Registers
		for _, c := range rapid.Permutation(changes).Draw(t, "order") {
			rs, _ = rs.Join(registersOf(c))
		}
		if got := string(rs.Properties()["k"]); got != value {
			t.Errorf("got %q, want %q", got, value)
		}
	})
}

func TestFloorHour(t *testing.T) {
	for in, want := range map[int64]int64{0: 0, 1: 0, hour - 1: 0, hour: hour, -1: -hour, -hour: -hour, -hour - 1: -2 * hour} {
		if got := floorHour(in); got != want {
			t.Errorf("floorHour(%d) = %d, want %d", in, got, want)
		}
	}
}

func TestLongKeys(t *testing.T) {
	rs := registersOf(change(1, 1, person.Property{Op: person.Set, Key: strings.Repeat("k", 100_000), Value: []byte("1")}))
	if got, err := Decode(rs.AppendBinary(nil)); err != nil || !reflect.DeepEqual(got, rs) {
		t.Errorf("decoded %v, %v", got, err)
	}
}
