package caller

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Rights are what somebody may do: a role for all systems, roles for single ones, or both. They are
// written as "viewer", "operator:crm" or "viewer operator:crm operator:delivery"; rights that say the
// same are equal (==). The zero value may do nothing.
type Rights struct {
	all  Role
	some string // the text of those for single systems, sorted, without what all has already
}

// All are the rights of a role for all systems.
func All(r Role) Rights { return Rights{all: r} }

// For are the rights of a role for single systems. An admin is one of all systems.
func For(r Role, systems ...string) Rights {
	of := map[string]Role{}
	for _, s := range systems {
		of[s] = r
	}
	return rights(Nobody, of)
}

// rights are the rights that say so.
func rights(all Role, of map[string]Role) Rights {
	var some []string
	for _, system := range slices.Sorted(maps.Keys(of)) {
		if r := of[system]; r > all {
			some = append(some, r.String()+":"+system)
		}
	}
	return Rights{all, strings.Join(some, " ")}
}

var systemName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// ParseRights reads rights. Of several for one system the highest counts.
func ParseRights(text string) (Rights, error) {
	all, of := Nobody, map[string]Role{}
	for _, word := range strings.Fields(text) {
		name, system, one := strings.Cut(word, ":")
		var r Role
		if err := r.UnmarshalText([]byte(name)); err != nil {
			return Rights{}, err
		}
		switch {
		case !one:
			all = max(all, r)
		case r == Admin:
			return Rights{}, fmt.Errorf("%q: an admin is one of all systems: write admin, or operator:%s", word, system)
		case !systemName.MatchString(system):
			return Rights{}, fmt.Errorf("%q names no system: write it as %s:crm", word, r)
		default:
			of[system] = max(of[system], r)
		}
	}
	if all == Nobody && len(of) == 0 {
		return Rights{}, fmt.Errorf("%q is no role: viewer, operator or admin, each but admin for one system too, as operator:crm", text)
	}
	return rights(all, of), nil
}

// each calls do with the roles for single systems.
func (r Rights) each(do func(system string, role Role)) {
	for word := range strings.FieldsSeq(r.some) {
		name, system, _ := strings.Cut(word, ":")
		do(system, Role(slices.Index(roles, name)))
	}
}

// May says whether they have a role for a system; "": for all systems, those too that are not known.
func (r Rights) May(needed Role, system string) bool {
	return r.all.May(needed) || system != "" && slices.Contains(r.Systems(needed), system)
}

// MayAny says whether they have a role for all systems, or for at least one.
func (r Rights) MayAny(needed Role) bool {
	return r.all.May(needed) || len(r.Systems(needed)) > 0
}

// Systems are the single systems that they have a role for, beyond those that they have it for with
// all, and sorted.
func (r Rights) Systems(needed Role) (names []string) {
	r.each(func(system string, role Role) {
		if role.May(needed) && !r.all.May(needed) {
			names = append(names, system)
		}
	})
	slices.Sort(names)
	return names
}

// Named are the systems that they name.
func (r Rights) Named() (names []string) {
	r.each(func(system string, _ Role) { names = append(names, system) })
	return names
}

// With are these rights, and others.
func (r Rights) With(more Rights) Rights {
	of := map[string]Role{}
	for _, one := range []Rights{r, more} {
		one.each(func(system string, role Role) { of[system] = max(of[system], role) })
	}
	return rights(max(r.all, more.all), of)
}

// Whole says whether they are the same for all systems.
func (r Rights) Whole() bool { return r.some == "" }

// String is their text.
func (r Rights) String() string {
	switch {
	case r.some == "":
		return r.all.String()
	case r.all == Nobody:
		return r.some
	}
	return r.all.String() + " " + r.some
}

// MarshalText is their text.
func (r Rights) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads them.
func (r *Rights) UnmarshalText(b []byte) (err error) {
	*r, err = ParseRights(string(b))
	return err
}
