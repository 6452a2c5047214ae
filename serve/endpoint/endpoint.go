// Package endpoint is the frame of all HTTP endpoints that clients send to. Use it to make
// one: a Protocol names its paths, metrics and headers, and has a parser and an answer for
// each path. The Frame does for all of them what does not depend on the protocol:
//
//	admit → find the path → authenticate → read, inflate → (the protocol) → answer, count
//
// Everything a client may take is bounded: bytes as sent and inflated, the time to send a
// body, requests at once and the memory of all of them. Connections and headers, and requests
// that are under way when the process stops, are package serve's.
package endpoint

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tidemill/tidemill/serve/request"
)

// Asked is what a protocol keeps of a request: a pointer to a struct that embeds an Exchange.
type Asked interface{ exchange() *Exchange }

// Protocol is what one endpoint has of its own.
type Protocol[X Asked] struct {
	Name   string // of the endpoint, in errors
	System string // in log records
	New    func() X

	// Find returns what is done at the request's path. Nil, or a Route that does nothing:
	// there is nothing, and Help says where to go.
	Find func(X) *Route[X]
	Help string

	Defaults Limits              // for limits that are not given
	Least    func(*Limits) int64 // bytes of memory that the largest request needs

	Headers []Header // of every answer
	HSTS    bool     // every answer by TLS has Strict-Transport-Security
	CORS    *CORS    // nil: no page may read an answer
	Metrics Metrics

	Fail    func(X, *request.Problem) // answers a problem; nil: Exchange.Fail
	Options func(X)                   // adds headers to the answer to OPTIONS; nil: none
	Done    func(X)                   // makes X as it was for the next request; nil: it has nothing to keep or forget
}

// Route is what one path does.
type Route[X Asked] struct {
	Path  int                      // by which it is counted: of Metrics.Paths
	Allow string                   // methods, as the header Allow has them
	Do    func(X) *request.Problem // answers, or returns why it does not
	Pages bool                     // any web page may ask, by the Protocol's CORS
}

// Frame is an endpoint: an http.Handler with all its paths. It may be used by any number of
// goroutines.
type Frame[X Asked] struct {
	core
	p    Protocol[X]
	pool sync.Pool // of X
}

// core is what does not depend on the protocol.
type core struct {
	Bodies *request.Bodies  // the memory of all bodies
	Keys   *request.Keyring // nil: no key is needed

	o       *Options
	system  string
	limits  *Limits
	cors    *CORS
	hsts    bool
	headers []Header
	stats   *stats
	minutes Meter
	running atomic.Int64 // requests

	perMinute atomic.Int64 // Limits.PerMinute, as it is now
}

// Header is one of an answer; its values are never written to.
type Header struct {
	Name   string // in its canonical form
	Values []string
}

// Private are headers for answers that no page and no cache is to keep.
var Private = []Header{{"X-Content-Type-Options", []string{"nosniff"}}, {"X-Frame-Options", []string{"DENY"}},
	{"Referrer-Policy", []string{"no-referrer"}}, {"Cache-Control", []string{"no-store"}}}

// New makes an endpoint, and fills what is not given in its options and limits.
func New[X Asked](p Protocol[X], o *Options, l *Limits) (*Frame[X], error) {
	err := o.check()
	if err == nil {
		err = l.check(&p.Defaults, p.Least)
	}
	f := &Frame[X]{p: p, core: core{o: o, system: p.System, limits: l, cors: p.CORS, hsts: p.HSTS, headers: p.Headers}}
	if err == nil && o.Projects != nil {
		f.Keys, err = request.NewKeyring(o.Projects, o.Now, o.Log.With("system", p.System))
	}
	if err == nil {
		f.stats, err = newStats(&p.Metrics, o.Registerer)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	f.minutes = NewMeter(o.Now)
	f.LimitTo(l.PerMinute)
	f.Bodies = request.NewBodies(request.Limits{Memory: l.Memory, Ratio: l.Ratio, Time: l.Time, Trusted: o.TrustProxy})
	f.pool.New = func() any { return p.New() }
	return f, nil
}

// Running is how many requests are under way.
func (c *core) Running() int64 { return c.running.Load() }

// LimitTo changes how many of one sender are taken in a minute: as Limits.PerMinute; 0: any number.
// What was counted in this minute stays counted.
func (c *core) LimitTo(perMinute int) { c.perMinute.Store(int64(perMinute)) }

// PerMinute is how many are taken.
func (c *core) PerMinute() int { return int(c.perMinute.Load()) }

// ForgetKeys has all keys asked for anew, because the projects changed.
func (f *Frame[X]) ForgetKeys() {
	if f.Keys != nil {
		f.Keys.Forget()
	}
}

// ServeHTTP answers one request.
func (f *Frame[X]) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	of := f.pool.Get().(X)
	x := of.exchange()
	x.open(&f.core, w, r)
	defer f.end(of, x)
	p := f.serve(of, x)
	if f.watched() {
		x.show(p)
	}
	switch {
	case p == nil:
	case f.p.Fail != nil:
		x.RetryAfter(p)
		f.p.Fail(of, p)
	default:
		x.Fail(p)
	}
}

func (f *Frame[X]) serve(of X, x *Exchange) *request.Problem {
	if n := f.running.Add(1); f.limits.Requests > 0 && n > int64(f.limits.Requests) {
		return request.Busy("requests", "too many requests at once, please retry")
	}
	rt := f.p.Find(of)
	if rt != nil && rt.Pages {
		x.allowOrigin()
	}
	if rt == nil || rt.Do == nil {
		return request.NotFound("there is nothing at this path; " + f.p.Help)
	}
	x.Path = rt.Path
	x.follow()
	switch {
	case !allows(rt.Allow, x.R.Method):
		x.Header["Allow"] = []string{rt.Allow}
		return request.Refuse(http.StatusMethodNotAllowed, NotAllowed, "this path takes %s; %s", rt.Allow, f.p.Help)
	case x.R.Method == http.MethodOptions:
		if f.p.Options != nil {
			f.p.Options(of)
		}
		x.preflight(rt.Allow)
		return nil
	}
	return rt.Do(of)
}

// NotAllowed is the reason of a problem with the method.
const NotAllowed = "method_not_allowed"

func allows(allow, method string) bool {
	for m := range strings.SplitSeq(allow, ", ") {
		if m == method {
			return true
		}
	}
	return false
}

// end counts the request and gives back all memory.
func (f *Frame[X]) end(of X, x *Exchange) {
	f.running.Add(-1)
	x.followed()
	f.stats.answered(x.Path, x.code, f.o.Now().Sub(x.At))
	if f.p.Done != nil {
		f.p.Done(of)
	}
	x.Body.Close()
	*x = Exchange{}
	f.pool.Put(of)
}

// Secured answers as the endpoint does, with the headers that every answer of it has.
func (f *Frame[X]) Secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		(&Exchange{core: &f.core, R: r, Header: w.Header()}).secure()
		next.ServeHTTP(w, r)
	})
}
