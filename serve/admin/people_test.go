package admin_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/serve/access"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/caller"
	state "github.com/tidemill/tidemill/state/access"
	"github.com/tidemill/tidemill/state/access/tableaccess"
)

// withPeople is an API that keeps users in memory.
func withPeople(t *testing.T) *desk {
	store := tableaccess.Memory()
	return newDesk(t, admin.Parts{Config: constant(loaded(t)), Views: store.Views(), People: access.Options{Store: store, Cost: access.Cost{KiB: 64, Passes: 1}}})
}

// as asks as somebody with a token, or with a cookie.
func (d *desk) as(who any, method, path, body string) *httptest.ResponseRecorder {
	d.Helper()
	w, r := httptest.NewRecorder(), request(method, admin.Prefix+path, body)
	r.Header.Del("Authorization")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	switch who := who.(type) {
	case string:
		r.Header.Set("Authorization", "Bearer "+who)
	case *http.Cookie:
		r.AddCookie(who)
	}
	d.api.ServeHTTP(w, r)
	asDescribed(d.T, r, w)
	return w
}

// enter logs in.
func (d *desk) enter(by access.Proof) *http.Cookie {
	d.Helper()
	w, r := httptest.NewRecorder(), request(http.MethodPost, "/console/login", "")
	r.Header.Del("Authorization")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if _, err := d.api.Gate().Enter(w, r, by); err != nil {
		d.Fatal(err)
	}
	return w.Result().Cookies()[0]
}

const phrase = "open sesame, please"

func (d *desk) addUser(name, role string) {
	d.Helper()
	d.post("users", fmt.Sprintf(`{"name": %q, "role": %q, "password": %q}`, name, role, phrase))
}

func TestUsersAreAddedChangedAndRemoved(t *testing.T) {
	d := withPeople(t)
	d.addUser("root", "admin")
	d.addUser("ada", "viewer")
	ada := d.enter(access.Proof{Name: "ada", Password: phrase})
	d.as(ada, "GET", "me", "")
	refused(t, d.ask("POST", "users", fmt.Sprintf(`{"name": "ada", "role": "viewer", "password": %q}`, phrase)), 409, "of that name already")
	for body, want := range map[string]string{
		`{"name": "Eve", "role": "viewer", "password": "` + phrase + `"}`: "is no name",
		`{"name": "eve", "role": "owner", "password": "` + phrase + `"}`:  "is no role",
		`{"name": "eve", "role": "nobody", "password": "` + phrase + `"}`: "is no role",
		`{"name": "eve", "role": "viewer", "password": "short"}`:          "needs 12 to 128",
		`{"name": "eve", "role": "viewer", "pasword": "` + phrase + `"}`:  "pasword",
	} {
		refused(t, d.ask("POST", "users", body), 400, want)
	}
	all := lines(d.get("users"))
	slices.SortFunc(all, func(a, b string) int { return cmp.Compare(d.field(a, "name").(string), d.field(b, "name").(string)) })
	if len(all) != 2 || d.field(all[0], "name") != "ada" || d.field(all[1], "role") != "admin" || d.field(all[0], "added_by") != "key:admin" {
		t.Errorf("the users are %v", all)
	}
	refused(t, d.ask("POST", "users/root/remove", ""), 409, "the last user with the role admin")
	refused(t, d.ask("POST", "users/root/role?role=viewer", ""), 409, "the last user with the role admin")
	refused(t, d.ask("POST", "users/root/role", ""), 400, "role")
	refused(t, d.ask("POST", "users/bob/role?role=viewer", ""), 404, "there is none")
	refused(t, d.ask("POST", "users/bob/remove", ""), 404, "there is none")
	refused(t, d.as(ada, "POST", "users/ada/role?role=admin", ""), 403, "setUserRole needs the role admin, and ada has the role viewer")
	if d.field(d.post("users/ada/role?role=operator", ""), "role") != "operator" {
		t.Error("ada is no operator")
	}
	seen := d.tag("users/ada")
	d.good(d.change("users/ada/role?role=viewer", "", seen))
	if w := d.change("users/ada/role?role=admin", "", seen); !strings.Contains(w.Body.String(), `"now":{"name":"ada","role":"viewer"`) {
		t.Errorf("who gives a role to somebody who has another one meanwhile is answered %d %s", w.Code, w.Body)
	}
	refused(t, d.change("users/ada/role?role=admin", ""), 428, "If-Match")
	if d.field(d.get("users/ada"), "role") != "viewer" {
		t.Error("a role was given that nobody meant to give")
	}
	refused(t, d.as(ada, "GET", "me", ""), 401, "the session is over")
	ada = d.enter(access.Proof{Name: "ada", Password: phrase})
	d.post("users/ada/password", `{"password": "another long phrase"}`)
	refused(t, d.as(ada, "GET", "me", ""), 401, "the session is over")
	ada = d.enter(access.Proof{Name: "ada", Password: "another long phrase"})
	d.post("users/ada/remove", "")
	refused(t, d.as(ada, "GET", "me", ""), 401, "the session is over")
	if s := d.get("users") + d.log.String(); strings.Contains(s, "argon2") || strings.Contains(s, "long phrase") {
		t.Errorf("secrets are shown:\n%s", s)
	}
}

func TestMeIsWhoAsksAndWhatTheyMay(t *testing.T) {
	d := withPeople(t)
	d.addUser("ada", "viewer")
	ada := d.enter(access.Proof{Name: "ada", Password: phrase})
	var me api.Me
	d.into(d.good(d.as(ada, "GET", "me", "")), &me)
	if me.Name != "ada" || me.Role != caller.All(caller.Viewer) || me.Payloads || me.Via != "password" || me.Session == "" || me.Entered == nil {
		t.Errorf("ada is %+v", me)
	}
	if !slices.Contains(me.May, "listDead") || slices.Contains(me.May, "replayDead") || slices.Contains(me.May, "listUsers") {
		t.Errorf("ada may %v", me.May)
	}
	me = api.Me{}
	d.into(d.get("me"), &me)
	if me.Name != "key:admin" || !me.Payloads || me.Via != "key" || len(me.May) != len(d.api.Operations()) {
		t.Errorf("the key is %+v", me)
	}
}

func TestOnesOwnPassword(t *testing.T) {
	d := withPeople(t)
	d.addUser("ada", "viewer")
	here, there := d.enter(access.Proof{Name: "ada", Password: phrase}), d.enter(access.Proof{Name: "ada", Password: phrase})
	refused(t, d.as(here, "POST", "me/password", `{"old": "wrong", "new": "another long phrase"}`), 403, "the old password is wrong")
	refused(t, d.as(here, "POST", "me/password", fmt.Sprintf(`{"old": %q, "new": "short"}`, phrase)), 400, "needs 12 to 128")
	d.good(d.as(here, "POST", "me/password", fmt.Sprintf(`{"old": %q, "new": "another long phrase"}`, phrase)))
	d.good(d.as(here, "GET", "me", ""))
	refused(t, d.as(there, "GET", "me", ""), 401, "the session is over")
	d.enter(access.Proof{Name: "ada", Password: "another long phrase"})
	refused(t, d.ask("POST", "me/password", fmt.Sprintf(`{"old": %q, "new": %q}`, phrase, phrase)), 409, "has no password")
	last := 0
	for range 12 {
		last = d.as(here, "POST", "me/password", `{"old": "wrong", "new": "another long phrase"}`).Code
	}
	if last != http.StatusTooManyRequests {
		t.Errorf("who goes on guessing is answered %d", last)
	}
}

// overtaken lets somebody else change a user just before a change of it.
type overtaken struct {
	state.Store
	by func(*state.Grant)
}

func (o *overtaken) Change(ctx context.Context, kind state.Kind, id string, c state.Change) (state.Grant, error) {
	if by := o.by; kind == state.User && by != nil {
		o.by = nil
		if g, err := o.Store.Change(ctx, kind, id, state.Change{Do: func(g *state.Grant) error { by(g); return nil }}); err != nil {
			return g, err
		}
	}
	return o.Store.Change(ctx, kind, id, c)
}

func TestAPasswordThatAnAdminGivesMeanwhileStays(t *testing.T) {
	store := &overtaken{Store: tableaccess.Memory()}
	d := newDesk(t, admin.Parts{Config: constant(loaded(t)), People: access.Options{Store: store, Cost: access.Cost{KiB: 64, Passes: 1}}})
	d.addUser("ada", "viewer")
	ada := d.enter(access.Proof{Name: "ada", Password: phrase})
	store.by = func(g *state.Grant) { g.Hash = "of another one" }
	refused(t, d.as(ada, "POST", "me/password", fmt.Sprintf(`{"old": %q, "new": "another long phrase"}`, phrase)), 409, "was changed meanwhile")
	if g, err := store.Get(t.Context(), state.User, "ada"); err != nil || g.Hash != "of another one" {
		t.Errorf("the password is %q, %v", g.Hash, err)
	}
}

func TestTokensAreMadeShownOnceAndRevoked(t *testing.T) {
	d := withPeople(t)
	made := d.post("tokens?name=ci&role=operator", "")
	var token api.MadeToken
	d.into(made, &token)
	if token.Name != "token:ci" || token.Role != caller.All(caller.Operator) || token.Until == nil || token.Until.Sub(token.Made).Hours() != 90*24 || !strings.HasPrefix(token.Secret, access.TokenPrefix) {
		t.Errorf("the token is %+v", token)
	}
	refused(t, d.ask("POST", "tokens?name=ci", ""), 409, "of that name already")
	for query, want := range map[string]string{"": "is no name", "name=x&role=root": "role", "name=x&days=0": "1 to 3650", "name=x&days=4000": "1 to 3650", "name=x&days=soon": "or never"} {
		refused(t, d.ask("POST", "tokens?"+query, ""), 400, want)
	}
	if d.field(d.post("tokens?name=ever&days=never", ""), "ends_at") != nil {
		t.Error("a token without an end has one")
	}
	d.good(d.as(token.Secret, "GET", "status", ""))
	refused(t, d.as(token.Secret, "GET", "tokens", ""), 403, "listTokens needs the role admin, and token:ci has the role operator")
	all := d.get("tokens")
	if strings.Contains(all, token.Secret) || d.field(lines(all)[0], "used_at") == nil || d.field(lines(all)[0], "role") != "operator" {
		t.Errorf("the tokens are %s", all)
	}
	if d.field(d.post("tokens/"+token.ID+"/revoke", ""), "name") != "token:ci" {
		t.Error("another one was revoked")
	}
	refused(t, d.as(token.Secret, "GET", "status", ""), 401, "the API needs its token")
	for _, id := range []string{token.ID, "x", "0123456789abcdef"} {
		w := d.ask("POST", "tokens/"+id+"/revoke", "")
		if w.Code != 404 {
			t.Errorf("revoking %s is answered %d", id, w.Code)
		}
	}
}

func TestNothingIsKeptOfASecretForAnIdempotencyKey(t *testing.T) {
	d := withPeople(t)
	for path, body := range map[string]string{"tokens?name=ci": "", "console/link": "", "users": "{}", "users/ada/password": "{}", "me/password": "{}"} {
		w, r := httptest.NewRecorder(), request(http.MethodPost, admin.Prefix+path, body)
		r.Header.Set("Idempotency-Key", "k")
		d.api.ServeHTTP(w, r)
		refused(t, w, 400, "takes no Idempotency-Key")
	}
}

func TestSessionsAreListedAndEnded(t *testing.T) {
	d := withPeople(t)
	d.addUser("ada", "viewer")
	d.addUser("bob", "viewer")
	here, there, bob := d.enter(access.Proof{Name: "ada", Password: phrase}), d.enter(access.Proof{Name: "ada", Password: phrase}), d.enter(access.Proof{Name: "bob", Password: phrase})
	sessions := func(s string) (all []api.Session) {
		for _, line := range lines(s) {
			var one api.Session
			if err := json.Unmarshal([]byte(line), &one); err != nil {
				t.Fatal(err)
			}
			all = append(all, one)
		}
		return all
	}
	own := sessions(d.good(d.as(here, "GET", "me/sessions", "")))
	if len(own) != 2 || own[0].Name != "ada" || own[0].This == own[1].This || own[0].From != "127.0.0.1" || own[0].Via != "password" {
		t.Fatalf("ada's are %+v", own)
	}
	bobs := sessions(d.get("sessions?name=bob"))
	if all := sessions(d.get("sessions")); len(all) != 3 || len(bobs) != 1 {
		t.Errorf("all are %+v, bob's %+v", all, bobs)
	}
	refused(t, d.as(here, "POST", "me/sessions/"+bobs[0].ID+"/end", ""), 404, "ada has no session")
	refused(t, d.as(here, "POST", "sessions/"+bobs[0].ID+"/end", ""), 403, "endSession needs the role admin")
	refused(t, d.as(here, "POST", "me/sessions/"+own[0].ID[:3]+"/end", ""), 404, "ada has no session")
	for _, s := range own {
		if !s.This {
			d.good(d.as(here, "POST", "me/sessions/"+s.ID+"/end", ""))
		}
	}
	refused(t, d.as(there, "GET", "me", ""), 401, "the session is over")
	d.good(d.as(here, "GET", "me", ""))
	d.post("sessions/"+bobs[0].ID+"/end", "")
	refused(t, d.as(bob, "GET", "me", ""), 401, "the session is over")
}

func TestALinkLetsInAsAdmin(t *testing.T) {
	d := withPeople(t)
	path, _ := d.field(d.post("console/link", ""), "path").(string)
	before, secret, ok := strings.Cut(path, "#")
	if !ok || before != "/console/login" {
		t.Fatalf("the link is %q", path)
	}
	if d.field(d.good(d.as(d.enter(access.Proof{Link: secret}), "GET", "me", "")), "name") != "local" {
		t.Error("somebody else came in")
	}
}

func TestWithoutAStoreThereAreNoPeople(t *testing.T) {
	d := newDesk(t, admin.Parts{})
	refused(t, d.ask("GET", "users", ""), 404, "no database that keeps users")
	if d.field(d.get("me"), "name") != "key:admin" {
		t.Error("the key is nobody")
	}
}
