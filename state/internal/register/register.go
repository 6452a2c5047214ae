// Package register keeps a value with the time and the id of its last writers, so that joining is
// commutative, associative and idempotent: the same writes in any order, any number of times, give
// the same register. Persons and profiles keep their properties and attributes in registers.
package register

import (
	"bytes"
	"cmp"

	"github.com/google/uuid"
)

// Stamp orders writes: by the time of their event, then by Order, then by its id. Microseconds
// hold every year that a timestamp can be written with.
type Stamp struct {
	Micro int64     // unix
	Order uint64    // among the events of that time; of one without an id, a hash that stands for it
	Event uuid.UUID // zero: it has none
}

// Compare compares two stamps.
func (s Stamp) Compare(o Stamp) int {
	if c := cmp.Or(cmp.Compare(s.Micro, o.Micro), cmp.Compare(s.Order, o.Order)); c != 0 {
		return c
	}
	return bytes.Compare(s.Event[:], o.Event[:])
}

// Write is a value, JSON as received, and when it was written.
type Write struct {
	Stamp
	Value []byte
}

// Compare orders writes totally. Two values under one stamp come from an event that was sent twice
// with different content; then the greater bytes win, in any order of arrival.
func (w Write) Compare(o Write) int {
	if c := w.Stamp.Compare(o.Stamp); c != 0 {
		return c
	}
	return bytes.Compare(w.Value, o.Value)
}

// Parts says which parts of a register are there.
type Parts uint8

// The parts of a register. Once is both of a write that counts only where there was no value.
const (
	HasSet Parts = 1 << iota
	HasFirst
	HasLast
	HasUnset

	Once = HasFirst | HasLast
)

// Register is one property and its history. It drops what a later unset has made meaningless, so
// that a removed value is really gone. A missing part is zero.
type Register struct {
	Key   string
	Has   Parts
	Set   Write // the latest set
	First Write // the earliest once; without its value where an unset is not earlier
	Last  Write // the latest once
	Unset Stamp // the latest unset
}

// Write puts one operation in the place of what the register has of its part.
func (r *Register) Write(part Parts, w Write) {
	r.Has |= part
	switch part {
	case HasSet:
		r.Set = w
	case Once:
		r.First, r.Last = w, w
	case HasUnset:
		r.Unset = w.Stamp
	}
}

// Join adds what o knows of the same property.
func (r *Register) Join(o *Register) {
	if o.Has&HasSet != 0 && (r.Has&HasSet == 0 || r.Set.Compare(o.Set) < 0) {
		r.Set = o.Set
	}
	if o.Has&HasFirst != 0 && (r.Has&HasFirst == 0 || r.First.Compare(o.First) > 0) {
		r.First = o.First
	}
	if o.Has&HasLast != 0 && (r.Has&HasLast == 0 || r.Last.Compare(o.Last) < 0) {
		r.Last = o.Last
	}
	if o.Has&HasUnset != 0 && (r.Has&HasUnset == 0 || r.Unset.Compare(o.Unset) < 0) {
		r.Unset = o.Unset
	}
	r.Has |= o.Has
	r.Forget()
}

// Forget drops what the unset has made meaningless: an earlier set and an earlier latest once never
// come back, and of the earliest once only its time still matters.
func (r *Register) Forget() {
	if r.Has&HasUnset == 0 {
		return
	}
	if r.Unset.Compare(r.Set.Stamp) >= 0 {
		r.Set, r.Has = Write{}, r.Has&^HasSet
	}
	if r.Unset.Compare(r.First.Stamp) >= 0 {
		r.First.Value = nil
	}
	if r.Unset.Compare(r.Last.Stamp) >= 0 {
		r.Last, r.Has = Write{}, r.Has&^HasLast
	}
}

// Equal says whether both know the same.
func (r *Register) Equal(o *Register) bool {
	return r.Key == o.Key && r.Has == o.Has && r.Unset == o.Unset &&
		r.Set.Compare(o.Set) == 0 && r.First.Compare(o.First) == 0 && r.Last.Compare(o.Last) == 0
}

// Value returns the property's value, false where it has none: that of the set, or else of the
// earliest once, or else of the latest.
func (r *Register) Value() ([]byte, bool) {
	switch { // Forget has dropped what the unset outlives
	case r.Has&HasSet != 0:
		return r.Set.Value, true
	case r.First.Value != nil:
		return r.First.Value, true
	case r.Has&HasLast != 0:
		return r.Last.Value, true
	}
	return nil, false
}
