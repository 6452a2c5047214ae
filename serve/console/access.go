package console

import (
	"net/http"
	"sync"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/console/page"
)

// accessPage is who comes in.
type accessPage struct {
	Users    page.Part[[]api.User]
	Tokens   page.Part[[]api.Token]
	Sessions page.Part[[]api.Session]
}

func showAccess(v *page.Visit) (*page.View, error) {
	if err := v.Allowed("Access", api.ListUsers.ID); err != nil {
		return nil, err
	}
	p := &accessPage{}
	var all sync.WaitGroup
	all.Go(func() { p.Users = page.Listed(v, api.ListUsers, &operation.Short{}) })
	all.Go(func() { p.Tokens = page.Listed(v, api.ListTokens, &operation.Short{}) })
	all.Go(func() { p.Sessions = page.Listed(v, api.ListSessions, &api.SessionFilter{}) })
	all.Wait()
	return &page.View{File: "access", Title: "Access", Section: "access", Body: p}, nil
}

var accessCrumbs = []page.Link{{Text: "Access", Href: page.Address("access")}}

// roleOf asks for what somebody is given.
func roleOf(v *page.Visit) page.Input {
	return page.Input{Name: "role", Label: "Role", Value: v.R.PostFormValue("role"), Auto: "off",
		Help: "viewer, operator or admin; or of single systems, as viewer operator:crm operator:delivery. An admin is one of all systems."}
}

const newPassword = "12 to 128 characters. Those that are used often are refused."

// granting is an action of the page of access; do returns what was done, or has answered where it is
// empty.
func granting[Q, A any](o operation.Operation[Q, A], path string, ask func(*page.Visit) *page.Question, read func(*page.Visit) *Q, said string) *page.Action {
	return &page.Action{Path: "access/" + path, Op: o.ID,
		Ask: func(v *page.Visit) (*page.Question, error) {
			q := ask(v)
			q.Section, q.Crumbs, q.Back, q.Request = "access", accessCrumbs, page.Address("access"), page.Request(o, read(v))
			return q, nil
		},
		Do: func(v *page.Visit) (string, error) {
			a, err := page.Change(v, o, read(v))
			if err != nil {
				return "", page.Refilled(err)
			}
			if made, is := any(a).(api.MadeToken); is {
				v.Render(http.StatusOK, &page.View{File: "token", Title: "The token " + made.Name, Section: "access", Crumbs: accessCrumbs, Body: &made})
				return "", nil
			}
			return page.Done(page.Address("access"), said), nil
		}}
}

// readFirst shows the role that a user has, and has no other one changed.
func readFirst(a *page.Action) *page.Action {
	ask := a.Ask
	a.Ask = func(v *page.Visit) (*page.Question, error) {
		one := theUser(v)
		u, err := page.Call(v, api.GetUser, &one)
		if err != nil {
			return nil, err
		}
		q, err := ask(v)
		if err == nil {
			q.ETag, q.Texts = u.ETag, append([]string{"The role is " + u.Role.String() + " now."}, q.Texts...)
		}
		return q, err
	}
	return a
}

// named says first what a token or a session is, which is known by its id alone; what is there no more is not asked
// about.
func named(a *page.Action, what func(v *page.Visit, id string) (string, error)) *page.Action {
	ask := a.Ask
	a.Ask = func(v *page.Visit) (*page.Question, error) {
		text, err := what(v, v.R.PathValue("id"))
		if err != nil {
			return nil, err
		}
		q, err := ask(v)
		if err == nil {
			q.Texts = append([]string{text}, q.Texts...)
		}
		return q, err
	}
	return a
}

func tokenWords(v *page.Visit, id string) (string, error) {
	ctx, cancel := v.Context()
	defer cancel()
	for t, err := range api.ListTokens.Each(ctx, v.API, &operation.Short{}) {
		switch {
		case err != nil:
			return "", err
		case t.ID == id:
			return "It is called " + page.Cut(t.Name) + ", and has the role " + t.Role.String() + ".", nil
		}
	}
	return "", operation.Refuse(http.StatusNotFound, "There is no such token. It was revoked, or has ended.")
}

func sessionWords(v *page.Visit, id string) (string, error) {
	ctx, cancel := v.Context()
	defer cancel()
	for s, err := range api.ListSessions.Each(ctx, v.API, &api.SessionFilter{}) {
		switch {
		case err != nil:
			return "", err
		case s.ID == id:
			return "It is of " + page.Cut(s.Name) + ", from " + s.From + ".", nil
		}
	}
	return "", operation.Refuse(http.StatusNotFound, "There is no such session. It has ended.")
}

func theUser(v *page.Visit) api.OneUser { return api.OneUser{User: v.R.PathValue("name")} }

var (
	addUser = granting(api.AddUser, "users/add", func(v *page.Visit) *page.Question {
		return &page.Question{Title: "Add a user", Button: "Add the user", CLI: page.Command("user", "add", "NAME"), Texts: []string{"They log in by this name and password, and can change the password under their name."},
			Inputs: []page.Input{{Name: "name", Label: "Name", Value: v.R.PostFormValue("name"), Auto: "off"}, roleOf(v),
				{Name: "password", Label: "Password", Kind: "password", Help: newPassword, Auto: "new-password"}}}
	}, func(v *page.Visit) *api.NewUser {
		return &api.NewUser{Body: api.UserToAdd{Name: v.R.PostFormValue("name"), Role: v.R.PostFormValue("role"), Password: v.R.PostFormValue("password")}}
	}, "added")

	setUserRole = readFirst(granting(api.SetUserRole, "users/{name}/role", func(v *page.Visit) *page.Question {
		return &page.Question{Title: "Another role for " + theUser(v).User, Button: "Give the role", CLI: page.Command("user", "role", theUser(v).User, "ROLE"), Texts: []string{"Their sessions end: they log in again."},
			Inputs: []page.Input{roleOf(v)}}
	}, func(v *page.Visit) *api.UserRole {
		return &api.UserRole{OneUser: theUser(v), Seen: api.Seen{IfMatch: v.R.PostFormValue("etag")}, Role: v.R.PostFormValue("role")}
	}, "role"))

	setUserPassword = granting(api.SetUserPassword, "users/{name}/password", func(v *page.Visit) *page.Question {
		return &page.Question{Title: "Another password for " + theUser(v).User, Button: "Set the password", CLI: page.Command("user", "password", theUser(v).User), Texts: []string{"Their sessions end: they log in again."},
			Inputs: []page.Input{{Name: "password", Label: "Password", Kind: "password", Help: newPassword, Auto: "new-password"}}}
	}, func(v *page.Visit) *api.UserPassword {
		return &api.UserPassword{OneUser: theUser(v), Body: api.NewPassword{Password: v.R.PostFormValue("password")}}
	}, "password")

	removeUser = granting(api.RemoveUser, "users/{name}/remove", func(v *page.Visit) *page.Question {
		return &page.Question{Title: "Remove " + theUser(v).User + "?", Button: "Remove the user", Careful: true, CLI: page.Command("user", "remove", theUser(v).User), Texts: []string{"They can log in no more, and their sessions end. The audit trail keeps what they did."}}
	}, func(v *page.Visit) *api.OneUser { q := theUser(v); return &q }, "userremoved")

	makeToken = granting(api.MakeToken, "tokens/make", func(v *page.Visit) *page.Question {
		return &page.Question{Title: "Make a token", Button: "Make the token", CLI: page.Command("token", "make", "NAME"), Texts: []string{"A program shows it with each request. Its secret is shown once, on the next page."},
			Inputs: []page.Input{{Name: "name", Label: "Name of the program", Value: v.R.PostFormValue("name"), Auto: "off"}, roleOf(v),
				{Name: "days", Label: "Days until it ends, or never", Value: v.R.PostFormValue("days"), Help: "Empty: 90.", Optional: true, Auto: "off"}}}
	}, func(v *page.Visit) *api.NewToken {
		q := &api.NewToken{Name: v.R.PostFormValue("name"), Role: v.R.PostFormValue("role")}
		if days := v.R.PostFormValue("days"); days != "" {
			q.Days = &days
		}
		return q
	}, "")

	revokeToken = named(granting(api.RevokeToken, "tokens/{id}/revoke", func(v *page.Visit) *page.Question {
		return &page.Question{Title: "Revoke the token " + v.R.PathValue("id") + "?", Button: "Revoke the token", Careful: true, CLI: page.Command("token", "revoke", v.R.PathValue("id")), Texts: []string{"It lets in no more, and sessions that it began end. This cannot be taken back."}}
	}, func(v *page.Visit) *api.OneToken { return &api.OneToken{ID: v.R.PathValue("id")} }, "revoked"), tokenWords)

	endAnySession = named(granting(api.EndSession, "sessions/{id}/end", func(v *page.Visit) *page.Question {
		return &page.Question{Title: "End the session " + v.R.PathValue("id") + "?", Button: "End the session", CLI: page.Command("sessions", "end", v.R.PathValue("id")), Texts: []string{"Its browser has to log in again."}}
	}, func(v *page.Visit) *api.OneSession { return &api.OneSession{ID: v.R.PathValue("id")} }, "ended"), sessionWords)
)

// setMyPassword changes the caller's own password.
var setMyPassword = &page.Action{Path: "me/password", Op: api.SetMyPassword.ID,
	Ask: func(v *page.Visit) (*page.Question, error) {
		return &page.Question{Title: "Change your password", Button: "Change the password", Section: "me", Crumbs: []page.Link{{Text: "You and this browser", Href: page.Address("me")}}, Back: page.Address("me"), Request: page.Request(api.SetMyPassword, &api.MyPassword{}),
			Texts:  []string{"Your other sessions end."},
			Inputs: []page.Input{{Name: "old", Label: "The password until now", Kind: "password", Auto: "current-password"}, {Name: "new", Label: "The new one", Kind: "password", Help: newPassword, Auto: "new-password"}}}, nil
	},
	Do: func(v *page.Visit) (string, error) {
		_, err := page.Change(v, api.SetMyPassword, &api.MyPassword{Body: api.ChangedPassword{Old: v.R.PostFormValue("old"), New: v.R.PostFormValue("new")}})
		if p := page.Problem(err); p != nil && p.Status == http.StatusForbidden {
			return "", &page.Wrong{Text: p.Detail}
		}
		return page.Done(page.Address("me"), "password"), page.Refilled(err)
	}}
