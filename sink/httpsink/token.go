package httpsink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/urlsecret"
)

// TokenOptions say where access tokens come from. Via, URL and Grant are required.
type TokenOptions struct {
	Via     http.RoundTripper // an *httpguard.Guard
	URL     string            // of the token endpoint
	Grant   Grant
	Timeout time.Duration    // of a request for a token; 0 means 10s
	Early   time.Duration    // time before expiry at which it is renewed; 0 means 1m, and at most a tenth of its life
	Now     func() time.Time // nil: time.Now
}

// Token is an Auth that sends an OAuth 2.0 access token. It requests one when it is first
// needed, again before it expires, and after the destination has refused it. It sends one
// such request at a time; all callers that need the token wait for it.
type Token struct {
	o   TokenOptions
	mu  sync.Mutex
	now held      // guarded by mu
	old []string  // guarded by mu; the last few before, which may still appear somewhere
	ask *question // guarded by mu; the request in flight
}

type held struct {
	access string
	until  time.Time
}

// question is one request for a token, which several may wait for.
type question struct {
	done  chan struct{}
	token string // both are set before done is closed
	err   error
}

// NewToken checks the options; it requests nothing yet.
func NewToken(o TokenOptions) (*Token, error) {
	u, err := url.Parse(o.URL)
	switch {
	case err != nil || u.Host == "" || u.User != nil:
		return nil, errors.New("oauth2: the token URL is none, such as https://partner.example/oauth2/token")
	case o.Via == nil || o.Grant.form == nil:
		return nil, errors.New("oauth2: it needs a RoundTripper and a Grant")
	case o.Timeout < 0 || o.Early < 0:
		return nil, errors.New("oauth2: a negative time")
	}
	def(&o.Timeout, 10*time.Second)
	def(&o.Early, time.Minute)
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Token{o: o}, nil
}

// Sign adds the token, and requests one if need be.
func (t *Token) Sign(ctx context.Context, r *http.Request, _ string, _ []byte) error {
	access, err := t.get(ctx)
	if err != nil {
		return err
	}
	put(r.Header, "Authorization", "Bearer "+access)
	return nil
}

// Secrets are the current tokens and the secrets that they are requested with.
func (t *Token) Secrets() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	u, err := url.Parse(t.o.URL)
	if err != nil { // NewToken has
		u = nil
	}
	return slices.Concat(t.o.Grant.secrets(), t.old, []string{t.now.access}, urlsecret.In(u))
}

// refused forgets the token that the request was sent with.
func (t *Token) refused(r *http.Request) bool {
	sent, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	t.mu.Lock()
	defer t.mu.Unlock()
	if sent == t.now.access {
		t.forget()
	}
	return ok
}

// forget makes the current token an old one. Call it with mu held.
func (t *Token) forget() {
	if t.now.access != "" {
		t.old = append(t.old[max(len(t.old)-3, 0):len(t.old):len(t.old)], t.now.access)
	}
	t.now = held{}
}

func (t *Token) get(ctx context.Context) (string, error) {
	for {
		t.mu.Lock()
		if t.now.access != "" && t.o.Now().Before(t.now.until) {
			defer t.mu.Unlock()
			return t.now.access, nil
		}
		q, ours := t.ask, false
		if q == nil {
			q, ours = &question{done: make(chan struct{})}, true
			t.ask = q
		}
		t.mu.Unlock()
		if ours {
			t.answer(ctx, q)
			return q.token, q.err
		}
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-q.done:
		}
		if q.err == nil || tidemill.KindOf(q.err) != tidemill.Transient {
			return q.token, q.err
		}
		// the caller that asked was told to stop: ask ourselves
	}
}

// answer requests a token and gives it to all waiting callers.
func (t *Token) answer(ctx context.Context, q *question) {
	within, cancel := context.WithTimeout(ctx, t.o.Timeout)
	defer cancel()
	at := t.o.Now()
	g, err := t.fetch(within)
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		err = context.Cause(ctx)
	}
	q.token, q.err = g.Access, err
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ask = nil
	if err == nil {
		life := time.Duration(g.Seconds * float64(time.Second))
		if g.Seconds <= 0 || g.Seconds > 86400 {
			life = 10 * time.Minute // it did not say
		}
		t.forget()
		t.now = held{g.Access, at.Add(life - min(t.o.Early, life/10))}
		t.o.Grant.renew(g.Refresh)
	}
	close(q.done)
}

// granted is the answer of a token endpoint, RFC 6749 section 5.
type granted struct {
	Access  string  `json:"access_token"`
	Seconds float64 `json:"expires_in"`
	Refresh string  `json:"refresh_token"`
	Error   string  `json:"error"`
}

func (t *Token) fetch(ctx context.Context) (granted, error) {
	form, err := t.o.Grant.form(t.o.URL, t.o.Now())
	if err != nil {
		return granted{}, &tidemill.Error{Kind: tidemill.Credentials, Err: fmt.Errorf("make the request for a token: %w", err)}
	}
	body := form.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.o.URL, strings.NewReader(body))
	if err != nil {
		return granted{}, tidemill.Fail(tidemill.Internal, "make the request for a token")
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	answer, err := roundTrip(t.o.Via, r)
	if err != nil {
		kind := tidemill.Partner
		if e, ok := errors.AsType[*tidemill.Error](err); ok {
			kind = e.Kind
		} else if ctx.Err() != nil || timedOut(err) {
			kind = tidemill.Timeout
		}
		return granted{}, tidemill.Fail(kind, "ask for a token: %w", err)
	}
	defer answer.Body.Close()
	text, err := fill(nil, answer.Body)
	var g granted
	if err == nil {
		err = lenient(text, &g)
	}
	if kind := tokenKind(answer.StatusCode, g.Error); kind != tidemill.NoKind {
		return granted{}, &tidemill.Error{Kind: kind, After: RetryAfter(answer.Header.Get("Retry-After"), t.o.Now(), 24*time.Hour),
			Err: fmt.Errorf("ask for a token: %s", answered(answer.StatusCode, word(g.Error)))}
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return granted{}, tidemill.Fail(tidemill.Timeout, "ask for a token: the answer did not end in time")
	case err != nil:
		return granted{}, tidemill.Fail(tidemill.Partner, "ask for a token: the answer is none that can be read")
	case g.Access == "" || strings.ContainsAny(g.Access, "\r\n\x00 "):
		return granted{}, tidemill.Fail(tidemill.Partner, "ask for a token: the answer has none")
	}
	return g, nil
}

// lenient reads an answer; some write expires_in as text.
func lenient(text []byte, g *granted) error {
	err := json.Unmarshal(text, g)
	if _, other := errors.AsType[*json.UnmarshalTypeError](err); other && g.Access+g.Error != "" {
		return nil
	}
	return err
}

// tokenKind is what an answer of a token endpoint means: 400 is its way to refuse us.
func tokenKind(status int, code string) tidemill.Kind {
	switch {
	case code == "temporarily_unavailable" || code == "server_error":
		return tidemill.Partner
	case status == http.StatusBadRequest, KindOf(status) == tidemill.NoKind && code != "":
		return tidemill.Credentials
	case KindOf(status) == tidemill.Validation:
		return tidemill.Partner // 404: no message is wrong
	}
	return KindOf(status)
}

// word is an error code if it looks like one; else nothing, as it could be anything.
func word(code string) string {
	for _, c := range code {
		if c != '_' && (c < 'a' || c > 'z') {
			return ""
		}
	}
	return code[:min(len(code), 40)]
}
