package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/serve/console/consoletest"
	"github.com/tidemill/tidemill/serve/operate"
	"github.com/tidemill/tidemill/state/bulk"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/queue"
)

func TestPeopleComeInAndGo(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	w.Who = caller.Caller{}
	page := w.Ask("GET", "/console/dead?reason=timeout", nil).Body.String()
	w.Has(page, "Log in", "Token of the API", "Or a link for one time")
	form := url.Values{"back": {w.Hidden(page, "back")}, "token": {"guessed"}}
	rec := w.Ask("POST", "/console/login", form)
	if rec.Code != http.StatusUnauthorized || strings.Contains(rec.Body.String(), "guessed") {
		t.Errorf("a wrong token is answered %d: %s", rec.Code, consoletest.Text(rec.Body.String()))
	}
	w.Has(rec.Body.String(), "the token is wrong")
	form.Set("token", "the token")
	if rec = w.Ask("POST", "/console/login", form); rec.Code != http.StatusSeeOther || rec.Header().Get("Location") != "/console/dead?reason=timeout" {
		t.Errorf("the right one is answered %d, and leads to %s", rec.Code, rec.Header().Get("Location"))
	}
	if rec = w.Ask("POST", "/console/logout", nil); rec.Header().Get("Location") != "/console/login" || w.Who.Name != "" {
		t.Errorf("logging out is answered %d", rec.Code)
	}
	if rec = w.Ask("POST", "/console/login", url.Values{"link": {"http://127.0.0.1/console/login#the secret"}, "back": {"https://evil.example"}}); rec.Header().Get("Location") != "/console/" {
		t.Errorf("a link that was pasted whole leads to %q", rec.Header().Get("Location"))
	}
}

func TestAQueueIsPausedAndResumedByForms(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	asks := w.Page("/console/queues/q/pause")
	w.Has(asks, "Pause the queue q?", "tidemill queue pause q", "POST /api/v1/queues/q/pause", "Cancel")
	if !strings.Contains(asks, `<form class="sheet ask" method="post" action="/console/queues/q/pause" data-ask>`) {
		t.Error("from a dialog the form would go to the page that the dialog is on")
	}
	to := w.Confirm("/console/queues/q/pause", nil)
	w.Has(w.Page(to), "Paused.", "It is paused: jobs come in")
	if s, err := w.queues.Settings(t.Context(), "q"); err != nil || !s.Paused {
		t.Errorf("the queue is not paused: %v", err)
	}
	w.Has(w.Page(w.Confirm("/console/queues/q/resume", nil)), "Resumed.", "running")
	w.Has(w.Page(w.Confirm("/console/queues/q/drain", nil)), "draining")
}

func TestLimitsAreSetOfWhatWasSeen(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	page := w.Page("/console/queues/q/settings")
	tag := w.Hidden(page, "etag")
	form := url.Values{"etag": {tag}, "rate": {"12.5"}, "at_once": {"3"}, "tenant_rate": {""}, "tenant_at_once": {""}}
	w.Has(w.Page(w.Confirm("/console/queues/q/settings", form)), "The settings are in force.", "12.5 a second, 3 at once")
	form.Set("rate", "13")
	form.Set("key", "another")
	rec := w.Ask("POST", "/console/queues/q/settings", form) // of what is there no more
	if rec.Code != http.StatusPreconditionFailed {
		t.Errorf("a change of old settings is answered %d", rec.Code)
	}
	for _, c := range [][3]string{{"rate", "fast", `"fast" is no rate`}, {"at_once", "1.5", `"1.5" is no count`}, {"tenant_rate", "-1", "is no rate"}, {"rate", "NaN", "is no rate"}} {
		bad := url.Values{"etag": {tag}, c[0]: {c[1]}}
		rec := w.Ask("POST", "/console/queues/q/settings", bad)
		if rec.Code != http.StatusUnprocessableEntity || !strings.Contains(consoletest.Text(rec.Body.String()), c[2]) || !strings.Contains(rec.Body.String(), `value="`+c[1]+`"`) {
			t.Errorf("%s=%s is answered %d: %s", c[0], c[1], rec.Code, consoletest.Text(rec.Body.String()))
		}
	}
}

// The forms have the ETag of what their page showed: without it they change nothing.
func TestAFormThatSaysNotWhatWasSeenChangesNothing(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	for path, form := range map[string]url.Values{"queues/q/settings": {"rate": {"7"}}, "dead/delivery/1/edit": {"payload": {"other"}}, "queues/q/edit?id=e3&tenant=shop": {"payload": {"other"}}} {
		if w.Hidden(w.Page("/console/"+path), "etag") == "" {
			t.Errorf("%s does not say what it shows", path)
		}
		if rec := w.Ask("POST", "/console/"+path, form); rec.Code != http.StatusPreconditionRequired {
			t.Errorf("%s is answered %d: %s", path, rec.Code, consoletest.Text(rec.Body.String()))
		}
	}
}

func TestAllSettingsOfAQueueAreInItsForm(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	const at = "/console/queues/q/settings"
	form := url.Values{"etag": {w.Hidden(w.Page(at), "etag")}, "key_rate": {"2"}, "tenants": {"shop: 50 a second, 3 at once\n\"a: b\": 7 at once\nfree:"}, "fair": {"nobody: first in, first out"}, "weights": {"3: 64\n0: 1"},
		"max": {"5000"}, "completed": {"100"}, "completed_for": {"12h"}, "failed": {"7"}}
	w.Has(w.Page(w.Confirm(at, form)), "The settings are in force.", "first in, first out", "Limit of tenant shop 50 a second, 3 at once", "Limit of tenant a: b 7 at once", "Limit of tenant free none",
		"Weight of priority 3 64", "5,000", "100, for 12 h", "Failed jobs kept 7", "2 a second")
	again := w.Page(at)
	w.Has(again, "shop: 50 a second, 3 at once")
	form = url.Values{"etag": {w.Hidden(again, "etag")}, "key": {"k2"}, "tenants": {"shop: 50 a second, 3 at once"}, "weights": {""}, "max": {""}, "completed": {""}}
	is := w.Page(w.Confirm(at, form))
	w.Has(is, "Limit of tenant shop 50 a second, 3 at once", "first in, first out", "as many as the store allows", "Failed jobs kept 7", "2 a second") // what is not in a form stays
	for _, gone := range []string{"tenant free", "Weight of priority"} {
		if strings.Contains(consoletest.Text(is), gone) {
			t.Errorf("%s is still there", gone)
		}
	}
	tag := w.Hidden(w.Page(at), "etag")
	for _, c := range [][3]string{{"tenants", "shop", `"shop" is no limit of a tenant`}, {"tenants", "shop: fast", `Tenant shop: "fast" is no limit`}, {"weights", "3", `"3" is no weight`}, {"weights", "300: 1", "is no weight"}, {"weights", "1: 1001", "is no weight"},
		{"fair", "x", `"x" is none of these`}, {"completed_for", "long", "long"}, {"max", "0", `"0" is no count`}} {
		rec := w.Ask("POST", at, url.Values{"etag": {tag}, c[0]: {c[1]}})
		if rec.Code != http.StatusUnprocessableEntity || !strings.Contains(consoletest.Text(rec.Body.String()), c[2]) {
			t.Errorf("%s=%s is answered %d: %s", c[0], c[1], rec.Code, consoletest.Text(rec.Body.String()))
		}
	}
}

func TestFormerSettingsAreOfferedBack(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	const at, back = "/console/queues/q/settings", "/console/queues/q/settings/back"
	set := func(key, rate string) {
		t.Helper()
		w.Confirm(at, url.Values{"etag": {w.Hidden(w.Page(at), "etag")}, "key": {key}, "rate": {rate}})
	}
	if strings.Contains(w.Page("/console/queues/q"), "Set back") {
		t.Error("former settings are offered that nobody has changed")
	}
	set("k1", "5")
	set("k2", "9")
	page := w.Page("/console/queues/q")
	w.Has(page, "changed them", "Set back what was before", "9 a second")
	old := url.Values{"etag": {w.Hidden(page, "etag")}, "key": {w.Hidden(page, "key")}}
	w.Has(w.Page(w.Confirm(back, old)), "The settings are in force.", "5 a second")
	w.Confirm("/console/queues/q/pause", url.Values{"for": {"10m"}})
	w.Has(w.Page("/console/queues/q"), "It is paused until")
	w.Confirm(back, url.Values{"etag": {w.Hidden(w.Page("/console/queues/q"), "etag")}, "key": {"k3"}}) // as one click of the page does
	w.Has(w.Page("/console/queues/q"), "5 a second", "running")
	old.Set("key", "k4")
	if rec := w.Ask("POST", back, old); rec.Code != http.StatusUnprocessableEntity || !strings.Contains(rec.Body.String(), "were changed since") {
		t.Errorf("a page of old settings sets them back: %d", rec.Code)
	}
	if _, err := w.queues.Set(t.Context(), "q", func(s *queue.Settings) { s.Max = 77 }); err != nil { // by the configuration
		t.Fatal(err)
	}
	if strings.Contains(w.Page("/console/queues/q"), "Set back") {
		t.Error("former settings are offered though others are in force")
	}
	w.Has(w.Page(back), "There are no former settings to go back to")
}

func TestJobsAreChangedOneOrByFilter(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	const remove = "/console/queues/q/remove?id=e3&tenant=shop"
	w.Has(w.Page(remove), "Remove 1 job?", "tidemill operations start jobs.remove --queue=q", "It cannot be taken back once it has begun.", "It begins 10 seconds after it is asked for.")
	for _, path := range []string{remove, "/console/queues/q/promote?id=e2&tenant=shop", "/console/queues/q/retry?id=e1&tenant=shop"} {
		at := w.starts(path, nil)
		w.Has(w.Page("/console/books"), "Stop") // on every page
		w.ends()
		w.Has(w.Page(at), "done", "Changed 1")
	}
	w.Has(w.Page("/console/queues/q/retry?id=e1&tenant=shop"), "No job that this can be done to matches now.")
	if st, err := w.queues.Stats(t.Context(), "q"); err != nil || st.Waiting != 3 || st.Delayed+st.Failed != 0 {
		t.Errorf("the queue has %+v, %v", st, err)
	}
}

func TestAPayloadIsEditedAndItsOriginalKept(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	const at = "/console/dead/delivery/1"
	page := w.Page(at + "/edit")
	form := url.Values{"etag": {w.Hidden(page, "etag")}, "json": {"true"}, "payload": {"{\"n\":1.10,\r\n\"text\":\"mended\"}"}}
	to := w.Confirm(at+"/edit", form)
	w.Has(w.Page(to), "The payload was replaced.", "What was changed", "mended")
	l := w.letters()[0]
	if string(l.Payload) != "{\"n\":1.10,\n\"text\":\"mended\"}" || string(l.Original) != `{"n":1.10,"text":""}` {
		t.Errorf("payload %q, original %q", l.Payload, l.Original)
	}
	if got := w.Page(at + "/original"); got != `{"n":1.10,"text":""}` {
		t.Errorf("the original is %q", got)
	}
	form.Set("payload", `{"n":`)
	form.Set("key", "another")
	rec := w.Ask("POST", at+"/edit", form)
	if rec.Code != http.StatusUnprocessableEntity || !strings.Contains(rec.Body.String(), "{&#34;n&#34;:</textarea>") {
		t.Errorf("what is no JSON any more is answered %d: %s", rec.Code, consoletest.Text(rec.Body.String()))
	}
	form.Set("payload", `{"n":3}`)
	if rec := w.Ask("POST", at+"/edit", form); rec.Code != http.StatusPreconditionFailed {
		t.Errorf("an edit of what is there no more is answered %d", rec.Code)
	}
}

// What is covered for somebody is shown in part, and is no file: nothing leads to one.
func TestWhatIsCoveredIsNotOfferedAsAFile(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	const letter, job = "/console/dead/delivery/1", "/console/queues/q/job?id=e3&tenant=shop"
	w.Confirm(letter+"/edit", url.Values{"etag": {w.Hidden(w.Page(letter+"/edit"), "etag")}, "payload": {`{"n":2}`}})
	files := func(page string) int { return strings.Count(page, `" download>`) }
	if letters, jobs := files(w.Page(letter)), files(w.Page(job)); letters != 2 || jobs != 1 {
		t.Fatalf("a dead letter leads to %d files, and a job to %d, want 2 and 1", letters, jobs)
	}
	w.Who.Rights = caller.All(caller.Viewer)
	for _, at := range []string{letter, job} {
		if page := w.Page(at); files(page) > 0 || !strings.Contains(page, "there is no file of it") {
			t.Errorf("%s leads to a file that is refused: %s", at, consoletest.Text(page))
		}
	}
}

func TestAPayloadWithOtherEndsOfLinesIsNotEditedInAForm(t *testing.T) {
	w := newWorld(t)
	m := &tidemill.Message{ID: "crlf", Tenant: "shop", Payload: []byte("a\r\nb")}
	if err := w.dead.Put(t.Context(), []tidemill.DeadLetter{{Pipeline: "s2s.p", Message: m, At: time.Now()}}); err != nil {
		t.Fatal(err)
	}
	page := w.Page("/console/dead/delivery/1/edit")
	if w.Has(page, "It has ends of lines that a form would change. Replace it by a file."); strings.Contains(page, "<textarea") {
		t.Error("the form has the payload")
	}
	if got := w.Page("/console/dead/delivery/1/payload"); got != "a\r\nb" {
		t.Errorf("the payload is downloaded as %q", got)
	}
}

func TestDeadLettersAreReplayedAndDiscarded(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	w.Has(w.Page("/console/dead/replay?seq=1&system=delivery"), "Replay 1 dead letter?", "It is this one", "answered 422", "tidemill operations start dead.replay", "--seq=1", "POST /api/v1/operations?")
	at := w.starts("/console/dead/replay?seq=1", nil)
	w.Has(w.Page(at), "Replay of dead letters", "seq 1", "ada")
	w.Has(w.Page("/console/dead/delivery/1"), "Operations on it", "Replay of dead letters of ada")
	if strings.Contains(w.Page("/console/dead/delivery/2"), "Operations on it") {
		t.Error("another dead letter has the operation too")
	}
	w.ends()
	w.Has(w.Page(at), "done", "Changed 1")
	w.Has(w.Page("/console/dead/replay?seq=1"), "No dead letter that this can be done to matches now.")
	w.Has(w.Page("/console/dead/delete?seq=2&seq=3"), "Discard 2 dead letters?", "partner_error 2", "shop 2", "It begins 60 seconds after")
	w.starts("/console/dead/delete?seq=2&seq=3", nil)
	if n := len(w.letters()); n != 3 {
		t.Errorf("%d dead letters are left before a discard may begin", n)
	}
	w.ends()
	if ls := w.letters(); len(ls) != 1 || ls[0].State != deadletter.Replaying {
		t.Errorf("%d dead letters are left", len(ls))
	}
	w.Has(w.Page("/console/operations"), "Replay of dead letters", "Discard of dead letters", "3 shown; these are all that match.")
	w.Has(w.Page("/console/operations?state=failed"), "Nothing matches.")
}

// TestADiscardIsStoppedInItsTime holds that until an operation begins a form on every page stops it.
func TestADiscardIsStoppedInItsTime(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	at := w.starts("/console/dead/delete?all=true", nil)
	page := w.Page("/console/config")
	if w.Has(page, "Discard of dead letters of ada: 3, begins in"); !strings.Contains(page, `action="`+at+`/stop"`) {
		t.Error("the page has no form that stops it")
	}
	w.Who.Rights = caller.All(caller.Viewer)
	if page := w.Page("/console/queues"); !strings.Contains(consoletest.Text(page), "Discard of dead letters of ada") || strings.Contains(page, at+"/stop") {
		t.Error("a viewer is shown how to stop it, or not that it is there")
	}
	if rec := w.Ask("POST", at+"/stop", nil); rec.Code != http.StatusForbidden {
		t.Errorf("a viewer who stops it is answered %d", rec.Code)
	}
	w.Who.Rights = caller.All(caller.Admin)
	if rec := w.Ask("POST", at+"/stop", nil); rec.Code != http.StatusSeeOther {
		t.Errorf("the form is answered %d: %s", rec.Code, consoletest.Text(rec.Body.String()))
	}
	w.ends()
	if n := len(w.letters()); n != 3 {
		t.Errorf("%d dead letters are left of 3", n)
	}
	w.Has(w.Page(at), "stopped", "Stopped by ada")
	if strings.Contains(w.Page("/console/config"), at) {
		t.Error("what is stopped is still on every page")
	}
}

// TestWhatCouldNotBeChangedIsNamedAndDoneAgain has an operation meet a damaged dead letter.
func TestWhatCouldNotBeChangedIsNamedAndDoneAgain(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	at := w.starts("/console/dead/replay?all=true", url.Values{"rate": {"1/s"}})
	if rec := w.Ask("GET", at+"/again", nil); rec.Code != http.StatusConflict {
		t.Errorf("nothing failed, and again is answered %d", rec.Code)
	}
	if rec := w.Ask("GET", "/console/operations/none", nil); rec.Code != http.StatusNotFound {
		t.Errorf("an operation that there is not is answered %d", rec.Code)
	}
	o, err := w.moves.Change(t.Context(), strings.TrimPrefix(at, "/console/operations/"), func(o *bulk.Operation) error {
		o.State, o.Ended, o.Failed = bulk.Done, time.Now(), map[string]int{"damaged": 1}
		o.Failures = []bulk.Failure{{Key: operate.Key{Lo: 2}.String(), ID: "d2", Owner: "shop", Reason: "damaged"}}
		return nil
	})
	if err != nil || o.Rate == 0 {
		t.Fatal(o, err)
	}
	w.Has(w.Page(at), "What could not be changed", "d2", "damaged", "Again for those that failed")
	w.Has(w.Page(at+"/again"), "Replay 1 dead letter?", "answered 422")
	w.starts(at+"/again", nil)
	w.ends()
	for _, l := range w.letters() {
		if is := l.State == deadletter.Replaying; is != (l.Seq == 2) {
			t.Errorf("dead letter %d is %s", l.Seq, l.State)
		}
	}
}

func TestARateIsOneOrRefused(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	form := w.Form("/console/dead/replay?all=true")
	form.Set("rate", "fast")
	rec := w.Ask("POST", "/console/dead/replay?all=true", form)
	if w.Has(rec.Body.String(), "rate=", "Replay 3 dead letters?"); rec.Code != http.StatusUnprocessableEntity || !strings.Contains(rec.Body.String(), `value="fast"`) {
		t.Errorf("it is answered %d", rec.Code)
	}
}

// TestAllAreThoseThatWereSeen holds that a change of all that match has an end in time: what dies
// after the page was made is not changed.
func TestAllAreThoseThatWereSeen(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	page := w.Page("/console/dead?pipeline=s2s.p")
	at := strings.Index(page, "/console/dead/delete?")
	link := consoletest.Unescape.Replace(page[at : at+strings.IndexByte(page[at:], '"')])
	late := &tidemill.Message{ID: "late", Tenant: "shop", Payload: []byte("{}"), Mark: tidemill.Mark{Lo: 99}}
	if err := w.dead.Put(t.Context(), []tidemill.DeadLetter{{Pipeline: "s2s.p", Message: late, At: time.Now().Add(time.Second)}}); err != nil {
		t.Fatal(err)
	}
	w.Has(w.Page(link), "Discard 3 dead letters?", "--pipeline=s2s.p")
	w.starts(link, nil)
	w.ends()
	if ls := w.letters(); len(ls) != 1 || ls[0].ID != "late" {
		t.Errorf("%d dead letters are left", len(ls))
	}
}

func TestManyAreTyped(t *testing.T) {
	w := newWorld(t)
	var dead []tidemill.DeadLetter
	for i := range 1001 {
		dead = append(dead, tidemill.DeadLetter{Pipeline: "s2s.p", Message: &tidemill.Message{ID: fmt.Sprint("d", i), Mark: tidemill.Mark{Lo: uint64(i)}}, At: time.Now().Add(-time.Minute)})
	}
	if err := w.dead.Put(t.Context(), dead); err != nil {
		t.Fatal(err)
	}
	const all = "/console/dead/delete?all=true"
	w.Has(w.Page(all), "Discard 1,001 dead letters", "Type 1,001 to go on")
	rec := w.Ask("POST", all, w.Form(all))
	if rec.Code != http.StatusUnprocessableEntity {
		t.Errorf("without the number it is answered %d", rec.Code)
	}
	w.Has(rec.Body.String(), "Nothing was changed. Type 1,001 to go on.")
	if rec := w.Ask("POST", all, url.Values{"key": {"k"}, "word": {"1001"}}); rec.Code != http.StatusUnprocessableEntity {
		t.Errorf("without a preview it is answered %d", rec.Code)
	}
	w.ends()
	if n := len(w.letters()); n != 1001 {
		t.Errorf("%d are left", n)
	}
	w.starts(all, url.Values{"word": {"1001"}})
	w.ends()
	if n := len(w.letters()); n != 0 {
		t.Errorf("%d are left of those that were discarded", n)
	}

	w = newWorld(t, in("production"))
	w.fill("")
	w.Has(w.Page("/console/dead/delete?all=true"), "Type production to go on", "production")
	form := w.Form(all)
	form.Set("word", "3")
	if rec := w.Ask("POST", all, form); rec.Code != http.StatusUnprocessableEntity {
		t.Errorf("in production it is answered %d without its name", rec.Code)
	}
}

// TestAFormThatIsSentTwiceIsDoneOnce holds that forms carry an idempotency key.
func TestAFormThatIsSentTwiceIsDoneOnce(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	const at = "/console/queues/q/retry?id=e1&tenant=shop"
	form := w.Form(at)
	first, second := w.Ask("POST", at, form), w.Ask("POST", at, form)
	if first.Code != http.StatusSeeOther || second.Code != http.StatusSeeOther || first.Header().Get("Location") != second.Header().Get("Location") {
		t.Errorf("answered %d to %s, then %d to %s", first.Code, first.Header().Get("Location"), second.Code, second.Header().Get("Location"))
	}
	w.ends()
	w.Has(w.Page(second.Header().Get("Location")), "Changed 1")
	w.Has(w.Page("/console/operations"), "2 shown; these are all that match.")
}
