// Package provider lets people log in at providers of OpenID Connect: by the code flow, with PKCE.
// What a provider answers is checked and forgotten. No token of it is kept.
package provider

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
)

const (
	skew      = time.Minute // that a provider's clock may be off
	patience  = 10 * time.Second
	knownFor  = time.Hour // what discovery told
	mostBytes = 1 << 20   // of an answer
)

// Errors that a caller can act on. Their texts go on with what was wrong.
var (
	ErrAway  = errors.New("the provider does not answer")
	ErrWrong = errors.New("what the provider answered is not accepted")
)

// Options are a provider as it is configured.
type Options struct {
	Issuer   string          // its address, as it calls itself
	ClientID string          // of this instance
	Secret   tidemill.Secret // of this instance; zero: it has none
	Scopes   []string        // that are asked for, beside openid
	Name     string          // the claim that is a person's name
	Groups   string          // the claim that lists groups, or the path to it with dots

	Now  func() time.Time  // nil: time.Now
	Base http.RoundTripper // nil: one like http.DefaultTransport
}

// Provider is one. It may be used by many.
type Provider struct {
	o      Options
	client *http.Client
	known  atomic.Pointer[known]
	ask    singleflight.Group
}

// known is what discovery told.
type known struct {
	*oidc.Provider
	until time.Time
	more  struct {
		Methods []string `json:"token_endpoint_auth_methods_supported"`
		Out     string   `json:"end_session_endpoint"`
	}
}

// Attempt is one login of one browser. Its secrets are used once.
type Attempt struct {
	Back                   string // where the provider sends the browser
	State, Nonce, Verifier string

	MaxAge time.Duration // the person proves again who they are, unless they did so within this time
	Again  bool          // they do so now
}

// Person is who logged in.
type Person struct {
	Name    string
	Groups  []string
	Entered time.Time // when they proved who they are; zero: the provider does not say
}

// New makes a provider. Nothing is asked of it yet.
func New(o Options) *Provider {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Base == nil {
		o.Base = http.DefaultTransport.(*http.Transport).Clone()
	}
	return &Provider{o: o, client: &http.Client{Transport: &bounded{o.Base}, Timeout: patience,
		// A redirect would carry the code and the secret to somebody else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// discover asks the provider what it has, once an hour. While it is away what it told before counts.
func (p *Provider) discover(ctx context.Context) (*known, error) {
	had := p.known.Load()
	if had != nil && p.o.Now().Before(had.until) {
		return had, nil
	}
	asked := p.ask.DoChan("", func() (any, error) {
		found, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), p.client), p.o.Issuer)
		if err != nil {
			return nil, err
		}
		k := &known{Provider: found, until: p.o.Now().Add(knownFor)}
		if err := found.Claims(&k.more); err != nil {
			return nil, err
		}
		p.known.Store(k)
		return k, nil
	})
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrAway, ctx.Err())
	case a := <-asked:
		if a.Err == nil {
			return a.Val.(*known), nil
		}
		if _, lies := errors.AsType[*oidc.IssuerMismatchError](a.Err); lies {
			return nil, fmt.Errorf("%w: %w", ErrWrong, a.Err)
		}
		if had != nil {
			return had, nil
		}
		return nil, fmt.Errorf("%w: %s", ErrAway, short(a.Err))
	}
}

// config is the client of an attempt.
func (p *Provider) config(k *known, a *Attempt) *oauth2.Config {
	c := &oauth2.Config{ClientID: p.o.ClientID, ClientSecret: p.o.Secret.Reveal(), Endpoint: k.Endpoint(), RedirectURL: a.Back, Scopes: []string{oidc.ScopeOpenID}}
	for _, s := range p.o.Scopes {
		if !slices.Contains(c.Scopes, s) {
			c.Scopes = append(c.Scopes, s)
		}
	}
	c.Endpoint.AuthStyle = oauth2.AuthStyleInHeader // the rule where nothing is said
	if ms := k.more.Methods; p.o.Secret.IsZero() || len(ms) > 0 && !slices.Contains(ms, "client_secret_basic") {
		c.Endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	return c
}

// Address is where the person of an attempt logs in. ErrAway, ErrWrong.
func (p *Provider) Address(ctx context.Context, a *Attempt) (string, error) {
	k, err := p.discover(ctx)
	if err != nil {
		return "", err
	}
	if u, err := url.Parse(k.Endpoint().AuthURL); err != nil || !config.SafeURL(u) {
		return "", fmt.Errorf("%w: its authorization_endpoint is no address with https", ErrWrong)
	}
	opts := []oauth2.AuthCodeOption{oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier), oauth2.SetAuthURLParam("max_age", strconv.Itoa(int(a.MaxAge.Seconds())))}
	if a.Again {
		opts = append(opts, oauth2.SetAuthURLParam("prompt", "login"))
	}
	return p.config(k, a).AuthCodeURL(a.State, opts...), nil
}

// Out is where somebody logs out at the provider, and is sent back from; empty: it has no such
// place. ErrAway, ErrWrong.
func (p *Provider) Out(ctx context.Context, back string) (string, error) {
	k, err := p.discover(ctx)
	if err != nil || k.more.Out == "" {
		return "", err
	}
	u, err := url.Parse(k.more.Out)
	if err != nil || !config.SafeURL(u) {
		return "", fmt.Errorf("%w: its end_session_endpoint is no address with https", ErrWrong)
	}
	q := u.Query()
	q.Set("client_id", p.o.ClientID)
	q.Set("post_logout_redirect_uri", back)
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// bounded asks over TLS, except on this machine, and reads no answer that is too long.
type bounded struct{ http.RoundTripper }

func (b *bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	if !config.SafeURL(r.URL) {
		return nil, fmt.Errorf("%s is no address with https", r.URL.Redacted())
	}
	a, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		a.Body = http.MaxBytesReader(nil, a.Body, mostBytes)
	}
	return a, err
}

// short is the text of an error, which may quote an answer.
func short(err error) string {
	text := strings.ToValidUTF8(strings.Join(strings.Fields(err.Error()), " "), "")
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "…"
	}
	return text
}
