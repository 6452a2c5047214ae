// Package console is what operators see in a browser. Its pages are rendered here and are complete
// without script. They show and do nothing but by operations of the API, which they call in this
// process as the caller who looks at them.
//
// A page is a file in templates and a function that asks the API (page). A change is a page that says
// what will happen, whose form does it (action).
package console

import (
	"crypto/rand"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tidemill/tidemill/serve/access"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
)

// Prefix of every page.
const Prefix = "/console/"

// readWithin is how long a page waits for an answer of the API.
const readWithin = 2 * time.Second

// Parts are what the console stands on.
type Parts struct {
	API        *operation.Client // calls the API as the caller whom a context carries
	Operations []operation.Handler
	Once       bool // the API takes Idempotency-Keys

	Gate access.Gate // says who looks, and lets people in and out

	Base        string // what a proxy has before Prefix and takes away, without an end of "/"; empty: nothing
	Name        string // of this instance, in the header and in the title; empty: Tidemill
	Environment string // as production; empty: none is shown
	Log         *slog.Logger
	Now         func() time.Time // nil: time.Now
	Key         func() string    // makes an Idempotency-Key; nil: a random one
}

// Console is the handler of everything under Prefix.
type Console struct {
	Parts
	mux       *http.ServeMux
	assets    *assets
	templates templates
	roles     map[string]caller.Role // that operations are for, by their ids
	standing  shared[*api.Overview]
	moves     shared[[]api.Operation] // that are active
	doctor    doctor
}

// New makes the console.
func New(p Parts) (*Console, error) {
	if p.Now == nil {
		p.Now = time.Now
	}
	if p.Key == nil {
		p.Key = rand.Text
	}
	if p.Log == nil {
		p.Log = slog.New(slog.DiscardHandler)
	}
	if p.Name == "" {
		p.Name = "Tidemill"
	}
	c := &Console{Parts: p, mux: http.NewServeMux(), roles: map[string]caller.Role{}}
	for _, o := range p.Operations {
		c.roles[o.ID] = o.Role
	}
	var err error
	if c.assets, err = newAssets(); err != nil {
		return nil, err
	}
	if c.templates, err = parseTemplates(c.assets); err != nil {
		return nil, err
	}
	for _, p := range pages() {
		c.mux.HandleFunc("GET "+Prefix+p.path, c.serve(p.show))
	}
	for _, a := range actions() {
		c.mux.HandleFunc("GET "+Prefix+a.path, c.serve(a.show))
		c.mux.HandleFunc("POST "+Prefix+a.path, c.serve(a.post))
	}
	for _, d := range downloads() {
		c.mux.HandleFunc("GET "+Prefix+d.path, c.serve(d.show))
	}
	c.mux.HandleFunc("POST "+Prefix+"me", c.serve(setPreferences))
	c.mux.HandleFunc("POST "+Prefix+"me/sessions/{id}/end", c.serve(endSession))
	c.mux.HandleFunc("POST "+Prefix+"logout", c.serve(leave))
	return c, nil
}

// policy lets a page load what this instance serves, and nothing else. Script may put HTML into a page
// in one place, by the Trusted Types policy that is named here.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types console"

// protect sets what every answer of the console has.
func protect(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Permissions-Policy", "camera=(), display-capture=(), fullscreen=(), geolocation=(), microphone=(), payment=(), usb=()")
	h.Set("Cache-Control", "no-store")
}

// ServeHTTP admits the caller and answers. Assets are for everybody.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	protect(w.Header())
	if c.assets.serve(w, r) {
		return
	}
	if r.URL.Path == loginPath {
		c.visit(w, r).login()
		return
	}
	who, err := c.Gate.Caller(r)
	v := c.visit(w, r.WithContext(caller.With(r.Context(), who)))
	switch _, pattern := c.mux.Handler(r); {
	case problemOf(err) != nil && problemOf(err).Status == http.StatusUnauthorized:
		v.askToLogIn(http.StatusUnauthorized, "")
	case err != nil:
		v.fail(err)
	case !safe(r):
		v.fail(operation.Refuse(http.StatusForbidden, "This form was not sent by a page of this console. Nothing was changed. Open the page here and send it again."))
	case pattern == "":
		v.fail(operation.Refuse(http.StatusNotFound, "The console has no page %s.", r.URL.Path))
	default:
		c.mux.ServeHTTP(w, v.r)
	}
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

// serve is the handler of a page, which answers by itself or is rendered.
func (c *Console) serve(show func(*visit) (*view, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v := c.visit(w, r)
		page, err := show(v)
		switch {
		case err != nil:
			v.fail(err)
		case page != nil:
			v.render(http.StatusOK, page)
		}
	}
}
