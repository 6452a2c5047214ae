package console

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/tidemill/tidemill/serve/access"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
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
func (v *visit) askToLogIn(status int, wrong string) {
	page := &login{Ways: v.Gate.Ways(v.r), Wrong: wrong}
	switch {
	case v.r.URL.Path == loginPath:
		page.Name, page.Back = v.r.PostFormValue("name"), v.r.PostFormValue("back")
	case v.r.Method == http.MethodGet:
		page.Back = v.r.URL.RequestURI()
	}
	v.render(status, &view{file: "login", Title: "Log in", Body: page})
}

// login lets somebody in.
func (v *visit) login() {
	switch v.r.Method {
	case http.MethodGet, http.MethodHead:
		v.askToLogIn(http.StatusOK, "")
		return
	case http.MethodPost:
	default:
		v.fail(operation.Refuse(http.StatusMethodNotAllowed, "Log in by the form."))
		return
	}
	v.r.Body = http.MaxBytesReader(v.w, v.r.Body, 64<<10)
	given := func(name string) string { return strings.TrimSpace(v.r.PostFormValue(name)) }
	by := access.Proof{Token: given("token"), Name: given("name"), Password: v.r.PostFormValue("password"), Link: given("link")}
	if _, secret, whole := strings.Cut(by.Link, "#"); whole { // the whole address was pasted
		by.Link = secret
	}
	if _, err := v.Gate.Enter(v.w, v.r, by); err != nil {
		p := problem(err)
		v.askToLogIn(p.Status, p.Detail)
		return
	}
	v.redirect(v.local(v.r.PostFormValue("back"), Prefix))
}

// leave ends the session.
func leave(v *visit) (*view, error) {
	if err := v.Gate.Leave(v.w, v.r); err != nil {
		return nil, err
	}
	v.redirect(loginPath)
	return nil, nil
}

// endSession ends one of the caller's sessions.
func endSession(v *visit) (*view, error) {
	_, err := change(v, api.EndMySession, &api.OneSession{ID: v.r.PathValue("id")})
	if err == nil {
		v.redirect(done(address("me"), "ended"))
	}
	return nil, err
}

// local is an address of this console, else another one.
func (v *visit) local(to, or string) string {
	to = strings.TrimPrefix(to, v.Base)
	u, err := url.Parse(to)
	if err != nil || !strings.HasPrefix(to, Prefix) || u.Host != "" || u.Scheme != "" || strings.Contains(to, "//") || strings.Contains(to, "\\") {
		return or
	}
	return to
}
