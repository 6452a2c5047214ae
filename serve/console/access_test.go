package console_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/serve/caller"
	state "github.com/tidemill/tidemill/state/access"
)

const phrase = "open sesame, please"

func TestUsersAreAddedChangedAndRemovedByForms(t *testing.T) {
	w := newWorld(t)
	w.Has(w.Page("/console/access"), "No user yet.", "No token was made.", "Nobody is logged in.")
	const add = "/console/access/users/add"
	form := w.Form(add)
	for name, value := range map[string]string{"name": "grace", "role": "admin", "password": "short"} {
		form.Set(name, value)
	}
	rec := w.Ask("POST", add, form)
	if w.Has(rec.Body.String(), "needs 12 to 128"); rec.Code != http.StatusUnprocessableEntity || !strings.Contains(rec.Body.String(), `value="grace"`) || strings.Contains(rec.Body.String(), "short") {
		t.Errorf("a short password is answered %d: %s", rec.Code, rec.Body)
	}
	w.Has(w.Page(w.Confirm(add, url.Values{"name": {"grace"}, "role": {"admin"}, "password": {phrase}})), "The user was added.", "grace", "admin")
	w.Has(w.Page(w.Confirm(add, url.Values{"name": {"joan"}, "role": {"viewer"}, "password": {phrase}})), "joan", "viewer")
	before, err := w.grants.Get(t.Context(), state.User, "joan")
	if err != nil {
		t.Fatal(err)
	}
	w.Has(w.Page(w.Confirm("/console/access/users/joan/role", url.Values{"role": {"operator:delivery viewer"}})), "The role was changed.", "viewer operator:delivery")
	w.Has(w.Page(w.Confirm("/console/access/users/joan/role", url.Values{"role": {"operator"}})), "The role was changed.", "operator")
	w.Has(w.Page(w.Confirm("/console/access/users/joan/password", url.Values{"password": {phrase + " again"}})), "The password was changed.")
	if after, err := w.grants.Get(t.Context(), state.User, "joan"); err != nil || after.Role != "operator" || after.Hash == before.Hash {
		t.Errorf("joan is %+v, %v", after, err)
	}
	if rec := w.Ask("POST", "/console/access/users/grace/remove", w.Form("/console/access/users/grace/remove")); rec.Code != http.StatusUnprocessableEntity {
		t.Errorf("to remove the last admin is answered %d", rec.Code)
	}
	w.Has(w.Page(w.Confirm("/console/access/users/joan/remove", nil)), "The user was removed.")
	if all, err := w.grants.List(t.Context(), state.User, ""); err != nil || len(all) != 1 {
		t.Errorf("there are %d users, %v", len(all), err)
	}
}

func TestTheSecretOfATokenIsShownOnce(t *testing.T) {
	w := newWorld(t)
	const at = "/console/access/tokens/make"
	form := w.Form(at)
	form.Set("name", "ci")
	form.Set("role", "operator")
	form.Set("days", "many")
	if rec := w.Ask("POST", at, form); rec.Code != http.StatusUnprocessableEntity || !strings.Contains(rec.Body.String(), `value="many"`) {
		t.Errorf("days that are none are answered %d", rec.Code)
	}
	form.Set("days", "never")
	rec := w.Ask("POST", at, form)
	secret := regexp.MustCompile(`<pre id="secret">([^<]+)</pre>`).FindStringSubmatch(rec.Body.String())
	if w.Has(rec.Body.String(), "Its secret is shown once."); rec.Code != http.StatusOK || secret == nil || rec.Header().Get("Cache-Control") != "no-store" {
		t.Fatalf("the form is answered %d: %s", rec.Code, rec.Body)
	}
	page := w.Page("/console/access")
	if w.Has(page, "ci", "operator", "never"); strings.Contains(page, secret[1]) {
		t.Error("the list has the secret")
	}
	if page := w.Page("/console/audit"); !strings.Contains(page, "makeToken") || strings.Contains(page, secret[1]) {
		t.Error("the trail has the secret, or not who made it")
	}
	revoke := regexp.MustCompile(`/console/access/tokens/[0-9a-f]+/revoke`).FindString(page)
	w.Has(w.Page(revoke), "It is called token:ci, and has the role operator.")
	w.Has(w.Page(w.Confirm(revoke, nil)), "The token was revoked.", "No token was made.")
	if rec := w.Ask("GET", revoke, nil); rec.Code != http.StatusNotFound || !strings.Contains(rec.Body.String(), "There is no such token.") {
		t.Errorf("a token that was revoked is answered %d", rec.Code)
	}
}

func TestSessionsOfOthersAreEnded(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	w.Has(w.Page("/console/access"), "grace", "browser", "192.0.2.7")
	w.Has(w.Page("/console/access/sessions/0123456789abcdef/end"), "It is of grace, from 192.0.2.7.")
	w.Has(w.Page(w.Confirm("/console/access/sessions/0123456789abcdef/end", nil)), "The session is ended.", "Nobody is logged in.")
}

func TestAccessIsForAdmins(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	w.Who.Rights = caller.All(caller.Operator)
	for _, path := range []string{"/console/access", "/console/access/users/add", "/console/access/tokens/make", "/console/access/users/grace/remove"} {
		if rec := w.Ask("GET", path, nil); rec.Code != http.StatusForbidden {
			t.Errorf("%s is answered %d", path, rec.Code)
		}
	}
	if rec := w.Ask("POST", "/console/access/sessions/0123456789abcdef/end", nil); rec.Code != http.StatusForbidden {
		t.Errorf("an operator who ends a session is answered %d", rec.Code)
	}
	if strings.Contains(w.Page("/console/menu"), `"/console/access"`) {
		t.Error("an operator is led to access")
	}
}

func TestSomebodyChangesTheirPassword(t *testing.T) {
	w := newWorld(t)
	w.Confirm("/console/access/users/add", url.Values{"name": {"ada"}, "role": {"admin"}, "password": {phrase}})
	w.Has(w.Page("/console/me"), "Change your password")
	const at = "/console/me/password"
	form := w.Form(at)
	form.Set("old", "a wrong one, quite long")
	form.Set("new", phrase+" again")
	rec := w.Ask("POST", at, form)
	if w.Has(rec.Body.String(), "the old password is wrong"); rec.Code != http.StatusUnprocessableEntity || strings.Contains(rec.Body.String(), "again") {
		t.Errorf("a wrong password is answered %d", rec.Code)
	}
	w.Has(w.Page(w.Confirm(at, url.Values{"old": {phrase}, "new": {phrase + " again"}})), "The password was changed.")
	w.Who.Via = "token"
	if strings.Contains(w.Page("/console/me"), "Change your password") {
		t.Error("a token has a password")
	}
}

func TestAnOldLoginIsAskedForAgainAndGoesOnWhereItWas(t *testing.T) {
	w := newWorld(t)
	w.Who.Entered = time.Now().Add(-16 * time.Minute)
	const add = "/console/access/users/add"
	for _, method := range []string{"GET", "POST"} {
		rec := w.Ask(method, add, url.Values{"name": {"eve"}, "role": {"admin"}, "password": {phrase}})
		if w.Has(rec.Body.String(), "This needs a login that is not older than 15 minutes: log in again"); rec.Code != http.StatusForbidden || w.Hidden(rec.Body.String(), "back") != add {
			t.Errorf("%s is answered %d: %s", method, rec.Code, rec.Body)
		}
	}
	if all, err := w.grants.List(t.Context(), state.User, ""); err != nil || len(all) != 0 {
		t.Errorf("there are %+v, %v", all, err)
	}
	rec := w.Ask("POST", "/console/login", url.Values{"token": {"the token"}, "back": {add}})
	if to := rec.Header().Get("Location"); to != add {
		t.Fatalf("the login leads to %s", to)
	}
	w.Has(w.Page(add), "Add a user")
}
