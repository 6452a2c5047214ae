// Package access lets callers into the API and the console. A program shows a bearer token with each
// request: the API's own, or one that an admin made. A person logs in once, and a cookie names their
// session from then on.
package access

import (
	"net/http"

	"github.com/tidemill/tidemill/serve/caller"
)

// Gate says who asks, and lets people in and out. Its errors are of the type *operation.Problem.
type Gate interface {
	// Caller says who makes a request: by its bearer token, else by the cookie of its session. Where
	// there is a bearer token, cookies are not looked at. With a cookie the request must have come to
	// a host of console.hosts, and one that is neither GET nor HEAD from a page of ours.
	//
	// Problems: 401, nobody is logged in, or the session is over; 403, it comes from elsewhere; 429,
	// its sender tries many tokens; 503, the store is away.
	Caller(r *http.Request) (caller.Caller, error)
	// Enter lets somebody in who proves who they are, and begins a session: its cookie is set on w,
	// and a session that the request had ends. The request must be a POST from a page of ours, over
	// TLS or from this machine.
	//
	// Problems: 401, the proof is wrong; 403, this way in is not open to this request; 429 with
	// After, too many tries; 503, the store is away.
	Enter(w http.ResponseWriter, r *http.Request, by Proof) (caller.Caller, error)
	// Leave ends the session of a request, and takes its cookie away. Where there is none it does
	// nothing.
	Leave(w http.ResponseWriter, r *http.Request) error
	// Ways are those that are open to the sender of a request.
	Ways(r *http.Request) Ways
}

// SignIn lets people in by providers of OpenID Connect. Its errors are of the type *operation.Problem.
type SignIn interface {
	// Begin returns where somebody logs in at a provider. A cookie on w says that it was this browser
	// that began, and that it wants to go back to the address that is given.
	//
	// Problems: 403, this request cannot log in; 404, there is no such provider; 503, it is away.
	Begin(w http.ResponseWriter, r *http.Request, provider, back string) (address string, err error)
	// Finish lets in somebody who comes back from a provider, as Enter does, and returns where they
	// wanted to go. Each login that was begun lets in once, within 10 minutes, in the browser that
	// began it.
	//
	// Problems: 401, the provider did not let them in, or what it says is not accepted; 403, their
	// groups have no role here, or this request cannot log in; 404; 429 with After; 503.
	Finish(w http.ResponseWriter, r *http.Request, provider string) (back string, err error)
	// Out returns where somebody logs out at a provider, after Leave; empty: it has no such place.
	Out(r *http.Request, provider string) (address string, err error)
}

// Proof is what somebody shows to be let in: a token, a name and a password, or the secret of a link.
type Proof struct {
	Token    string
	Name     string
	Password string
	Link     string
}

// Ways are the ways in. Without any of them nobody is let in.
type Ways struct {
	Token    bool
	Password bool
	Link     bool // only on this machine

	Providers []string // where people log in by SignIn
}
