package handler

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/profile"
)

// A Mapping says which attributes of a profile an event changes. An empty one changes none:
// then the profile only has to exist, with the identities of the event.
type Mapping []Field

// Field is one attribute, or all those of an object.
type Field struct {
	Attribute string `yaml:"attribute" help:"its name. With a star at its end, such as * or crm_*, each member of the object at From becomes an attribute, whose name stands for the star"`
	From      string `yaml:"from" help:"where in the event the value is: payload.address.city, payload.tags.0, identity.email, occurredAt, type. An event without a value there changes nothing, and null removes the attribute"`
	Value     string `yaml:"value" help:"JSON that is the value, instead of From"`
	Op        string `yaml:"op" help:"set (where it is empty), set_once, unset, increment"`
}

// attributes is a parsed mapping.
type attributes struct {
	fields []field
	paths  paths
}

type field struct {
	attribute string
	star      bool
	from      int // of paths; -1: constant
	constant  []byte
	op        profile.Op
}

func (m Mapping) compile() (*attributes, error) {
	if len(m) > profile.MaxAttributes {
		return nil, fmt.Errorf("a mapping of %d attributes: there may be %d", len(m), profile.MaxAttributes)
	}
	a, seen := &attributes{}, map[string]bool{}
	for _, f := range m {
		name, star := strings.CutSuffix(f.Attribute, "*")
		out := field{attribute: name, star: star, from: -1, op: profile.Set}
		var err error
		if f.Op != "" {
			out.op, err = profile.ParseOp(f.Op)
		}
		switch {
		case err != nil:
		case f.Attribute == "" || seen[f.Attribute]:
			err = errors.New("it has no name, or is there twice")
		case f.From != "" && f.Value != "":
			err = errors.New("want a place where its value is, or the value, not both")
		case f.Value != "" && (star || !jsontext.Value(f.Value).IsValid()):
			err = errors.New(`its value is no JSON (a text needs quotes: '"gold"'), or of many attributes`)
		case f.Value != "":
			out.constant = []byte(f.Value)
		case f.From == "" && out.op != profile.Unset:
			err = errors.New("say where in the event its value is")
		case f.From == "":
			out.constant = []byte("null")
		default:
			out.from, err = a.paths.add(f.From)
		}
		if err != nil {
			return nil, fmt.Errorf("attribute %.80q: %w", f.Attribute, err)
		}
		seen[f.Attribute] = true
		a.fields = append(a.fields, out)
	}
	return a, nil
}

// adds reports whether an attribute is added to: then it matters how often.
func (a *attributes) adds() bool {
	for _, f := range a.fields {
		if f.op == profile.Add {
			return true
		}
	}
	return false
}

// change is the change of an event.
func (a *attributes) change(c *Call) (profile.Change, error) {
	e := &c.Event
	out := profile.Change{Tenant: e.Tenant, Profile: c.Profile, At: e.Time, Event: e.ID}
	found, err := a.paths.find(e.Raw)
	if err != nil {
		return out, &tidemill.Error{Kind: tidemill.Validation, Err: err}
	}
	changed := map[string]bool{}
	add := func(name string, op profile.Op, value []byte) {
		if value == nil || changed[name] { // named attributes go before those of a star
			return
		}
		if string(value) == "null" {
			if op != profile.Set && op != profile.Unset {
				return
			}
			op = profile.Unset
		}
		if op == profile.Unset {
			value = nil
		}
		changed[name] = true
		out.Attributes = append(out.Attributes, profile.Attribute{Op: op, Key: name, Value: value})
	}
	value := func(f field) []byte {
		if f.from < 0 {
			return f.constant
		}
		return found[f.from]
	}
	for _, f := range a.fields {
		if !f.star {
			add(f.attribute, f.op, value(f))
		}
	}
	for _, f := range a.fields {
		v := value(f)
		if !f.star || len(v) == 0 || v[0] != '{' {
			continue
		}
		if err := members(v, func(name string, v []byte) error { add(f.attribute+name, f.op, v); return nil }); err != nil {
			return out, tidemill.Fail(tidemill.Validation, "look for attributes in the event: %w", err)
		}
	}
	return out, nil
}

// changes are those of all calls; of has the index of the call of each.
func (a *attributes) changes(calls []*Call) (all []profile.Change, of []int, failed []tidemill.Failed) {
	for i, c := range calls {
		change, err := a.change(c)
		switch {
		case err != nil:
			failed = append(failed, tidemill.Failed{Index: i, Err: err})
		case len(change.Attributes) > 0:
			all, of = append(all, change), append(of, i)
		}
	}
	return all, of, failed
}

// update changes profiles. A *tidemill.Partial names failures of single calls.
func (a *attributes) update(ctx context.Context, u profile.Updater, calls []*Call) error {
	changes, of, failed := a.changes(calls)
	if len(changes) > 0 {
		err := u.Update(ctx, changes)
		partly, ok := errors.AsType[*tidemill.Partial](err)
		switch {
		case ok:
			for _, f := range partly.Failed {
				failed = append(failed, tidemill.Failed{Index: of[f.Index], Err: f.Err})
			}
		case err != nil:
			return fmt.Errorf("update %d profiles: %w", len(changes), err)
		}
	}
	if failed != nil {
		return &tidemill.Partial{Failed: failed}
	}
	return nil
}

// Attributes is the preset that keeps profiles up to date, many events in one call. Repeating
// an event changes nothing, except by an increment: that needs AttributesIn.
func Attributes(u profile.Updater, m Mapping) (Handler, error) {
	a, err := m.compile()
	if err != nil {
		return nil, err
	}
	if a.adds() {
		return nil, errors.New("an increment counts each time that it is done: it needs profiles and sync log in one database, so that it is done once")
	}
	return Batch(func(ctx context.Context, calls []*Call) error { return a.update(ctx, u, calls) }), nil
}

// AttributesIn is Attributes for profiles and a sync log in one database: the changes and the
// event's COMPLETED are committed together.
func AttributesIn[Tx any](log ledger.Transactor[Tx], p profile.Transactional[Tx], m Mapping) (Handler, error) {
	a, err := m.compile()
	if err != nil {
		return nil, err
	}
	return InTransaction(log, func(ctx context.Context, tx Tx, calls []*Call) error { return a.update(ctx, p.In(tx), calls) }), nil
}
