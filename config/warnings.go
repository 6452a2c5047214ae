package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tidemill/tidemill"
)

// Warnings are what is allowed and hardly meant, each with its place: keys that can be guessed,
// what systems say of their settings, and variables of the environment that look like settings and
// are none.
// environ are the environment's names and values, as os.Environ has them.
func (c *Loaded) Warnings(environ []string) (all []string) {
	for i, p := range c.Projects {
		all = append(all, c.ShortKeys(c.Element("projects", i), "project "+p.Name, []tidemill.Secret{p.Key}, nil)...)
	}
	for _, g := range c.groups {
		if w, ok := g.settings.(interface{ Warnings() []string }); ok {
			all = append(all, w.Warnings()...)
		}
	}
	return append(all, c.strangers(environ)...)
}

// notSettings are the variables of commands, and those that Kubernetes makes of a service that is
// called tidemill.
var notSettings = regexp.MustCompile(`^TIDEMILL_(CONFIG|SERVER|TEST_.*|(.*_)?SERVICE_(HOST|PORT)(_.*)?|PORT(_\d+_.*)?)$`)

// strangers warns about variables that begin as ours do and are none.
func (c *Loaded) strangers(environ []string) (all []string) {
	var known []string
	fs := c.Fields()
	for i := range fs {
		known = append(known, fs[i].Env...)
	}
	used := map[string]bool{} // the file says what they are for
	for _, v := range c.named {
		used[v], used[v+"_FILE"] = true, true
	}
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, "TIDEMILL_") || value == "" || slices.Contains(known, name) || used[name] || notSettings.MatchString(name) {
			continue
		}
		all = append(all, fmt.Sprintf("%s: there is no such variable%s", name, meant(name, known)))
	}
	slices.Sort(all)
	return all
}
