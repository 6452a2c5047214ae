package rules

import (
	"bytes"
	"cmp"
	"time"

	"github.com/tidemill/tidemill"
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
// meaningless, so that a removed value is really gone.
type Register struct {
	Key      string
	has      holds
	set      write // the latest Set
	unset    stamp // the latest Unset
	first    write // the earliest Once after the Unset
	last     write // the latest Once
	sum      []byte
	from, to stamp // the earliest and the latest Add of the sum
}

// holds says which parts of a register are there.
type holds uint8

const (
	hasSet holds = 1 << iota
	hasUnset
	hasOnce
	hasSum
)

// stamp orders operations: by the time of their event, then by a hash of its id.
type stamp struct {
	micro int64 // unix
	event uint64
}

func (s stamp) compare(o stamp) int {
	return cmp.Or(cmp.Compare(s.micro, o.micro), cmp.Compare(s.event, o.event))
}

func earlier(a, b stamp) stamp {
	if b.compare(a) < 0 {
		return b
	}
	return a
}

func later(a, b stamp) stamp {
	if b.compare(a) > 0 {
		return b
	}
	return a
}

// write is a value, JSON as received, and when it was written.
type write struct {
	stamp
	value []byte
}

// compare orders writes totally. Two values under one stamp come from an event that was
// sent twice with different content; then the greater bytes win, in any order of arrival.
func (w write) compare(o write) int {
	return cmp.Or(w.stamp.compare(o.stamp), bytes.Compare(w.value, o.value))
}

// reset is when the latest Set or Unset was.
func (r *Register) reset() (s stamp, ok bool) {
	if r.has&hasUnset != 0 {
		s, ok = r.unset, true
	}
	if r.has&hasSet != 0 && (!ok || r.set.stamp.compare(s) > 0) {
		s, ok = r.set.stamp, true
	}
	return s, ok
}

// apply applies one operation of an event.
func (r *Register) apply(a *profile.Attribute, s stamp, now time.Time) error {
	before, written := r.reset()
	if a.Arrival && (a.Op == profile.Set || a.Op == profile.Unset) {
		s.micro = now.UnixMicro()
		if written {
			s.micro = max(s.micro, before.micro+1)
		}
	}
	switch a.Op {
	case profile.Set:
		if w := (write{s, a.Value}); r.has&hasSet == 0 || r.set.compare(w) < 0 {
			r.set, r.has = write{s, bytes.Clone(a.Value)}, r.has|hasSet
		}
	case profile.Once:
		if r.has&hasUnset != 0 && s.compare(r.unset) <= 0 {
			return nil
		}
		w := write{s, bytes.Clone(a.Value)}
		if r.has&hasOnce == 0 {
			r.first, r.last, r.has = w, w, r.has|hasOnce
		}
		if r.first.compare(w) > 0 {
			r.first = w
		}
		if r.last.compare(w) < 0 {
			r.last = w
		}
	case profile.Unset:
		if r.has&hasUnset == 0 || r.unset.compare(s) < 0 {
			r.unset, r.has = s, r.has|hasUnset
		}
	case profile.Add:
		return r.add(a, s)
	}
	r.forget()
	return nil
}

// add adds a number, unless a later operation has overwritten it.
func (r *Register) add(a *profile.Attribute, s stamp) error {
	if before, written := r.reset(); written && s.compare(before) < 0 {
		return nil
	}
	if base, ok := r.base(); ok && !number.Null(base) {
		if !number.Valid(base) {
			return tidemill.Fail(tidemill.Business, "increment attribute %.80q: %w: it is %.40q; want a number of at most %d digits", a.Key, profile.ErrNumber, base, number.MaxDigits)
		}
	}
	sum, from, to := []byte("0"), s, s
	if r.has&hasSum != 0 {
		sum, from, to = r.sum, earlier(r.from, s), later(r.to, s)
	}
	sum, ok := number.Plus(sum, a.Value)
	if !ok {
		return tidemill.Fail(tidemill.Business, "increment attribute %.80q: %w: the sum would have more than %d digits", a.Key, profile.ErrNumber, number.MaxDigits)
	}
	r.sum, r.from, r.to, r.has = sum, from, to, r.has|hasSum
	return nil
}

// forget drops what the latest Set or Unset has made meaningless: a Set and a Once before an
// Unset, and Adds that are all before either. A missing part is zero before and after.
func (r *Register) forget() {
	if r.has&hasUnset != 0 {
		if r.unset.compare(r.set.stamp) >= 0 {
			r.set, r.has = write{}, r.has&^hasSet
		}
		if r.unset.compare(r.first.stamp) >= 0 {
			r.first = r.last
		}
		if r.unset.compare(r.last.stamp) >= 0 {
			r.first, r.last, r.has = write{}, write{}, r.has&^hasOnce
		}
	}
	if at, written := r.reset(); written && r.has&hasSum != 0 && at.compare(r.to) > 0 {
		r.sum, r.from, r.to, r.has = nil, stamp{}, stamp{}, r.has&^hasSum
	}
}

func (r *Register) equal(o *Register) bool {
	return r.has == o.has && r.unset == o.unset && r.from == o.from && r.to == o.to && bytes.Equal(r.sum, o.sum) &&
		r.set.compare(o.set) == 0 && r.first.compare(o.first) == 0 && r.last.compare(o.last) == 0
}

// base is the value without the sum of the Adds.
func (r *Register) base() ([]byte, bool) {
	switch { // forget has dropped what the Unset outlives
	case r.has&hasSet != 0:
		return r.set.value, true
	case r.has&hasOnce != 0 && (r.has&hasSum == 0 || r.first.stamp.compare(r.from) <= 0):
		return r.first.value, true
	}
	return nil, false
}

// Value returns the attribute's value, false where it has none.
func (r *Register) Value() ([]byte, bool) {
	base, ok := r.base()
	switch {
	case r.has&hasSum == 0:
		return base, ok
	case !ok || number.Null(base):
		return r.sum, true
	}
	if v, ok := number.Plus(base, r.sum); ok {
		return v, true
	}
	return base, true // a later event says that it is not a number
}

// Attributes are the values by key. They share no memory with the registers.
func (rs Registers) Attributes() map[string][]byte {
	m := make(map[string][]byte, len(rs))
	for i := range rs {
		if v, ok := rs[i].Value(); ok {
			m[rs[i].Key] = bytes.Clone(v)
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
		if r.has&hasSet != 0 {
			n += at + length + len(r.set.value)
		}
		if r.has&hasUnset != 0 {
			n += at
		}
		if r.has&hasOnce != 0 {
			n += 2*(at+length) + len(r.first.value) + len(r.last.value)
		}
		if r.has&hasSum != 0 {
			n += 2*at + length + len(r.sum)
		}
	}
	return n
}
