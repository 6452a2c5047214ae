package access

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/state/access"
)

// way is how somebody wants to come in.
func (p *Proof) way() string {
	switch {
	case p.Link != "":
		return "link"
	case p.Token != "":
		return "token"
	}
	return "password"
}

// claims is who somebody says that they are.
func (p *Proof) claims() string {
	if p.way() == "password" && CheckName(p.Name) == nil {
		return p.Name
	}
	return stranger
}

// wrong is the answer to every proof that is wrong: it does not say what of it.
var wrong = map[string]string{
	"password": "name or password is wrong",
	"token":    "the token is wrong, or its time is over",
	"link":     "the link was used, or its time is over: `tidemill console link` prints another",
}

// prove is the session, not yet begun, of somebody who proves who they are, and the user or the token that
// they proved it by; zero: it is neither. Those who try many are delayed: by their address, and by the name
// that they try.
func (g *Guard) prove(r *http.Request, by Proof) (s *access.Grant, is access.Grant, err error) {
	from, name := "from "+network(g.from(r)), ""
	keys := []string{from}
	if by.way() == "password" {
		name = "of " + strings.ToLower(by.Name[:min(len(by.Name), access.MaxName)])
		keys = append(keys, name)
	}
	if wait := g.tries.begin(keys...); wait > 0 {
		return nil, is, slow(wait)
	}
	s, is, err = g.proven(r, by)
	switch {
	case err == nil:
		g.tries.forgive(true, keys...)
		return s, is, nil
	case errors.Is(err, access.ErrUnknown):
		return nil, is, nobody("%s", wrong[by.way()])
	}
	g.tries.forgive(false, keys...) // it was no guess
	if p, ok := errors.AsType[*operation.Problem](err); ok {
		return nil, is, p
	}
	return nil, is, away(err)
}

// proven is prove; access.ErrUnknown says that the proof is wrong.
func (g *Guard) proven(r *http.Request, by Proof) (s *access.Grant, is access.Grant, err error) {
	ctx := r.Context()
	switch by.way() {
	case "link":
		if err := local(r); err != nil {
			return nil, is, operation.Refuse(http.StatusForbidden, "a link lets in on this machine only")
		}
		l, err := g.o.Store.Remove(ctx, access.Link, access.IDOf(by.Link))
		if err == nil && g.over(&l) {
			err = access.ErrUnknown
		}
		return &access.Grant{Name: l.Name, Role: l.Role, By: "link"}, is, err
	case "token":
		if g.o.NoToken {
			return nil, is, operation.Refuse(http.StatusForbidden, "nobody logs in by a token here (console.tokens)")
		}
		given := strings.TrimSpace(by.Token)
		if g.isKey(given) {
			return &access.Grant{Name: keyName, Role: access.Admin, By: "key", Hash: access.IDOf(keyName + given)}, is, nil
		}
		t, err := g.token(ctx, given)
		if err != nil {
			return nil, is, err
		}
		g.note(ctx, t)
		return &access.Grant{Name: t.Name, Role: t.Role, By: "token"}, *t, nil
	}
	if g.o.NoPassword {
		return nil, is, operation.Refuse(http.StatusForbidden, "nobody logs in by a password here (console.passwords)")
	}
	u, err := g.CheckPassword(ctx, by.Name, by.Password)
	return &access.Grant{Name: u.Name, Role: u.Role, By: "password"}, u, err
}

// Confirm wants the password of a caller again, before something of their own is changed, and returns the
// user as it is then. Those who try many are delayed as at the login.
func (g *Guard) Confirm(ctx context.Context, who caller.Caller, password string) (u access.Grant, err error) {
	name := "of " + who.Name
	if wait := g.tries.begin(name); wait > 0 {
		return u, slow(wait)
	}
	u, err = g.CheckPassword(ctx, who.Name, password)
	if errors.Is(err, access.ErrUnknown) {
		return u, operation.Refuse(http.StatusForbidden, "the old password is wrong")
	}
	g.tries.forgive(false, name)
	if _, ok := errors.AsType[*operation.Problem](err); err == nil || ok {
		return u, err
	}
	return u, away(err)
}

func slow(wait time.Duration) *operation.Problem {
	p := operation.Refuse(http.StatusTooManyRequests, "too many tries: the next one is possible in %v", wait)
	p.After = int(wait.Seconds())
	return p
}
