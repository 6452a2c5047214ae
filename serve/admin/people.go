package admin

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemill/tidemill/internal/wire"
	"github.com/tidemill/tidemill/serve/access"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	state "github.com/tidemill/tidemill/state/access"
)

const (
	tokenDays     = 90   // of a token for which nothing is said
	mostTokenDays = 3650 // of one for which something is
)

// people are users, tokens and sessions.
func (a *API) people() []Room {
	return []Room{{Does: []operation.Handler{api.GetMe.By(a.me)}},
		{Missing: in(a.People.Store != nil, "this instance has no database that keeps users, tokens and sessions"), Does: []operation.Handler{
			api.SetMyPassword.By(a.setMyPassword), api.ListMySessions.By(a.mySessions), api.EndMySession.By(a.endMySession),
			api.ListUsers.By(a.users), api.GetUser.By(a.user), api.AddUser.By(a.addUser), api.SetUserRole.By(a.setUserRole), api.SetUserPassword.By(a.setUserPassword), api.RemoveUser.By(a.removeUser),
			api.ListTokens.By(a.tokens), api.MakeToken.By(a.makeToken), api.RevokeToken.By(a.revokeToken),
			api.ListSessions.By(a.sessions), api.EndSession.By(a.endSession), api.MakeLink.By(a.makeLink),
		}}}
}

// known gives what the store refuses its status.
func known(err error) error {
	switch {
	case errors.Is(err, state.ErrUnknown):
		return operation.Refuse(http.StatusNotFound, "%v", err)
	case errors.Is(err, state.ErrTaken), errors.Is(err, state.ErrLastAdmin):
		return operation.Refuse(http.StatusConflict, "%v", err)
	}
	return err
}

func (a *API) me(ctx context.Context, _ *operation.None) (api.Me, error) {
	who := caller.From(ctx)
	out := api.Me{Name: who.Name, Role: who.Rights, Payloads: who.Payloads, Via: who.Via, Session: who.Session, Entered: answer.When(who.Entered), May: ids(a.allowed(who.Rights))}
	return out, nil
}

func rightsOf(g *state.Grant) (r caller.Rights) {
	_ = r.UnmarshalText([]byte(g.Role)) // what are no rights are nobody's
	return r
}

// readRights reads the text of rights, for systems that this program has.
func (a *API) readRights(text string) (caller.Rights, error) {
	r, err := caller.ParseRights(text)
	if err != nil {
		return r, operation.Refuse(http.StatusBadRequest, "role: %v", err)
	}
	var names []string
	for _, o := range a.Owners {
		names = append(names, o.System)
	}
	for _, name := range r.Named() {
		if !slices.Contains(names, name) {
			return r, operation.Refuse(http.StatusBadRequest, "role: there is no system %q; there are %s", name, answer.Named(name, names))
		}
	}
	return r, nil
}

func showUser(g *state.Grant) api.User {
	return api.User{UserShown: api.UserShown{Name: g.Name, Role: rightsOf(g), By: g.By, Made: g.Made, ETag: wire.Fingerprint([]byte(g.Name), []byte(g.Role))}}
}

func showToken(g *state.Grant) api.Token {
	return api.Token{TokenShown: api.TokenShown{ID: g.ID[:state.ShortID], Name: g.Name, Role: rightsOf(g), By: g.By, Made: g.Made, Used: answer.When(g.Used), Until: answer.When(g.Until)}}
}

func showSession(ctx context.Context, g *state.Grant) api.Session {
	id := g.ID[:state.ShortID]
	return api.Session{SessionShown: api.SessionShown{ID: id, Name: g.Name, Role: rightsOf(g), Via: g.By, From: g.From, Browser: g.Browser, Entered: g.Made, Used: g.Used, Until: g.Until, This: id == caller.From(ctx).Session}}
}

// given are the grants of a kind that have not ended.
func (a *API) given(ctx context.Context, kind state.Kind, name string) ([]state.Grant, error) {
	all, err := a.People.Store.List(ctx, kind, name)
	now := a.now()
	left := all[:0]
	for _, g := range all {
		if g.Until.IsZero() || now.Before(g.Until) {
			left = append(left, g)
		}
	}
	return left, err
}

// now is the time by the clock that grants are judged by.
func (a *API) now() time.Time {
	if a.People.Now != nil {
		return a.People.Now()
	}
	return time.Now()
}

func (a *API) setMyPassword(ctx context.Context, q *api.MyPassword) (out api.Me, err error) {
	who := caller.From(ctx)
	if who.Via != "password" {
		return out, operation.Refuse(http.StatusConflict, "%s came in by %s and has no password to change: who logs in by name and password has one", who.Name, who.Via)
	}
	is, err := a.guard.Confirm(ctx, who, q.Body.Old)
	if err != nil {
		return out, err
	}
	if err := a.setPassword(ctx, who.Name, is.Hash, q.Body.New, who.Session); err != nil {
		return out, err
	}
	return a.me(ctx, nil)
}

// setPassword gives a user another password in place of the one that has a hash; empty: of any.
func (a *API) setPassword(ctx context.Context, name, was, password, keep string) error {
	hash, err := a.guard.Hash(ctx, name, password)
	if err != nil {
		return err
	}
	_, err = a.People.Store.Change(ctx, state.User, name, state.Change{Keep: keep, Do: func(g *state.Grant) error {
		if was != "" && g.Hash != was {
			return operation.Refuse(http.StatusConflict, "the password was changed meanwhile, and is left as it is")
		}
		g.Hash = hash
		return nil
	}})
	return known(err)
}

func (a *API) users(ctx context.Context, _ *operation.Short) (iter.Seq2[api.User, error], error) {
	all, err := a.given(ctx, state.User, "")
	return answer.Listed(all, showUser), err
}

func (a *API) user(ctx context.Context, q *api.OneUser) (api.User, error) {
	g, err := a.People.Store.Get(ctx, state.User, q.User)
	return showUser(&g), known(err)
}

func (a *API) addUser(ctx context.Context, q *api.NewUser) (out api.User, err error) {
	if err = access.CheckName(q.Body.Name); err != nil {
		return out, operation.Refuse(http.StatusBadRequest, "%v", err)
	}
	rights, err := a.readRights(q.Body.Role)
	if err != nil {
		return out, err
	}
	hash, err := a.guard.Hash(ctx, q.Body.Name, q.Body.Password)
	if err != nil {
		return out, err
	}
	g := state.Grant{Kind: state.User, ID: q.Body.Name, Name: q.Body.Name, Role: rights.String(), Hash: hash, By: caller.From(ctx).Name, Made: a.now().UTC().Truncate(time.Millisecond)}
	operation.Note(ctx, nil, showUser(&g))
	return showUser(&g), known(a.People.Store.Add(ctx, g))
}

func (a *API) setUserRole(ctx context.Context, q *api.UserRole) (out api.User, err error) {
	rights, err := a.readRights(q.Role)
	if err != nil {
		return out, err
	}
	was := ""
	g, err := a.People.Store.Change(ctx, state.User, q.User, state.Change{Do: func(g *state.Grant) error {
		if q.IfMatch != "" && q.IfMatch != showUser(g).ETag {
			return operation.Refuse(http.StatusPreconditionFailed, "%s was given another role since it was read: read it again, and change what it is now", g.Name)
		}
		was, g.Role = g.Role, rights.String()
		return nil
	}})
	if err == nil {
		operation.Note(ctx, was, g.Role)
	}
	return showUser(&g), known(err)
}

func (a *API) setUserPassword(ctx context.Context, q *api.UserPassword) (out api.User, err error) {
	keep := ""
	if who := caller.From(ctx); who.Name == q.User {
		keep = who.Session
	}
	if err := a.setPassword(ctx, q.User, "", q.Body.Password, keep); err != nil {
		return out, err
	}
	g, err := a.People.Store.Get(ctx, state.User, q.User)
	return showUser(&g), known(err)
}

func (a *API) removeUser(ctx context.Context, q *api.OneUser) (api.User, error) {
	g, err := a.People.Store.Remove(ctx, state.User, q.User)
	return showUser(&g), known(err)
}

func (a *API) tokens(ctx context.Context, _ *operation.Short) (iter.Seq2[api.Token, error], error) {
	all, err := a.given(ctx, state.Token, "")
	return answer.Listed(all, showToken), err
}

func (a *API) makeToken(ctx context.Context, q *api.NewToken) (out api.MadeToken, err error) {
	if err := access.CheckName(q.Name); err != nil {
		return out, operation.Refuse(http.StatusBadRequest, "%v", err)
	}
	life, err := tokenLife(q.Days)
	if err != nil {
		return out, err
	}
	rights, err := a.readRights(cmp.Or(q.Role, caller.Viewer.String()))
	if err != nil {
		return out, err
	}
	secret, g, err := a.guard.NewToken(ctx, q.Name, rights, life)
	if err != nil {
		return out, known(err)
	}
	return api.MadeToken{Token: showToken(&g), Secret: secret}, nil
}

// tokenLife is how long a new token is good; 0: for ever.
func tokenLife(days *string) (time.Duration, error) {
	n := tokenDays
	switch {
	case days == nil || *days == "":
	case strings.EqualFold(*days, "never"):
		return 0, nil
	default:
		var err error
		if n, err = strconv.Atoi(*days); err != nil || n < 1 || n > mostTokenDays {
			return 0, operation.Refuse(http.StatusBadRequest, "days=%q: want 1 to %d, or never", *days, mostTokenDays)
		}
	}
	return time.Duration(n) * 24 * time.Hour, nil
}

func (a *API) revokeToken(ctx context.Context, q *api.OneToken) (out api.Token, err error) {
	if len(q.ID) != state.ShortID {
		return out, operation.Refuse(http.StatusNotFound, "no token has the id %.40q", q.ID)
	}
	g, err := a.People.Store.Remove(ctx, state.Token, q.ID)
	if err != nil {
		return out, known(err)
	}
	return showToken(&g), nil
}

func (a *API) sessionsOf(ctx context.Context, name string) (iter.Seq2[api.Session, error], error) {
	all, err := a.given(ctx, state.Session, name)
	return answer.Listed(all, func(g *state.Grant) api.Session { return showSession(ctx, g) }), err
}

func (a *API) mySessions(ctx context.Context, _ *operation.Short) (iter.Seq2[api.Session, error], error) {
	return a.sessionsOf(ctx, caller.From(ctx).Name)
}

func (a *API) sessions(ctx context.Context, q *api.SessionFilter) (iter.Seq2[api.Session, error], error) {
	return a.sessionsOf(ctx, q.Name)
}

// endMySession ends no session of somebody else: it is not known then.
func (a *API) endMySession(ctx context.Context, q *api.OneSession) (out api.Session, err error) {
	if len(q.ID) == state.ShortID {
		g, err := a.People.Store.Get(ctx, state.Session, q.ID)
		if err != nil && !errors.Is(err, state.ErrUnknown) {
			return out, err
		}
		if err == nil && g.Name == caller.From(ctx).Name {
			return a.endSession(ctx, q)
		}
	}
	return out, operation.Refuse(http.StatusNotFound, "%s has no session %.40q", caller.From(ctx).Name, q.ID)
}

func (a *API) endSession(ctx context.Context, q *api.OneSession) (out api.Session, err error) {
	if len(q.ID) != state.ShortID {
		return out, operation.Refuse(http.StatusNotFound, "there is no session %.40q", q.ID)
	}
	g, err := a.People.Store.Remove(ctx, state.Session, q.ID)
	if err != nil {
		return out, known(err)
	}
	return showSession(ctx, &g), nil
}

func (a *API) makeLink(ctx context.Context, _ *operation.None) (api.MadeLink, error) {
	secret, until, err := a.guard.NewLink(ctx)
	return api.MadeLink{Path: a.base() + "/console/login#" + secret, Until: until}, err
}

// base is what a proxy has before the console.
func (a *API) base() string {
	if a.Config == nil {
		return ""
	}
	return a.Config().Console.Base
}
