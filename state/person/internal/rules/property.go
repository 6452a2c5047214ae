package rules

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/tidemill/tidemill/state/internal/register"
	"github.com/tidemill/tidemill/state/person"
)

// Registers are the properties of a person, sorted by key: the same events in any order, any number
// of times, from several instances at once, give the same properties.
//
// The value is that of the latest $set, or else of the earliest $set_once, or else of the latest
// $set_once; each counts only if no $unset is later. Otherwise the property has no value. After an
// $unset the time of the earliest $set_once stays. Inside one event $set_once comes first, then
// $set, then $unset. Events of one time are in the order of their requests and of their places in
// them.
//
// Registers are never modified; Join makes new ones.
type Registers []Register

// Register is one property and its history.
type Register = register.Register

// untimed is the time of a value stored without one: older than any event. Each merge into
// another person makes it one older (demoted), so that the survivor's wins.
const untimed = math.MinInt64 + 1<<32

// Churn says whether a property changes with every page and device. Such a property is
// never stored on a person.
func Churn(key string) bool {
	switch key {
	case "$browser", "$browser_version", "$os", "$os_version", "$device_type",
		"$screen_width", "$screen_height", "$viewport_width", "$viewport_height",
		"$current_url", "$referrer", "$referring_domain", "$pathname",
		"$ip", "$geoip_country_code", "$geoip_city_name", "$timezone", "$language":
		return true
	}
	return false
}

// parts are those that operations write.
var parts = [256]register.Parts{person.Set: register.HasSet, person.Once: register.Once, person.Unset: register.HasUnset}

// registersOf returns the operations of one event: of several operations of one kind on one
// key the last one counts. It leaves out high-churn properties and missing values, and
// turns U+0000 into U+FFFD, since not every store can hold it. Other values still use the
// event's memory.
func registersOf(c *person.Change) Registers {
	rs := make(Registers, 0, len(c.Properties))
	s := register.Stamp{Micro: c.At.UnixMicro(), Order: c.Order, Event: c.Event}
	for _, p := range c.Properties {
		part := parts[p.Op]
		if part == 0 || Churn(p.Key) || p.Op != person.Unset && len(p.Value) == 0 {
			continue
		}
		rs = append(rs, Register{Key: strings.ReplaceAll(p.Key, "\x00", "\uFFFD")})
		rs[len(rs)-1].Write(part, register.Write{Stamp: s, Value: withoutNUL(p.Value)})
	}
	rs = rs.sorted()
	for i := range rs {
		rs[i].Forget()
	}
	return rs
}

// withoutNUL replaces every U+0000 of a value by U+FFFD, whether escaped or, in bytes that
// are not JSON, plain.
func withoutNUL(v []byte) []byte {
	if !bytes.Contains(v, []byte(`\u0000`)) && bytes.IndexByte(v, 0) < 0 {
		return v
	}
	b := make([]byte, 0, len(v))
	for i := 0; i < len(v); i++ {
		switch {
		case v[i] == 0:
			b = append(b, "\uFFFD"...)
		case v[i] != '\\':
			b = append(b, v[i])
		case bytes.HasPrefix(v[i:], []byte(`\u0000`)):
			b = append(b, "\uFFFD"...)
			i += len(`u0000`)
		default: // an escape of two bytes, or the beginning of a longer one
			b = append(b, v[i])
			if i++; i < len(v) {
				b = append(b, v[i])
			}
		}
	}
	return b
}

// sorted sorts the registers of one event, in place, and makes one register of each key.
func (rs Registers) sorted() Registers {
	if len(rs) == 1 {
		return rs
	}
	slices.SortStableFunc(rs, byKey)
	n := 0
	for i := range rs {
		if n > 0 && rs[n-1].Key == rs[i].Key {
			replace(&rs[n-1], &rs[i])
			continue
		}
		rs[n] = rs[i]
		n++
	}
	return rs[:n]
}

func byKey(a, b Register) int { return strings.Compare(a.Key, b.Key) }

// replace takes over what o holds, as the later operation of the same event.
func replace(r, o *Register) {
	r.Has |= o.Has
	switch o.Has {
	case register.HasSet:
		r.Set = o.Set
	case register.Once:
		r.First, r.Last = o.First, o.Last
	case register.HasUnset:
		r.Unset = o.Unset
	}
}

// Join returns the combined registers, and whether they hold more than rs: if not, they are
// rs itself. The result shares the memory of keys and values with both.
func (rs Registers) Join(o Registers) (joined Registers, more bool) {
	if rs.covers(o) {
		return rs, false
	}
	out := make(Registers, 0, len(rs)+len(o))
	for len(rs) > 0 && len(o) > 0 {
		switch c := byKey(rs[0], o[0]); {
		case c < 0:
			out, rs = append(out, rs[0]), rs[1:]
		case c > 0:
			out, o = append(out, o[0]), o[1:]
		default:
			out = append(out, rs[0])
			out[len(out)-1].Join(&o[0])
			rs, o = rs[1:], o[1:]
		}
	}
	return append(append(out, rs...), o...), true
}

// Same says whether two registers are the same memory: Join returns rs itself where nothing
// is new.
func (rs Registers) Same(o Registers) bool {
	return len(rs) == len(o) && (len(rs) == 0 || &rs[0] == &o[0])
}

// covers says whether joining o would change nothing.
func (rs Registers) covers(o Registers) bool {
	for i := range o {
		at, ok := slices.BinarySearchFunc(rs, o[i].Key, func(r Register, key string) int { return strings.Compare(r.Key, key) })
		if !ok {
			return false
		}
		r := rs[at]
		if r.Join(&o[i]); !r.Equal(&rs[at]) {
			return false
		}
		rs = rs[at+1:]
	}
	return true
}

// Untimed reads properties that were stored without times under the person owner, a JSON
// object. They are older than any event. Of two persons the survivor's win; of two persons
// that were both merged into a third, those of the greater owner win, in any order.
func Untimed(owner uuid.UUID, object []byte) (Registers, error) {
	d := jsontext.NewDecoder(bytes.NewReader(object), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return nil, fmt.Errorf("read the properties of person %v: no JSON object", owner)
	}
	var rs Registers
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, fmt.Errorf("read the properties of person %v: %w", owner, err)
		}
		key := name.String()
		v, err := d.ReadValue()
		if err != nil {
			return nil, fmt.Errorf("read the properties of person %v: %w", owner, err)
		}
		rs = append(rs, Register{Key: key})
		rs[len(rs)-1].Write(register.HasSet, register.Write{Stamp: register.Stamp{Micro: untimed, Event: owner}, Value: bytes.Clone(v)})
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, fmt.Errorf("read the properties of person %v: %w", owner, err)
	}
	return rs.sorted(), nil
}

// demoted returns the registers of a person that is merged into another: values without a
// time become older than the survivor's.
func (rs Registers) demoted() Registers {
	var out Registers
	for i := range rs {
		if at := rs[i].Set.Micro; rs[i].Has&register.HasSet != 0 && at <= untimed && at > math.MinInt64 {
			if out == nil {
				out = slices.Clone(rs)
			}
			out[i].Set.Micro--
		}
	}
	if out == nil {
		return rs
	}
	return out
}

// Properties are the values by key. They share memory with the registers.
func (rs Registers) Properties() map[string][]byte {
	m := make(map[string][]byte, len(rs))
	for i := range rs {
		if v, ok := rs[i].Value(); ok {
			m[rs[i].Key] = v
		}
	}
	return m
}

// Clone returns registers that share no memory with rs.
func (rs Registers) Clone() Registers {
	out := slices.Clone(rs)
	for i := range out {
		r := &out[i]
		r.Key = strings.Clone(r.Key)
		r.Set.Value, r.First.Value, r.Last.Value = bytes.Clone(r.Set.Value), bytes.Clone(r.First.Value), bytes.Clone(r.Last.Value)
	}
	return out
}

const hour = int64(time.Hour / time.Millisecond)

// floorHour rounds milliseconds down to the hour, also before 1970.
func floorHour(milli int64) int64 {
	h := milli - milli%hour
	if h > milli {
		h -= hour
	}
	return h
}
