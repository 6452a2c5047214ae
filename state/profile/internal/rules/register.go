package rules

import (
	"bytes"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/internal/register"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/profile/internal/number"
)

// Registers are the attributes of a profile, sorted by key. Beside its value each keeps the
// latest Set, the latest Unset, the earliest and the latest Once after it, and the sum of
// the Adds since, with the times and the ids of their events. So late events have the
// effect that they would have had in time, and Set, Once and Unset may be sent any number
// of times.
//
// The value is as profile.Updater says. The latest Set or Unset overwrites an earlier Add.
//
// The order of arrival counts in two cases only. Adds are kept as one sum: a Set or Unset
// that arrives late, with a time between those of two Adds, cannot tell them apart any
// more, and keeps both. And of three Onces or more the first and the last are kept: an
// Unset that arrives late, with a time after the first, leaves the last.
type Registers []Register

// Register is one attribute and its history. It drops what a later Unset has made
// meaningless, so that a removed value is really gone. An earliest Once is one after the Unset.
type Register struct {
	register.Register
	sum *sum // nil: no Add counts. It is never modified
}

// sum is that of Adds, and when the earliest and the latest of them was.
type sum struct {
	from, to register.Stamp
	value    []byte
}

func (s *sum) equal(o *sum) bool {
	return s == o || s != nil && o != nil && s.from == o.from && s.to == o.to && bytes.Equal(s.value, o.value)
}

// reset is when the latest Set or Unset was.
func (r *Register) reset() (s register.Stamp, ok bool) {
	if r.Has&register.HasUnset != 0 {
		s, ok = r.Unset, true
	}
	if r.Has&register.HasSet != 0 && (!ok || r.Set.Stamp.Compare(s) > 0) {
		s, ok = r.Set.Stamp, true
	}
	return s, ok
}

// parts are those that operations write; an Add has a sum.
var parts = [256]register.Parts{profile.Set: register.HasSet, profile.Once: register.Once, profile.Unset: register.HasUnset}

// apply applies one operation of an event.
func (r *Register) apply(a *profile.Attribute, s register.Stamp, now time.Time) error {
	if a.Op == profile.Add {
		return r.add(a, s)
	}
	if a.Op == profile.Once && r.Has&register.HasUnset != 0 && s.Compare(r.Unset) <= 0 {
		return nil
	}
	if a.Arrival && a.Op != profile.Once {
		before, written := r.reset()
		s.Micro = now.UnixMicro()
		if written {
			s.Micro = max(s.Micro, before.Micro+1)
		}
	}
	one := register.Register{Key: r.Key}
	one.Write(parts[a.Op], register.Write{Stamp: s, Value: bytes.Clone(a.Value)})
	r.Join(&one)
	r.forget()
	return nil
}

// add adds a number, unless a later operation has overwritten it.
func (r *Register) add(a *profile.Attribute, s register.Stamp) error {
	if before, written := r.reset(); written && s.Compare(before) < 0 {
		return nil
	}
	base, ok := r.base()
	if ok && !number.Null(base) && !number.Valid(base) {
		return tidemill.Fail(tidemill.Business, "increment attribute %.80q: %w: it is %.40q; want a number of at most %d digits", a.Key, profile.ErrNumber, base, number.MaxDigits)
	}
	n := sum{s, s, []byte("0")}
	if r.sum != nil {
		n = *r.sum
	}
	if n.value, ok = number.Plus(n.value, a.Value); !ok {
		return tidemill.Fail(tidemill.Business, "increment attribute %.80q: %w: the sum would have more than %d digits", a.Key, profile.ErrNumber, number.MaxDigits)
	}
	if s.Compare(n.from) < 0 {
		n.from = s
	}
	if s.Compare(n.to) > 0 {
		n.to = s
	}
	r.sum = &n
	r.forget()
	return nil
}

// forget drops, after Forget, a first Once that an Unset has taken, and Adds that are all before
// the latest Set or Unset.
func (r *Register) forget() {
	if r.Has&register.HasFirst != 0 && r.First.Value == nil {
		r.First = r.Last
		if r.Has&register.HasLast == 0 {
			r.Has &^= register.HasFirst
		}
	}
	if at, written := r.reset(); written && r.sum != nil && at.Compare(r.sum.to) > 0 {
		r.sum = nil
	}
}

func (r *Register) equal(o *Register) bool {
	return r.Equal(&o.Register) && r.sum.equal(o.sum)
}

// base is the value without the sum of the Adds.
func (r *Register) base() ([]byte, bool) {
	if r.sum != nil && r.Has&register.HasSet == 0 && r.First.Stamp.Compare(r.sum.from) > 0 {
		return nil, false
	}
	return r.Register.Value()
}

// Value returns the attribute's value, false where it has none.
func (r *Register) Value() ([]byte, bool) {
	base, ok := r.base()
	switch {
	case r.sum == nil:
		return base, ok
	case !ok || number.Null(base):
		return r.sum.value, true
	}
	if v, ok := number.Plus(base, r.sum.value); ok {
		return v, true
	}
	return base, true // a later event says that it is not a number
}

// Attributes are the values by key. They share no memory with the registers.
func (rs Registers) Attributes() map[string][]byte {
	m := make(map[string][]byte, len(rs))
	for i := range rs {
		if v, ok := rs[i].Value(); ok {
			m[strings.Clone(rs[i].Key)] = bytes.Clone(v)
		}
	}
	return m
}

// size is at least the number of bytes that AppendBinary makes of them, without its head.
func (rs Registers) size() (n int) {
	const length, at = 4, 20 // at most, of a length and of a stamp
	for i := range rs {
		r := &rs[i]
		n += length + 1 + len(r.Key)
		if r.Has&register.HasSet != 0 {
			n += at + length + len(r.Set.Value)
		}
		if r.Has&register.HasUnset != 0 {
			n += at
		}
		if r.Has&register.HasFirst != 0 {
			n += 2*(at+length) + len(r.First.Value) + len(r.Last.Value)
		}
		if r.sum != nil {
			n += 2*at + length + len(r.sum.value)
		}
	}
	return n
}
