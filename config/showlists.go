package config

import (
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/tidemill/tidemill/internal/urlsecret"
)

// writeLists writes what the lists hold, as remarks: each element with its place, and as it is in
// force, a partner with its preset. No secret is in it, and no header's value, which may be one.
func (c *Loaded) writeLists(w io.Writer) error {
	var b strings.Builder
	var failed error
	show := func(path string, n int, element func(i int) any) {
		for i := range n {
			text, err := yaml.MarshalWithOptions(element(i), yaml.OmitZero(), yaml.Indent(2))
			if err != nil {
				failed = err
				continue
			}
			place, _, _ := strings.Cut(c.element(path, i), ": ")
			fmt.Fprintf(&b, "# %s, number %d, from %s\n", path, i+1, place)
			for line := range strings.Lines(string(text)) {
				b.WriteString("#   " + line)
			}
		}
	}
	show("delivery.sites", len(c.Delivery.Sites), func(i int) any { return c.Delivery.Sites[i] })
	show("delivery.queues", len(c.Delivery.Queues), func(i int) any { return c.Delivery.Queues[i] })
	show("delivery.partners", len(c.Delivery.Partners), func(i int) any {
		p, err := c.Delivery.Partners[i].InForce()
		if err != nil { // it is said where partners are checked
			p = c.Delivery.Partners[i]
		}
		p.Settings = hiddenSettings(p.Settings)
		p.Headers, p.Endpoint, p.Auth.TokenURL = hidden(p.Headers), urlsecret.Show(p.Endpoint), urlsecret.Show(p.Auth.TokenURL)
		return p
	})
	show("crm.tenants", len(c.CRM.Tenants), func(i int) any { return c.CRM.Tenants[i] })
	show("crm.handlers", len(c.CRM.Handlers), func(i int) any {
		h := c.CRM.Handlers[i]
		if h.Endpoint != nil {
			e := *h.Endpoint
			e.Headers, e.URL = hidden(e.Headers), urlsecret.Show(e.URL)
			h.Endpoint = &e
		}
		return h
	})
	show("windows.processors", len(c.Windows.Processors), func(i int) any {
		p := c.Windows.Processors[i]
		if p.HTTP != nil {
			h := *p.HTTP
			h.Headers, h.URL = hidden(h.Headers), urlsecret.Show(h.URL)
			p.HTTP = &h
		}
		return p
	})
	if failed != nil {
		return failed
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// hidden are the names of headers without their values.
func hidden(headers map[string]string) map[string]string {
	all := maps.Clone(headers)
	for name := range all {
		all[name] = "[secret]"
	}
	return all
}

// hiddenSettings are the settings of a partner without values that are secret by their name.
func hiddenSettings(settings map[string]string) map[string]string {
	all := maps.Clone(settings)
	for name := range all {
		if urlsecret.Telling(name) {
			all[name] = urlsecret.Hidden
		}
	}
	return all
}
