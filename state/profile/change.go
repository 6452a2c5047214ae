package profile

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill"
)

// Op is what is done to one attribute.
type Op uint8

const (
	Set   Op = iota + 1 // overwrites what an older event wrote
	Once                // only where there is no value: the earliest counts
	Unset               // removes what an older event wrote
	Add                 // adds a number, negative too, exactly; no value and null count as 0
)

// ErrChange says that a change is invalid. It comes with kind validation.
var ErrChange = errors.New("bad change")

// String returns the operation as it is written in configurations.
func (o Op) String() string {
	return [...]string{"?", "set", "set_once", "unset", "increment"}[min(o, Add+1)%(Add+1)]
}

// ParseOp is the inverse of Op.String.
func ParseOp(s string) (Op, error) {
	for o := Set; o <= Add; o++ {
		if o.String() == s {
			return o, nil
		}
	}
	return 0, fmt.Errorf("operation on an attribute %.40q: want set, set_once, unset or increment", s)
}

// Check returns what is invalid in a change, with the attribute.
func (c *Change) Check() error {
	if err := CheckTenant(c.Tenant); err != nil {
		return err
	}
	if len(c.Attributes) > MaxAttributes {
		return tidemill.Fail(tidemill.Validation, "%w: it has %d attributes; want at most %d", ErrChange, len(c.Attributes), MaxAttributes)
	}
	seen := make(map[string]bool, len(c.Attributes))
	for i := range c.Attributes {
		a := &c.Attributes[i]
		wrong := a.check()
		if seen[a.Key] {
			wrong = "it is changed twice"
		}
		if seen[a.Key] = true; wrong != "" {
			return tidemill.Fail(tidemill.Validation, "%w: %v attribute %.80q: %s", ErrChange, a.Op, a.Key, wrong)
		}
	}
	return nil
}

func (a *Attribute) check() string {
	switch {
	case a.Op < Set || a.Op > Add:
		return "there is no such operation"
	case a.Key == "" || len(a.Key) > MaxKey:
		return fmt.Sprintf("its name has %d bytes; want 1 to %d", len(a.Key), MaxKey)
	case !utf8.ValidString(a.Key) || strings.ContainsFunc(a.Key, unicode.IsControl):
		return "its name is no UTF-8 or has control characters"
	case a.Op == Unset:
		return ""
	case len(a.Value) > MaxValue:
		return fmt.Sprintf("its value has %d bytes; want at most %d", len(a.Value), MaxValue)
	case !utf8.Valid(a.Value) || !jsontext.Value(a.Value).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)): // half a surrogate may come from JavaScript
		return "its value is no JSON in UTF-8"
	case deep(a.Value):
		return fmt.Sprintf("its value is deeper than %d", MaxDepth)
	}
	if _, ok := parse(a.Value); a.Op == Add && !ok {
		return fmt.Sprintf("its value is no number of at most %d digits", maxNumber)
	}
	return ""
}

// deep says whether valid JSON is nested deeper than MaxDepth values: more than some
// readers of the stored object can bear.
func deep(v []byte) bool {
	depth, text := 0, false
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{' || c == '[':
			if depth++; depth > MaxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// Record is a profile as it is stored, without its identities. Its Registers are never
// modified: a change makes new ones.
type Record struct {
	Owner
	Created, Updated int64 // unix milliseconds
	Registers        Registers
}

// Show turns a stored profile into a shown one that shares no memory with it. The
// identities must be sorted.
func (r *Record) Show(identities []Identity) *Profile {
	return &Profile{ID: r.ID, Tenant: r.Tenant, Identities: identities, Attributes: r.Registers.Attributes(),
		Created: time.UnixMilli(r.Created).UTC(), Updated: time.UnixMilli(r.Updated).UTC()}
}

// Edit is one call of Update by the rules of the role, the same for every backend. A
// backend locks and reads Owners, reports each by Found, calls Apply, and writes Changed.
type Edit struct {
	Owners  []Owner   // owners of the changes, sorted, each once
	Changed []*Record // records to be written, in the order of their first change

	changes []Change
	failed  []tidemill.Failed
	bad     map[int]bool
	found   map[Owner]*Record
	damaged map[Owner]error
}

// NewEdit checks the changes.
func NewEdit(changes []Change) *Edit {
	e := &Edit{changes: changes, bad: map[int]bool{}, found: make(map[Owner]*Record, len(changes)), damaged: map[Owner]error{}, Owners: make([]Owner, 0, len(changes))}
	for i := range changes {
		if err := changes[i].Check(); err != nil {
			e.fail(i, err)
			e.bad[i] = true
			continue
		}
		e.Owners = append(e.Owners, Owner{changes[i].Tenant, changes[i].Profile})
	}
	slices.SortFunc(e.Owners, Owner.Compare)
	e.Owners = slices.Compact(e.Owners)
	return e
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
		r.Registers, r.Updated = registers, now.UnixMilli()
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

// stamp of a change: its time, then its event.
func (c *Change) stamp(now time.Time) stamp {
	at := c.At
	if at.IsZero() || at.After(now) {
		at = now
	}
	if at.Before(time.Time{}) { // earlier than a stamp can hold
		at = time.Time{}
	}
	return stamp{at.UnixMicro(), xxhash.Sum64String(c.Event)}
}

// apply returns the registers after a change, and whether they hold more than before.
func (rs Registers) apply(c *Change, now time.Time) (_ Registers, more bool, err error) {
	s, out := c.stamp(now), rs
	for i := range c.Attributes {
		a := &c.Attributes[i]
		at, there := out.find(a.Key)
		var r Register
		if there {
			r = out[at]
		}
		if err := r.apply(a, s, now); err != nil {
			return nil, false, err
		}
		if there && r.equal(&out[at]) || r.has == 0 {
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
	if more && len(out) > max(MaxAttributes, len(rs)) {
		return nil, false, tidemill.Fail(tidemill.Business, "%w: it would have %d attributes, with those that were removed; it can have %d", ErrFull, len(out), MaxAttributes)
	}
	if n := out.size(); more && n > MaxBytes && n > rs.size() {
		return nil, false, tidemill.Fail(tidemill.Business, "%w: its attributes would have %d bytes; they can have %d", ErrFull, n, MaxBytes)
	}
	return out, more, nil
}

func (rs Registers) find(key string) (int, bool) {
	return slices.BinarySearchFunc(rs, key, func(r Register, key string) int { return strings.Compare(r.Key, key) })
}
