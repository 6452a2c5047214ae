package admin_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/api"
)

func TestTheAPISaysWhatIsHereAndWhereTheRestIs(t *testing.T) {
	in := start(t, func(c *config.Loaded) {
		c.Console.Name, c.Console.Environment, c.Console.Base = "Mill", "staging", "/mill"
	})
	var got api.Discovery
	d := &desk{T: t}
	d.into(d.good(in.get("")), &got)
	if got.Version != "test" || got.Instance == "" || got.Name != "Mill" || got.Environment != "staging" || !slices.Contains(got.Systems, "analytics") {
		t.Errorf("it is %+v", got)
	}
	if want := (api.Links{OpenAPI: "/api/v1/openapi.json", YAML: "/api/v1/openapi.yaml", Reference: "/mill/console/reference", Me: "/api/v1/me", Stream: "/api/v1/stream"}); got.Links != want {
		t.Errorf("links are %+v, want %+v", got.Links, want)
	}
	if p := got.Limits.Pages; p.Usual != 50 || p.Most != 1000 || p.Cursor != 24*3600 || p.Counted != 10_000 {
		t.Errorf("pages have the limits %+v", p)
	}
	if b := got.Limits.Bodies; b.Form != 4<<20 || b.JSON != 64<<10 || b.Of["editDead"] != 4<<20 || b.Of["addUser"] != 0 {
		t.Errorf("bodies have the limits %+v", b)
	}
	var me api.Me
	if d.into(d.good(in.get("me")), &me); !slices.Equal(got.May, me.May) || !slices.Contains(got.May, "discover") {
		t.Errorf("they may %v, and as me says %v", got.May, me.May)
	}
	refused(t, in.do(request(http.MethodPut, admin.Prefix, "")), http.StatusMethodNotAllowed, "use GET")
}

func TestTheAPISaysNoMoreThanTheCallerMayKnow(t *testing.T) {
	granting(t, func(d *grantDesk) {
		var all, some api.Discovery
		d.into(d.as("admin", http.MethodGet, "").Body.String(), &all)
		d.into(d.as("viewer:crm", http.MethodGet, "").Body.String(), &some)
		if len(all.Systems) < 2 || !slices.Equal(some.Systems, []string{"crm"}) || slices.Contains(some.May, "editDead") || some.Limits.Bodies.Of["editDead"] != 0 || !slices.Contains(all.May, "editDead") {
			t.Errorf("an admin is told %+v, and a viewer of crm %+v", all, some)
		}
	})
}

func TestTheAPISaysHowMuchEachMayAsk(t *testing.T) {
	c := loaded(t)
	c.Admin.Rates = config.Rates{Reads: 20, ReadsBurst: 60, ChangesBurst: 10, Dear: 1}
	d := newDesk(t, admin.Parts{Config: constant(c)})
	var got api.Discovery
	if d.into(d.get(""), &got); got.Limits.Rates != (api.RateLimits{Reads: 20, ReadsBurst: 60, Dear: 1}) {
		t.Errorf("rates are %+v", got.Limits.Rates)
	}
}

func TestAnInstanceWithoutAConsoleHasNoReferenceForPeople(t *testing.T) {
	d := newDesk(t, admin.Parts{Config: constant(loaded(t))})
	c := loaded(t)
	c.Console.Enabled = false
	for want, d := range map[string]*desk{"": newDesk(t, admin.Parts{Config: constant(c)}), "/console/reference": d} {
		var got api.Discovery
		if d.into(d.get(""), &got); got.Links.Reference != want {
			t.Errorf("the reference is at %q, want %q", got.Links.Reference, want)
		}
	}
}
