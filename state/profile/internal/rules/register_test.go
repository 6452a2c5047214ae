package rules

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/internal/register"
	"github.com/tidemill/tidemill/state/profile"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// drawn are changes whose order of arrival must not matter: of one attribute at most two
// Onces where it is unset too, and Sets and Unsets beside Adds only before or after all.
func drawn(r *rapid.T) []profile.Change {
	kinds := map[string][]profile.Op{"a": {profile.Set, profile.Unset}, "b": {profile.Set, profile.Once}, "c": {profile.Set, profile.Unset, profile.Once}, "d": {profile.Add}, "e": {profile.Add, profile.Set, profile.Unset, profile.Once}}
	onces := map[string]int{}
	cs := make([]profile.Change, rapid.IntRange(1, 12).Draw(r, "changes"))
	for i := range cs {
		at := rapid.IntRange(0, 5).Draw(r, "at")
		c := profile.Change{Tenant: "t", Profile: uuid.UUID{1}, Event: fmt.Sprint(rapid.IntRange(0, 9).Draw(r, "event"), "-", i), At: noon.Add(time.Duration(at) * time.Second)}
		for _, key := range []string{"a", "b", "c", "d", "e"} {
			if rapid.IntRange(0, 2).Draw(r, key) > 0 {
				continue
			}
			a := profile.Attribute{Op: rapid.SampledFrom(kinds[key]).Draw(r, "operation"), Key: key, Value: fmt.Append(nil, rapid.IntRange(-9, 9).Draw(r, "value"))}
			if a.Op == profile.Once {
				if onces[key]++; onces[key] > 2 && key != "b" {
					continue
				}
			}
			if key == "e" && a.Op != profile.Add { // before or after all Adds, which are at 0 to 5
				c.At = noon.Add(time.Duration(rapid.SampledFrom([]int{-9, -8, 8, 9}).Draw(r, "far")) * time.Second)
				c.Attributes = []profile.Attribute{a}
				break
			}
			c.Attributes = append(c.Attributes, a)
		}
		cs[i] = c
	}
	return cs
}

func played(t fataler, rs Registers, cs []profile.Change) Registers {
	for i := range cs {
		if err := cs[i].Check(); err != nil {
			t.Fatalf("%+v: %v", cs[i], err)
		}
		var err error
		if rs, _, err = rs.apply(&cs[i], noon.Add(time.Hour)); err != nil {
			t.Fatalf("%+v: %v", cs[i], err)
		}
	}
	return rs
}

type fataler interface{ Fatalf(string, ...any) }

func TestTheOrderOfArrivalDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		cs := drawn(r)
		want := played(r, nil, cs)
		got := played(r, nil, rapid.Permutation(cs).Draw(r, "order"))
		if a, b := want.Object(), got.Object(); !bytes.Equal(a, b) {
			r.Fatalf("%s in one order, %s in another", a, b)
		}
		again := cs[:0:0] // what is no Add may be sent again
		for _, c := range cs {
			c.Attributes = bytesOf(c.Attributes)
			again = append(again, c)
		}
		if a, b := got.AppendBinary(nil), played(r, got, again).AppendBinary(nil); !bytes.Equal(a, b) {
			r.Fatalf("sent again it is something else")
		}
	})
}

// bytesOf are those that are no Add.
func bytesOf(as []profile.Attribute) (rest []profile.Attribute) {
	for _, a := range as {
		if a.Op != profile.Add {
			rest = append(rest, a)
		}
	}
	return rest
}

func TestWhatIsStoredIsRead(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		rs := played(r, nil, drawn(r))
		stored := rs.AppendBinary(nil)
		got, err := Decode(uuid.UUID{1}, bytes.Clone(stored))
		if err != nil || !bytes.Equal(got.AppendBinary(nil), stored) || !bytes.Equal(got.Object(), rs.Object()) {
			r.Fatalf("%s became %s (%v)", rs.Object(), got.Object(), err)
		}
		if len(stored) > rs.size()+16 {
			r.Fatalf("%d bytes stored, taken for %d", len(stored), rs.size())
		}
		if len(stored) == 0 {
			return
		}
		at := rapid.IntRange(0, len(stored)-1).Draw(r, "damaged")
		stored[at] ^= 1 << rapid.IntRange(0, 7).Draw(r, "bit")
		if _, err := Decode(uuid.UUID{1}, stored); !errors.Is(err, ErrDamaged) || tidemill.KindOf(err) != tidemill.Internal {
			r.Fatalf("byte %d damaged: %v", at, err)
		}
		if _, err := Decode(uuid.UUID{1}, stored[:at]); at > 0 && !errors.Is(err, ErrDamaged) {
			r.Fatalf("cut at %d: %v", at, err)
		}
	})
}

func TestAnUnsetAttributeBeginsAnew(t *testing.T) {
	const long = 100 * 365 * 24 * 60 * 60 // seconds, to before 1970
	at := func(s int, op profile.Op, v string) profile.Change {
		return profile.Change{Tenant: "t", Event: fmt.Sprint(s), At: noon.Add(time.Duration(s) * time.Second), Attributes: []profile.Attribute{{Op: op, Key: "k", Value: []byte(v)}}}
	}
	for _, c := range []struct {
		name string
		cs   []profile.Change
		want string
	}{
		{"the first Once after it counts", []profile.Change{at(1, profile.Once, "1"), at(2, profile.Unset, ""), at(3, profile.Once, "3"), at(4, profile.Once, "4")}, `{"k":3}`},
		{"also where it came late", []profile.Change{at(1, profile.Once, "1"), at(3, profile.Once, "3"), at(2, profile.Unset, "")}, `{"k":3}`},
		{"of three Onces a late one leaves the last", []profile.Change{at(1, profile.Once, "1"), at(3, profile.Once, "3"), at(4, profile.Once, "4"), at(2, profile.Unset, "")}, `{"k":4}`},
		{"Adds after it", []profile.Change{at(1, profile.Add, "1"), at(2, profile.Unset, ""), at(3, profile.Add, "3")}, `{"k":3}`},
		{"a late one between two Adds keeps both", []profile.Change{at(1, profile.Add, "1"), at(3, profile.Add, "3"), at(2, profile.Unset, "")}, `{"k":4}`},
		{"a Once after an Add has nothing to do", []profile.Change{at(2, profile.Once, "100"), at(1, profile.Add, "1")}, `{"k":1}`},
		{"a Once before an Add is added to", []profile.Change{at(2, profile.Add, "1"), at(1, profile.Once, "100")}, `{"k":101}`},
		{"a text that comes late beneath a sum is the text", []profile.Change{at(2, profile.Add, "1"), at(1, profile.Set, `"x"`)}, `{"k":"x"}`},
		{"the earliest Add says whether a Once came before", []profile.Change{at(3, profile.Add, "1"), at(1, profile.Add, "1"), at(2, profile.Once, "100")}, `{"k":2}`},
		{"an Add of one instant with a Set is added to it", []profile.Change{at(1, profile.Set, "5"), at(1, profile.Add, "1")}, `{"k":6}`},
		{"whichever came first", []profile.Change{at(1, profile.Add, "1"), at(1, profile.Set, "5")}, `{"k":6}`},
		{"a Set before 1970 is unset", []profile.Change{at(-long, profile.Set, "1"), at(1-long, profile.Unset, "")}, `{}`},
		{"a Once before 1970", []profile.Change{at(-long, profile.Once, "1")}, `{"k":1}`},
		{"Adds before 1970", []profile.Change{at(-long, profile.Add, "1"), at(-long, profile.Add, "1")}, `{"k":2}`},
		{"an Add before a Set that came after an Unset", []profile.Change{at(1, profile.Unset, ""), at(3, profile.Set, "3"), at(2, profile.Add, "1")}, `{"k":3}`},
		{"a Set hides a Once for as long as it stands", []profile.Change{at(1, profile.Set, "1"), at(3, profile.Once, "3"), at(2, profile.Unset, "")}, `{"k":3}`},
	} {
		if got := string(played(t, nil, c.cs).Object()); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// What counts where two operations are of one instant, or come in the wrong order: an Unset
// takes what is not later with it.
func TestOperationsOfOneInstant(t *testing.T) {
	at := func(n int64) register.Stamp { return register.Stamp{Micro: n} }
	set := func(v string) *profile.Attribute {
		return &profile.Attribute{Op: profile.Set, Key: "k", Value: []byte(v)}
	}
	once := func(v string) *profile.Attribute {
		return &profile.Attribute{Op: profile.Once, Key: "k", Value: []byte(v)}
	}
	add := func(v string) *profile.Attribute {
		return &profile.Attribute{Op: profile.Add, Key: "k", Value: []byte(v)}
	}
	unset := &profile.Attribute{Op: profile.Unset, Key: "k"}
	type op struct {
		a *profile.Attribute
		s register.Stamp
	}
	for _, c := range []struct {
		why  string
		ops  []op
		want string // "none": no value
	}{
		{"a Once before it, and another after", []op{{unset, at(5)}, {once("6"), at(6)}, {once("8"), at(8)}, {once("5"), at(5)}}, "6"},
		{"a Once of its instant", []op{{once("1"), at(5)}, {unset, at(5)}}, "none"},
		{"a Once of its instant, in the other order", []op{{unset, at(5)}, {once("1"), at(5)}}, "none"},
		{"two Onces, the first of its instant", []op{{once("1"), at(5)}, {once("2"), at(6)}, {unset, at(5)}}, "2"},
		{"a Set of its instant", []op{{set("1"), at(5)}, {unset, at(5)}}, "none"},
		{"a Set after it", []op{{unset, at(5)}, {set("1"), at(6)}}, "1"},
		{"a Set after it, in the other order", []op{{set("1"), at(6)}, {unset, at(5)}}, "1"},
		{"an earlier Unset changes nothing", []op{{set("1"), at(4)}, {unset, at(5)}, {unset, at(3)}}, "none"},
		{"the later Set", []op{{set("2"), at(2)}, {set("1"), at(1)}}, "2"},
		{"of two Sets of one instant the greater", []op{{set("1"), at(1)}, {set("2"), at(1)}, {set("1"), at(1)}}, "2"},
		{"the first Once", []op{{once("3"), at(3)}, {once("1"), at(1)}, {once("2"), at(2)}}, "1"},
		{"sums", []op{{add("1"), at(1)}, {add("2"), at(3)}, {add("3"), at(2)}}, "6"},
		{"an Add to a Set of its instant", []op{{set("5"), at(1)}, {add("2"), at(1)}}, "7"},
		{"an Add before a Set", []op{{set("5"), at(2)}, {add("2"), at(1)}}, "5"},
		{"a Set after all Adds", []op{{add("2"), at(1)}, {add("2"), at(2)}, {set("5"), at(3)}}, "5"},
		{"a Set of the instant of the last Add", []op{{add("2"), at(1)}, {set("5"), at(1)}}, "7"},
		{"a Once leaves what was added before alone", []op{{add("2"), at(1)}, {once("9"), at(2)}}, "2"},
		{"a Once of the instant of the first Add", []op{{add("2"), at(2)}, {once("9"), at(2)}}, "11"},
		{"an Add after an Unset", []op{{set("5"), at(1)}, {unset, at(2)}, {add("2"), at(3)}}, "2"},
	} {
		r := Register{Register: register.Register{Key: "k"}}
		for _, o := range c.ops {
			if err := r.apply(o.a, o.s, noon); err != nil {
				t.Errorf("%s: %v", c.why, err)
			}
		}
		got := "none"
		if v, ok := r.Value(); ok {
			got = string(v)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.why, got, c.want)
		}
	}
}

// Whose identities are to be counted: of all who have one of several names, unless all names
// are of one.
func TestWhoseIdentitiesAreCounted(t *testing.T) {
	o, err := profile.Options{}.WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	mail, phone := Name{"t", profile.Identity{Kind: profile.Email, Value: "a@x.example"}}, Name{"t", profile.Identity{Kind: profile.Phone, Value: "+4930123456"}}
	one, other := uuid.UUID{1}, uuid.UUID{2}
	for _, c := range []struct {
		mail, phone uuid.UUID // zero: of no profile
		want        []Owner
	}{{want: nil}, {mail: one, want: []Owner{{"t", one}}}, {mail: one, phone: one, want: nil}, {mail: other, phone: one, want: []Owner{{"t", one}, {"t", other}}}} {
		b, err := NewBatch([]profile.Ask{{Tenant: "t", Identities: profile.Identities{Email: "a@x.example", Phone: "+4930123456"}}}, make([]profile.Answer, 1), o)
		if err != nil {
			t.Fatal(err)
		}
		for n, id := range map[Name]uuid.UUID{mail: c.mail, phone: c.phone} {
			if id != (uuid.UUID{}) {
				b.Has(n, id)
			}
		}
		if got := b.Crowd(false); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("of %v and %v: %v, want %v", c.mail, c.phone, got, c.want)
		}
	}
}

// What a batch of asks decides to write.
func TestWhatABatchWrites(t *testing.T) {
	next := byte(0)
	o, err := profile.Options{Externals: 1, NewID: func() uuid.UUID { next++; return uuid.UUID{next} }}.WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	asks := []profile.Ask{
		{Tenant: "t", Identities: profile.Identities{Email: "a@x.example"}, Create: true},                       // made here
		{Tenant: "t", Identities: profile.Identities{Email: "a@x.example", Phone: "+4930123456"}, Create: true}, // attaches to it
		{Tenant: "t", Identities: profile.Identities{Email: "b@x.example", External: "e"}},                      // attaches to one that was there
		{Tenant: "t", Identities: profile.Identities{Email: "c@x.example"}},                                     // of no profile, and not to be made
	}
	answers := make([]profile.Answer, len(asks))
	b, err := NewBatch(asks, answers, o)
	if err != nil {
		t.Fatal(err)
	}
	there := uuid.UUID{200}
	b.Has(Name{"t", profile.Identity{Kind: profile.Email, Value: "b@x.example"}}, there)
	if got := fmt.Sprint(b.Crowd(false)); got != fmt.Sprint([]Owner{{"t", there}}) {
		t.Errorf("who may be given a name: %v", got)
	}
	if !b.Decide() {
		t.Error("nothing is to be written")
	}
	if fmt.Sprint(b.Created) != fmt.Sprint([]Owner{{"t", uuid.UUID{1}}}) || fmt.Sprint(b.Attached) != fmt.Sprint([]Owner{{"t", there}}) || len(b.Given) != 3 {
		t.Errorf("created %v, attached %v, given %v", b.Created, b.Attached, b.Given)
	}
	if !answers[0].New || answers[1].New || answers[1].Profile != answers[0].Profile || answers[2].Profile != there || tidemill.KindOf(answers[3].Err) != tidemill.NotFound {
		t.Errorf("%+v", answers)
	}
}
