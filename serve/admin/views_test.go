package admin_test

import (
	"fmt"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/serve/access"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/state/access/tableaccess"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/trail/tabletrail"
	"github.com/tidemill/tidemill/state/view"
)

// viewDesk is an API whose callers are who a test says.
type viewDesk struct{ *desk }

func withViews(t *testing.T) *viewDesk {
	store := tableaccess.Memory()
	return &viewDesk{newDesk(t, admin.Parts{Config: constant(loaded(t)), Views: store.Views(), Trail: tabletrail.Memory(), Once: tableledger.Memory(tableledger.Options{}), People: access.Options{Store: store, Cost: access.Cost{KiB: 64, Passes: 1}}})}
}

// by asks as somebody of a name and rights: "ada operator".
func (d *viewDesk) by(who, method, path string, headers ...string) *httptest.ResponseRecorder {
	d.Helper()
	name, role, _ := strings.Cut(who, " ")
	rights, err := caller.ParseRights(role)
	if err != nil {
		d.Fatal(err)
	}
	w, r := httptest.NewRecorder(), request(method, admin.Prefix+path, "")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	d.api.Inside().ServeHTTP(w, r.WithContext(caller.With(r.Context(), caller.Caller{Name: name, Rights: rights})))
	asDescribed(d.T, r, w)
	return w
}

func saving(name, address string, more ...string) string {
	return "views?" + url.Values{"name": {name}, "address": {address}}.Encode() + strings.Join(more, "")
}

func (d *viewDesk) saves(who, name, address string, more ...string) (v api.View) {
	d.Helper()
	d.into(d.good(d.by(who, "POST", saving(name, address, more...))), &v)
	return v
}

// sees are the names of the views that somebody is shown.
func (d *viewDesk) sees(who string) (names []string) {
	d.Helper()
	for _, line := range lines(d.good(d.by(who, "GET", "views"))) {
		names = append(names, d.field(line, "name").(string))
	}
	slices.Sort(names)
	return names
}

func TestAViewIsOfWhoSavedItOrOfAll(t *testing.T) {
	d := withViews(t)
	mine := d.saves("ada viewer", "mine", "/console/dead?state=held&since=1h")
	ours := d.saves("bob operator:crm", "ours", "/console/queues", "&shared=true")
	d.saves("bob operator:crm", "mine", "/console/")
	d.saves("token:ci viewer", "of a program", "/console/books")
	if mine.Owner != "ada" || mine.Shared || mine.Address != "/console/dead?state=held&since=1h" || mine.Made.IsZero() || mine.ETag == "" || !ours.Shared {
		t.Errorf("saved %+v and %+v", mine, ours)
	}
	for who, want := range map[string]string{"ada viewer": "mine ours", "bob viewer": "mine ours", "eve viewer:delivery": "ours", "root admin": "ours", "token:ci viewer": "of a program ours"} {
		if got := strings.Join(d.sees(who), " "); got != want {
			t.Errorf("%s sees %s, want %s", who, got, want)
		}
	}
	d.good(d.by("ada viewer", "GET", "views/"+mine.ID))
	d.good(d.by("ada viewer", "GET", "views/"+ours.ID))
	for _, who := range []string{"bob operator", "root admin"} {
		refused(t, d.by(who, "GET", "views/"+mine.ID), 404, "there is no such view")
		refused(t, d.by(who, "POST", "views/"+mine.ID+"/remove"), 404, "there is no such view")
		refused(t, d.by(who, "POST", "views/"+mine.ID+"/change?name=x", "If-Match", "*"), 404, "there is no such view")
	}
	refused(t, d.by("ada viewer", "GET", "views/nothing"), 404, "there is no such view")
	refused(t, d.by("ada viewer", "POST", saving("mine", "/console/")), 409, "of that name already")
}

func TestSharingAViewNeedsAnOperator(t *testing.T) {
	d := withViews(t)
	const no = "sharing a view needs the role operator, and ada has the role viewer"
	refused(t, d.by("ada viewer", "POST", saving("a", "/console/", "&shared=true")), 403, no)
	v := d.saves("ada viewer", "a", "/console/")
	change := "views/" + v.ID + "/change?"
	refused(t, d.by("ada viewer", "POST", change+"shared=true", "If-Match", "*"), 403, no)
	d.good(d.by("ada operator:crm", "POST", change+"shared=true", "If-Match", "*"))
	refused(t, d.by("ada viewer", "POST", change+"name=b", "If-Match", "*"), 403, no)
	d.good(d.by("ada viewer", "POST", change+"name=b&shared=false", "If-Match", "*"))
	if got := d.sees("bob admin"); len(got) != 0 {
		t.Errorf("a view that was taken back is seen: %v", got)
	}
}

func TestAViewIsChangedByItsOwnerAsItWasRead(t *testing.T) {
	d := withViews(t)
	v := d.saves("ada operator", "a", "/console/dead", "&shared=true")
	d.saves("ada operator", "taken", "/console/")
	change := "views/" + v.ID + "/change?"
	tag := d.by("ada operator", "GET", "views/"+v.ID).Header().Get("ETag")
	refused(t, d.by("root admin", "POST", change+"name=x", "If-Match", "*"), 403, "ada saved this view, and nobody else changes it")
	refused(t, d.by("ada operator", "POST", change+"name=x"), 428, "If-Match")
	refused(t, d.by("ada operator", "POST", change+"name=taken", "If-Match", tag), 409, "of that name already")
	refused(t, d.by("ada operator", "POST", change+"address=%2F%2Fevil.example", "If-Match", tag), 400, "does not begin with /console/")
	refused(t, d.by("ada operator", "POST", change+"shared=perhaps", "If-Match", tag), 400, "want true or false")
	var after api.View
	d.into(d.good(d.by("ada operator", "POST", change+"name=b", "If-Match", tag)), &after)
	if want := (api.SavedView{ID: v.ID, Name: "b", Address: "/console/dead", Owner: "ada", Shared: true, Made: v.Made, ETag: after.ETag}); after.SavedView != want || after.ETag == v.ETag {
		t.Errorf("it is %+v, want %+v", after, want)
	}
	w := d.by("ada operator", "POST", change+"name=c", "If-Match", tag)
	if refused(t, w, 412, "was changed since it was read"); !strings.Contains(w.Body.String(), `"name":"b"`) {
		t.Errorf("who changes what is another by now is not told what it is: %s", w.Body)
	}
}

func TestASharedViewIsRemovedByItsOwnerOrAnAdmin(t *testing.T) {
	d := withViews(t)
	for _, who := range []string{"ada viewer", "root admin"} {
		v := d.saves("ada operator", "a", "/console/", "&shared=true")
		refused(t, d.by("bob operator", "POST", "views/"+v.ID+"/remove"), 403, "ada saved this view: they remove it, or an admin does")
		d.good(d.by(who, "POST", "views/"+v.ID+"/remove"))
		refused(t, d.by(who, "POST", "views/"+v.ID+"/remove"), 404, "there is no such view")
	}
}

func TestAViewThatBreaksARuleIsRefusedWithWhatIsAllowed(t *testing.T) {
	d := withViews(t)
	for query, want := range map[string][2]string{
		"name=a&address=https%3A%2F%2Fevil.example%2Fconsole%2F":     {"address", "as /console/dead?state=held"},
		"name=a&address=%2Fconsole%2Fdead%3Fdone%3Dx":                {"address", "done="},
		"name=a&address=%2Fconsole%2F..%2Fapi":                       {"address", "dots alone"},
		"name=a":                                                     {"address", "/console/"},
		"address=%2Fconsole%2F":                                      {"name", "want 1 to 80"},
		"name=a%0Ab&address=nope":                                    {"name", "control character"},
		"name=" + strings.Repeat("a", 81) + "&address=%2Fconsole%2F": {"name", "want 1 to 80"},
	} {
		w := d.by("ada viewer", "POST", "views?"+query)
		if refused(t, w, 400, want[1]); !strings.Contains(w.Body.String(), `"parameter":"`+want[0]+`"`) {
			t.Errorf("%s: the problem does not say which parameter: %s", query, w.Body)
		}
	}
	for i := range view.Most {
		d.saves("ada viewer", fmt.Sprint(i), "/console/")
	}
	refused(t, d.by("ada viewer", "POST", saving("more", "/console/")), 409, "there are 100 views, and no more are kept of one person")
	if got := d.sees("ada viewer"); len(got) != view.Most {
		t.Errorf("there are %d", len(got))
	}
}

func TestAViewIsSavedOnceForItsKeyAndTheTrailHasIt(t *testing.T) {
	d := withViews(t)
	for range 2 {
		d.good(d.by("ada viewer", "POST", saving("a", "/console/dead"), operation.IdempotencyKey, "k"))
	}
	if got := d.sees("ada viewer"); len(got) != 1 {
		t.Errorf("there are %v", got)
	}
	refused(t, d.by("ada viewer", "POST", saving("b", "/console/", "&shared=true")), 403, "needs the role operator")
	all := d.trailOf("operation=saveView")
	if len(all) != 2 || all[0].Who != "ada" || all[0].Thing != "a" || all[0].Outcome != "done" || !strings.Contains(string(all[0].After), `"address":"/console/dead"`) || all[1].Outcome != "refused" {
		t.Errorf("the trail has %+v", all)
	}
}

func TestAKeyIsOfWhoSendsIt(t *testing.T) {
	d := withViews(t)
	d.good(d.by("ada viewer", "POST", saving("a", "/console/dead"), operation.IdempotencyKey, "k"))
	refused(t, d.by("bob viewer", "POST", saving("a", "/console/dead"), operation.IdempotencyKey, "k"), 422, "another request")
	if d.good(d.by("bob viewer", "POST", saving("a", "/console/dead"), operation.IdempotencyKey, "l")); len(d.sees("bob viewer")) != 1 {
		t.Error("what he saved is not there")
	}
}

func TestWhoComesAfterSomebodyOfTheirNameSeesNothingOfTheirs(t *testing.T) {
	d := withViews(t)
	d.addUser("root", "admin")
	d.addUser("ada", "viewer")
	d.saves("ada operator", "private", "/console/")
	d.saves("ada operator", "ours", "/console/", "&shared=true")
	d.post("users/ada/remove", "")
	d.addUser("ada", "viewer")
	if got := d.sees("ada viewer"); !slices.Equal(got, []string{"ours"}) {
		t.Errorf("another ada sees %v", got)
	}
	var made api.MadeToken
	d.into(d.post("tokens?name=ci", ""), &made)
	d.saves("token:ci viewer", "private", "/console/")
	d.post("tokens/"+made.ID+"/revoke", "")
	if got := d.sees("token:ci viewer"); !slices.Equal(got, []string{"ours"}) {
		t.Errorf("another program of the name sees %v", got)
	}
}

func TestWithoutADatabaseNoViewsAreKept(t *testing.T) {
	refused(t, newDesk(t, admin.Parts{}).ask("GET", "views", ""), 404, "no database that keeps saved views")
}

func TestWhatSomebodySavesIsNoneOfTheLastChanges(t *testing.T) {
	d := withViews(t)
	v := d.saves("ada operator", "private", "/console/")
	d.good(d.by("ada operator", "POST", "views/"+v.ID+"/change?name=secret", "If-Match", "*"))
	d.good(d.by("ada operator", "POST", "views/"+v.ID+"/remove"))
	for who, queries := range map[string][]string{"bob operator": {"", "?thing=private", "?thing=" + v.ID, "?operation=saveView&operation=changeView&operation=removeView"}, "root admin": {"", "?thing=private", "?thing=" + v.ID}} {
		for _, query := range queries {
			if got := d.good(d.by(who, "GET", "changes"+query)); strings.Contains(got, "View") {
				t.Errorf("%s is shown with %q: %s", who, query, got)
			}
		}
	}
	if got := lines(d.good(d.by("root admin", "GET", "changes?operation=changeView"))); len(got) != 1 {
		t.Errorf("an admin who names the operation is shown %v", got)
	}
}
