package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/serve/access"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/serve/console/consoletest"
	"github.com/tidemill/tidemill/serve/console/page"
)

// again is what a form that is shown again carries along.
func again(w *world, path string, form url.Values, status int) (said string, next url.Values) {
	w.Helper()
	rec := w.Ask(http.MethodPost, path, form)
	if said = rec.Body.String(); rec.Code != status {
		w.Fatalf("%s is answered %d, want %d: %s", path, rec.Code, status, consoletest.Text(said))
	}
	next = url.Values{}
	for name, values := range form {
		next[name] = values
	}
	for _, name := range []string{"etag", "key", "was"} {
		next.Del(name)
		if strings.Contains(said, `name="`+name+`"`) {
			next.Set(name, w.Hidden(said, name))
		}
	}
	return said, next
}

// TestWhatWasTypedIsNotLostToSomebodyElse holds that of two tabs which change the same the second is told, keeps what
// was typed, and is a change of what is there now when it is sent again.
func TestWhatWasTypedIsNotLostToSomebodyElse(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	for _, path := range []string{"/console/dead/delivery/1/edit", "/console/queues/q/edit?id=e3&tenant=shop"} {
		one, two := w.Form(path), w.Form(path)
		one.Set("payload", `{"by":"one"}`)
		if rec := w.Ask(http.MethodPost, path, one); rec.Code != http.StatusSeeOther {
			t.Fatalf("%s is answered %d", path, rec.Code)
		}
		two.Set("payload", `{"by":"two"}`)
		said, next := again(w, path, two, http.StatusPreconditionFailed)
		w.Has(said, "ada was first, while you filled in this form", "What is there now")
		if !strings.Contains(said, "{&#34;by&#34;:&#34;two&#34;}</textarea>") || !strings.Contains(said, "{&#34;by&#34;:&#34;one&#34;}</pre>") {
			t.Errorf("%s has not both what was typed and what is there: %s", path, consoletest.Text(said))
		}
		if rec := w.Ask(http.MethodPost, path, next); rec.Code != http.StatusSeeOther {
			t.Errorf("sent again it is answered %d: %s", rec.Code, consoletest.Text(rec.Body.String()))
		}
	}
	if got := string(w.letters()[0].Payload); got != `{"by":"two"}` {
		t.Errorf("the payload is %s", got)
	}
}

// TestSettingsOfTwoTabsAreBothInForce holds that a field which only somebody else changed stays as they left it.
func TestSettingsOfTwoTabsAreBothInForce(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	const at = "/console/queues/q/settings"
	with := func(pairs ...string) url.Values {
		form := w.Form(at)
		for name, value := range map[string]string{"rate": "", "at_once": "", "completed": "10"} { // as the page shows them
			form.Set(name, value)
		}
		for i := 0; i < len(pairs); i += 2 {
			form.Set(pairs[i], pairs[i+1])
		}
		return form
	}
	one, two := with("rate", "7", "completed", "20"), with("rate", "9", "at_once", "3")
	if rec := w.Ask(http.MethodPost, at, one); rec.Code != http.StatusSeeOther {
		t.Fatalf("the first is answered %d: %s", rec.Code, consoletest.Text(rec.Body.String()))
	}
	said, next := again(w, at, two, http.StatusPreconditionFailed)
	w.Has(said, "It was changed meanwhile. It is now: 7")
	for name, value := range map[string]string{"rate": "9", "at_once": "3", "completed": "20"} {
		if !strings.Contains(said, `name="`+name+`" value="`+value+`"`) {
			t.Errorf("%s is not %s in %s", name, value, said)
		}
		next.Set(name, value)
	}
	if rec := w.Ask(http.MethodPost, at, next); rec.Code != http.StatusSeeOther {
		t.Fatalf("sent again it is answered %d: %s", rec.Code, consoletest.Text(rec.Body.String()))
	}
	if s, err := w.queues.Settings(t.Context(), "q"); err != nil || s.Limit.PerSecond != 9 || s.Limit.AtOnce != 3 || s.Completed.Count != 20 {
		t.Errorf("the settings are %+v, %v", s, err)
	}
}

// TestANameThatIsTakenIsCorrected holds that the form of something that there is already can be sent with another name.
func TestANameThatIsTakenIsCorrected(t *testing.T) {
	w := newWorld(t)
	const at = "/console/views/save?address=%2Fconsole%2Fdead"
	w.Confirm(at, url.Values{"name": {"late"}})
	form := w.Form(at)
	form.Set("name", "late")
	said, next := again(w, at, form, http.StatusUnprocessableEntity)
	w.Has(said, "there is a view of that name already")
	next.Set("name", "later")
	if rec := w.Ask(http.MethodPost, at, next); rec.Code != http.StatusSeeOther {
		t.Errorf("another name is answered %d: %s", rec.Code, consoletest.Text(rec.Body.String()))
	}
}

// TestAFormOfASessionThatHasEndedIsSaid holds that somebody whose session ends while a form is open is told so, and
// comes back to the form.
func TestAFormOfASessionThatHasEndedIsSaid(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	const at = "/console/queues/q/pause?back=%2Fconsole%2Fqueues"
	form := w.Form(at)
	w.Who = caller.Caller{}
	rec := w.Ask(http.MethodPost, at, form)
	if rec.Code != http.StatusUnauthorized {
		t.Fatalf("it is answered %d", rec.Code)
	}
	w.Has(rec.Body.String(), "Your session has ended. Nothing was changed.")
	rec = w.Ask(http.MethodPost, access.LoginPath, url.Values{"back": {w.Hidden(rec.Body.String(), "back")}, "token": {"the token"}})
	if to := rec.Header().Get("Location"); to != at {
		t.Errorf("the login leads to %s", to)
	}
	w.Who = caller.Caller{}
	if rec = w.Ask(http.MethodPost, "/console/logout", nil); w.Hidden(rec.Body.String(), "back") != "" {
		t.Error("a form without a page of its own is a page to go back to")
	}
	if strings.Contains(w.Ask(http.MethodGet, "/console/dead", nil).Body.String(), "Your session has ended") {
		t.Error("somebody who has sent nothing is told that nothing was changed")
	}
}

// TestTimesOfFiltersAreOfTheZoneOfThePage holds that fields and filters show times as all the page does, while the
// address has them in UTC.
func TestTimesOfFiltersAreOfTheZoneOfThePage(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	in := func(zone, at string) string {
		t.Helper()
		rec := w.Ask(http.MethodGet, at, nil, "Cookie", (&http.Cookie{Name: page.Preferences, Value: url.Values{"zone": {zone}}.Encode()}).String())
		if rec.Code != http.StatusOK {
			t.Fatalf("%s is answered %d: %s", at, rec.Code, consoletest.Text(rec.Body.String()))
		}
		return rec.Body.String()
	}
	for _, at := range []string{"/console/dead?since=", "/console/audit?since="} {
		for _, text := range []string{"2026-01-31T12:00:00Z", "2026-01-31T13:00:00%2B01:00", "2026-01-31+13:00"} {
			said := in("Europe/Berlin", at+text)
			if !strings.Contains(said, `name="since" value="2026-01-31T13:00:00&#43;01:00"`) || !strings.Contains(said, "since = 2026-01-31T13:00:00&#43;01:00") {
				t.Errorf("of %s%s a page in Berlin does not show 13 o'clock", at, text)
			}
			if !strings.Contains(said, "since%3D2026-01-31T12%253A00%253A00Z") {
				t.Errorf("of %s%s the page is saved with another time than 12 o'clock in UTC", at, text)
			}
		}
		if !strings.Contains(in("", at+"24h"), `name="since" value="24h"`) {
			t.Errorf("%s24h shows no age", at)
		}
	}
}

// TestAnAddressThatIsWrongLeadsToOneThatIsNot holds that a parameter that is refused can be taken off.
func TestAnAddressThatIsWrongLeadsToOneThatIsNot(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	rec := w.Ask(http.MethodGet, "/console/dead?sinse=24h&pipeline=s2s.p", nil)
	if rec.Code != http.StatusBadRequest || !strings.Contains(rec.Body.String(), `<a href="/console/dead?pipeline=s2s.p">sinse = 24h`) {
		t.Errorf("it is answered %d: %s", rec.Code, rec.Body.String())
	}
	w.Has(w.Page("/console/dead/replay?pipeline="+strings.Repeat("x", 3000)), "No dead letter that this can be done to matches now.")
}
