package console

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/tidemill/tidemill/serve/access"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/console/page"
)

const loginPath = access.LoginPath

// login is the page where people come in.
type login struct {
	access.Ways
	Wrong string // why somebody was not let in
	Name  string // that they gave
	Back  string // the page that was asked for
	Out   string // the provider of somebody who has logged out here
}

// askToLogIn answers with the page where people come in.
func (c *Console) askToLogIn(v *page.Visit, status int, wrong string) {
	asked := &login{Ways: c.gate.Ways(v.R), Wrong: wrong}
	if v.Caller.Via == "password" {
		asked.Name = v.Caller.Name
	}
	switch {
	case v.R.URL.Path == loginPath:
		asked.Name, asked.Back = v.R.PostFormValue("name"), v.R.PostFormValue("back")
		if out := v.Query().Get("out"); slices.Contains(asked.Providers, out) {
			asked.Out = out
		}
	case strings.HasPrefix(v.R.URL.Path, loginPath+"/"): // what a provider sent is used once
	case v.R.Method == http.MethodGet, v.Caller.Name != "", c.asks(v.R): // the page of a form has the same address
		asked.Back = v.R.URL.RequestURI()
	}
	if v.R.Method == http.MethodPost && v.Caller.Name == "" && wrong == "" {
		asked.Wrong = "Your session has ended. Nothing was changed. Log in, and fill in the form again: what was typed is not kept."
	}
	v.Render(status, &page.View{File: "login", Title: "Log in", Body: asked})
}

// asks says whether there is a page at the address of a form.
func (c *Console) asks(r *http.Request) bool {
	_, pattern := c.mux.Handler(&http.Request{Method: http.MethodGet, URL: r.URL, Host: r.Host})
	return pattern != ""
}

// login lets somebody in.
func (c *Console) login(v *page.Visit) {
	switch v.R.Method {
	case http.MethodGet, http.MethodHead:
		c.askToLogIn(v, http.StatusOK, "")
		return
	case http.MethodPost:
	default:
		v.Fail(operation.Refuse(http.StatusMethodNotAllowed, "Log in by the form."))
		return
	}
	v.R.Body = http.MaxBytesReader(v.W, v.R.Body, 64<<10)
	given := func(name string) string { return strings.TrimSpace(v.R.PostFormValue(name)) }
	by := access.Proof{Token: given("token"), Name: given("name"), Password: v.R.PostFormValue("password"), Link: given("link")}
	if _, secret, whole := strings.Cut(by.Link, "#"); whole { // the whole address was pasted
		by.Link = secret
	}
	if _, err := c.gate.Enter(v.W, v.R, by); err != nil {
		p := page.Problem(err)
		c.askToLogIn(v, p.Status, p.Detail)
		return
	}
	v.Redirect(v.Local(v.R.PostFormValue("back"), Prefix))
}

// goAbroad sends the browser to a provider.
func (c *Console) goAbroad(v *page.Visit) (*page.View, error) {
	address, err := c.signIn.Begin(v.W, v.R, v.R.PathValue("provider"), v.Local(v.Query().Get("back"), ""))
	return c.goTo(v, address, err)
}

// comeBack lets in somebody who comes back from a provider.
func (c *Console) comeBack(v *page.Visit) (*page.View, error) {
	back, err := c.signIn.Finish(v.W, v.R, v.R.PathValue("provider"))
	return c.goTo(v, v.Base+v.Local(back, Prefix), err)
}

// leaveThere sends the browser to where its person logs out at a provider.
func (c *Console) leaveThere(v *page.Visit) (*page.View, error) {
	name := v.R.PathValue("provider")
	address, err := c.signIn.Out(v.R, name)
	if err == nil && address == "" {
		err = operation.Refuse(http.StatusNotFound, "%s has no address to log out at: do it on its own pages.", name)
	}
	return c.goTo(v, address, err)
}

// goTo sends the browser to an address, or says on the page of the login why not.
func (c *Console) goTo(v *page.Visit, address string, err error) (*page.View, error) {
	if err != nil {
		p := page.Problem(err)
		c.askToLogIn(v, p.Status, p.Detail)
		return nil, nil
	}
	http.Redirect(v.W, v.R, address, http.StatusSeeOther)
	return nil, nil
}

// leave ends the session.
func (c *Console) leave(v *page.Visit) (*page.View, error) {
	if err := c.gate.Leave(v.W, v.R); err != nil {
		return nil, err
	}
	to := url.Values{}
	if v.Caller.Via == "oidc" {
		name, _, _ := strings.Cut(v.Caller.Name, ":")
		to.Set("out", name)
	}
	v.Redirect(page.Query(loginPath, to))
	return nil, nil
}

// endSession ends one of the caller's sessions.
func endSession(v *page.Visit) (*page.View, error) {
	_, err := page.Change(v, api.EndMySession, &api.OneSession{ID: v.R.PathValue("id")})
	if err == nil {
		v.Redirect(page.Done(page.Address("me"), "ended"))
	}
	return nil, err
}
