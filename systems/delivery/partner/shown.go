package partner

import (
	"maps"
	"strings"

	"github.com/tidemill/tidemill/internal/urlsecret"
)

// About are the presets, and the functions of expressions, a line each.
func (Partner) About() []string {
	all := []string{"presets: " + strings.Join(Presets(), ", "), "functions of when, mapping, success and outcomes, beside those of the language (expr-lang.org):"}
	for _, f := range Functions {
		all = append(all, "  "+f.Form+": "+f.Help)
	}
	return all
}

// Shown is the partner as it is in force, without anything that may be a secret.
func (p Partner) Shown() any {
	if all, err := p.InForce(); err == nil { // else the check of partners reports it
		p = all
	}
	return p.Given()
}

// Given is the partner as it is described, without what its preset adds and without anything that may
// be a secret.
func (p Partner) Given() any {
	p.Settings = maps.Clone(p.Settings)
	for name := range p.Settings {
		if urlsecret.Telling(name) {
			p.Settings[name] = urlsecret.Hidden
		}
	}
	p.Headers, p.Endpoint = urlsecret.Headers(p.Headers), urlsecret.Show(p.Endpoint)
	if p.Auth.TokenURL != "" {
		p.Auth.TokenURL = urlsecret.Show(p.Auth.TokenURL)
	}
	return p
}

// Credentials says whether the partner's secret is there: none (it needs none), set, or not set.
func (p Partner) Credentials(e Env) string {
	if all, err := p.InForce(); err == nil {
		p = all
	}
	if p.Auth.Type == "" || p.Auth.Type == "none" || p.Auth.Type == "mtls" && p.Auth.Credentials == "" {
		return "none"
	}
	if _, err := e.secret(p.Auth.Credentials, "the secret"); err != nil {
		return "not set"
	}
	return "set"
}
