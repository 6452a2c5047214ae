package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/console"
	"github.com/tidemill/tidemill/serve/console/consoletest"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
)

// link is the first link of a page that begins so.
func link(t *testing.T, page, begin string) string {
	t.Helper()
	_, rest, is := strings.Cut(page, `href="`+begin)
	to, _, _ := strings.Cut(rest, `"`)
	if !is {
		t.Fatalf("no link begins %s: %s", begin, consoletest.Text(page))
	}
	return begin + consoletest.Unescape.Replace(to)
}

// TestOneOfSeveralTenantsIsNotAllOfThem has two tenants use one id.
func TestOneOfSeveralTenantsIsNotAllOfThem(t *testing.T) {
	w := newWorld(t)
	if err := w.queues.Add(t.Context(), []*tidemill.Message{{To: "q", ID: "e1", Tenant: "a"}, {To: "q", ID: "e1", Tenant: "b"}}, nil); err != nil {
		t.Fatal(err)
	}
	page := w.Page("/console/queues/q/remove?id=e1&state=waiting")
	if w.Has(page, "Nothing is changed", "Jobs of several tenants have the ids that were chosen."); strings.Contains(page, `name="preview"`) {
		t.Error("a job of a tenant that was not chosen can be removed")
	}
	w.Has(w.Page("/console/queues/q/remove?id=e1&tenant=a"), "Remove 1 job?")
}

// TestOneOfSeveralSystemsIsNotAllOfThem has two stores use one number.
func TestOneOfSeveralSystemsIsNotAllOfThem(t *testing.T) {
	own, err := tabledeadletter.Memory(deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(_ *world, a *admin.Parts, _ *console.Parts) {
		a.OwnLetters = []admin.OwnLetters{{System: "crm", Store: own}}
	})
	w.fill("")
	if err := own.Put(t.Context(), []tidemill.DeadLetter{{Pipeline: "crm-events", Message: &tidemill.Message{ID: "c1"}, At: time.Now().Add(-time.Minute)}}); err != nil {
		t.Fatal(err)
	}
	page := w.Page("/console/dead/delete?seq=1")
	if w.Has(page, "Nothing is changed", "Dead letters of several systems have the numbers that were chosen."); strings.Contains(page, `name="preview"`) {
		t.Error("a dead letter of a system that was not chosen can be discarded")
	}
	w.Has(w.Page("/console/dead/delete?seq=1&system=delivery"), "Discard 1 dead letter?", "d1")
}

// TestWhatIsBeingReplayedIsNoScope holds that a list of those that cannot be changed does not offer to
// change all the others.
func TestWhatIsBeingReplayedIsNoScope(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	w.starts("/console/dead/replay?seq=1", nil)
	w.ends()
	page := w.Page("/console/dead?state=replaying")
	if w.Has(page, "They are being replayed"); strings.Contains(page, "/console/dead/replay?") || strings.Contains(page, "/console/dead/delete?") || strings.Contains(page, "data-asks=") {
		t.Errorf("it offers to change others: %s", consoletest.Text(page))
	}
	w.Has(w.Page(link(t, w.Page("/console/dead?state=held"), "/console/dead/delete?")), "Discard 2 dead letters?")
}

// TestAllJobsThatMatchAreThoseThatWereSeen holds that a change of all jobs of a list heeds its filter,
// and leaves out what came after the page was made.
func TestAllJobsThatMatchAreThoseThatWereSeen(t *testing.T) {
	ahead := -time.Second // the clock of the queue
	w := newWorld(t, func(w *world, a *admin.Parts, _ *console.Parts) {
		w.queues = memoryqueue.New(memoryqueue.Options{Capacity: 5000, Now: func() time.Time { return time.Now().Add(ahead) }})
		a.Queues = w.queues
	})
	w.fill("")
	if err := w.queues.Add(t.Context(), []*tidemill.Message{{To: "q", ID: "other", Tenant: "club"}}, nil); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"?state=failed": "Retry 1 job?", "?state=delayed": "Make due 1 job?"} {
		page := w.Page("/console/queues/q/jobs" + path)
		verb := map[string]string{"?state=failed": "retry", "?state=delayed": "promote"}[path]
		w.Has(w.Page(link(t, page, "/console/queues/q/"+verb+"?")), want)
	}
	page := w.Page("/console/queues/q/jobs?state=waiting&tenant=shop")
	ahead = time.Second
	if err := w.queues.Add(t.Context(), []*tidemill.Message{{To: "q", ID: "late", Tenant: "shop"}}, nil); err != nil {
		t.Fatal(err)
	}
	to := link(t, page, "/console/queues/q/remove?")
	w.Has(w.Page(to), "Remove 2 jobs?", "--tenant=shop")
	w.starts(to, nil)
	w.ends()
	if st, err := w.queues.Stats(t.Context(), "q"); err != nil || st.Waiting != 2 {
		t.Errorf("%d jobs wait, of other and late: %v", st.Waiting, err)
	}
	for _, path := range []string{"", "?state=waiting&id=late", "?state=leased"} {
		if page := w.Page("/console/queues/q/jobs" + path); strings.Contains(page, "all that match</a>") || strings.Contains(page, "all that match due</a>") {
			t.Errorf("all are offered at %q", path)
		}
	}
}

// TestNothingChosenIsNothing sends the forms of lists with no row ticked, as a browser without script does.
func TestNothingChosenIsNothing(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	for list, verbs := range map[string][]string{"/console/dead?system=delivery&pipeline=s2s.p": {"/console/dead/replay", "/console/dead/delete"}, "/console/queues/q/jobs?state=waiting&tenant=shop": {"/console/queues/q/remove"}} {
		page := w.Page(list)
		_, form, _ := strings.Cut(page, `<form method="get">`)
		q := url.Values{}
		for _, name := range []string{"chosen", "back", "system", "pipeline", "tenant", "state"} {
			if strings.Contains(form, `name="`+name+`"`) {
				q.Set(name, w.Hidden(form, name))
			}
		}
		for _, at := range verbs {
			if rec := w.Ask("GET", at+"?"+q.Encode(), nil); rec.Code != http.StatusBadRequest || !strings.Contains(rec.Body.String(), "Nothing was chosen, and nothing is changed.") {
				t.Errorf("%s?%s is answered %d: %s", at, q.Encode(), rec.Code, consoletest.Text(rec.Body.String()))
			}
		}
	}
}

// TestAFilterThatThereIsNotIsRefused holds that a filter that was written wrong neither shows all nor
// offers to change it.
func TestAFilterThatThereIsNotIsRefused(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	for _, path := range []string{"dead?sytem=crm", "dead/delete?all=true&sytem=crm", "dead/replay?seq=1&pipline=p", "queues/q/jobs?stat=failed", "queues/q/remove?state=waiting&tennant=shop", "operations?stat=x", "owners?prefx=a"} {
		rec := w.Ask("GET", "/console/"+path, nil)
		if text := consoletest.Text(rec.Body.String()); rec.Code != 400 || !strings.Contains(text, "is no parameter: did you mean") || strings.Contains(rec.Body.String(), `name="preview"`) {
			t.Errorf("%s is answered %d: %s", path, rec.Code, text)
		}
	}
}
