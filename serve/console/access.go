package console

import (
	"context"
	"net/http"
	"sync"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
)

// input is a field of a form.
type input struct {
	Name, Label, Kind, Value string   // Kind is that of HTML; of a password nothing is shown again
	Choices                  []string // it is one of them
	Help                     string
	Auto                     string // what the browser may fill in
	Optional                 bool
}

// accessPage is who comes in.
type accessPage struct {
	Users    part[[]api.User]
	Tokens   part[[]api.Token]
	Sessions part[[]api.Session]
}

// grantsShown is how many users, tokens and sessions the page shows of each.
const grantsShown = 1000

func showAccess(v *visit) (*view, error) {
	if err := v.allowed("Access", api.ListUsers.ID); err != nil {
		return nil, err
	}
	p := &accessPage{}
	var all sync.WaitGroup
	all.Go(func() { p.Users = listed(v, api.ListUsers, &operation.None{}) })
	all.Go(func() { p.Tokens = listed(v, api.ListTokens, &operation.None{}) })
	all.Go(func() { p.Sessions = listed(v, api.ListSessions, &api.SessionFilter{}) })
	all.Wait()
	return &view{file: "access", Title: "Access", Section: "access", Body: p}, nil
}

// listed is a listing as a part of a page.
func listed[Q, A any](v *visit, l operation.Listing[Q, A], q *Q) part[[]A] {
	return look(v, func(context.Context) ([]A, error) {
		all, _, err := gather(v, l, q, grantsShown)
		return all, err
	})
}

var accessCrumbs = []link{{"Access", address("access")}}

// roleNames are those that somebody can be given.
var roleNames = []string{"viewer", "operator", "admin"}

const newPassword = "12 to 128 characters. Those that are used often are refused."

// granting is an action of the page of access; do returns what was done, or has answered where it is
// empty.
func granting[Q, A any](o operation.Operation[Q, A], path string, ask func(*visit) *question, read func(*visit) *Q, said string) *action {
	return &action{path: "access/" + path, op: o.ID,
		ask: func(v *visit) (*question, error) {
			q := ask(v)
			q.Section, q.Crumbs, q.Back, q.Request = "access", accessCrumbs, address("access"), request(o, read(v))
			return q, nil
		},
		do: func(v *visit) (string, error) {
			a, err := change(v, o, read(v))
			if err != nil {
				return "", refilled(err)
			}
			if made, is := any(a).(api.MadeToken); is {
				v.render(http.StatusOK, &view{file: "token", Title: "The token " + made.Name, Section: "access", Crumbs: accessCrumbs, Body: &made})
				return "", nil
			}
			return done(address("access"), said), nil
		}}
}

// refilled has a form shown again with what is wrong with it.
func refilled(err error) error {
	if p := problemOf(err); p != nil && (p.Status == http.StatusBadRequest || p.Status == http.StatusConflict) {
		return &wrong{p.Detail}
	}
	return err
}

func theUser(v *visit) api.OneUser { return api.OneUser{User: v.r.PathValue("name")} }

var (
	addUser = granting(api.AddUser, "users/add", func(v *visit) *question {
		return &question{Title: "Add a user", Button: "Add the user", CLI: command("user", "add", "NAME"), Texts: []string{"They log in by this name and password, and can change the password under their name."},
			Inputs: []input{{Name: "name", Label: "Name", Value: v.r.PostFormValue("name"), Auto: "off"}, {Name: "role", Label: "Role", Choices: roleNames, Value: v.r.PostFormValue("role")},
				{Name: "password", Label: "Password", Kind: "password", Help: newPassword, Auto: "new-password"}}}
	}, func(v *visit) *api.NewUser {
		return &api.NewUser{Body: api.UserToAdd{Name: v.r.PostFormValue("name"), Role: v.r.PostFormValue("role"), Password: v.r.PostFormValue("password")}}
	}, "added")

	setUserRole = granting(api.SetUserRole, "users/{name}/role", func(v *visit) *question {
		return &question{Title: "Another role for " + theUser(v).User, Button: "Give the role", CLI: command("user", "role", theUser(v).User, "ROLE"), Texts: []string{"Their sessions end: they log in again."},
			Inputs: []input{{Name: "role", Label: "Role", Choices: roleNames, Value: v.r.PostFormValue("role")}}}
	}, func(v *visit) *api.UserRole {
		return &api.UserRole{OneUser: theUser(v), Role: v.r.PostFormValue("role")}
	}, "role")

	setUserPassword = granting(api.SetUserPassword, "users/{name}/password", func(v *visit) *question {
		return &question{Title: "Another password for " + theUser(v).User, Button: "Set the password", CLI: command("user", "password", theUser(v).User), Texts: []string{"Their sessions end: they log in again."},
			Inputs: []input{{Name: "password", Label: "Password", Kind: "password", Help: newPassword, Auto: "new-password"}}}
	}, func(v *visit) *api.UserPassword {
		return &api.UserPassword{OneUser: theUser(v), Body: api.NewPassword{Password: v.r.PostFormValue("password")}}
	}, "password")

	removeUser = granting(api.RemoveUser, "users/{name}/remove", func(v *visit) *question {
		return &question{Title: "Remove " + theUser(v).User + "?", Button: "Remove the user", Careful: true, CLI: command("user", "remove", theUser(v).User), Texts: []string{"They can log in no more, and their sessions end. The audit trail keeps what they did."}}
	}, func(v *visit) *api.OneUser { q := theUser(v); return &q }, "userremoved")

	makeToken = granting(api.MakeToken, "tokens/make", func(v *visit) *question {
		return &question{Title: "Make a token", Button: "Make the token", CLI: command("token", "make", "NAME"), Texts: []string{"A program shows it with each request. Its secret is shown once, on the next page."},
			Inputs: []input{{Name: "name", Label: "Name of the program", Value: v.r.PostFormValue("name"), Auto: "off"}, {Name: "role", Label: "Role", Choices: roleNames, Value: v.r.PostFormValue("role")},
				{Name: "days", Label: "Days until it ends, or never", Value: v.r.PostFormValue("days"), Help: "Empty: 90.", Optional: true, Auto: "off"}}}
	}, func(v *visit) *api.NewToken {
		q := &api.NewToken{Name: v.r.PostFormValue("name"), Role: v.r.PostFormValue("role")}
		if days := v.r.PostFormValue("days"); days != "" {
			q.Days = &days
		}
		return q
	}, "")

	revokeToken = granting(api.RevokeToken, "tokens/{id}/revoke", func(v *visit) *question {
		return &question{Title: "Revoke the token " + v.r.PathValue("id") + "?", Button: "Revoke the token", Careful: true, CLI: command("token", "revoke", v.r.PathValue("id")), Texts: []string{"It lets in no more, and sessions that it began end. This cannot be taken back."}}
	}, func(v *visit) *api.OneToken { return &api.OneToken{ID: v.r.PathValue("id")} }, "revoked")

	endAnySession = granting(api.EndSession, "sessions/{id}/end", func(v *visit) *question {
		return &question{Title: "End the session " + v.r.PathValue("id") + "?", Button: "End the session", CLI: command("sessions", "end", v.r.PathValue("id")), Texts: []string{"Its browser has to log in again."}}
	}, func(v *visit) *api.OneSession { return &api.OneSession{ID: v.r.PathValue("id")} }, "ended")
)

// setMyPassword changes the caller's own password.
var setMyPassword = &action{path: "me/password", op: api.SetMyPassword.ID,
	ask: func(v *visit) (*question, error) {
		return &question{Title: "Change your password", Button: "Change the password", Section: "me", Crumbs: []link{{"You and this browser", address("me")}}, Back: address("me"), Request: request(api.SetMyPassword, &api.MyPassword{}),
			Texts:  []string{"Your other sessions end."},
			Inputs: []input{{Name: "old", Label: "The password until now", Kind: "password", Auto: "current-password"}, {Name: "new", Label: "The new one", Kind: "password", Help: newPassword, Auto: "new-password"}}}, nil
	},
	do: func(v *visit) (string, error) {
		_, err := change(v, api.SetMyPassword, &api.MyPassword{Body: api.ChangedPassword{Old: v.r.PostFormValue("old"), New: v.r.PostFormValue("new")}})
		if p := problemOf(err); p != nil && p.Status == http.StatusForbidden {
			return "", &wrong{p.Detail}
		}
		return done(address("me"), "password"), refilled(err)
	}}
