package access_test

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/access"
	"github.com/tidemill/tidemill/serve/access/provider"
	"github.com/tidemill/tidemill/serve/access/provider/providertest"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	state "github.com/tidemill/tidemill/state/access"
)

// corp is a world whose people log in at an issuer too.
func corp(t *testing.T, change func(*access.Provider)) (*world, *providertest.Issuer) {
	t.Helper()
	at := providertest.New(t)
	p := access.Provider{Name: "corp", Roles: map[string]caller.Rights{"everyone": caller.All(caller.Viewer), "support": caller.All(caller.Operator), "sre": caller.All(caller.Admin), "crm": caller.For(caller.Operator, "crm"), "shipping": caller.For(caller.Viewer, "delivery")},
		Options: provider.Options{Issuer: at.URL, ClientID: providertest.Client, Secret: tidemill.NewSecret(providertest.Secret), Scopes: []string{"openid", "email"}, Name: "email", Groups: "groups"}}
	if change != nil {
		change(&p)
	}
	w := newWorld(t, func(o *access.Options) { o.Providers = []access.Provider{p} })
	at.Now = func() time.Time { return w.now }
	return w, at
}

// visit is a request of a browser on this machine, which another site may have sent here.
func visit(path string, cookies ...*http.Cookie) *http.Request {
	r := from(http.MethodGet, cookies...)
	r.URL, _ = url.Parse(path)
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	return r
}

// trip is a login at the issuer, up to what it sends the browser back with.
type trip struct {
	back   *url.URL
	cookie *http.Cookie
}

func (w *world) trip(back string, has ...*http.Cookie) trip {
	w.Helper()
	out := httptest.NewRecorder()
	address, err := w.Begin(out, visit("/console/login/corp", has...), "corp", back)
	if err != nil {
		w.Fatal(err)
	}
	cookies := out.Result().Cookies()
	if len(cookies) != 1 || cookies[0].Name != "tidemill-login" || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteLaxMode || cookies[0].MaxAge != 600 {
		w.Fatalf("the cookies are %v", cookies)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Get(address)
	if err != nil {
		w.Fatal(err)
	}
	_ = answer.Body.Close()
	to, err := answer.Location()
	if err != nil {
		w.Fatalf("the issuer answered %s", answer.Status)
	}
	if to.Host != "localhost:8484" || to.Path != "/console/login/corp/back" {
		w.Fatalf("the issuer sends to %s", to)
	}
	return trip{to, cookies[0]}
}

// finish comes back, and returns the cookie of the session.
func (w *world) finish(t trip) (back string, session *http.Cookie, err error) {
	w.Helper()
	out := httptest.NewRecorder()
	r := visit(t.back.RequestURI())
	if t.cookie != nil {
		r.AddCookie(t.cookie)
	}
	back, err = w.Finish(out, r, "corp")
	for _, c := range out.Result().Cookies() {
		switch {
		case c.Name == "tidemill" && err == nil:
			session = c
		case c.Name == "tidemill-login" && c.MaxAge < 0:
		default:
			w.Errorf("with %v the cookie is %v", err, c)
		}
	}
	return back, session, err
}

func TestSomebodyLogsInAtAProvider(t *testing.T) {
	w, _ := corp(t, nil)
	back, session, err := w.finish(w.trip("/console/queues?state=waiting&x=1"))
	if w.is(err, 0); back != "/console/queues?state=waiting&x=1" || session == nil {
		t.Fatalf("back to %q, with %v", back, session)
	}
	who, err := w.Caller(from(http.MethodGet, session))
	if w.is(err, 0); who.Name != "corp:ada@example.com" || who.Rights != caller.All(caller.Operator) || who.Via != "oidc" || !who.Entered.Equal(w.now) {
		t.Errorf("who came in is %+v", who)
	}
	all, err := w.store.List(t.Context(), state.Session, "")
	kept, _ := json.Marshal(all)
	if err != nil || len(all) != 1 || strings.Contains(string(kept), "eyJ") {
		t.Errorf("kept is %s, %v", kept, err)
	}
	if len(w.told) != 1 || w.told[0].Who != who || w.told[0].Err != nil {
		t.Errorf("told %+v", w.told)
	}
}

func TestTheRolesOfAllGroupsCountAndWithoutOneNobodyIsLetIn(t *testing.T) {
	for _, k := range []struct {
		groups any
		want   string
	}{{[]string{"sre", "everyone"}, "admin"}, {[]string{"everyone"}, "viewer"}, {"support", "operator"}, {[]string{"shipping", "crm"}, "operator:crm viewer:delivery"}, {[]string{"everyone", "crm", "shipping"}, "viewer operator:crm"},
		{[]string{"others", "SRE"}, ""}, {nil, ""}, {map[string]any{"sre": 1}, ""}, {[]any{7}, ""}} {
		w, at := corp(t, nil)
		at.Person["groups"] = k.groups
		_, session, err := w.finish(w.trip(""))
		if k.want == "" {
			w.is(err, http.StatusForbidden)
			if session != nil || err != nil && !strings.Contains(err.Error(), "corp:ada@example.com is known to corp, and is in no group that has a role here") {
				t.Errorf("%v: %v", k.groups, err)
			}
			if last := w.told[len(w.told)-1]; last.Err == nil || last.Who.Name != "corp:ada@example.com" || last.Who.Rights != (caller.Rights{}) {
				t.Errorf("told %+v", last)
			}
			continue
		}
		w.is(err, 0)
		if who, err := w.Caller(from(http.MethodGet, session)); err != nil || who.Rights.String() != k.want {
			t.Errorf("%v: %+v, %v", k.groups, who, err)
		}
	}
}

func TestAnIssuerThatLiesLetsNobodyIn(t *testing.T) {
	other := providertest.NewKey(t)
	claim := func(name string, v any) func(*providertest.Issuer) {
		return func(at *providertest.Issuer) { at.Lie = func(c map[string]any) { c[name] = v } }
	}
	offset := func(name string, by time.Duration) func(*providertest.Issuer) {
		return func(at *providertest.Issuer) {
			at.Lie = func(c map[string]any) { c[name] = at.Now().Add(by).Unix() }
		}
	}
	unsigned := func(header string) func(*providertest.Issuer) {
		return func(at *providertest.Issuer) {
			at.Sign = func(c map[string]any) string {
				b, _ := json.Marshal(c)
				return base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString(b) + "."
			}
		}
	}
	for name, k := range map[string]struct {
		lie  func(*providertest.Issuer)
		want int
	}{
		"another issuer":                    {claim("iss", "https://elsewhere.example"), 401},
		"another audience":                  {claim("aud", "another"), 401},
		"several audiences without a party": {claim("aud", []string{"another", providertest.Client}), 401},
		"another party":                     {claim("azp", "another"), 401},
		"the nonce of another login":        {claim("nonce", "another"), 401},
		"no nonce":                          {func(at *providertest.Issuer) { at.Lie = func(c map[string]any) { delete(c, "nonce") } }, 401},
		"ended 61 s ago":                    {offset("exp", -61*time.Second), 401},
		"no end":                            {func(at *providertest.Issuer) { at.Lie = func(c map[string]any) { delete(c, "exp") } }, 401},
		"made in 61 s":                      {offset("iat", 61*time.Second), 401},
		"begins in 61 s":                    {offset("nbf", 61*time.Second), 401},
		"nobody":                            {claim("sub", ""), 401},
		"the hash of another access token":  {claim("at_hash", "another"), 401},
		"an address that is not verified":   {claim("email_verified", false), 401},
		"no name":                           {claim("email", ""), 401},
		"a name with a line end":            {claim("email", "ada\nroot"), 401},
		"no signature":                      {unsigned(`{"alg":"none"}`), 401},
		"a key of another": {func(at *providertest.Issuer) {
			at.Sign = func(c map[string]any) string { return providertest.SignBy(other, c) }
		}, 401},
		"no ID token": {func(at *providertest.Issuer) { at.Sign = func(map[string]any) string { return "" } }, 401},
		"user info of somebody else": {func(at *providertest.Issuer) {
			delete(at.Person, "groups")
			at.Info = map[string]any{"sub": "4321", "groups": "sre"}
		}, 401},
		"within the skew: ended 59 s ago": {offset("exp", -59*time.Second), 0},
		"within the skew: made in 59 s":   {offset("iat", 59*time.Second), 0},
		"within the skew: begins in 59 s": {offset("nbf", 59*time.Second), 0},
		"several audiences and our party": {func(at *providertest.Issuer) {
			at.Lie = func(c map[string]any) {
				c["aud"], c["azp"] = []string{"another", providertest.Client}, providertest.Client
			}
		}, 0},
		"says nothing of verified addresses": {func(at *providertest.Issuer) { delete(at.Person, "email_verified") }, 0},
		"groups in the user info alone": {func(at *providertest.Issuer) {
			delete(at.Person, "groups")
			at.Info = map[string]any{"sub": "1234", "groups": "sre", "email": "eve@example.com"}
		}, 0},
	} {
		w, at := corp(t, nil)
		k.lie(at)
		_, session, err := w.finish(w.trip(""))
		p := 0
		if err != nil {
			p = statusOf(err)
		}
		if p != k.want || (session == nil) != (k.want != 0) {
			t.Errorf("%s: %v, want %d", name, err, k.want)
		}
		if all, _ := w.store.List(t.Context(), state.Session, ""); len(all) > 0 != (k.want == 0) {
			t.Errorf("%s: the sessions are %+v", name, all)
		}
		if len(w.told) != 1 || (w.told[0].Err == nil) != (k.want == 0) || w.told[0].Who.Via != "oidc" || k.want == 0 && w.told[0].Who.Name != "corp:ada@example.com" {
			t.Errorf("%s: told %+v", name, w.told)
		}
	}
}

func TestAnAnswerCountsOnceAndInTheBrowserThatBegan(t *testing.T) {
	w, at := corp(t, nil)
	first := w.trip("")
	_, _, err := w.finish(first)
	w.is(err, 0)
	_, _, err = w.finish(first) // a stolen cookie and address
	if w.is(err, http.StatusUnauthorized); at.Exchanged() != 1 {
		t.Errorf("the code was exchanged %d times", at.Exchanged())
	}
	again := w.trip("")
	again.back.RawQuery = strings.ReplaceAll(again.back.RawQuery, again.back.Query().Get("code"), first.back.Query().Get("code"))
	_, _, err = w.finish(again) // the issuer gives nothing for a code that was used
	w.is(err, http.StatusUnauthorized)

	mine, theirs := w.trip(""), w.trip("")
	for name, mixed := range map[string]trip{"no cookie": {mine.back, nil}, "the cookie of another": {mine.back, theirs.cookie}, "no cookie that is one": {mine.back, &http.Cookie{Name: "tidemill-login", Value: "e30"}}} {
		_, session, err := w.finish(mixed)
		if w.is(err, http.StatusUnauthorized); session != nil {
			t.Errorf("%s: lets in", name)
		}
	}
	if at.Exchanged() != 2 {
		t.Errorf("the code was exchanged %d times", at.Exchanged())
	}
	w.now = w.now.Add(10*time.Minute + time.Second)
	_, _, err = w.finish(mine)
	w.is(err, http.StatusUnauthorized)
}

func TestWhatTheBrowserBringsIsChecked(t *testing.T) {
	w, at := corp(t, nil)
	change := func(name, value string) {
		t.Helper()
		trip := w.trip("")
		q := trip.back.Query()
		q.Set(name, value)
		trip.back.RawQuery = q.Encode()
		_, _, err := w.finish(trip)
		if w.is(err, http.StatusUnauthorized); err != nil && strings.Contains(err.Error(), "<b>") {
			t.Errorf("the answer quotes what came: %v", err)
		}
	}
	change("state", "another")
	change("code", "")
	change("iss", "https://elsewhere.example")
	change("error", "access_denied<b>")
	if at.Exchanged() != 0 {
		t.Errorf("a code was exchanged")
	}
	at.Set(func() { at.Deny = "access_denied" })
	_, _, err := w.finish(w.trip(""))
	if w.is(err, http.StatusUnauthorized); err != nil && err.Error() != "corp did not let you in (access_denied)" {
		t.Error(err)
	}
	// Each was an attempt.
	at.Set(func() { at.Deny = "" })
	for range 5 {
		change("state", "another")
	}
	_, _, err = w.finish(w.trip(""))
	w.is(err, http.StatusTooManyRequests)
}

func TestKeysOfAProviderRotate(t *testing.T) {
	w, at := corp(t, nil)
	_, _, err := w.finish(w.trip(""))
	w.is(err, 0)
	at.Set(func() { at.Rotate(t) })
	_, _, err = w.finish(w.trip(""))
	w.is(err, 0)
}

func TestAProviderThatIsAwayHoldsUpNobodyElse(t *testing.T) {
	w, at := corp(t, nil)
	at.Set(func() { at.Down = true })
	begin := func() error {
		_, err := w.Begin(httptest.NewRecorder(), visit("/console/login/corp"), "corp", "")
		return err
	}
	w.is(begin(), http.StatusServiceUnavailable)
	if session := w.in(access.Proof{Name: "ada", Password: password}); session == nil {
		t.Error("another way in does not work")
	}
	at.Set(func() { at.Down = false })
	_, session, err := w.finish(w.trip(""))
	w.is(err, 0)

	for range 20 { // none is a guess
		late := w.trip("")
		at.Set(func() { at.Down = true })
		_, _, err = w.finish(late)
		w.is(err, http.StatusServiceUnavailable)
		at.Set(func() { at.Down = false })
	}
	at.Set(func() { at.Down = true })
	if _, err := w.Caller(from(http.MethodGet, session)); err != nil {
		t.Errorf("a session that was there ends: %v", err)
	}
}

func statusOf(err error) int {
	if p, ok := errors.AsType[*operation.Problem](err); ok {
		return p.Status
	}
	return -1
}

func TestTheProviderMustBeTheOneThatIsConfigured(t *testing.T) {
	for name, lie := range map[string]func(map[string]any){
		"another issuer":               func(d map[string]any) { d["issuer"] = "https://elsewhere.example" },
		"a login that is not over TLS": func(d map[string]any) { d["authorization_endpoint"] = "http://elsewhere.example/authorize" },
	} {
		w, at := corp(t, nil)
		at.Found = lie
		_, err := w.Begin(httptest.NewRecorder(), visit("/console/login/corp"), "corp", "")
		if statusOf(err) != http.StatusUnauthorized {
			t.Errorf("%s: %v", name, err)
		}
	}
	w, at := corp(t, nil)
	at.Found = func(d map[string]any) { d["token_endpoint"] = "http://elsewhere.example/token" }
	_, _, err := w.finish(w.trip(""))
	w.is(err, http.StatusServiceUnavailable)
	_, err = w.Begin(httptest.NewRecorder(), visit("/console/login/none"), "none", "")
	w.is(err, http.StatusNotFound)
}

func TestASessionEndsWithWhatIsConfiguredOfItsProvider(t *testing.T) {
	w, at := corp(t, nil)
	_, session, err := w.finish(w.trip(""))
	w.is(err, 0)
	same := access.Provider{Name: "corp", Roles: map[string]caller.Rights{"everyone": caller.All(caller.Viewer), "support": caller.All(caller.Operator), "sre": caller.All(caller.Admin), "crm": caller.For(caller.Operator, "crm"), "shipping": caller.For(caller.Viewer, "delivery")},
		Options: provider.Options{Issuer: at.URL, ClientID: providertest.Client, Secret: tidemill.NewSecret("another"), Name: "email", Groups: "groups"}}
	fewer := same
	fewer.Roles = map[string]caller.Rights{"everyone": caller.All(caller.Viewer)}
	for name, k := range map[string]struct {
		has  []access.Provider
		want int
	}{"the same": {[]access.Provider{same}, 0}, "a role is gone": {[]access.Provider{fewer}, 401}, "none": {nil, 401}} {
		next := access.New(access.Options{Store: w.store, Now: func() time.Time { return w.now }, Providers: k.has})
		who, err := next.Caller(from(http.MethodGet, session))
		if (err == nil) != (k.want == 0) || err != nil && statusOf(err) != k.want {
			t.Errorf("%s: %+v, %v", name, who, err)
		}
	}
}

func TestALogoutAtTheProviderIsOffered(t *testing.T) {
	w, at := corp(t, nil)
	out, err := w.Out(visit("/console/login/corp/out"), "corp")
	u, _ := url.Parse(out)
	if w.is(err, 0); u.Query().Get("post_logout_redirect_uri") != "http://localhost:8484/console/login" || u.Query().Get("client_id") != providertest.Client || !strings.HasPrefix(out, at.URL+"/logout?") {
		t.Errorf("it is %s", out)
	}
	w, at = corp(t, nil)
	at.Found = func(d map[string]any) { delete(d, "end_session_endpoint") }
	if out, err := w.Out(visit("/console/login/corp/out"), "corp"); out != "" || err != nil {
		t.Errorf("there is none, and it is %q, %v", out, err)
	}
}

func TestNobodyLogsInAtAProviderByARequestThatCannotLogIn(t *testing.T) {
	w, _ := corp(t, nil)
	for name, change := range map[string]func(*http.Request){
		"another name":                    func(r *http.Request) { r.Host = "rebound.example" },
		"without TLS from elsewhere":      func(r *http.Request) { r.RemoteAddr, r.Host = "192.0.2.1:1", "console.example" },
		"through a proxy of this machine": func(r *http.Request) { r.Header.Set("X-Forwarded-For", "192.0.2.1") },
	} {
		r := visit("/console/login/corp")
		change(r)
		_, err := w.Begin(httptest.NewRecorder(), r, "corp", "")
		if statusOf(err) != http.StatusForbidden {
			t.Errorf("%s: begin: %v", name, err)
		}
		_, err = w.Finish(httptest.NewRecorder(), r, "corp")
		if statusOf(err) != http.StatusForbidden {
			t.Errorf("%s: finish: %v", name, err)
		}
	}
	r := visit("/console/login/corp")
	r.Host, r.TLS = "console.example", new(tls.ConnectionState)
	rec := httptest.NewRecorder()
	address, err := w.Begin(rec, r, "corp", "")
	if c := rec.Result().Cookies(); err != nil || !strings.Contains(address, url.QueryEscape("https://console.example/console/login/corp/back")) || len(c) != 1 || c[0].Name != "__Host-tidemill-login" || !c[0].Secure {
		t.Errorf("over TLS: %s, %v, %v", address, c, err)
	}
}

func TestWhoLogsInAgainProvesAgainWhoTheyAre(t *testing.T) {
	w, at := corp(t, nil)
	entered := func(ago time.Duration) { at.Set(func() { at.Person["auth_time"] = w.now.Add(-ago).Unix() }) }
	entered(3 * time.Hour) // they have a session there
	_, session, err := w.finish(w.trip(""))
	w.is(err, 0)
	if who, err := w.Caller(from(http.MethodGet, session)); err != nil || !who.Entered.Equal(w.now.Add(-3*time.Hour)) || who.Fresh(w.now, 15*time.Minute) {
		t.Errorf("who came in by a login of three hours ago is %+v, %v", who, err)
	}
	if at.Wanted.Get("max_age") != "86400" || at.Wanted.Has("prompt") {
		t.Errorf("the login asks for %v", at.Wanted)
	}
	_, _, err = w.finish(w.trip("", session)) // the provider asked them nothing
	if w.is(err, http.StatusUnauthorized); at.Wanted.Get("max_age") != "900" || at.Wanted.Get("prompt") != "login" {
		t.Errorf("the second login asks for %v", at.Wanted)
	}
	entered(10 * time.Second)
	_, again, err := w.finish(w.trip("", session))
	w.is(err, 0)
	if who, err := w.Caller(from(http.MethodGet, again)); err != nil || !who.Fresh(w.now, 15*time.Minute) {
		t.Errorf("after it they are %+v, %v", who, err)
	}
	entered(25 * time.Hour)
	_, _, err = w.finish(w.trip(""))
	w.is(err, http.StatusUnauthorized)
	entered(-2 * time.Minute) // still to come
	_, _, err = w.finish(w.trip(""))
	w.is(err, http.StatusUnauthorized)
}
