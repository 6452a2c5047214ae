package event

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Options tune Rules; the zero value has the built-in types only.
type Options struct {
	// Types are types of events besides page_view, view_item, add_to_cart, purchase and
	// custom_event, by name: 1 to 100 of a-z, A-Z, 0-9, _ . and -. A built-in name here
	// replaces the built-in type.
	Types map[string]Type
	// Major is the current major version of the schema; 0 means 1. It and the one before are
	// accepted.
	Major int
}

// Type says what a type of events needs in addition to what every event needs.
type Type struct {
	Purchase bool // order, value, currency and items
	Page     bool // the page's URL
}

// Rules check events. They are safe for concurrent use.
type Rules struct {
	types    map[string]typeRule
	names    []string // of types, sorted
	major    int
	event    *field
	want     string // the type, in words
	decoders sync.Pool
}

type typeRule struct {
	Type
	name string
}

// New makes Rules.
func New(o Options) (*Rules, error) {
	if o.Major == 0 {
		o.Major = 1
	}
	if o.Major < 0 || o.Major > 1_000_000 {
		return nil, fmt.Errorf("rules of events: major version %d: want 1 or more", o.Major)
	}
	r := &Rules{major: o.Major, event: table(), types: map[string]typeRule{}}
	all := map[string]Type{"page_view": {Page: true}, "view_item": {}, "add_to_cart": {}, "purchase": {Purchase: true}, "custom_event": {}}
	maps.Copy(all, o.Types)
	for name, t := range all {
		if !typeName.fits([]byte(name)) || len(name) > int(typeName.max) || name == "" {
			return nil, fmt.Errorf("rules of events: type %q: a name has 1 to 100 of a-z, A-Z, 0-9, _ . and -", name)
		}
		r.types[name] = typeRule{t, name}
	}
	r.names = slices.Sorted(maps.Keys(all))
	r.want = "one of " + strings.Join(r.names, ", ")
	if len(r.want) > 1000 {
		r.want = "one of " + strconv.Itoa(len(r.names)) + " types"
	}
	if err := compile(r.event); err != nil {
		return nil, err
	}
	r.decoders.New = func() any { return &decoder{rules: r} }
	return r, nil
}

// Types are the names of all types, sorted.
func (r *Rules) Types() []string { return slices.Clone(r.names) }

// compile gives every member its bit and its words.
func compile(f *field) error {
	f.want = f.words()
	if len(f.members) > 64 {
		return errors.New("an object has at most 64 named members")
	}
	for i, name := range slices.Sorted(maps.Keys(f.members)) {
		m := f.members[name]
		m.bit = 1 << i
		if err := compile(m); err != nil {
			return err
		}
	}
	for _, part := range []*field{f.elem, f.other} {
		if part != nil && part != anything {
			if err := compile(part); err != nil {
				return err
			}
		}
	}
	return nil
}

// words say what a field may be.
func (f *field) words() string {
	between := func(unit string) string {
		switch {
		case f.min == f.max:
			return grouped(f.min) + " " + unit
		case f.min == 0:
			return "at most " + grouped(f.max) + " " + unit
		}
		return grouped(f.min) + " to " + grouped(f.max) + " " + unit
	}
	switch f.kind {
	case scalar:
		return "a text of at most 1,000 characters, a number, true, false or null"
	case text:
		if f.enum != nil {
			return "one of " + strings.Join(f.enum, ", ")
		}
		if f.form.words != "" {
			return f.form.words
		}
		return "a text of " + between("characters")
	case number, integer:
		name := map[kind]string{number: "a number", integer: "a whole number"}[f.kind]
		if f.max == noMax {
			return name + ", " + grouped(f.min) + " or more"
		}
		return name + " from " + grouped(f.min) + " to " + grouped(f.max)
	case boolean:
		return "true or false"
	case list:
		return "an array of " + between("elements")
	case object:
		if f.other == nil {
			return "an object with members " + strings.Join(slices.Sorted(maps.Keys(f.members)), ", ")
		}
		if f.max < maxMembers {
			return "an object of at most " + grouped(f.max) + " members"
		}
		return "an object"
	}
	return ""
}
