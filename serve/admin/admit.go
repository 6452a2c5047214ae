package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/serve/request"
)

// Why somebody is not let in.
const (
	noToken    = "no_token"
	wrongToken = "wrong_token"
	slowed     = "slowed" // a wrong token, of somebody who tries many
	elsewhere  = "elsewhere"
)

func newRefused(to prometheus.Registerer) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tidemill_api_refused_total",
		Help: "Requests to the API that were not let in: without a token, with a wrong one, slowed because their sender tries many, or from elsewhere (another site's page; with --no-auth another machine or a proxy)."}, []string{"reason"})
	for _, reason := range []string{noToken, wrongToken, slowed, elsewhere} {
		c.WithLabelValues(reason)
	}
	if to != nil {
		to.MustRegister(c)
	}
	return c
}

// GuardByToken lets only those into another handler who have the token, with NoAuth too: what a
// profile shows is more than what the API does, keys for instance.
func (a *API) GuardByToken(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := a.admitToken(r); err != nil {
			a.fail(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Admits says whether a request would be let in, without counting it where it shows no token.
func (a *API) Admits(r *http.Request) bool {
	if !a.NoAuth && r.Header.Get("Authorization") == "" {
		return false
	}
	_, err := a.admit(r)
	return err == nil
}

// admit lets in who has the token. The right one always passes; wrong ones are counted, and
// slowed where one sender has many.
func (a *API) admit(r *http.Request) (caller.Caller, error) {
	if !a.NoAuth {
		return a.admitToken(r)
	}
	err := a.sameSite(r)
	if err == nil {
		err = local(r)
	}
	if err != nil {
		a.refused.WithLabelValues(elsewhere).Inc()
		return caller.Caller{}, err
	}
	return caller.Key("local", "local", request.Address(r, a.Trusted)), nil
}

// sameSite keeps pages of other sites out.
func (a *API) sameSite(r *http.Request) error {
	if err := a.safe.Check(r); err != nil {
		return operation.Refuse(http.StatusForbidden, "this request comes from another site's page")
	}
	return nil
}

// admitToken is admit for what wants the token always.
func (a *API) admitToken(r *http.Request) (nobody caller.Caller, err error) {
	if err := a.sameSite(r); err != nil {
		a.refused.WithLabelValues(elsewhere).Inc()
		return nobody, err
	}
	from := request.Address(r, a.Trusted)
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	got, want := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(a.Key.Reveal())) // of one length
	if same := subtle.ConstantTimeCompare(got[:], want[:]) == 1; same && strings.EqualFold(scheme, "Bearer") && !a.Key.IsZero() {
		return caller.Key("key:admin", "key", from), nil
	}
	a.refusals.Refused(from)
	switch {
	case given == "":
		a.refused.WithLabelValues(noToken).Inc()
	case a.guesses.Wrong(r.Context(), from):
		a.refused.WithLabelValues(slowed).Inc()
		p := operation.Refuse(http.StatusTooManyRequests, "too many wrong tokens came from this address: the right one passes, others wait")
		p.After = 10
		return nobody, p
	default:
		a.refused.WithLabelValues(wrongToken).Inc()
	}
	return nobody, operation.Refuse(http.StatusUnauthorized, "the API needs its token: set TIDEMILL_TOKEN, or send Authorization: Bearer …")
}

// local lets in programs on this machine: a page in a browser is kept out by its origin, a name
// that was made to point here by the Host it was asked for, and what a proxy on this machine
// passes on by the headers that say so.
func local(r *http.Request) error {
	for name := range r.Header {
		if forwarding[name] || strings.HasPrefix(name, "X-Forwarded") {
			return operation.Refuse(http.StatusForbidden, "this request came through a proxy (it has %s), so its sender may be anybody: run without --no-auth", name)
		}
	}
	remote, _, err := net.SplitHostPort(r.RemoteAddr)
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if err != nil || !config.Loopback(remote) || !config.Loopback(strings.Trim(host, "[]")) {
		return operation.Refuse(http.StatusForbidden, "with --no-auth the API answers callers on this machine only")
	}
	return nil
}

// forwarding are headers that proxies add, beside those that begin with X-Forwarded.
var forwarding = map[string]bool{
	"Forwarded": true, "Via": true, "X-Real-Ip": true, "X-Client-Ip": true, "X-Cluster-Client-Ip": true, "X-Original-Forwarded-For": true,
	"X-Original-Host": true, "X-Envoy-External-Address": true, "True-Client-Ip": true, "Cf-Connecting-Ip": true, "Fastly-Client-Ip": true, "Fly-Client-Ip": true,
	"X-Appengine-User-Ip": true, "X-Azure-Clientip": true, "Cdn-Loop": true, "Proxy-Connection": true,
}
