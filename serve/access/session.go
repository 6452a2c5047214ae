package access

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/serve/request"
	"github.com/tidemill/tidemill/state/access"
)

const (
	linkFor     = 10 * time.Minute // a one-time link lets in
	linkSession = 12 * time.Hour   // at most, of a session that it began
	maxBrowser  = 200              // bytes that are kept of how a browser calls itself
)

// Names of the cookie. A browser takes the first over TLS only, and from this host alone.
const (
	secureCookie = "__Host-tidemill"
	plainCookie  = "tidemill" // of a browser on this machine
)

func (g *Guard) cookieName(r *http.Request) string {
	if request.HTTPS(r, g.o.Trusted) {
		return secureCookie
	}
	return plainCookie
}

// cookie is the secret of the session that a request names; empty: it names none.
func (g *Guard) cookie(r *http.Request) string {
	c, err := r.Cookie(g.cookieName(r))
	if err != nil {
		return ""
	}
	return c.Value
}

func (g *Guard) setCookie(w http.ResponseWriter, r *http.Request, secret string) {
	c := &http.Cookie{Name: g.cookieName(r), Value: secret, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode}
	if c.Secure = c.Name == secureCookie; secret == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

// session is the caller of a request whose cookie has a secret.
func (g *Guard) session(r *http.Request, secret string) (who caller.Caller, err error) {
	if err = g.openTo(r); err == nil {
		err = ourPage(r)
	}
	if err != nil {
		g.refused.WithLabelValues(elsewhere).Inc()
		return who, err
	}
	s, err := g.o.Store.Get(r.Context(), access.Session, access.IDOf(secret))
	if err == nil && (g.over(&s) || !g.stands(&s)) {
		err = access.ErrUnknown
	}
	if err == nil {
		err = g.renew(r.Context(), &s)
	}
	if errors.Is(err, access.ErrUnknown) {
		g.refused.WithLabelValues(noSession).Inc()
		return who, nobody("the session is over: log in again")
	}
	if err != nil {
		return who, away(err)
	}
	who, err = of(&s, s.By, g.from(r))
	who.Session, who.Entered = s.ID[:access.ShortID], s.Entered
	return who, err
}

// stands says whether what began a session is what it was then: the API's own token, and what is
// configured of a provider.
func (g *Guard) stands(s *access.Grant) bool {
	switch s.By {
	case "key":
		return !g.o.Key.IsZero() && s.Hash == access.IDOf(keyName+g.o.Key.Reveal())
	case byProvider:
		name, _, _ := strings.Cut(s.Name, ":")
		p := g.provider(name)
		return p != nil && s.Hash == p.print()
	}
	return true
}

// renew puts off the end of a session that is used, once in usedEvery.
func (g *Guard) renew(ctx context.Context, s *access.Grant) error {
	now := milli(g.o.Now())
	if now.Sub(s.Used) < usedEvery {
		return nil
	}
	until, err := g.endOf(ctx, s, now)
	if err != nil {
		return err
	}
	_, err = g.o.Store.Change(ctx, access.Session, s.ID, access.Change{Do: func(s *access.Grant) error { s.Used, s.Until = now, until; return nil }})
	return err
}

// endOf is when a session that is used now ends, unless it is used again. One that a token began
// ends with the token.
func (g *Guard) endOf(ctx context.Context, s *access.Grant, now time.Time) (time.Time, error) {
	last := s.Made.Add(g.o.Absolute)
	switch s.By {
	case "link":
		last = s.Made.Add(linkSession)
	case "token":
		ts, err := g.o.Store.List(ctx, access.Token, s.Name)
		if err != nil {
			return last, err
		}
		if len(ts) == 0 {
			return last, access.ErrUnknown
		}
		if end := ts[0].Until; !end.IsZero() && end.Before(last) {
			last = end
		}
	}
	if idle := now.Add(g.o.Idle); idle.Before(last) {
		return idle, nil
	}
	return last, nil
}

// Enter implements Gate.
func (g *Guard) Enter(w http.ResponseWriter, r *http.Request, by Proof) (caller.Caller, error) {
	if err := g.enters(r); err != nil {
		g.refused.WithLabelValues(noWay).Inc()
		return caller.Caller{}, err
	}
	var who caller.Caller
	s, is, err := g.prove(r, by)
	if err == nil {
		who, err = g.begin(w, r, s, is)
	}
	if err != nil {
		g.tell(r, Login{Who: caller.Caller{Name: by.claims(), Via: by.way(), From: g.from(r)}, Err: err})
		return caller.Caller{}, err
	}
	g.tell(r, Login{Who: who})
	return who, nil
}

// enters says why a request is none by which somebody could log in, whatever it proves.
func (g *Guard) enters(r *http.Request) error {
	if g.o.Store == nil {
		return errNoSessions()
	}
	err := g.openTo(r)
	if err == nil {
		err = ourPage(r)
	}
	if err == nil && r.Method != http.MethodPost {
		err = operation.Refuse(http.StatusMethodNotAllowed, "log in by POST")
	}
	return err
}

func errNoSessions() error {
	return operation.Refuse(http.StatusForbidden, "this instance has no database that keeps sessions")
}

// begin begins a session, in place of one that the request had, of who proved to be the user or the token is.
func (g *Guard) begin(w http.ResponseWriter, r *http.Request, s *access.Grant, is access.Grant) (who caller.Caller, err error) {
	ctx := r.Context()
	if old := g.cookie(r); old != "" {
		if _, err := g.o.Store.Remove(ctx, access.Session, access.IDOf(old)); err != nil && !errors.Is(err, access.ErrUnknown) {
			return who, away(err)
		}
	}
	secret, err := g.secret()
	if err != nil {
		return who, err
	}
	now, browser := milli(g.o.Now()), r.UserAgent()
	s.Kind, s.ID, s.Made, s.Used, s.From = access.Session, access.IDOf(secret), now, now, g.from(r).String()
	if s.Entered.IsZero() { // else a provider says when
		s.Entered = now
	}
	s.Browser = strings.ToValidUTF8(browser[:min(len(browser), maxBrowser)], "")
	if s.Until, err = g.endOf(ctx, s, now); err == nil {
		err = g.o.Store.Add(ctx, *s)
	}
	if err == nil {
		err = g.stayed(ctx, s, is)
	}
	if errors.Is(err, access.ErrUnknown) {
		return who, nobody("your access was changed while you logged in: log in again")
	}
	if err != nil {
		return who, away(err)
	}
	g.setCookie(w, r, secret)
	who, err = of(s, s.By, g.from(r))
	who.Session, who.Entered = s.ID[:access.ShortID], s.Entered
	return who, err
}

// stayed says whether the user or the token that a session is of is as it was when that was proved:
// access.ErrUnknown where not. A change meanwhile ended the sessions that there were, and not this one,
// which is ended here.
func (g *Guard) stayed(ctx context.Context, s *access.Grant, is access.Grant) error {
	if is.Kind == "" {
		return nil
	}
	now, err := g.o.Store.Get(ctx, is.Kind, is.ID)
	if err == nil && now.Role == is.Role && now.Hash == is.Hash {
		return nil
	}
	if _, gone := g.o.Store.Remove(ctx, access.Session, s.ID); err == nil {
		err = cmp.Or(gone, access.ErrUnknown)
	}
	return err
}

// Leave implements Gate.
func (g *Guard) Leave(w http.ResponseWriter, r *http.Request) error {
	secret := g.cookie(r)
	if secret == "" || g.o.Store == nil {
		return nil
	}
	if err := ourPage(r); err != nil {
		return err
	}
	s, err := g.o.Store.Remove(r.Context(), access.Session, access.IDOf(secret))
	if err != nil && !errors.Is(err, access.ErrUnknown) {
		return away(err)
	}
	if g.setCookie(w, r, ""); err == nil {
		who, _ := of(&s, s.By, g.from(r))
		g.o.Told(r, Login{Out: true, Who: who})
	}
	return nil
}

// NewLink makes the secret of a one-time link.
func (g *Guard) NewLink(ctx context.Context) (secret string, until time.Time, err error) {
	if secret, err = g.secret(); err != nil {
		return "", until, err
	}
	made := milli(g.o.Now())
	until = made.Add(linkFor)
	return secret, until, g.o.Store.Add(ctx, access.Grant{Kind: access.Link, ID: access.IDOf(secret), Name: "local", Role: access.Admin, Made: made, Until: until})
}

// network is what senders are told apart by: an address, of IPv6 its network of 64 bits.
func network(a netip.Addr) string {
	bits := a.BitLen()
	if a.Is6() {
		bits = 64
	}
	p, _ := a.Prefix(bits)
	return p.String()
}
