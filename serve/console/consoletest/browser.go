// Package consoletest is what tests of the console's pages share: a browser without script, and what
// holds of all pages, those of systems too.
package consoletest

import (
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/serve/access"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/serve/console"
)

// Browser looks at pages as somebody, without script.
type Browser struct {
	*testing.T
	Who   caller.Caller
	Pages http.Handler
	API   *admin.API
}

// Admin is somebody who may do everything.
var Admin = caller.Caller{Name: "ada", Rights: caller.All(caller.Admin), Payloads: true, Via: "password"}

// New is a browser of an admin, at the console of an API. Without a gate of its own it is that too.
func New(t *testing.T, a admin.Parts, c console.Parts) *Browser {
	t.Helper()
	b := &Browser{T: t, Who: Admin, API: admin.New(a)}
	if c.Gate == nil {
		c.Gate = b
	}
	c.API, c.Operations = operation.Inside(b.API.Inside()), b.API.Operations()
	pages, err := console.New(c)
	if err != nil {
		t.Fatal(err)
	}
	b.Pages = pages
	return b
}

// Caller is who looks. It and the next ones are the gate of the console.
func (b *Browser) Caller(*http.Request) (caller.Caller, error) {
	if b.Who.Rights == (caller.Rights{}) {
		return caller.Caller{}, operation.Refuse(http.StatusUnauthorized, "nobody is logged in")
	}
	return b.Who, nil
}

// Enter lets in who has the token of the tests.
func (b *Browser) Enter(_ http.ResponseWriter, _ *http.Request, by access.Proof) (caller.Caller, error) {
	if by.Token != "the token" && by.Link != "the secret" {
		return caller.Caller{}, operation.Refuse(http.StatusUnauthorized, "the token is wrong")
	}
	b.Who = Admin
	return b.Who, nil
}

// Leave lets them out.
func (b *Browser) Leave(http.ResponseWriter, *http.Request) error {
	b.Who = caller.Caller{}
	return nil
}

// Ways are all but passwords.
func (b *Browser) Ways(*http.Request) access.Ways { return access.Ways{Token: true, Link: true} }

// Ask sends a request as a browser does that shows a page of the console.
func (b *Browser) Ask(method, path string, form url.Values, headers ...string) *httptest.ResponseRecorder {
	b.Helper()
	r := httptest.NewRequestWithContext(b.Context(), method, "http://console.example"+path, strings.NewReader(form.Encode()))
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	rec := httptest.NewRecorder()
	b.Pages.ServeHTTP(rec, r)
	return rec
}

// Page is one that is there.
func (b *Browser) Page(path string) string {
	b.Helper()
	rec := b.Ask(http.MethodGet, path, nil)
	if rec.Code != http.StatusOK {
		b.Fatalf("%s is answered %d: %s", path, rec.Code, Text(rec.Body.String()))
	}
	return rec.Body.String()
}

// Confirm does what the page of an action asks for: it reads the form, as somebody without script
// does, and sends it. It returns where the browser is sent.
func (b *Browser) Confirm(path string, more url.Values) string {
	b.Helper()
	form := b.Form(path)
	for name, values := range more {
		form[name] = values
	}
	rec := b.Ask(http.MethodPost, path, form)
	if rec.Code != http.StatusSeeOther {
		b.Fatalf("the form of %s is answered %d: %s", path, rec.Code, Text(rec.Body.String()))
	}
	return rec.Header().Get("Location")
}

// Form is what the form of an action carries along.
func (b *Browser) Form(path string) url.Values {
	b.Helper()
	form := url.Values{}
	for _, m := range carried.FindAllStringSubmatch(b.Page(path), -1) {
		form.Set(m[1], Unescape.Replace(m[2]))
	}
	return form
}

// Turned is the address of the page before or after one.
func (b *Browser) Turned(page, rel string) string {
	b.Helper()
	m := regexp.MustCompile(`<a rel="` + rel + `" href="([^"]+)"`).FindStringSubmatch(page)
	if m == nil {
		b.Fatalf("there is no page %s: %s", rel, Text(page))
	}
	return Unescape.Replace(m[1])
}

// Hidden is the value of a field that a form carries along.
func (b *Browser) Hidden(page, name string) string {
	b.Helper()
	m := regexp.MustCompile(`<input type="hidden" name="` + name + `" value="([^"]*)">`).FindStringSubmatch(page)
	if m == nil {
		b.Fatalf("the page has no field %s: %s", name, Text(page))
	}
	return Unescape.Replace(m[1])
}

// Unescape reads the entities of a page.
var Unescape = strings.NewReplacer("&#34;", `"`, "&#39;", "'", "&lt;", "<", "&gt;", ">", "&#43;", "+", "&amp;", "&")

var (
	carried = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)
	tags    = regexp.MustCompile(`(?s)<script.*?</script>|<[^>]*>`)
	spaces  = regexp.MustCompile(`\s+`)
)

// Text is what a page says.
func Text(page string) string {
	return spaces.ReplaceAllString(Unescape.Replace(tags.ReplaceAllString(page, " ")), " ")
}

// Has checks what a page says.
func (b *Browser) Has(page string, wants ...string) {
	b.Helper()
	said := Text(page)
	for _, want := range wants {
		if !strings.Contains(said, want) {
			b.Errorf("the page does not say %q: %s", want, said)
		}
	}
}

// Copies holds that a page has a button that copies each of these texts.
func (b *Browser) Copies(path string, texts ...string) {
	b.Helper()
	page := b.Page(path)
	for _, text := range texts {
		if !strings.Contains(page, `data-text="`+html.EscapeString(text)+`"`) {
			b.Errorf("%s has no button that copies %s", path, text)
		}
	}
}
