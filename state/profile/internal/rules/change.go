// Package rules is what the backends of the profile role share: how asks find profiles, how
// changes become registers of attributes, and how those are stored.
package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/internal/register"
	"github.com/tidemill/tidemill/state/profile"
)

// Record is a profile as it is stored, without its identities. Its Registers are never
// modified: a change makes new ones.
type Record struct {
	Owner
	Created, Updated time.Time // to the millisecond
	Registers        Registers
}

// Show turns a stored profile into a shown one that shares no memory with it. The
// identities must be sorted.
func (r *Record) Show(identities []profile.Identity) *profile.Profile {
	return &profile.Profile{ID: r.ID, Tenant: r.Tenant, Identities: identities, Attributes: r.Registers.Attributes(),
		Created: r.Created, Updated: r.Updated}
}

// Edit is one call of Update by the rules of the role. The store calls Again, reads the records
// of Owners and reports each by Found, calls Apply, and writes Changed.
type Edit struct {
	Owners  []Owner   // owners of the changes, sorted, each once
	Changed []*Record // records to be written, in the order of their first change

	changes []profile.Change
	invalid int // of failed, which begins with them
	failed  []tidemill.Failed
	bad     map[int]bool
	found   map[Owner]*Record
	damaged map[Owner]error
}

// NewEdit checks the changes.
func NewEdit(changes []profile.Change) *Edit {
	e := &Edit{changes: changes, bad: map[int]bool{}, found: make(map[Owner]*Record, len(changes)), damaged: map[Owner]error{}, Owners: make([]Owner, 0, len(changes))}
	for i := range changes {
		if err := changes[i].Check(); err != nil {
			e.fail(i, err)
			e.bad[i] = true
			continue
		}
		e.Owners = append(e.Owners, Owner{changes[i].Tenant, changes[i].Profile})
	}
	e.invalid = len(e.failed)
	slices.SortFunc(e.Owners, Owner.Compare)
	e.Owners = slices.Compact(e.Owners)
	return e
}

// Again forgets what was found and applied, for another try.
func (e *Edit) Again() {
	clear(e.found)
	clear(e.damaged)
	e.Changed, e.failed = nil, e.failed[:e.invalid]
}

func (e *Edit) fail(i int, err error) {
	e.failed = append(e.failed, tidemill.Failed{Index: i, Err: err})
}

// Found gives the record of an owner. err is the error of reading damaged Registers: it
// concerns only the owner's changes.
func (e *Edit) Found(r *Record, err error) {
	e.found[r.Owner] = r
	if err != nil {
		e.damaged[r.Owner] = err
	}
}

// Apply applies all changes to the records that were found, at a time of the store's clock.
func (e *Edit) Apply(now time.Time) {
	changed := map[*Record]bool{}
	for i := range e.changes {
		if e.bad[i] {
			continue
		}
		c := &e.changes[i]
		r := e.found[Owner{c.Tenant, c.Profile}]
		if r == nil {
			e.fail(i, NotFound(c.Tenant, c.Profile))
			continue
		}
		registers, more, err := r.Registers.apply(c, now)
		if err = cmp.Or(e.damaged[r.Owner], err); err != nil {
			e.fail(i, fmt.Errorf("update profile %v: %w", c.Profile, err))
			continue
		}
		if !more {
			continue
		}
		r.Registers, r.Updated = registers, now
		if !changed[r] {
			changed[r] = true
			e.Changed = append(e.Changed, r)
		}
	}
}

// Err is nil where every change was applied, else a *tidemill.Partial in their order.
func (e *Edit) Err() error {
	if len(e.failed) == 0 {
		return nil
	}
	slices.SortFunc(e.failed, func(a, b tidemill.Failed) int { return cmp.Compare(a.Index, b.Index) })
	return &tidemill.Partial{Failed: e.failed}
}

// stampOf is the stamp of a change: its time, then a hash of its event.
func stampOf(c *profile.Change, now time.Time) register.Stamp {
	at := c.At
	if at.IsZero() || at.After(now) {
		at = now
	}
	if at.Before(time.Time{}) { // earlier than a stamp can hold
		at = time.Time{}
	}
	return register.Stamp{Micro: at.UnixMicro(), Order: xxhash.Sum64String(c.Event)}
}

// apply returns the registers after a change, and whether they hold more than before.
func (rs Registers) apply(c *profile.Change, now time.Time) (_ Registers, more bool, err error) {
	s, out := stampOf(c, now), rs
	for i := range c.Attributes {
		a := &c.Attributes[i]
		at, there := out.find(a.Key)
		r := Register{Register: register.Register{Key: a.Key}}
		if there {
			r = out[at]
		}
		if err := r.apply(a, s, now); err != nil {
			return nil, false, err
		}
		if there && r.equal(&out[at]) || r.Has == 0 && r.sum == nil {
			continue
		}
		if !more {
			out, more = slices.Grow(slices.Clone(rs), len(c.Attributes)-i), true
		}
		if there {
			out[at] = r
			continue
		}
		r.Key = strings.Clone(a.Key)
		out = slices.Insert(out, at, r)
	}
	if more && len(out) > max(profile.MaxAttributes, len(rs)) {
		return nil, false, tidemill.Fail(tidemill.Business, "%w: it would have %d attributes, with those that were removed; it can have %d", profile.ErrFull, len(out), profile.MaxAttributes)
	}
	if n := out.size(); more && n > profile.MaxBytes && n > rs.size() {
		return nil, false, tidemill.Fail(tidemill.Business, "%w: its attributes would have %d bytes; they can have %d", profile.ErrFull, n, profile.MaxBytes)
	}
	return out, more, nil
}

func (rs Registers) find(key string) (int, bool) {
	return slices.BinarySearchFunc(rs, key, func(r Register, key string) int { return strings.Compare(r.Key, key) })
}
