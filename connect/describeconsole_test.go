package connect

import (
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// browse asks for a page of the console as an operator, with a form or without.
func (r *reloaded) browse(path string, form url.Values) *httptest.ResponseRecorder {
	r.t.Helper()
	method := http.MethodGet
	if form != nil {
		method = http.MethodPost
	}
	req := httptest.NewRequest(method, "http://localhost/console/"+path, strings.NewReader(form.Encode()))
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	r.byOperator(req)
	w := httptest.NewRecorder()
	r.ServeHTTP(w, req)
	return w
}

// page is one that is there, with what it says in wants; it never says what is secret.
func (r *reloaded) page(path string, wants ...string) string {
	r.t.Helper()
	return r.says(r.browse(path, nil), http.StatusOK, wants...)
}

func (r *reloaded) says(w *httptest.ResponseRecorder, code int, wants ...string) string {
	r.t.Helper()
	text := html.UnescapeString(w.Body.String())
	if w.Code != code {
		r.t.Fatalf("answered %d, want %d: %s", w.Code, code, text)
	}
	for _, want := range wants {
		if !strings.Contains(text, want) {
			r.t.Errorf("the page does not say %q: %s", want, text)
		}
	}
	if strings.Contains(text, "canary") {
		r.t.Errorf("the page shows a secret: %s", text)
	}
	return text
}

var (
	inputs    = regexp.MustCompile(`<input [^>]*?name="([^"]+)"[^>]*? value="([^"]*)"`)
	textareas = regexp.MustCompile(`(?s)<textarea [^>]*?name="([^"]+)"[^>]*>\n(.*?)</textarea>`)
	selected  = regexp.MustCompile(`<select id="[^"]*" name="([^"]+)"[^>]*>.*?<option selected>([^<]*)<`)
)

// form is that of a page, as it is filled in already.
func form(t *testing.T, w *httptest.ResponseRecorder) url.Values {
	t.Helper()
	form := url.Values{}
	body := w.Body.String()
	if _, body, _ = strings.Cut(body, "data-ask"); body == "" {
		t.Fatalf("it has no form: %d %s", w.Code, w.Body)
	}
	for _, of := range []*regexp.Regexp{inputs, textareas, selected} {
		for _, m := range of.FindAllStringSubmatch(body, -1) {
			form.Set(m[1], html.UnescapeString(m[2]))
		}
	}
	return form
}

// A partner comes, is changed by two people at once, and goes, by forms alone.
func TestAPartnerIsDescribedByForms(t *testing.T) {
	r := reloadable(t, fileOfShop, nil)
	one, two := newPartner(t), newPartner(t)
	r.page("descriptions", "fixed", r.path+":5", "read-only here", "Add a partner", "Add a site")
	r.page("descriptions/partner/fixed", `event.eventType == "purchase"`, "It is read-only here")
	r.page("descriptions/partner/fixed/change", "It is described in the file of this instance, "+r.path+":5")
	r.page("descriptions/partner/fixed/remove", "is read-only here")

	add := form(t, r.browse("descriptions/add/partner", nil))
	r.page("descriptions/add/partner", "0: no limit", "https URL; {name} is a setting", "Settings of breaker", "Settings of queue")
	add.Set("name", "ads")
	add.Set("set.endpoint", one.URL)
	add.Set("set.timeout", "soon")
	add.Set("set.queue.full", "explode")
	add.Set("set.mapping", "- {field: a")
	w := r.browse("descriptions/add/partner", add)
	r.says(w, http.StatusUnprocessableEntity, `href="#in-set.mapping"`, "want a list of groups of settings")
	add = form(t, w)
	add.Set("set.mapping", "")
	w = r.browse("descriptions/add/partner", add)
	text := r.says(w, http.StatusUnprocessableEntity, `href="#in-set.timeout"`, "timeout: want a duration such as 10s, 24h or 7d", `value="soon"`, `value="`+one.URL+`"`, `value="explode"`)
	if !regexp.MustCompile(`<input id="in-set.timeout"[^>]* aria-invalid="true" aria-describedby="wrong-set.timeout"`).MatchString(text) {
		t.Errorf("the mistake is not at its field: %s", text)
	}
	add = form(t, w)
	add.Set("set.timeout", "9s")
	w = r.browse("descriptions/add/partner", add)
	r.says(w, http.StatusUnprocessableEntity, `href="#in-set.queue.full"`, "want hold, dead_letter or drop_oldest")
	add = form(t, w)
	add.Set("set.queue.full", "dead_letter")
	w = r.browse("descriptions/add/partner", add)
	r.says(w, http.StatusUnprocessableEntity, "http", `href="#in-set.endpoint"`)
	add = form(t, w)
	add.Set("set.allowHttp", "true")
	add.Set("set.allowPrivate", "127.0.0.0/8")
	add.Set("set.headers", "X-Key: canary-1\nX-Other: canary-2")
	add.Set("set.endpoint", one.URL+"/?key=canary-3")
	add.Set("check", "true")
	if w = r.browse("descriptions/add/partner", add); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "Nothing is wrong with it.") || !strings.Contains(w.Body.String(), "added <span class=\"id\">delivery.partners[ads]") {
		t.Fatalf("checked: %d %s", w.Code, w.Body)
	}
	r.says(r.browse("descriptions/partner/ads", nil), http.StatusNotFound, "no partner ads")
	add = form(t, w) // with what was typed, secrets too
	if w = r.browse("descriptions/add/partner", add); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/console/descriptions/partner/ads?done=description.added" {
		t.Fatalf("added: %d %s %s", w.Code, w.Header(), w.Body)
	}
	r.page("descriptions/partner/ads?done=description.added", "It is in force in all instances.", "the database", "dead_letter", one.URL+"/?[secret]", "X-Key: [secret]", "applied", "(this one)", "addDescription", "How it stands")
	r.page("descriptions", "ads", "the database")
	if w = r.browse("descriptions/add/partner", add); w.Code != http.StatusSeeOther { // sent twice, it is done once
		t.Errorf("the same form is answered %d", w.Code)
	}
	add.Del("key")
	if w = r.browse("descriptions/add/partner", add); w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), "there is a partner ads already") {
		t.Errorf("added twice: %d %s", w.Code, w.Body)
	}
	arrives(t, one, taken(t, r.Instance, "key-of-the-shop-1", 1))

	mine, theirs := r.browse("descriptions/partner/ads/change", nil), r.browse("descriptions/partner/ads/change", nil)
	r.says(mine, http.StatusOK, "It is set, and not shown.", "X-Other: [secret]")
	f := form(t, theirs)
	f.Set("set.timeout", "5s")
	f.Set("set.workers", "3")
	if w = r.browse("descriptions/partner/ads/change", f); w.Code != http.StatusSeeOther {
		t.Fatalf("changed: %d %s", w.Code, w.Body)
	}
	f = form(t, mine)
	f.Set("set.timeout", "7s")
	f.Set("set.headers", "X-Key: [secret]\nX-New: new")
	w = r.browse("descriptions/partner/ads/change", f)
	r.says(w, http.StatusUnprocessableEntity, "has changed it while you filled in this form", `value="7s"`, "It is now: <code>5s</code>", "X-New: new")
	f = form(t, w)
	if f.Get("set.workers") != "3" {
		t.Errorf("what only somebody else changed is %q", f.Get("set.workers"))
	}
	if w = r.browse("descriptions/partner/ads/change", f); w.Code != http.StatusSeeOther {
		t.Fatalf("changed after the conflict: %d %s", w.Code, w.Body)
	}
	r.page("descriptions/partner/ads", "7s", "X-Key: [secret]\nX-New: [secret]", "workers", one.URL+"/?[secret]")
	arrives(t, one, taken(t, r.Instance, "key-of-the-shop-1", 2)) // the endpoint and its header were kept
	if !strings.Contains(one.header("X-Key"), "canary-1") || one.header("X-Other") != "" || one.header("X-New") != "new" {
		t.Errorf("it is sent X-Key %q, X-Other %q, X-New %q", one.header("X-Key"), one.header("X-Other"), one.header("X-New"))
	}
	f = form(t, r.browse("descriptions/partner/ads/change", nil))
	f.Set("set.endpoint", two.URL)
	f.Set("set.queue.full", "")
	if w = r.browse("descriptions/partner/ads/change", f); w.Code != http.StatusSeeOther {
		t.Fatalf("changed: %d %s", w.Code, w.Body)
	}
	arrives(t, two, taken(t, r.Instance, "key-of-the-shop-1", 3))
	if text := r.page("descriptions/partner/ads"); strings.Contains(text, "dead_letter") {
		t.Error("a setting that was emptied is there")
	}

	if w = r.browse("partners/ads/off", form(t, r.browse("partners/ads/off", nil))); w.Code != http.StatusSeeOther {
		t.Fatalf("switched off: %d %s", w.Code, w.Body)
	}
	r.page("partners/ads", "Switch it on", "Switched off", "descriptions/partner/ads")
	if w = r.browse("partners/ads/close", form(t, r.browse("partners/ads/close", nil))); w.Code != http.StatusSeeOther {
		t.Fatalf("switched on: %d %s", w.Code, w.Body)
	}
	stale := form(t, r.browse("descriptions/partner/ads/remove", nil))
	f = form(t, r.browse("descriptions/partner/ads/change", nil))
	f.Set("set.workers", "4")
	r.browse("descriptions/partner/ads/change", f)
	r.says(r.browse("descriptions/partner/ads/remove", stale), http.StatusUnprocessableEntity, "somebody else has changed it since you looked")
	w = r.browse("descriptions/partner/ads/remove", nil)
	r.says(w, http.StatusOK, "Remove the partner ads?", "Nothing waits for it.", "no request to it is under way")
	if w = r.browse("descriptions/partner/ads/remove", form(t, w)); w.Code != http.StatusSeeOther || !strings.Contains(w.Header().Get("Location"), "done=description.removed") {
		t.Fatalf("removed: %d %s %s", w.Code, w.Header(), w.Body)
	}
	r.page("descriptions?kind=partner&done=description.removed", "It is removed in all instances.", "applied")
	r.page("audit?thing=partner/ads", "removeDescription", "changeDescription", "7s")
}

// What was typed is not lost where the description was removed meanwhile.
func TestAFormOfWhatWasRemoved(t *testing.T) {
	r := reloadable(t, fileOfShop, nil)
	describedNow(t, asked(r.Instance, "descriptions/site/blog/add", `{"keys":["key-of-the-blog-canary"],"daily":7}`))
	w := r.browse("descriptions/site/blog/change", nil)
	r.says(w, http.StatusOK, "keys_sha256", "added to those that there are")
	f := form(t, w)
	hash := f.Get("set.keys_sha256")
	f.Set("set.keys", "another-key-of-the-blog")
	if w := r.browse("descriptions/site/blog/change", f); w.Code != http.StatusSeeOther {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if text := r.page("descriptions/site/blog", hash); strings.Contains(text, "another-key") {
		t.Error("a key is shown")
	}
	for n, key := range []string{"key-of-the-blog-canary", "another-key-of-the-blog"} {
		id := fmt.Sprintf("0190f3c2-0000-7000-8000-%012d", n)
		if code, answer := send(r.Instance, "/v1/events", key, id, strings.Replace(fmt.Sprintf(viewed, id), `"shop"`, `"blog"`, 1)); code != http.StatusAccepted {
			t.Errorf("key %d is answered %d: %s", n, code, answer)
		}
	}
	f = form(t, r.browse("descriptions/site/blog/change", nil))
	f.Set("set.daily", "9")
	describedNow(t, asked(r.Instance, "descriptions/site/blog/remove", ""))
	r.says(r.browse("descriptions/site/blog/change", f), http.StatusUnprocessableEntity, "describes no site blog", `value="9"`)
}
