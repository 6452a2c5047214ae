// Package console is what operators see in a browser. Its pages are rendered here and are complete
// without script. They show and do nothing but by operations of the API, which they call in this
// process as the caller who looks at them.
//
// A page is a file in templates and a function that asks the API (page.Page). A change is a page that
// says what will happen, whose form does it (page.Action). Systems bring pages of their own.
package console

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/tidemill/tidemill/serve/access"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/serve/console/page"
	"github.com/tidemill/tidemill/serve/shield"
	"github.com/tidemill/tidemill/serve/shrink"
)

// Prefix of every page.
const Prefix = page.Prefix

// Parts are what the console stands on.
type Parts struct {
	page.Parts
	Gate    access.Gate   // says who looks, and lets people in and out
	SignIn  access.SignIn // lets people in by providers; nil: there are none
	Systems []System

	// Admit counts a page, or a change, of its caller, and says in the header how they stand. A problem is
	// why there are too many; nil: there may be any number.
	Admit func(h http.Header, who caller.Caller, change bool) error
}

// System is the pages of a system.
type System struct {
	Pages *page.Set
	Runs  bool // in this instance; else its places are not in the navigation, and its pages say why
}

// Console is the handler of everything under Prefix.
type Console struct {
	*page.Frame
	gate   access.Gate
	admit  func(http.Header, caller.Caller, bool) error
	signIn access.SignIn
	own    *page.Set
	mux    *http.ServeMux
	abroad *http.ServeMux // of logins at providers
	assets *assets
	doctor doctor
}

// New makes the console.
func New(p Parts) (*Console, error) {
	c := &Console{gate: p.Gate, admit: p.Admit, signIn: p.SignIn, mux: http.NewServeMux(), abroad: http.NewServeMux()}
	c.own = c.pages()
	var err error
	if c.assets, err = newAssets(); err != nil {
		return nil, err
	}
	sets, runs := []*page.Set{c.own}, map[*page.Set]bool{c.own: true}
	for _, s := range p.Systems {
		sets, runs[s.Pages] = append(sets, s.Pages), s.Runs
	}
	c.Frame, err = page.New(p.Parts, c.mux, c.assets.url, func(s *page.Set) bool { return runs[s] }, sets...)
	if err != nil {
		return nil, err
	}
	c.AskLogin = c.askToLogIn
	for path, do := range map[string]func(*page.Visit) (*page.View, error){"me": setPreferences, "me/sessions/{id}/end": endSession, "logout": c.leave} {
		c.mux.HandleFunc("POST "+Prefix+path, c.Serve(c.own, do))
	}
	for path, do := range map[string]func(*page.Visit) (*page.View, error){"": c.goAbroad, access.BackPath: c.comeBack, "/out": c.leaveThere} {
		c.abroad.HandleFunc("GET "+loginPath+"/{provider}"+path, c.Serve(c.own, do))
	}
	return c, nil
}

// ServeHTTP admits the caller and answers. Assets are for everybody.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	shield.Page(w.Header())
	if c.assets.serve(w, r) {
		return
	}
	w, end := shrink.Answer(w, r)
	c.answer(w, r)
	end()
}

// answer admits the caller and answers.
func (c *Console) answer(w http.ResponseWriter, r *http.Request) {
	r = operation.Identified(w, r)
	if r.URL.Path == loginPath {
		c.login(c.Visit(c.own, w, r))
		return
	}
	if strings.HasPrefix(r.URL.Path, loginPath+"/") && c.signIn != nil {
		c.abroad.ServeHTTP(w, r)
		return
	}
	who, err := c.gate.Caller(r)
	v := c.Visit(c.own, w, r.WithContext(caller.With(r.Context(), who)))
	switch _, pattern := c.mux.Handler(r); {
	case err != nil && page.Problem(err).Status == http.StatusUnauthorized:
		c.askToLogIn(v, http.StatusUnauthorized, "")
	case err != nil:
		v.Fail(err)
	case pattern == "":
		v.Fail(c.unknown(w.Header(), r))
	case !safe(r):
		v.Fail(operation.Refuse(http.StatusForbidden, "This form was not sent by a page of this console. Nothing was changed. Open the page here and send it again."))
	case c.tooMany(w, r, who):
	default:
		c.mux.ServeHTTP(w, v.R)
	}
}

// unknown says whether the address is wrong, or only its method.
func (c *Console) unknown(h http.Header, r *http.Request) error {
	var may []string
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
		if _, pattern := c.mux.Handler(&http.Request{Method: method, URL: r.URL, Host: r.Host}); pattern != "" {
			may = append(may, method)
		}
	}
	if len(may) == 0 {
		return operation.Refuse(http.StatusNotFound, "The console has no page %s.", r.URL.Path)
	}
	h.Set("Allow", strings.Join(may, ", "))
	return operation.Refuse(http.StatusMethodNotAllowed, "%s takes no %.20s, but %s. Nothing was changed.", r.URL.Path, r.Method, strings.Join(may, " and "))
}

// tooMany answers a page that is one too many of its caller, with a sentence alone: a page with all that
// pages have would cost what is to be spared.
func (c *Console) tooMany(w http.ResponseWriter, r *http.Request, who caller.Caller) bool {
	if c.admit == nil {
		return false
	}
	p := page.Problem(c.admit(w.Header(), who, r.Method == http.MethodPost))
	if p == nil {
		return false
	}
	w.Header().Set("Retry-After", strconv.Itoa(p.After))
	http.Error(w, p.Detail, p.Status)
	return true
}

// safe says whether a request may change something: one that a page of another site made has a cookie
// too. Browsers say where a request comes from, and programs show a token instead.
func safe(r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead || r.Header.Get("Authorization") != "" {
		return true
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" {
		return site == "same-origin"
	}
	origin, err := url.Parse(r.Header.Get("Origin"))
	return err == nil && origin.Host != "" && strings.EqualFold(origin.Host, r.Host)
}
