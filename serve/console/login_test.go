package console_test

import (
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/access"
	"github.com/tidemill/tidemill/serve/access/provider"
	"github.com/tidemill/tidemill/serve/access/provider/providertest"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/serve/console"
)

// withCorp has people log in at an issuer too.
func withCorp(at *providertest.Issuer) part {
	return func(w *world, a *admin.Parts, c *console.Parts) {
		g := access.New(access.Options{Store: w.grants, Providers: []access.Provider{{Name: "corp", Roles: map[string]caller.Rights{"support": caller.All(caller.Operator)},
			Options: provider.Options{Issuer: at.URL, ClientID: providertest.Client, Secret: tidemill.NewSecret(providertest.Secret), Name: "email", Groups: "groups"}}}})
		c.Gate, c.SignIn = g, g
	}
}

// browser is one that keeps cookies, and the pages that it is sent over.
type browser struct {
	*testing.T
	http.Client
	home string
	over []string
}

func newBrowser(t *testing.T, w *world) *browser {
	t.Helper()
	at := httptest.NewServer(w.Pages)
	t.Cleanup(at.Close)
	b := &browser{T: t, home: at.URL}
	b.Jar, _ = cookiejar.New(nil)
	b.CheckRedirect = func(r *http.Request, _ []*http.Request) error { b.over = append(b.over, r.URL.String()); return nil }
	return b
}

// page is what the browser shows at an address, and where it was sent.
func (b *browser) page(method, path string) (status int, said, at string) {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), method, b.home+path, nil)
	if err != nil {
		b.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	a, err := b.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer a.Body.Close()
	var body strings.Builder
	if err := a.Write(&body); err != nil {
		b.Fatal(err)
	}
	return a.StatusCode, body.String(), a.Request.URL.RequestURI()
}

func TestSomebodyComesInByAProviderAndGoesOnToTheirPage(t *testing.T) {
	at := providertest.New(t)
	b := newBrowser(t, newWorld(t, withCorp(at)))
	_, page, _ := b.page(http.MethodGet, "/console/queues?sort=name")
	if !strings.Contains(page, `<a class="btn" href="/console/login/corp?back=%2fconsole%2fqueues%3fsort%3dname">Log in at corp</a>`) {
		t.Fatalf("the page of the login is %s", page)
	}
	status, page, to := b.page(http.MethodGet, "/console/login/corp?back=%2fconsole%2fqueues%3fsort%3dname")
	if status != http.StatusOK || to != "/console/queues?sort=name" || !strings.Contains(page, "corp:ada@example.com") {
		t.Fatalf("it leads to %s (%d): %s", to, status, page)
	}
	_, page, to = b.page(http.MethodPost, "/console/logout")
	if to != "/console/login?out=corp" || !strings.Contains(page, `You are logged out here. <a href="/console/login/corp/out">Log out at corp too</a>`) {
		t.Errorf("the logout leads to %s: %s", to, page)
	}
	b.over = nil
	if status, _, _ := b.page(http.MethodGet, "/console/login/corp/out"); status != http.StatusOK || len(b.over) != 2 || !strings.HasPrefix(b.over[0], at.URL+"/logout?client_id=tidemill&") || b.over[1] != b.home+"/console/login" {
		t.Errorf("the logout at the provider goes over %q, %d", b.over, status)
	}
	if status, _, _ := b.page(http.MethodGet, "/console/me"); status != http.StatusUnauthorized {
		t.Errorf("after the logout the page is answered %d", status)
	}
}

func TestALoginLeadsToNoOtherSite(t *testing.T) {
	w := newWorld(t, withCorp(providertest.New(t)))
	for _, back := range []string{"https://evil.example/", "//evil.example/", "/console//evil.example", "/\\evil.example", "/console/\\evil.example", "javascript:alert(1)", "/elsewhere", "/console/../..//evil.example", "http:/console/x", strings.Repeat("/console/", 500)} {
		b := newBrowser(t, w)
		_, _, _ = b.page(http.MethodGet, "/console/login/corp?back="+url.QueryEscape(back))
		if last := b.over[len(b.over)-1]; last != b.home+"/console/" {
			t.Errorf("%.40q leads to %s", back, last)
		}
	}
}

func TestTheLoginSaysWhyAProviderLetsNobodyIn(t *testing.T) {
	at := providertest.New(t)
	w := newWorld(t, withCorp(at))
	for name, k := range map[string]struct {
		change func()
		status int
		said   string
	}{
		"no role":  {func() { at.Person["groups"] = []string{"others"} }, http.StatusForbidden, "corp:ada@example.com is known to corp, and is in no group that has a role here."},
		"refused":  {func() { at.Deny = "access_denied" }, http.StatusUnauthorized, "corp did not let you in (access_denied)"},
		"away":     {func() { at.Down = true }, http.StatusServiceUnavailable, "corp cannot be reached now"},
		"no place": {func() { at.Found = func(d map[string]any) { delete(d, "end_session_endpoint") } }, 0, ""},
	} {
		at.Set(func() {
			at.Deny, at.Down, at.Found = "", false, nil
			at.Person["groups"] = []string{"support"}
			k.change()
		})
		b := newBrowser(t, newWorld(t, withCorp(at)))
		if k.status == 0 {
			if status, page, _ := b.page(http.MethodGet, "/console/login/corp/out"); status != http.StatusNotFound || !strings.Contains(page, "corp has no address to log out at") {
				t.Errorf("%s: %d: %s", name, status, page)
			}
			continue
		}
		status, page, _ := b.page(http.MethodGet, "/console/login/corp?back=/console/queues")
		if status != k.status || !strings.Contains(page, k.said) || strings.Contains(page, "code=") {
			t.Errorf("%s: %d: %s", name, status, page)
		}
	}
	if status, page, _ := newBrowser(t, w).page(http.MethodGet, "/console/login/none"); status != http.StatusNotFound || !strings.Contains(page, "no provider") {
		t.Errorf("a provider that is none: %d: %s", status, page)
	}
}
