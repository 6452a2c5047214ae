package httpsink

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/urlsecret"
)

// Auth adds our credentials to a request. It may be called from several goroutines.
type Auth interface {
	// Sign adds them to the request, whose body and idempotency key are given. An error
	// means that nothing is sent; its kind decides what follows.
	Sign(ctx context.Context, r *http.Request, key string, body []byte) error
	// Secrets are the texts that are masked wherever an answer or an error is shown.
	Secrets() []string
}

// still is an Auth that never changes.
type still struct {
	sign    func(r *http.Request)
	secrets []string
}

func (a *still) Sign(_ context.Context, r *http.Request, _ string, _ []byte) error {
	a.sign(r)
	return nil
}
func (a *still) Secrets() []string { return a.secrets }

// Bearer sends a token that does not expire.
func Bearer(token tidemill.Secret) Auth { return HeaderKey("Authorization", "Bearer ", token) }

// HeaderKey sends a key in its own header, after a prefix that may be empty.
func HeaderKey(header, prefix string, key tidemill.Secret) Auth {
	value := prefix + key.Reveal()
	return &still{func(r *http.Request) { put(r.Header, header, value) }, []string{key.Reveal()}}
}

// QueryKey sends a key as a parameter of the URL, where a destination accepts it in no other
// way.
func QueryKey(parameter string, key tidemill.Secret) Auth {
	text := url.QueryEscape(parameter) + "=" + url.QueryEscape(key.Reveal())
	return &still{func(r *http.Request) {
		if r.URL.RawQuery != "" {
			r.URL.RawQuery += "&"
		}
		r.URL.RawQuery += text
	}, []string{key.Reveal(), url.QueryEscape(key.Reveal())}}
}

// Basic sends a user and a password.
func Basic(user string, password tidemill.Secret) Auth {
	pair := base64.StdEncoding.EncodeToString([]byte(user + ":" + password.Reveal()))
	return &still{func(r *http.Request) { put(r.Header, "Authorization", "Basic "+pair) }, []string{password.Reveal(), pair}}
}

// shortSecret: shorter secrets are not masked; that would mask ordinary words too.
const shortSecret = 4

// hidden are the secrets in the options, beside those of Auth.
func hidden(u *url.URL, o *Options) []string {
	all := urlsecret.In(u)
	for name, value := range o.Header {
		if urlsecret.InHeader(name, value) {
			all = append(all, urlsecret.Spellings(value)...)
			if _, key, ok := strings.Cut(value, " "); ok { // Bearer …
				all = append(all, urlsecret.Spellings(key)...)
			}
		}
	}
	for _, s := range o.Secrets {
		all = append(all, urlsecret.Spellings(s.Reveal())...)
	}
	return all
}

// replacer masks every current secret.
func (s *Sink) replacer() *strings.Replacer {
	all := slices.Clone(s.hidden)
	for _, a := range s.o.Auth {
		all = append(all, a.Secrets()...)
	}
	all = slices.DeleteFunc(all, func(secret string) bool { return len(secret) < shortSecret })
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) }) // one may be the beginning of another
	pairs := make([]string, 0, 2*len(all))
	for _, secret := range all {
		pairs = append(pairs, secret, urlsecret.Hidden)
	}
	return strings.NewReplacer(pairs...)
}

func (s *Sink) blotText(text string) string {
	if r := s.replacer(); r != nil {
		return r.Replace(text)
	}
	return text
}

// blot is the excerpt of a body that may be shown. It looks far beyond the excerpt's end, to
// find a secret that the end would cut.
func (s *Sink) blot(body []byte) []byte {
	if len(body) == 0 {
		return nil
	}
	body = body[:min(len(body), 4*MaxExcerpt)]
	if r := s.replacer(); r != nil {
		body = []byte(r.Replace(string(body)))
	}
	return body[:min(len(body), MaxExcerpt)]
}
