package access

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/tidemill/tidemill/serve/access/provider"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/serve/request"
	"github.com/tidemill/tidemill/state/access"
)

const (
	// LoginPath is where people log in. A provider's name follows it, and BackPath where it sends them.
	LoginPath = "/console/login"
	BackPath  = "/back"

	byProvider = "oidc"           // how somebody came in
	signInFor  = 10 * time.Minute // that a login at a provider may take
	mostBack   = 1024             // bytes of the address to go back to
)

// Provider is one of OpenID Connect, and who of its people may do what.
type Provider struct {
	Name string // in addresses, and before the names of people
	provider.Options
	Roles map[string]caller.Rights // of those who are in a group
}

var _ SignIn = (*Guard)(nil)

func abroad(o *Options) map[string]*provider.Provider {
	all := map[string]*provider.Provider{}
	for _, p := range o.Providers {
		if p.Now == nil {
			p.Now = o.Now
		}
		all[p.Name] = provider.New(p.Options)
	}
	return all
}

// provider is what is configured of a provider; nil: nothing.
func (g *Guard) provider(name string) *Provider {
	for i := range g.o.Providers {
		if g.o.Providers[i].Name == name {
			return &g.o.Providers[i]
		}
	}
	return nil
}

// print is the hash of what a role of a provider's people depends on.
func (p *Provider) print() string {
	b, _ := json.Marshal([]any{p.Name, p.Issuer, p.ClientID, p.Options.Name, p.Groups, p.Roles})
	return access.IDOf(string(b))
}

// rights are those that the groups have together; the zero value: they have none.
func (p *Provider) rights(groups []string) (r caller.Rights) {
	for _, g := range groups {
		r = r.With(p.Roles[g])
	}
	return r
}

// begun is a login that a browser began at a provider, as its cookie says. What the provider is told
// is made of it, so that nobody who does not have the cookie can finish it, and nothing of it can be
// another.
type begun struct {
	Secret   string    `json:"s"`
	Provider string    `json:"p"`
	Back     string    `json:"b,omitempty"`
	At       time.Time `json:"t"`
	Again    bool      `json:"a,omitempty"` // by somebody who was logged in
}

// attempt is a login as the provider knows it.
func (g *Guard) attempt(b *begun, back string) *provider.Attempt {
	text, _ := json.Marshal(b)
	derive := func(what string) string {
		sum := hmac.New(sha256.New, []byte(b.Secret))
		sum.Write([]byte(what + "\x00" + string(text)))
		return base64.RawURLEncoding.EncodeToString(sum.Sum(nil))
	}
	a := &provider.Attempt{Back: back, State: derive("state"), Nonce: derive("nonce"), Verifier: derive("verifier"), MaxAge: g.o.Absolute, Again: b.Again}
	if b.Again {
		a.MaxAge = operation.FreshFor
	}
	return a
}

// home is an address of this instance, as the browser of a request knows it.
func (g *Guard) home(r *http.Request, path string) string {
	scheme := "http://"
	if request.HTTPS(r, g.o.Trusted) {
		scheme = "https://"
	}
	return scheme + r.Host + g.o.Base + path
}

// Begin implements SignIn.
func (g *Guard) Begin(w http.ResponseWriter, r *http.Request, name, back string) (string, error) {
	p, err := g.signIn(r, name)
	if err != nil {
		return "", err
	}
	secret, err := g.secret()
	if err != nil {
		return "", err
	}
	if len(back) > mostBack {
		back = ""
	}
	b := &begun{Secret: secret, Provider: name, Back: strings.ToValidUTF8(back, ""), At: milli(g.o.Now())}
	if g.cookie(r) != "" {
		_, err := g.session(r, g.cookie(r))
		b.Again = err == nil
	}
	address, err := p.Address(r.Context(), g.attempt(b, g.home(r, LoginPath+"/"+name+BackPath)))
	if err != nil {
		return "", g.provided(r.Context(), name, err)
	}
	text, _ := json.Marshal(b)
	g.setSignIn(w, r, base64.RawURLEncoding.EncodeToString(text))
	return address, nil
}

// signIn is the provider of a login by a request.
func (g *Guard) signIn(r *http.Request, name string) (*provider.Provider, error) {
	p := g.abroad[name]
	switch {
	case p == nil:
		return nil, operation.Refuse(http.StatusNotFound, "no provider %.40q is configured (console.oidc)", name)
	case g.o.Store == nil:
		return nil, errNoSessions()
	}
	return p, g.openTo(r)
}

// Finish implements SignIn.
func (g *Guard) Finish(w http.ResponseWriter, r *http.Request, name string) (string, error) {
	p, err := g.signIn(r, name)
	if err != nil {
		g.refused.WithLabelValues(noWay).Inc()
		return "", err
	}
	who := caller.Caller{Name: stranger, Via: byProvider, From: g.from(r)}
	b, s, err := g.finish(w, r, name, p)
	if s != nil {
		who.Name = s.Name
	}
	if err == nil {
		var in caller.Caller
		if in, err = g.begin(w, r, s, access.Grant{}); err == nil {
			who = in
		}
	}
	if g.tell(r, Login{Who: who, Err: err}); err != nil {
		return "", err
	}
	return b.Back, nil
}

// finish is the session, not yet begun, of who comes back from a provider. With an error there is
// one, if it is known who it was.
func (g *Guard) finish(w http.ResponseWriter, r *http.Request, name string, p *provider.Provider) (*begun, *access.Grant, error) {
	from := "from " + network(g.from(r))
	if wait := g.tries.begin(from); wait > 0 {
		return nil, nil, slow(wait)
	}
	b, err := g.takeSignIn(w, r, name)
	if err != nil {
		return nil, nil, err
	}
	a := g.attempt(b, g.home(r, LoginPath+"/"+name+BackPath))
	if err := g.answered(r, g.provider(name), a); err != nil {
		return nil, nil, err
	}
	person, err := p.Person(r.Context(), a, r.URL.Query().Get("code"))
	if err != nil {
		if errors.Is(err, provider.ErrAway) {
			g.tries.forgive(false, from) // it was no guess
		}
		return nil, nil, g.provided(r.Context(), name, err)
	}
	g.tries.forgive(true, from)
	set := g.provider(name)
	s := &access.Grant{Name: name + ":" + person.Name, By: byProvider, Hash: set.print(), Entered: milli(person.Entered)}
	rights := set.rights(person.Groups)
	if rights == (caller.Rights{}) {
		return b, s, operation.Refuse(http.StatusForbidden, "%s is known to %s, and is in no group that has a role here. An admin gives a group a role by console.oidc, roles", s.Name, name)
	}
	s.Role = rights.String()
	return b, s, nil
}

// takeSignIn is the login that a browser began, which it can finish no more.
func (g *Guard) takeSignIn(w http.ResponseWriter, r *http.Request, name string) (*begun, error) {
	c, err := r.Cookie(g.signInCookie(r))
	if err != nil {
		return nil, nobody("this browser began no login at %s, or its time is over: log in again", name)
	}
	g.setSignIn(w, r, "")
	b := new(begun)
	text, err := base64.RawURLEncoding.DecodeString(c.Value)
	if err == nil {
		err = json.Unmarshal(text, b)
	}
	if age := g.o.Now().Sub(b.At); err != nil || b.Provider != name || b.Secret == "" || age > signInFor || age < -time.Minute {
		return nil, nobody("this browser began no login at %s, or its time is over: log in again", name)
	}
	return b, nil
}

// answered says why a provider's answer, as the browser brings it, is none to an attempt. One that is
// gives it away: there is no second.
func (g *Guard) answered(r *http.Request, p *Provider, a *provider.Attempt) error {
	q := r.URL.Query()
	switch iss := q.Get("iss"); {
	case subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(a.State)) != 1:
		return nobody("this is the answer to another login than the last one that this browser began: log in again")
	case iss != "" && iss != p.Issuer:
		return nobody("this answer is not of %s: log in again", p.Name)
	case q.Get("error") != "":
		return nobody("%s did not let you in (%s)", p.Name, plain(q.Get("error")))
	case q.Get("code") == "":
		return nobody("%s sent no code: log in again", p.Name)
	}
	now := milli(g.o.Now())
	err := g.o.Store.Add(r.Context(), access.Grant{Kind: access.Login, ID: access.IDOf(a.State), Name: p.Name, By: byProvider, Made: now, Until: now.Add(2 * signInFor)})
	if errors.Is(err, access.ErrTaken) {
		return nobody("this login was finished already: log in again")
	}
	if err != nil {
		return away(err)
	}
	return nil
}

// plain is an error of a provider, which has no other characters.
func plain(code string) string {
	if len(code) > 40 || strings.ContainsFunc(code, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') }) {
		return "an error without a name"
	}
	return code
}

// provided is the problem of what a provider did.
func (g *Guard) provided(ctx context.Context, name string, err error) *operation.Problem {
	if ctx.Err() == nil {
		// Logged when a provider of OpenID Connect cannot be reached, or answers what it should not;
		// the user is told to try again.
		// To do: see whether the provider is up, and whether `console.oidc` is what it expects.
		g.o.Log.WarnContext(ctx, "a login at a provider failed", "provider", name, "error", err)
	}
	if errors.Is(err, provider.ErrAway) {
		p := operation.Refuse(http.StatusServiceUnavailable, "%s cannot be reached now: try again in a moment, or log in in another way", name)
		p.After = 5
		return p
	}
	return nobody("%s: %v: log in again", name, err)
}

// Out implements SignIn.
func (g *Guard) Out(r *http.Request, name string) (string, error) {
	p, err := g.signIn(r, name)
	if err != nil {
		return "", err
	}
	address, err := p.Out(r.Context(), g.home(r, LoginPath))
	if err != nil {
		return "", g.provided(r.Context(), name, err)
	}
	return address, nil
}

func (g *Guard) signInCookie(r *http.Request) string { return g.cookieName(r) + "-login" }

// setSignIn sets the cookie of a login that is begun; empty: takes it away.
func (g *Guard) setSignIn(w http.ResponseWriter, r *http.Request, value string) {
	c := &http.Cookie{Name: g.signInCookie(r), Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, MaxAge: int(signInFor.Seconds())}
	if c.Secure = strings.HasPrefix(c.Name, secureCookie); value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}
