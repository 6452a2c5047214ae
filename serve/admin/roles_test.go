package admin_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/serve/access"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/state/trail"
	"github.com/tidemill/tidemill/state/trail/tabletrail"
	"github.com/tidemill/tidemill/systems"
)

// rolesOf are those that do not follow from the method: a viewer may read, and an operator change.
// Whoever adds another exception says so here.
var rolesOf = map[string]caller.Role{
	"search": caller.Operator, // it looks into payloads
	"scan":   caller.Operator, // it reads every job

	"listAuditTrail": caller.Admin, "checkAuditTrail": caller.Admin,
	"setMyPassword": caller.Viewer, "endMySession": caller.Viewer, "saveView": caller.Viewer, "changeView": caller.Viewer, "removeView": caller.Viewer, // of their own
	"listUsers": caller.Admin, "getUser": caller.Admin, "addUser": caller.Admin, "setUserRole": caller.Admin, "setUserPassword": caller.Admin, "removeUser": caller.Admin,
	"listTokens": caller.Admin, "makeToken": caller.Admin, "revokeToken": caller.Admin, "listSessions": caller.Admin, "endSession": caller.Admin, "makeLink": caller.Admin,
	"listKeys": caller.Admin, "makeKey": caller.Admin, "revokeKey": caller.Admin,

	"makeBackup":   caller.Admin, // it has every secret
	"reloadConfig": caller.Admin, "previewReload": caller.Admin,
	"addDescription": caller.Admin, "changeDescription": caller.Admin, "removeDescription": caller.Admin,
	"pausePipeline": caller.Admin, "resumePipeline": caller.Admin, // of one instance
	"adoptWindows": caller.Admin, "giveUpFile": caller.Admin, // they cannot be undone
	"sendEvents": caller.Admin, "sendCRM": caller.Admin, "sendDelivery": caller.Admin, "sendEntries": caller.Admin, "sendRecords": caller.Admin, // without an ingest key
}

// freshOf are the operations that need a fresh login.
var freshOf = []string{"addUser", "setUserRole", "setUserPassword", "removeUser", "makeToken", "revokeToken", "endSession", "makeLink", "adoptWindows"}

func TestWhatGivesRightsNeedsAFreshLogin(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	tr := tabletrail.Memory()
	d := newDesk(t, admin.Parts{Config: constant(loaded(t)), Trail: tr, Doctor: func(context.Context) []preflight.Finding { return nil }, People: access.Options{Now: func() time.Time { return now }}})
	for _, h := range d.api.Operations() {
		if h.Fresh != slices.Contains(freshOf, h.ID) {
			t.Errorf("%s: that it needs a fresh login is %v: where that is meant, it stands in freshOf", h.ID, h.Fresh)
		}
		for age, again := range map[time.Duration]bool{15 * time.Minute: false, 15*time.Minute + time.Second: h.Fresh} {
			w := httptest.NewRecorder()
			r := request(h.Method, admin.Prefix+strings.NewReplacer("{", "", "}", "").Replace(h.Path), "")
			d.api.Inside().ServeHTTP(w, r.WithContext(caller.With(r.Context(), caller.Caller{Name: "ada", Rights: caller.All(caller.Admin), Entered: now.Add(-age)})))
			if got := w.Code/100 != 2 && strings.Contains(w.Body.String(), `"type":"`+operation.LoginAgain); got != again || again && w.Code != http.StatusForbidden {
				t.Errorf("%s, %v after the login, is answered %d: %s", h.ID, age, w.Code, w.Body)
			}
		}
	}
	all, err := tr.List(t.Context(), trail.Filter{Operation: "addUser", Outcome: trail.Refused, Most: 10})
	if err != nil || len(all) != 1 || all[0].Status != http.StatusForbidden {
		t.Errorf("the trail has %+v, %v", all, err)
	}
}

// wanted is the role that an operation is to need.
func wanted(h operation.Handler) caller.Role {
	if r, ok := rolesOf[h.ID]; ok {
		return r
	}
	if h.Method == http.MethodGet {
		return caller.Viewer
	}
	return caller.Operator
}

// wholeOf are the operations that concern the whole instance, and need their role for all systems.
// Those of a system concern that one, and all others what is of several systems.
var wholeOf = []string{"getConfig", "getDoctor", "getInstances", "pausePipeline", "resumePipeline", "makeBackup", "reloadConfig", "previewReload", "listDescriptions", "listDescriptionSettings", "getDescription", "addDescription", "changeDescription", "removeDescription", "listAuditTrail", "checkAuditTrail",
	"listKeys", "makeKey", "revokeKey", "listUsers", "getUser", "addUser", "setUserRole", "setUserPassword", "removeUser", "listTokens", "makeToken", "revokeToken", "listSessions", "endSession", "makeLink"}

// concerns are what the operations are to concern.
func concerns() map[string]string {
	of := map[string]string{}
	for _, id := range wholeOf {
		of[id] = ""
	}
	for _, s := range systems.All() {
		for _, h := range s.Operations {
			of[h.ID] = s.Name
		}
	}
	return of
}

func TestEveryOperationIsForItsRoleAndNoOther(t *testing.T) {
	d := newDesk(t, admin.Parts{Config: constant(loaded(t)), Doctor: func(context.Context) []preflight.Finding { return nil }})
	seen, of := map[string]bool{}, concerns()
	for _, h := range d.api.Operations() {
		want, system := wanted(h), operation.Each
		if known, ok := of[h.ID]; ok {
			system = known
		}
		if seen[h.ID] = true; h.Role != want || h.System != system {
			t.Errorf("%s is for the role %v of %q, want %v of %q: where that is meant, it stands in rolesOf or wholeOf", h.ID, h.Role, h.System, want, system)
		}
		for role := caller.Nobody; role <= caller.Admin; role++ {
			w := requested(d, h, caller.All(role))
			switch {
			case role == caller.Nobody:
				if refused(t, w, http.StatusUnauthorized, "nobody is logged in"); w.Header().Get("WWW-Authenticate") != "Bearer" {
					t.Errorf("%s: nobody is not told how to log in", h.ID)
				}
			case role < want:
				refused(t, w, http.StatusForbidden, h.ID+" needs the role "+want.String()+", and ada has the role "+role.String())
			case w.Code == http.StatusForbidden || w.Code == http.StatusUnauthorized:
				t.Errorf("%s is answered %d to the role %v:\n%s", h.ID, w.Code, role, w.Body)
			}
		}
		for _, grant := range []string{"viewer:crm", "operator:crm", "viewer:delivery", "viewer operator:delivery"} {
			rights, err := caller.ParseRights(grant)
			if err != nil {
				t.Fatal(err)
			}
			may := rights.May(want, system)
			if system == operation.Each {
				may = rights.MayAny(want)
			}
			switch w := requested(d, h, rights); {
			case !may:
				refused(t, w, http.StatusForbidden, h.ID+" needs the role "+want.String())
				refused(t, w, http.StatusForbidden, "and ada has the role "+grant)
			case w.Code == http.StatusForbidden || w.Code == http.StatusUnauthorized:
				t.Errorf("%s is answered %d to %s:\n%s", h.ID, w.Code, grant, w.Body)
			}
		}
	}
	for id := range rolesOf {
		if !seen[id] {
			t.Errorf("no operation is called %s", id)
		}
	}
	for id := range of {
		if !seen[id] {
			t.Errorf("no operation is called %s", id)
		}
	}
}

// requested is the answer to a request for an operation, with wildcards as they are named: no more than a page of what
// is an export as a whole.
func requested(d *desk, h operation.Handler, rights caller.Rights) *httptest.ResponseRecorder {
	path := admin.Prefix + strings.NewReplacer("{", "", "}", "").Replace(h.Path)
	if h.Exports {
		path += "?max=1"
	}
	w, r := httptest.NewRecorder(), request(h.Method, path, "")
	d.api.Inside().ServeHTTP(w, r.WithContext(caller.With(r.Context(), caller.Caller{Name: "ada", Rights: rights, From: netip.MustParseAddr("192.0.2.1")})))
	return w
}
