package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/delivery/event"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

// Warnings are what is allowed and hardly meant, each with its place: keys that can be guessed,
// sites that nobody can send for, a project of windows that nobody has a key of, conditions that
// hold for no event, and variables of the environment that look like settings and are none.
// environ are the environment's names and values, as os.Environ has them.
func (c *Loaded) Warnings(environ []string) (all []string) {
	warn := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	for i, p := range c.Projects {
		all = append(all, c.ShortKeys(c.Element("projects", i), "project "+p.Name, []tidemill.Secret{p.Key}, nil)...)
	}
	for _, g := range c.groups {
		if w, ok := g.settings.(interface{ Warnings() []string }); ok {
			all = append(all, w.Warnings()...)
		}
	}
	var sites, types []string
	if rules, err := event.New(event.Options{}); err == nil {
		types = rules.Types()
	}
	for i := range c.Delivery.Sites {
		s, place := &c.Delivery.Sites[i], c.Element("delivery.sites", i)
		sites = append(sites, s.ID)
		all = append(all, c.ShortKeys(place, "site "+s.ID, s.Keys, s.KeysEnv)...)
		if len(s.Keys)+len(s.KeysEnv)+len(s.Hashes) == 0 && !s.Public {
			warn("%s: site %s has no key and is not public: nobody can send events for it", place, s.ID)
		}
	}
	if len(sites) > 0 {
		for _, p := range c.Projects {
			sites = append(sites, p.Name)
		}
	}
	for i, r := range c.Delivery.Queues {
		if why := partner.Never(r.When, types, sites); why != "" {
			warn("%s: the condition of queue %s never holds: %s", c.Element("delivery.queues", i), r.Queue, why)
		}
	}
	for i := range c.Delivery.Partners {
		p := &c.Delivery.Partners[i]
		if why := partner.Never(p.When, types, sites); why != "" {
			warn("%s: partner %s gets no event, its condition never holds: %s", c.Element("delivery.partners", i), p.Name, why)
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
