package access_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/access"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	state "github.com/tidemill/tidemill/state/access"
	"github.com/tidemill/tidemill/state/access/tableaccess"
)

const (
	key      = "the-key-0123456789"
	password = "open sesame, please"
)

// world is a guard with a user ada, and a clock of its own.
type world struct {
	*testing.T
	*access.Guard
	store state.Store
	now   time.Time
	told  []access.Login
}

func newWorld(t *testing.T, change func(*access.Options)) *world {
	t.Helper()
	w := &world{T: t, store: tableaccess.Memory(), now: time.Unix(1_800_000_000, 0)}
	o := access.Options{Key: tidemill.NewSecret(key), Store: w.store, Hosts: []string{"console.example"}, Now: func() time.Time { return w.now }, Cost: access.Cost{KiB: 64, Passes: 1},
		Told: func(_ *http.Request, l access.Login) { w.told = append(w.told, l) }}
	if change != nil {
		change(&o)
	}
	w.Guard = access.New(o)
	w.add("ada", "operator")
	w.add("root", "admin")
	return w
}

func (w *world) add(name, role string) {
	w.Helper()
	hash, err := w.Hash(w.Context(), name, password)
	if err == nil {
		err = w.store.Add(w.Context(), state.Grant{Kind: state.User, ID: name, Name: name, Role: role, Hash: hash})
	}
	if err != nil {
		w.Fatal(err)
	}
}

// from is a request of a browser on this machine, of a page of ours.
func from(method string, cookies ...*http.Cookie) *http.Request {
	r := httptest.NewRequest(method, "http://localhost:8484/console/login", nil)
	r.RemoteAddr = "127.0.0.1:50000"
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("User-Agent", "Firefox")
	for _, c := range cookies {
		r.AddCookie(c)
	}
	return r
}

// enter logs in, and returns the cookie.
func (w *world) enter(r *http.Request, by access.Proof) (caller.Caller, *http.Cookie, error) {
	out := httptest.NewRecorder()
	who, err := w.Enter(out, r, by)
	cookies := out.Result().Cookies()
	if err == nil && len(cookies) != 1 || err != nil && len(cookies) != 0 {
		w.Fatalf("%v, and the cookies %v", err, cookies)
	}
	if err != nil {
		return who, nil, err
	}
	return who, cookies[0], nil
}

func (w *world) in(by access.Proof) *http.Cookie {
	w.Helper()
	_, c, err := w.enter(from(http.MethodPost), by)
	if err != nil {
		w.Fatal(err)
	}
	return c
}

// is wants the status of a problem; 0: there is none.
func (w *world) is(err error, status int) {
	w.Helper()
	p, ok := errors.AsType[*operation.Problem](err)
	switch {
	case status == 0 && err != nil:
		w.Errorf("it is refused: %v", err)
	case status != 0 && (!ok || p.Status != status):
		w.Errorf("the error is %v, want one of status %d", err, status)
	}
}

func TestAUserLogsInAndIsKnownByTheCookieUntilTheyLeave(t *testing.T) {
	w := newWorld(t, nil)
	who, c, err := w.enter(from(http.MethodPost), access.Proof{Name: "ada", Password: password})
	w.is(err, 0)
	if who.Name != "ada" || who.Rights != caller.All(caller.Operator) || !who.Payloads || who.Via != "password" || who.From.String() != "127.0.0.1" || who.Session == "" || !who.Entered.Equal(w.now) {
		t.Errorf("who came in is %+v", who)
	}
	if c.Name != "tidemill" || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Secure || len(c.Value) < 50 {
		t.Errorf("the cookie is %+v", c)
	}
	again, err := w.Caller(from(http.MethodGet, c))
	if w.is(err, 0); again != who {
		t.Errorf("the caller is %+v, want %+v", again, who)
	}
	out := httptest.NewRecorder()
	w.is(w.Leave(out, from(http.MethodPost, c)), 0)
	if gone := out.Result().Cookies(); len(gone) != 1 || gone[0].MaxAge != -1 || gone[0].Name != c.Name {
		t.Errorf("after it the cookies are %+v", gone)
	}
	_, err = w.Caller(from(http.MethodGet, c)) // a stolen one
	w.is(err, http.StatusUnauthorized)
	if len(w.told) != 2 || w.told[0].Who != who || !w.told[1].Out || w.told[1].Who.Name != "ada" {
		t.Errorf("told %+v", w.told)
	}
}

func TestWrongProofsAreAnsweredTheSame(t *testing.T) {
	w := newWorld(t, nil)
	texts := map[string]bool{}
	for _, p := range []access.Proof{{Name: "ada", Password: "wrong"}, {Name: "ada"}, {Name: "nobody-here", Password: password}, {Name: "Not A Name", Password: password}, {Password: password}, {Name: "ada", Password: strings.Repeat("x", 1<<16)}} {
		_, _, err := w.enter(from(http.MethodPost), p)
		w.is(err, http.StatusUnauthorized)
		texts[err.Error()] = true
	}
	if len(texts) != 1 {
		t.Errorf("they are told apart: %v", texts)
	}
	for _, l := range w.told {
		if l.Err == nil || l.Who.Rights != caller.All(caller.Nobody) || l.Who.Via != "password" {
			t.Errorf("told %+v", l)
		}
	}
	for _, p := range []access.Proof{{Token: "wrong"}, {Token: access.TokenPrefix + "wrong"}, {Link: "wrong"}} {
		_, _, err := w.enter(from(http.MethodPost), p)
		w.is(err, http.StatusUnauthorized)
	}
}

func TestASessionEndsWhenItIsIdleAndAtItsEnd(t *testing.T) {
	w := newWorld(t, nil)
	c := w.in(access.Proof{Name: "ada", Password: password})
	begin := w.now
	for range 3 { // each puts the end off
		w.now = w.now.Add(8*time.Hour - time.Second)
		if w.now.Sub(begin) >= 24*time.Hour {
			break
		}
		_, err := w.Caller(from(http.MethodGet, c))
		w.is(err, 0)
	}
	w.now = begin.Add(24*time.Hour - time.Second)
	_, err := w.Caller(from(http.MethodGet, c))
	w.is(err, 0)
	w.now = begin.Add(24 * time.Hour)
	_, err = w.Caller(from(http.MethodGet, c))
	w.is(err, http.StatusUnauthorized)

	c = w.in(access.Proof{Name: "ada", Password: password})
	w.now = w.now.Add(8 * time.Hour)
	_, err = w.Caller(from(http.MethodGet, c))
	w.is(err, http.StatusUnauthorized)
}

func TestALoginEndsTheSessionBefore(t *testing.T) {
	w := newWorld(t, nil)
	first := w.in(access.Proof{Name: "ada", Password: password})
	_, second, err := w.enter(from(http.MethodPost, first), access.Proof{Token: key})
	if w.is(err, 0); second.Value == first.Value {
		t.Error("the new session has the secret of the old one")
	}
	_, err = w.Caller(from(http.MethodGet, first))
	w.is(err, http.StatusUnauthorized)
	who, err := w.Caller(from(http.MethodGet, second))
	if w.is(err, 0); who.Name != "key:admin" || who.Via != "key" || who.Rights != caller.All(caller.Admin) {
		t.Errorf("the caller is %+v", who)
	}
}

func TestASessionOfTheKeyEndsWithTheKey(t *testing.T) {
	w := newWorld(t, nil)
	c := w.in(access.Proof{Token: key})
	other := access.New(access.Options{Key: tidemill.NewSecret("another-key-0123456789"), Store: w.store, Now: func() time.Time { return w.now }})
	_, err := other.Caller(from(http.MethodGet, c))
	w.is(err, http.StatusUnauthorized)
}

func TestATokenIsShownWithEachRequestOrBeginsASession(t *testing.T) {
	w := newWorld(t, nil)
	ctx := caller.With(t.Context(), caller.Caller{Name: "root", Rights: caller.All(caller.Admin)})
	secret, g, err := w.NewToken(ctx, "ci", caller.All(caller.Viewer), time.Hour)
	if w.is(err, 0); g.By != "root" || !strings.HasPrefix(secret, access.TokenPrefix) {
		t.Errorf("the token is %+v", g)
	}
	r := from(http.MethodGet)
	r.Header.Set("Authorization", "Bearer "+secret)
	who, err := w.Caller(r)
	if w.is(err, 0); who.Name != "token:ci" || who.Rights != caller.All(caller.Viewer) || who.Payloads || who.Via != "token" || who.Session != "" {
		t.Errorf("the caller is %+v", who)
	}
	if g, err := w.store.Get(t.Context(), state.Token, g.ID); err != nil || !g.Used.Equal(w.now) {
		t.Errorf("it was last used at %v, %v", g.Used, err)
	}
	c := w.in(access.Proof{Token: secret})
	who, err = w.Caller(from(http.MethodGet, c))
	if w.is(err, 0); who.Name != "token:ci" || who.Session == "" {
		t.Errorf("the caller is %+v", who)
	}
	w.now = w.now.Add(time.Hour)
	_, err = w.Caller(r)
	w.is(err, http.StatusUnauthorized)
	_, err = w.Caller(from(http.MethodGet, c))
	w.is(err, http.StatusUnauthorized)
	_, _, err = w.enter(from(http.MethodPost), access.Proof{Token: secret})
	w.is(err, http.StatusUnauthorized)
}

func TestARevokedTokenLetsNobodyIn(t *testing.T) {
	w := newWorld(t, nil)
	secret, g, err := w.NewToken(t.Context(), "ci", caller.All(caller.Viewer), 0)
	w.is(err, 0)
	c := w.in(access.Proof{Token: secret})
	if _, err := w.store.Remove(t.Context(), state.Token, g.ID); err != nil {
		t.Fatal(err)
	}
	r := from(http.MethodGet)
	r.Header.Set("Authorization", "Bearer "+secret)
	_, err = w.Caller(r)
	w.is(err, http.StatusUnauthorized)
	_, err = w.Caller(from(http.MethodGet, c))
	w.is(err, http.StatusUnauthorized)
}

func TestALinkLetsInOnceOnThisMachine(t *testing.T) {
	w := newWorld(t, nil)
	secret, until, err := w.NewLink(t.Context())
	if w.is(err, 0); !until.Equal(w.now.Add(10 * time.Minute)) {
		t.Errorf("it lets in until %v", until)
	}
	elsewhere := from(http.MethodPost)
	elsewhere.Header.Set("X-Forwarded-For", "127.0.0.1")
	_, _, err = w.enter(elsewhere, access.Proof{Link: secret})
	w.is(err, http.StatusForbidden)
	who, c, err := w.enter(from(http.MethodPost), access.Proof{Link: secret})
	if w.is(err, 0); who.Name != "local" || who.Rights != caller.All(caller.Admin) || who.Via != "link" {
		t.Errorf("who came in is %+v", who)
	}
	_, _, err = w.enter(from(http.MethodPost), access.Proof{Link: secret})
	w.is(err, http.StatusUnauthorized)
	begin := w.now
	for _, h := range []int{6, 11} {
		w.now = begin.Add(time.Duration(h) * time.Hour)
		_, err = w.Caller(from(http.MethodGet, c))
		w.is(err, 0)
	}
	w.now = begin.Add(12 * time.Hour)
	_, err = w.Caller(from(http.MethodGet, c))
	w.is(err, http.StatusUnauthorized)

	secret, _, err = w.NewLink(t.Context())
	w.is(err, 0)
	w.now = w.now.Add(10 * time.Minute)
	_, _, err = w.enter(from(http.MethodPost), access.Proof{Link: secret})
	w.is(err, http.StatusUnauthorized)
}

// header is a request with another header.
func header(r *http.Request, name, value string) *http.Request {
	if r.Header.Del(name); value != "" {
		r.Header.Set(name, value)
	}
	return r
}

func TestACookieChangesNothingFromElsewhere(t *testing.T) {
	w := newWorld(t, nil)
	c := w.in(access.Proof{Name: "ada", Password: password})
	without := func(origin string) *http.Request {
		return header(header(from(http.MethodPost, c), "Sec-Fetch-Site", ""), "Origin", origin)
	}
	for name, k := range map[string]struct {
		r    *http.Request
		want int
	}{
		"our page":                           {from(http.MethodPost, c), 0},
		"our page, by its origin":            {without("http://localhost:8484"), 0},
		"neither header":                     {without(""), 403},
		"another origin":                     {without("http://evil.example"), 403},
		"another port":                       {without("http://localhost:1"), 403},
		"a page without origin":              {without("null"), 403},
		"another site":                       {header(from(http.MethodPost, c), "Sec-Fetch-Site", "cross-site"), 403},
		"another site, though of our origin": {header(header(from(http.MethodPost, c), "Sec-Fetch-Site", "cross-site"), "Origin", "http://localhost:8484"), 403},
		"no page, typed by hand":             {header(from(http.MethodPost, c), "Sec-Fetch-Site", "none"), 403},
		"reading, from a link elsewhere":     {header(from(http.MethodGet, c), "Sec-Fetch-Site", "cross-site"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := *w
			w.T = t
			_, err := w.Caller(k.r)
			w.is(err, k.want)
			if k.r.Method == http.MethodPost {
				_, _, err := w.enter(k.r.Clone(t.Context()), access.Proof{Name: "root", Password: "wrong"})
				w.is(err, map[bool]int{true: 401, false: 403}[k.want == 0])
				if k.want == 403 {
					w.is(w.Leave(httptest.NewRecorder(), k.r), 403)
				}
			}
		})
	}
	_, err := w.Caller(from(http.MethodGet, c))
	w.is(err, 0)
}

func TestABearerTokenMakesCookiesIgnored(t *testing.T) {
	w := newWorld(t, nil)
	c := w.in(access.Proof{Name: "ada", Password: password})
	_, err := w.Caller(header(from(http.MethodGet, c), "Authorization", "Bearer wrong"))
	w.is(err, http.StatusUnauthorized)
	who, err := w.Caller(header(from(http.MethodGet, c), "Authorization", "Bearer "+key))
	if w.is(err, 0); who.Name != "key:admin" {
		t.Errorf("the caller is %+v", who)
	}
}

func TestSessionsAreForKnownHostsOverTLSOrThisMachine(t *testing.T) {
	w := newWorld(t, nil)
	for _, k := range []struct {
		host, remote string
		tls          bool
		want         int
	}{
		{"localhost:8484", "127.0.0.1:1", false, 0},
		{"[::1]:8484", "[::1]:1", false, 0},
		{"evil.example", "127.0.0.1:1", false, 403}, // a name that was made to point here
		{"evil.example", "127.0.0.1:1", true, 403},
		{"console.example", "192.0.2.1:1", true, 0},
		{"CONSOLE.example:443", "192.0.2.1:1", true, 0},
		{"console.example", "192.0.2.1:1", false, 403},
		{"192.0.2.7:8484", "192.0.2.1:1", true, 0},
		{"192.0.2.7:8484", "192.0.2.1:1", false, 403},
	} {
		name := fmt.Sprintf("%s from %s, TLS %v", k.host, k.remote, k.tls)
		url := map[bool]string{true: "https", false: "http"}[k.tls] + "://" + k.host + "/"
		ask := func(method string, cookies ...*http.Cookie) *http.Request {
			r := httptest.NewRequest(method, url, nil)
			r.RemoteAddr = k.remote
			r.Header.Set("Sec-Fetch-Site", "same-origin")
			for _, c := range cookies {
				r.AddCookie(c)
			}
			return r
		}
		_, c, err := w.enter(ask(http.MethodPost), access.Proof{Name: "ada", Password: password})
		if p, _ := errors.AsType[*operation.Problem](err); (k.want == 0) != (err == nil) || err != nil && p.Status != k.want {
			t.Errorf("%s: %v, want %d", name, err, k.want)
		}
		if open := !reflect.DeepEqual(w.Ways(ask(http.MethodGet)), access.Ways{}); open != (k.want == 0) {
			t.Errorf("%s: %+v", name, w.Ways(ask(http.MethodGet)))
		}
		if err != nil {
			continue
		}
		if secure := c.Secure && c.Name == "__Host-tidemill"; secure != k.tls {
			t.Errorf("%s: the cookie is %+v", name, c)
		}
		_, err = w.Caller(ask(http.MethodGet, c))
		w.is(err, 0)
	}
}

func TestWaysThatAreClosed(t *testing.T) {
	w := newWorld(t, func(o *access.Options) { o.NoPassword = true })
	if got, want := w.Ways(from(http.MethodGet)), (access.Ways{Token: true, Link: true}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	_, _, err := w.enter(from(http.MethodPost), access.Proof{Name: "ada", Password: password})
	w.is(err, http.StatusForbidden)
	w = newWorld(t, func(o *access.Options) { o.NoToken = true })
	if got, want := w.Ways(from(http.MethodGet)), (access.Ways{Password: true, Link: true}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	secret, _, err := w.NewToken(t.Context(), "ci", caller.All(caller.Viewer), 0)
	w.is(err, 0)
	for _, token := range []string{key, secret, "wrong"} {
		_, _, err = w.enter(from(http.MethodPost), access.Proof{Token: token})
		w.is(err, http.StatusForbidden)
	}
	_, err = w.Caller(header(from(http.MethodGet), "Authorization", "Bearer "+secret)) // a program
	w.is(err, 0)
	none := access.New(access.Options{Key: tidemill.NewSecret(key)})
	if got := none.Ways(from(http.MethodGet)); !reflect.DeepEqual(got, access.Ways{}) {
		t.Errorf("without a store: %+v", got)
	}
	_, err = none.Enter(httptest.NewRecorder(), from(http.MethodPost), access.Proof{Token: key})
	w.is(err, http.StatusForbidden)
	_, _, err = w.enter(from(http.MethodGet), access.Proof{Token: key})
	w.is(err, http.StatusMethodNotAllowed)
}

func TestGuessesDelayThoseAfterThemAndNoLongerThanAQuarterOfAnHour(t *testing.T) {
	w := newWorld(t, nil)
	remote := 0
	try := func(name, pass string, elsewhere bool) error {
		r := from(http.MethodPost)
		if elsewhere { // another machine each time
			remote++
			r = httptest.NewRequest(http.MethodPost, "https://console.example/", nil)
			r.RemoteAddr = fmt.Sprintf("10.0.%d.%d:1", remote/250, remote%250+1)
			r.Header.Set("Sec-Fetch-Site", "same-origin")
		}
		_, _, err := w.enter(r, access.Proof{Name: name, Password: pass})
		return err
	}
	for range 10 {
		w.is(try("ada", "wrong", true), http.StatusUnauthorized)
	}
	err := try("ada", password, true)
	if w.is(err, http.StatusTooManyRequests); err.(*operation.Problem).After < 1 {
		t.Errorf("it is not said when: %+v", err)
	}
	w.is(try("root", password, true), 0) // another name
	w.now = w.now.Add(2 * time.Second)
	w.is(try("ada", password, true), 0)
	w.is(try("ada", "wrong", true), http.StatusUnauthorized) // those before are forgotten
	w.is(try("ada", password, true), 0)

	waited := time.Duration(0)
	for range 40 { // from one address, by many names
		err := try("root", "wrong", false)
		for p, _ := errors.AsType[*operation.Problem](err); p.Status == http.StatusTooManyRequests; p, _ = errors.AsType[*operation.Problem](err) {
			step := time.Duration(p.After) * time.Second
			if waited = max(waited, step); step > 15*time.Minute+2*time.Second {
				t.Fatalf("the next one is possible in %v", step)
			}
			w.now = w.now.Add(step)
			err = try("root", "wrong", false)
		}
		w.is(err, http.StatusUnauthorized)
	}
	if waited < 8*time.Minute {
		t.Errorf("who goes on waits %v at most", waited)
	}
}

func TestAStoreThatIsAwayIsSaidSoAndTheKeyStillWorks(t *testing.T) {
	w := newWorld(t, func(o *access.Options) { o.Store = away{o.Store} })
	_, err := w.Caller(from(http.MethodGet, &http.Cookie{Name: "tidemill", Value: "x"}))
	w.is(err, http.StatusServiceUnavailable)
	_, _, err = w.enter(from(http.MethodPost), access.Proof{Name: "ada", Password: password})
	w.is(err, http.StatusServiceUnavailable)
	_, err = w.Caller(header(from(http.MethodGet), "Authorization", "Bearer "+access.TokenPrefix+"x"))
	w.is(err, http.StatusServiceUnavailable)
	_, err = w.Caller(header(from(http.MethodGet), "Authorization", "Bearer "+key))
	w.is(err, 0)
}

// away is a store that reads nothing.
type away struct{ state.Store }

func (away) Get(context.Context, state.Kind, string) (state.Grant, error) {
	return state.Grant{}, errors.New("connection refused")
}
