package console

import (
	"net/http"
	"strings"

	"github.com/tidemill/tidemill/serve/access"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/console/page"
)

const loginPath = Prefix + "login"

// login is the page where people come in.
type login struct {
	access.Ways
	Wrong string // why somebody was not let in
	Name  string // that they gave
	Back  string // the page that was asked for
}

// askToLogIn answers with the page where people come in.
func (c *Console) askToLogIn(v *page.Visit, status int, wrong string) {
	asked := &login{Ways: c.gate.Ways(v.R), Wrong: wrong}
	switch {
	case v.R.URL.Path == loginPath:
		asked.Name, asked.Back = v.R.PostFormValue("name"), v.R.PostFormValue("back")
	case v.R.Method == http.MethodGet:
		asked.Back = v.R.URL.RequestURI()
	}
	v.Render(status, &page.View{File: "login", Title: "Log in", Body: asked})
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

// leave ends the session.
func (c *Console) leave(v *page.Visit) (*page.View, error) {
	if err := c.gate.Leave(v.W, v.R); err != nil {
		return nil, err
	}
	v.Redirect(loginPath)
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
