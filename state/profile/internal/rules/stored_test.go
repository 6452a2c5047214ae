package rules

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/state/internal/register"
	"github.com/tidemill/tidemill/state/profile"
)

// of are registers after these operations on attribute k, a second apart.
func of(t *testing.T, ops ...profile.Op) (rs Registers) {
	t.Helper()
	var cs []profile.Change
	for i, op := range ops {
		cs = append(cs, profile.Change{Tenant: "t", Event: "e", At: noon.Add(time.Duration(i) * time.Second), Attributes: []profile.Attribute{{Op: op, Key: "k", Value: []byte("12")}}})
	}
	return played(t, nil, cs)
}

// Files hold these bytes: another version has to read them.
func TestTheStoredFormStays(t *testing.T) {
	for want, rs := range map[string]Registers{
		"": of(t),
		"02fd845aa801016b010280c0f8daa6fda506348971f713c5ea49023132": of(t, profile.Set),
		"02990deb4b01016b5f0280dbe6dda6fda506348971f713c5ea490231320280c9f2dba6fda506348971f713c5ea490231320280d2ecdca6fda506348971f713c5ea490231320280c0f8daa6fda506348971f713c5ea490280e4e0dea6fda506348971f713c5ea4900023132": of(t, profile.Unset, profile.Once, profile.Once, profile.Set, profile.Add),
	} {
		if got := hex.EncodeToString(rs.AppendBinary(nil)); got != want {
			t.Errorf("stored as %s, want %s", got, want)
		}
	}
}

func TestTheSizeIsThatOfAllParts(t *testing.T) {
	const head, at, value = 4 + 1 + 1, 20, 4 + 2
	for op, want := range map[profile.Op]int{profile.Set: head + at + value, profile.Unset: head + at, profile.Once: head + 2*(at+value), profile.Add: head + 2*at + value} {
		if got := of(t, op).size(); got != want {
			t.Errorf("after %v it is %d, want %d", op, got, want)
		}
	}
}

func TestWhatIsTooLargeMayStayAsLarge(t *testing.T) {
	var rs Registers
	value := strings.Repeat("1", profile.MaxValue)
	for i := range profile.MaxBytes/profile.MaxValue + 1 {
		rs = append(rs, Register{Register: register.Register{Key: fmt.Sprintf("k%02d", i), Has: register.HasSet, Set: register.Write{Value: []byte(value)}}})
	}
	for size, want := range map[int]error{profile.MaxValue - 1: nil, profile.MaxValue: nil, profile.MaxValue + 1: profile.ErrFull} {
		c := profile.Change{At: noon, Attributes: []profile.Attribute{{Op: profile.Set, Key: "k00", Value: []byte(strings.Repeat("2", size))}}}
		if _, _, err := rs.apply(&c, noon); !errors.Is(err, want) {
			t.Errorf("a value of %d bytes: %v, want %v", size, err, want)
		}
	}
}

// The limit itself is allowed.
func TestAttributesMayFillTheirRoom(t *testing.T) {
	var rs Registers
	add := func(size int) error {
		c := profile.Change{At: noon, Attributes: []profile.Attribute{{Op: profile.Set, Key: fmt.Sprintf("k%02d", len(rs)), Value: []byte(strings.Repeat("1", size))}}}
		more, _, err := rs.apply(&c, noon)
		if err == nil {
			rs = more
		}
		return err
	}
	const beside = 4 + 1 + 3 + 20 + 4 // of a value of such a key
	for rs.size()+2*(beside+profile.MaxValue) <= profile.MaxBytes {
		if err := add(profile.MaxValue); err != nil {
			t.Fatal(err)
		}
	}
	room := profile.MaxBytes - rs.size() - beside
	if err := add(min(room, profile.MaxValue)); err != nil {
		t.Fatal(err)
	}
	if room = profile.MaxBytes - rs.size() - beside; room > 0 {
		if err := add(room + 1); !errors.Is(err, profile.ErrFull) {
			t.Errorf("a byte too many: %v, want ErrFull", err)
		}
		if err := add(room); err != nil {
			t.Error(err)
		}
	}
	if rs.size() != profile.MaxBytes {
		t.Errorf("%d bytes, want %d", rs.size(), profile.MaxBytes)
	}
}

// An earliest Once always has its value: an Unset drops the whole of it.
func TestAOnceWithoutAValueIsDamaged(t *testing.T) {
	rs := Registers{{Register: register.Register{Key: "k", Has: register.HasFirst | register.HasUnset}}}
	if _, err := Decode(uuid.UUID{1}, rs.AppendBinary(nil)); !errors.Is(err, ErrDamaged) {
		t.Errorf("%v, want ErrDamaged", err)
	}
}

// A second try knows nothing of the first, whose profile was not created.
func TestASecondTryBeginsAnew(t *testing.T) {
	o, err := profile.Options{}.WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	b, err := NewBatch([]profile.Ask{{Tenant: "t", Identities: profile.Identities{External: "x"}, Create: true}}, make([]profile.Answer, 1), o)
	if err != nil {
		t.Fatal(err)
	}
	for try := range 2 {
		if !b.Decide() || len(b.Created) != 1 || len(b.Given) != 1 {
			t.Errorf("try %d: created %v, given %v; want one of each", try+1, b.Created, b.Given)
		}
		b.Again()
	}
}

func TestPages(t *testing.T) {
	for n, want := range map[int]int{-1: 100, 0: 100, 1: 1, profile.MaxPage: profile.MaxPage, profile.MaxPage + 1: profile.MaxPage} {
		if got := Page(n); got != want {
			t.Errorf("Page(%d) = %d, want %d", n, got, want)
		}
	}
}

// Backends lock in this order, and each once.
func TestNamesAndOwnersAreSorted(t *testing.T) {
	o, err := profile.Options{}.WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	var asks []profile.Ask
	for _, x := range []string{"b", "a", "b"} {
		asks = append(asks, profile.Ask{Tenant: "t", Identities: profile.Identities{External: x, Email: x + "@x.example"}, Create: true})
	}
	b, err := NewBatch(asks, make([]profile.Answer, len(asks)), o)
	if err != nil || len(b.Names) != 4 || !slices.IsSortedFunc(b.Names, Name.Compare) {
		t.Errorf("names %+v, %v; want 4, sorted", b.Names, err)
	}
	first, second := uuid.UUID{1}, uuid.UUID{2}
	for i, n := range b.Names {
		if n.Kind == profile.External {
			b.Has(n, []uuid.UUID{second, first}[i%2])
		}
	}
	if got := b.Crowd(false); !slices.Equal(got, []Owner{{"t", first}, {"t", second}}) {
		t.Errorf("crowd %+v, want both, sorted, each once", got)
	}
	e := NewEdit([]profile.Change{{Tenant: "t", Profile: second}, {Tenant: "t", Profile: first}, {Tenant: "t", Profile: second}})
	if !slices.Equal(e.Owners, []Owner{{"t", first}, {"t", second}}) {
		t.Errorf("owners %+v, want both, sorted, each once", e.Owners)
	}
}

// What says nothing new is no change, and leaves the time of the last one.
func TestWhatSaysNothingNewIsNotWritten(t *testing.T) {
	c := profile.Change{Tenant: "t", Profile: uuid.UUID{1}, Event: "e", At: noon, Attributes: []profile.Attribute{{Op: profile.Set, Key: "k", Value: []byte("1")}}}
	r := &Record{Owner: Owner{"t", c.Profile}}
	for _, want := range []int{1, 0} {
		before := r.Updated
		e := NewEdit([]profile.Change{c})
		e.Found(r, nil)
		e.Apply(noon.Add(time.Duration(2-want) * time.Hour))
		if len(e.Changed) != want || (r.Updated == before) != (want == 0) {
			t.Errorf("%d records changed, of %v before and %v now; want %d changed", len(e.Changed), before, r.Updated, want)
		}
	}
}

func TestNothingGivenIsNothingToWrite(t *testing.T) {
	o, err := profile.Options{}.WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	for create, want := range map[bool]bool{true: true, false: false} {
		b, err := NewBatch([]profile.Ask{{Tenant: "t", Identities: profile.Identities{External: "x"}, Create: create}}, make([]profile.Answer, 1), o)
		if err != nil || b.Decide() != want {
			t.Errorf("create %v: there is something to write: %v, %v", create, !want, err)
		}
	}
}
