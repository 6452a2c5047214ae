package system

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/serve/console"
)

// Table has the systems that a program can run, in the order in which they are built and asked.
// The first runs where nothing is configured.
type Table []System

// Names are those of its systems.
func (t Table) Names() (names []string) {
	for _, s := range t {
		names = append(names, s.Name)
	}
	return names
}

// Settings are those that a configuration may have: the common ones, and those of every system.
func (t Table) Settings() (all config.Schema) {
	for _, s := range t {
		all = append(all, s.Settings)
	}
	return all
}

// Configured are the systems that run: those that are named (systems, TIDEMILL_SYSTEMS, the
// arguments of run), else those that something configures, and the first where nothing configures
// any. What configures one is said in docs/operations.md.
func (t Table) Configured(c *config.Loaded) (names []string) {
	if len(c.Systems) > 0 {
		return c.Systems
	}
	for _, s := range t {
		if c.Configured(s.Name) {
			names = append(names, s.Name)
		}
	}
	if len(names) == 0 {
		return []string{t[0].Name}
	}
	return names
}

// Check refuses what some systems cannot start with and config.Load does not look at, because it
// is no mistake where they do not run. It connects to nothing.
func (t Table) Check(c *config.Loaded, systems []string) error {
	errs := []error{t.checkRoles(c)}
	for _, name := range systems {
		if err := t.Has(name); err != nil {
			errs = append(errs, fmt.Errorf("systems (from %s): %w", c.From["systems"], err))
		}
	}
	for _, s := range t.Of(systems) {
		if s.Check != nil {
			errs = append(errs, s.Check(c))
		}
	}
	return errors.Join(errs...)
}

// checkRoles refuses roles of groups that are none, or that name no system of the table.
func (t Table) checkRoles(c *config.Loaded) error {
	var errs []error
	for i, p := range c.Console.OIDC {
		for group, text := range p.Roles {
			rights, err := caller.ParseRights(text)
			for _, name := range rights.Named() {
				err = cmp.Or(err, t.Has(name))
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: roles: %s: %w", c.Element("console.oidc", i), group, err))
			}
		}
	}
	return errors.Join(errs...)
}

// Has refuses the name of a system that there is not.
func (t Table) Has(name string) error {
	if names := t.Names(); !slices.Contains(names, name) {
		return fmt.Errorf("there is no system %q; there is %s", name, strings.Join(names, ", "))
	}
	return nil
}

// Of are the systems of these names, in the table's order.
func (t Table) Of(names []string) (some Table) {
	for _, s := range t {
		if slices.Contains(names, s.Name) {
			some = append(some, s)
		}
	}
	return some
}

// Rooms are the parts of the API: those of the systems that run, and for each other one why it is not
// there.
func (t Table) Rooms(running map[string]admin.Room) (all []admin.Room) {
	for _, s := range t {
		room, runs := running[s.Name]
		if !runs || room.Does == nil {
			room = admin.Room{Missing: cmp.Or(room.Missing, s.Missing), Does: s.Operations}
		}
		room.System = s.Name
		all = append(all, room)
	}
	return all
}

// Finds say how things of each system are found: of those that run by their finders.
func (t Table) Finds(running map[string]answer.Finder) (all []answer.Finds) {
	for _, s := range t {
		all = append(all, answer.Finds{System: s.Name, Finder: running[s.Name], Missing: s.Name + " does not run in this instance"})
	}
	return all
}

// Pages are those of all systems in the console.
func (t Table) Pages(running map[string]admin.Room) (all []console.System) {
	for _, s := range t {
		if _, runs := running[s.Name]; s.Pages != nil {
			all = append(all, console.System{Pages: s.Pages, Runs: runs})
		}
	}
	return all
}

// Owners say which dead letters are which system's.
func (t Table) Owners() (all []admin.Owner) {
	for _, s := range t {
		s.Letters.System = s.Name
		all = append(all, s.Letters)
	}
	return all
}

// Documents are those of systems that api.Document does not have.
func (t Table) Documents() (all [][]byte) {
	for _, s := range t {
		if s.Document != nil {
			all = append(all, s.Document)
		}
	}
	return all
}

// Bounds are those of the first of the systems that has some; where none has, of the first there is.
func (t Table) Bounds(c *config.Loaded, systems []string) Bounds {
	for _, s := range append(t.Of(systems), t...) {
		if s.Bounds != nil {
			return s.Bounds(c)
		}
	}
	return Bounds{}
}
