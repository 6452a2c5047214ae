package deliveryconfig

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/delivery/event"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

var siteForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`)

// originForm is what browsers send as Origin, or all of it.
var originForm = regexp.MustCompile(`^([*]|null|[a-z][a-z0-9+.-]*://[^/?#@\sA-Z]+)$`)

// Check refuses what cannot work. Where delivery does not run it refuses nothing: secrets are where
// it does.
func (d *Settings) Check() error {
	if !d.c.Runs(Group.Name) {
		return nil
	}
	k := config.NewChecker(d.c, Group.Name)
	k.Limits()
	k.OK(d.BullMQ.URL.Has(config.RedisSchemes...), "bullmq.url")
	k.OK(d.BullMQ.Queue != "" && !strings.Contains(d.BullMQ.Queue, ":"), "bullmq.queue")
	whose := map[project.Hash]string{} // a key names one site
	for i := range d.Sites {
		if err := d.Sites[i].check(d.Sites[:i]); err != nil {
			k.Add(fmt.Errorf("%s: %w", d.c.Element("delivery.sites", i), err))
		}
		keys, err := d.SiteKeys(&d.Sites[i])
		if err != nil {
			k.Add(fmt.Errorf("%s: %w", d.c.Element("delivery.sites", i), err))
		}
		for _, key := range keys {
			if other, known := whose[key]; known && other != d.Sites[i].ID {
				k.Add(fmt.Errorf("%s: sites %q and %q have the same key", d.c.Element("delivery.sites", i), other, d.Sites[i].ID))
			}
			whose[key] = d.Sites[i].ID
		}
	}
	for i, r := range d.Queues {
		if !slices.Contains([]string{"high", "standard", "low"}, r.Queue) {
			k.Add(fmt.Errorf("%s: queue %q is none of high, standard and low", d.c.Element("delivery.queues", i), r.Queue))
		}
		if _, err := partner.NewRule(d.c.Element("delivery.queues", i)+": when", r.When, nil); err != nil {
			k.Add(err)
		}
	}
	return k.Err()
}

func (s *Site) check(before []Site) error {
	switch {
	case !siteForm.MatchString(s.ID):
		return fmt.Errorf("site %q: want an id of 1 to 100 of A-Z a-z 0-9 _ -", s.ID)
	case slices.ContainsFunc(before, func(o Site) bool { return o.ID == s.ID }):
		return fmt.Errorf("site %s: it is there twice", s.ID)
	case s.Consent != "" && s.Consent != "send" && s.Consent != "skip":
		return fmt.Errorf("site %s: consent %q is neither send nor skip", s.ID, s.Consent)
	case s.Daily < 0 || s.AtOnce < 0 || s.PerSecond < 0:
		return fmt.Errorf("site %s: a limit below zero", s.ID)
	}
	if err := (&queue.Settings{Tenant: s.Limit()}).Check(); err != nil {
		return fmt.Errorf("site %s: %w", s.ID, err)
	}
	for _, o := range s.Origins {
		if !originForm.MatchString(o) {
			return fmt.Errorf("site %s: origin %q is none that a browser sends: want one such as https://shop.example, in small letters and with no path, or *", s.ID, o)
		}
	}
	if _, known := plans[s.Plan]; !known {
		return fmt.Errorf("site %s: plan %q is none of free, pro and enterprise", s.ID, s.Plan)
	}
	return nil
}

// CheckPartners refuses partners that the delivery system cannot start with: what their
// descriptions say, their expressions, and the secrets they need. It connects to nothing. It
// is for who runs the system; it is not called at loading, for the secrets are where it runs.
func (d *Settings) CheckPartners() error {
	var errs []error
	at := 0
	fail := func(err error) {
		errs = append(errs, fmt.Errorf("%s: %w", d.c.Element("delivery.partners", at), err))
	}
	if d.MaxWorkers < d.Workers {
		errs = append(errs, fmt.Errorf("delivery.max_workers: %d at most are fewer than the %d there always are (delivery.workers)", d.MaxWorkers, d.Workers))
	}
	all := d.Partners
	for i := range all {
		p := &all[i]
		at = i
		if slices.ContainsFunc(all[:i], func(o partner.Partner) bool { return o.Name == p.Name }) {
			fail(fmt.Errorf("partner %s: it is there twice", p.Name))
		}
		if p.Ordered && d.Shards > 1 && d.Redis() != "" {
			fail(fmt.Errorf("partner %s: ordered needs a single shard, and delivery.shards is %d", p.Name, d.Shards))
		}
		built, err := p.Build(partner.Env{Secret: d.c.Secret})
		if err != nil {
			fail(err)
			continue
		}
		built.Close()
		for _, id := range p.Sites {
			if !d.knowsSite(id) {
				fail(fmt.Errorf("partner %s: sites: there is no site %q", p.Name, id))
			}
		}
	}
	return errors.Join(errs...)
}

// knowsSite says whether events of a site can come: keys may be those of a project, too.
func (d *Settings) knowsSite(id string) bool {
	return slices.ContainsFunc(d.Sites, func(s Site) bool { return s.ID == id }) ||
		slices.ContainsFunc(d.c.Projects, func(p config.Project) bool { return p.Name == id })
}

// Warnings are of keys that can be guessed, sites that nobody can send for, and conditions that hold
// for no event.
func (d *Settings) Warnings() (all []string) {
	warn := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	var sites, types []string
	if rules, err := event.New(event.Options{}); err == nil {
		types = rules.Types()
	}
	for i := range d.Sites {
		s, place := &d.Sites[i], d.c.Element("delivery.sites", i)
		sites = append(sites, s.ID)
		all = append(all, d.c.ShortKeys(place, "site "+s.ID, s.Keys, s.KeysEnv)...)
		if len(s.Keys)+len(s.KeysEnv)+len(s.Hashes) == 0 && !s.Public {
			warn("%s: site %s has no key and is not public: nobody can send events for it", place, s.ID)
		}
	}
	if len(sites) > 0 {
		for _, p := range d.c.Projects {
			sites = append(sites, p.Name)
		}
	}
	for i, r := range d.Queues {
		if why := partner.Never(r.When, types, sites); why != "" {
			warn("%s: the condition of queue %s never holds: %s", d.c.Element("delivery.queues", i), r.Queue, why)
		}
	}
	for i := range d.Partners {
		p := &d.Partners[i]
		if why := partner.Never(p.When, types, sites); why != "" {
			warn("%s: partner %s gets no event, its condition never holds: %s", d.c.Element("delivery.partners", i), p.Name, why)
		}
	}
	return all
}
