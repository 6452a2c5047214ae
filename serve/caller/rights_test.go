package caller_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/serve/caller"
)

func TestRightsHaveOneText(t *testing.T) {
	for text, want := range map[string]string{
		"viewer": "viewer", " admin ": "admin", "operator:crm": "operator:crm",
		"operator:delivery viewer  operator:crm": "viewer operator:crm operator:delivery",
		"viewer:crm operator:crm":                "operator:crm",
		"operator viewer:crm":                    "operator",
		"viewer operator":                        "operator",
		"admin operator:crm":                     "admin",
	} {
		r, err := caller.ParseRights(text)
		if err != nil || r.String() != want {
			t.Errorf("%q is %v, %v; want %s", text, r, err, want)
		}
		var again caller.Rights
		if err := again.UnmarshalText([]byte(r.String())); err != nil || again != r {
			t.Errorf("%v is read again as %v, %v", r, again, err)
		}
	}
}

func TestWhatAreNoRightsIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"": "viewer, operator or admin", "nobody": "is no role", "nobody:crm": "is no role", "owner": "is no role", "viewer,operator:crm": "is no role",
		"admin:crm": "an admin is one of all systems: write admin, or operator:crm",
		"viewer:":   "names no system", "viewer:CRM": "names no system", "viewer:a:b": "names no system",
	} {
		if r, err := caller.ParseRights(text); err == nil || !strings.Contains(err.Error(), want) || r != (caller.Rights{}) {
			t.Errorf("%q is %v, %v; want %s", text, r, err, want)
		}
	}
}

func TestRightsAreForTheirSystems(t *testing.T) {
	r, err := caller.ParseRights("viewer operator:crm")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []struct {
		role   caller.Role
		system string
		may    bool
	}{{caller.Viewer, "", true}, {caller.Viewer, "delivery", true}, {caller.Operator, "crm", true}, {caller.Operator, "delivery", false}, {caller.Operator, "", false}, {caller.Admin, "crm", false}} {
		if r.May(k.role, k.system) != k.may {
			t.Errorf("%v may %v of %q: %v", r, k.role, k.system, !k.may)
		}
	}
	one := caller.For(caller.Viewer, "crm")
	if one.May(caller.Viewer, "") || one.May(caller.Viewer, "delivery") || !one.MayAny(caller.Viewer) || one.MayAny(caller.Operator) || !slices.Equal(one.Systems(caller.Viewer), []string{"crm"}) || len(one.Systems(caller.Operator)) != 0 || one.Whole() {
		t.Errorf("%v does not stay with its system", one)
	}
	if more := one.With(caller.For(caller.Operator, "crm", "bridge")); more.String() != "operator:bridge operator:crm" {
		t.Errorf("together they are %v", more)
	}
	if (caller.Rights{}).MayAny(caller.Viewer) || caller.All(caller.Viewer) != one.With(caller.All(caller.Viewer)) {
		t.Error("nobody may look, or equal rights are not equal")
	}
	if c := (caller.Caller{Rights: r, Payloads: true}); !c.MayRead("crm") || c.MayRead("delivery") || c.MayRead("") {
		t.Errorf("%v sees payloads of other systems", r)
	}
}
