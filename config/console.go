package config

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
)

// Console is the console in the browser, and who comes in there.
type Console struct {
	Enabled     bool     `yaml:"enabled" env:"TIDEMILL_CONSOLE" default:"true" help:"serve the console, at /console/ of listen and admin.listen. It lets nobody in without a user, a token or a link" allow:"true|false"`
	Base        string   `yaml:"base" env:"TIDEMILL_CONSOLE_BASE" help:"what a proxy has before /console/ and takes away, e.g. /tidemill; empty: nothing" allow:"empty, or a path that begins with / and does not end with it"`
	Name        string   `yaml:"name" env:"TIDEMILL_CONSOLE_NAME" default:"Tidemill" help:"the name of this instance, on every page" allow:"1 to 40 characters"`
	Environment string   `yaml:"environment" env:"TIDEMILL_CONSOLE_ENVIRONMENT" help:"the environment beside the name. Where it is production, a change of many asks for its name" allow:"up to 40 characters"`
	Colour      string   `yaml:"colour" env:"TIDEMILL_CONSOLE_COLOUR" default:"grey" help:"colour of the environment, on every page" allow:"grey|blue|green|amber|red|violet" of:"grey|blue|green|amber|red|violet"`
	Hosts       []string `yaml:"hosts" env:"TIDEMILL_CONSOLE_HOSTS" help:"the names that browsers reach the console by, beside localhost and addresses. Others are refused, so that no other name can be made to point here" allow:"host names without a port, separated by commas"`
	Sessions    Sessions `yaml:"sessions"`
	Cover       []string `yaml:"cover" env:"TIDEMILL_CONSOLE_COVER" help:"what the API shows to nobody: a member of payloads, properties, headers, attributes, identities or documents, however deep, e.g. payload.customer.email, headers.authorization" allow:"payload|properties|headers|attributes|identities|document, a dot, and names with dots between; separated by commas"`
	Passwords   bool     `yaml:"passwords" env:"TIDEMILL_CONSOLE_PASSWORDS" default:"true" help:"users log in by name and password" allow:"true|false"`
	Tokens      bool     `yaml:"tokens" env:"TIDEMILL_CONSOLE_TOKENS" default:"true" help:"people log in by a token of the API; programs show theirs with each request in any case" allow:"true|false"`

	OIDC []Provider `yaml:"oidc" help:"providers of OpenID Connect at which people log in"`
}

// Provider is one of OpenID Connect.
type Provider struct {
	Name         string            `yaml:"name" help:"what it is called here, in addresses and before the names of its people: corp"`
	Issuer       string            `yaml:"issuer" help:"its address with https, exactly as it calls itself: https://id.example.com"`
	ClientID     string            `yaml:"client_id" help:"the client that this instance is there; its redirect URI is https://HOST/console/login/NAME/back, behind console.base"`
	ClientSecret tidemill.Secret   `yaml:"client_secret" help:"its secret; a client without one is public"`
	SecretEnv    string            `yaml:"client_secret_env" help:"in place of client_secret the variable that has it, or with _FILE behind its name the file"`
	Scopes       []string          `yaml:"scopes" help:"what is asked for, beside openid; empty: profile and email"`
	NameClaim    string            `yaml:"name_claim" help:"the claim that a person is called by; it must not be one that people can change by themselves; empty: email, which must not be unverified"`
	GroupsClaim  string            `yaml:"groups_claim" help:"the claim that lists a person's groups, or the path to it with dots, such as realm_access.roles; empty: groups"`
	Roles        map[string]string `yaml:"roles" help:"the role of those who are in a group: viewer, operator or admin, or of single systems as \"viewer operator:crm\"; those of all their groups count together, and who is in none of them is refused"`
}

// roleText is the form of roles; which systems there are is not known here.
var roleText = regexp.MustCompile(`^ *((viewer|operator)(:[a-z][a-z0-9_-]{0,31})?|admin)( +((viewer|operator)(:[a-z][a-z0-9_-]{0,31})?|admin))* *$`)

var providerName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)

// checkProviders refuses providers that nobody can log in at.
func (c *Loaded) checkProviders() (errs []error) {
	for i, p := range c.Console.OIDC {
		fail := func(good bool, format string, args ...any) {
			if !good {
				errs = append(errs, fmt.Errorf("%s: %s", c.Element("console.oidc", i), fmt.Sprintf(format, args...)))
			}
		}
		fail(providerName.MatchString(p.Name) && !slices.Contains([]string{"token", "key", "local"}, p.Name), "name: %q has 1 to 32 of a-z, 0-9 and -, and is not token, key or local", p.Name)
		fail(!slices.ContainsFunc(c.Console.OIDC[:i], func(q Provider) bool { return q.Name == p.Name }), "there are two of the name %s", p.Name)
		err := CheckIssuer(p.Issuer)
		fail(err == nil, "issuer: %v", err)
		fail(p.ClientID != "", "client_id is missing")
		fail(p.ClientSecret.IsZero() || p.SecretEnv == "", "give client_secret or client_secret_env, not both")
		if p.SecretEnv != "" {
			_, is := c.Secret(p.SecretEnv)
			fail(is, "client_secret_env: neither %s nor %s_FILE is set", p.SecretEnv, p.SecretEnv)
		}
		fail(len(p.Roles) > 0, "roles is missing: without it nobody has a role, and nobody is let in")
		for group, role := range p.Roles {
			fail(group != "" && roleText.MatchString(role), "roles: %s: %s", group, Invalid(role, "viewer, operator or admin; of single systems as viewer operator:crm, but no admin"))
		}
	}
	return errs
}

// CheckIssuer says why an address is none of a provider.
func CheckIssuer(address string) error {
	u, err := url.Parse(address)
	if err != nil || !SafeURL(u) || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%q is no address with https and without a query (on this machine http is one too)", address)
	}
	return nil
}

// SafeURL says whether nobody can read what is sent to an address on its way: it is over TLS, or on
// this machine.
func SafeURL(u *url.URL) bool {
	return u.Hostname() != "" && u.User == nil && (u.Scheme == "https" || u.Scheme == "http" && Loopback(u.Hostname()))
}

// Sessions are those of the console.
type Sessions struct {
	Idle     time.Duration `yaml:"idle" env:"TIDEMILL_CONSOLE_SESSIONS_IDLE" default:"8h" help:"a session ends when it is not used for so long" allow:"1s to 720h" range:"[1s,720h]"`
	Absolute time.Duration `yaml:"absolute" env:"TIDEMILL_CONSOLE_SESSIONS_ABSOLUTE" default:"24h" help:"a session ends so long after its begin" allow:"1s to 720h" range:"[1s,720h]"`
}

// CoverRoots are what a path of console.cover begins with.
var CoverRoots = []string{"payload", "properties", "headers", "attributes", "identities", "document"}

var (
	basePath  = regexp.MustCompile(`^(/[A-Za-z0-9._~-]+)*$`)
	hostName  = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$`)
	coverPath = regexp.MustCompile(`^(` + strings.Join(CoverRoots, "|") + `)(\.[^.]+)+$`)
)

// check refuses values that cannot work.
func (c *Console) check(byPath map[string]*Field, ok func(good bool, path string)) {
	all := func(texts []string, of *regexp.Regexp, path string) {
		for _, t := range texts {
			ok(of.MatchString(t), path)
		}
	}
	ok(basePath.MatchString(c.Base), "console.base")
	ok(c.Name != "" && len([]rune(c.Name)) <= 40, "console.name")
	ok(len([]rune(c.Environment)) <= 40, "console.environment")
	all(c.Hosts, hostName, "console.hosts")
	all(c.Cover, coverPath, "console.cover")
	for _, path := range []string{"console.colour", "console.sessions.idle", "console.sessions.absolute"} {
		ok(byPath[path].limits.allow(byPath[path].value), path)
	}
}
