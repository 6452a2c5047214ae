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
	"github.com/tidemill/tidemill/state/deadletter"
)

func TestPeopleComeInAndGo(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	w.who = caller.Caller{}
	page := w.ask("GET", "/console/dead?reason=timeout", nil).Body.String()
	w.has(page, "Log in", "Token of the API", "Or a link for one time")
	form := url.Values{"back": {hidden(w, page, "back")}, "token": {"guessed"}}
	rec := w.ask("POST", "/console/login", form)
	if rec.Code != http.StatusUnauthorized || strings.Contains(rec.Body.String(), "guessed") {
		t.Errorf("a wrong token is answered %d: %s", rec.Code, text(rec.Body.String()))
	}
	w.has(rec.Body.String(), "the token is wrong")
	form.Set("token", "the token")
	if rec = w.ask("POST", "/console/login", form); rec.Code != http.StatusSeeOther || rec.Header().Get("Location") != "/console/dead?reason=timeout" {
		t.Errorf("the right one is answered %d, and leads to %s", rec.Code, rec.Header().Get("Location"))
	}
	if rec = w.ask("POST", "/console/logout", nil); rec.Header().Get("Location") != "/console/login" || w.who.Name != "" {
		t.Errorf("logging out is answered %d", rec.Code)
	}
	if rec = w.ask("POST", "/console/login", url.Values{"link": {"http://127.0.0.1/console/login#the secret"}, "back": {"https://evil.example"}}); rec.Header().Get("Location") != "/console/" {
		t.Errorf("a link that was pasted whole leads to %q", rec.Header().Get("Location"))
	}
}

func TestAQueueIsPausedAndResumedByForms(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	asks := w.page("/console/queues/q/pause")
	w.has(asks, "Pause the queue q?", "tidemill queue pause q", "POST /api/v1/queues/q/pause", "Cancel")
	if !strings.Contains(asks, `<form class="sheet ask" method="post" action="/console/queues/q/pause" data-ask>`) {
		t.Error("from a dialog the form would go to the page that the dialog is on")
	}
	to := w.confirm("/console/queues/q/pause", nil)
	w.has(w.page(to), "Paused.", "It is paused: jobs come in")
	if s, err := w.queues.Settings(t.Context(), "q"); err != nil || !s.Paused {
		t.Errorf("the queue is not paused: %v", err)
	}
	w.has(w.page(w.confirm("/console/queues/q/resume", nil)), "Resumed.", "running")
	w.has(w.page(w.confirm("/console/queues/q/drain", nil)), "draining")
}

func TestLimitsAreSetOfWhatWasSeen(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	page := w.page("/console/queues/q/settings")
	tag := hidden(w, page, "etag")
	form := url.Values{"etag": {tag}, "rate": {"12.5"}, "at_once": {"3"}, "tenant_rate": {""}, "tenant_at_once": {""}}
	w.has(w.page(w.confirm("/console/queues/q/settings", form)), "The settings are in force.", "12.5 a second, 3 at once")
	form.Set("rate", "13")
	form.Set("key", "another")
	rec := w.ask("POST", "/console/queues/q/settings", form) // of what is there no more
	if rec.Code != http.StatusPreconditionFailed {
		t.Errorf("a change of old settings is answered %d", rec.Code)
	}
	for _, c := range [][3]string{{"rate", "fast", `"fast" is no rate`}, {"at_once", "1.5", `"1.5" is no count`}, {"tenant_rate", "-1", "is no rate"}, {"rate", "NaN", "is no rate"}} {
		bad := url.Values{"etag": {tag}, c[0]: {c[1]}}
		rec := w.ask("POST", "/console/queues/q/settings", bad)
		if rec.Code != http.StatusUnprocessableEntity || !strings.Contains(text(rec.Body.String()), c[2]) || !strings.Contains(rec.Body.String(), `value="`+c[1]+`"`) {
			t.Errorf("%s=%s is answered %d: %s", c[0], c[1], rec.Code, text(rec.Body.String()))
		}
	}
}

func TestJobsAreChangedOneOrByFilter(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	w.has(w.page("/console/queues/q/remove?id=e3&tenant=shop"), "Remove 1 job of q?", "tidemill queue remove q e3 --tenant shop", "This cannot be taken back.")
	w.has(w.page(w.confirm("/console/queues/q/remove?id=e3&tenant=shop", nil)), "Removed 1.")
	w.has(w.page(w.confirm("/console/queues/q/promote?id=e2&tenant=shop", nil)), "Made due: 1.")
	w.has(w.page(w.confirm("/console/queues/q/retry?id=e1&tenant=shop", nil)), "Waiting again: 1.")
	w.has(w.page("/console/queues/q/retry?id=e1&tenant=shop"), "No job to retry")
	if st, err := w.queues.Stats(t.Context(), "q"); err != nil || st.Waiting != 3 || st.Delayed+st.Failed != 0 {
		t.Errorf("the queue has %+v, %v", st, err)
	}
}

func TestAPayloadIsEditedAndItsOriginalKept(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	const at = "/console/dead/delivery/1"
	page := w.page(at + "/edit")
	form := url.Values{"etag": {hidden(w, page, "etag")}, "json": {"true"}, "payload": {"{\"n\":1.10,\r\n\"text\":\"mended\"}"}}
	to := w.confirm(at+"/edit", form)
	w.has(w.page(to), "The payload was replaced.", "What was changed", "mended")
	l := w.letters()[0]
	if string(l.Payload) != "{\"n\":1.10,\n\"text\":\"mended\"}" || string(l.Original) != `{"n":1.10,"text":""}` {
		t.Errorf("payload %q, original %q", l.Payload, l.Original)
	}
	if got := w.page(at + "/original"); got != `{"n":1.10,"text":""}` {
		t.Errorf("the original is %q", got)
	}
	form.Set("payload", `{"n":`)
	form.Set("key", "another")
	rec := w.ask("POST", at+"/edit", form)
	if rec.Code != http.StatusUnprocessableEntity || !strings.Contains(rec.Body.String(), "{&#34;n&#34;:</textarea>") {
		t.Errorf("what is no JSON any more is answered %d: %s", rec.Code, text(rec.Body.String()))
	}
	form.Set("payload", `{"n":3}`)
	if rec := w.ask("POST", at+"/edit", form); rec.Code != http.StatusPreconditionFailed {
		t.Errorf("an edit of what is there no more is answered %d", rec.Code)
	}
}

func TestAPayloadWithOtherEndsOfLinesIsNotEditedInAForm(t *testing.T) {
	w := newWorld(t)
	m := &tidemill.Message{ID: "crlf", Tenant: "shop", Payload: []byte("a\r\nb")}
	if err := w.dead.Put(t.Context(), []tidemill.DeadLetter{{Pipeline: "s2s.p", Message: m, At: time.Now()}}); err != nil {
		t.Fatal(err)
	}
	page := w.page("/console/dead/delivery/1/edit")
	if w.has(page, "It has ends of lines that a form would change. Replace it by a file."); strings.Contains(page, "<textarea") {
		t.Error("the form has the payload")
	}
	if got := w.page("/console/dead/delivery/1/payload"); got != "a\r\nb" {
		t.Errorf("the payload is downloaded as %q", got)
	}
}

func TestDeadLettersAreReplayedAndDiscarded(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	w.has(w.page("/console/dead/replay?seq=1&system=delivery"), "Replay 1 dead letter?", "It is this one", "answered 422", "tidemill dead replay --system delivery --seq 1", "POST /api/v1/dead/replay?seq=1")
	w.has(w.page(w.confirm("/console/dead/replay?seq=1", nil)), "Replaying 1.", "replaying")
	w.has(w.page("/console/dead/replay?seq=1"), "Nothing to replay")
	w.has(w.page(w.confirm("/console/dead/delete?seq=2&seq=3", nil)), "Discarded 2.")
	if ls := w.letters(); len(ls) != 1 || ls[0].State != deadletter.Replaying {
		t.Errorf("%d dead letters are left", len(ls))
	}
}

// TestAllAreThoseThatWereSeen holds that a change of all that match has an end in time: what dies
// after the page was made is not changed.
func TestAllAreThoseThatWereSeen(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	page := w.page("/console/dead?pipeline=s2s.p")
	at := strings.Index(page, "/console/dead/delete?")
	link := unescape.Replace(page[at : at+strings.IndexByte(page[at:], '"')])
	late := &tidemill.Message{ID: "late", Tenant: "shop", Payload: []byte("{}"), Mark: tidemill.Mark{Lo: 99}}
	if err := w.dead.Put(t.Context(), []tidemill.DeadLetter{{Pipeline: "s2s.p", Message: late, At: time.Now().Add(time.Second)}}); err != nil {
		t.Fatal(err)
	}
	w.has(w.page(link), "Discard 3 dead letters?", "--pipeline s2s.p")
	w.confirm(link, nil)
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
	w.has(w.page(all), "Discard 1,001 dead letters", "Type 1,001 to go on")
	rec := w.ask("POST", all, url.Values{"key": {"k"}})
	if rec.Code != http.StatusUnprocessableEntity || len(w.letters()) != 1001 {
		t.Errorf("without the number it is answered %d, and %d are left", rec.Code, len(w.letters()))
	}
	w.has(rec.Body.String(), "Nothing was changed. Type 1,001 to go on.")
	w.has(w.page(w.confirm(all, url.Values{"word": {"1001"}})), "Discarded 1,001.")

	w = newWorld(t, in("production"))
	w.fill("")
	w.has(w.page("/console/dead/delete?all=true"), "Type production to go on", "production")
	if rec := w.ask("POST", "/console/dead/delete?all=true", url.Values{"word": {"3"}}); rec.Code != http.StatusUnprocessableEntity {
		t.Errorf("in production it is answered %d without its name", rec.Code)
	}
}

// TestAFormThatIsSentTwiceIsDoneOnce holds that forms carry an idempotency key.
func TestAFormThatIsSentTwiceIsDoneOnce(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	const at = "/console/queues/q/retry?id=e1&tenant=shop"
	form := url.Values{"key": {hidden(w, w.page(at), "key")}}
	first, second := w.ask("POST", at, form), w.ask("POST", at, form)
	if first.Code != http.StatusSeeOther || second.Code != http.StatusSeeOther || first.Header().Get("Location") != second.Header().Get("Location") {
		t.Errorf("answered %d to %s, then %d to %s", first.Code, first.Header().Get("Location"), second.Code, second.Header().Get("Location"))
	}
	w.has(w.page(second.Header().Get("Location")), "Waiting again: 1.")
}
