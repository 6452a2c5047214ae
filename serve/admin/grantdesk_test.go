package admin_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/serve/live"
	"github.com/tidemill/tidemill/state/bulk"
	"github.com/tidemill/tidemill/state/bulk/tablebulk"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/state/trail"
	"github.com/tidemill/tidemill/state/trail/tabletrail"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/delivery"
	"github.com/tidemill/tidemill/systems/delivery/deliveryconfig"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

// thing is what a test has of a system: a queue, its jobs and its dead letters, and a word that stands in
// all of them and nowhere else.
type thing struct {
	system, queue, word string
	jobs, dead          int
}

// things are those of two systems that run, and those of no system that is known.
var things = []thing{
	{crm.Name, "crm-events", "<cr1mson>", 3, 4},
	{delivery.Name, delivery.QueueOf("d7p&quote"), "d7p&quote", 50, 60},
	{"", "q9loose", "q9loose", 700, 800},
}

// grantDesk is an instance with them.
type grantDesk struct {
	*desk
	letters deadletter.Store
	queues  *memoryqueue.Store
	ops     bulk.Store
	fates   *live.Feed
	keys    int
}

func granting(t *testing.T, do func(d *grantDesk)) {
	synctest.Test(t, func(t *testing.T) {
		letters, err := tabledeadletter.Memory(deadletter.Options{})
		if err != nil {
			t.Fatal(err)
		}
		d := &grantDesk{letters: letters, queues: memoryqueue.New(memoryqueue.Options{}), ops: tablebulk.Memory(), fates: live.New(time.Now, func(n int) int { return n - 1 })}
		cfg := loaded(t)
		deliveryconfig.Of(cfg).Partners = []partner.Partner{{Name: "d7p&quote"}}
		p := admin.Parts{Config: func() *config.Loaded { return cfg }, Letters: letters, Bulk: d.ops, Once: tableledger.Memory(tableledger.Options{}), Trail: tabletrail.Memory(), Fates: d.fates, Uses: []string{"q9loose"},
			Doctor: func(context.Context) []preflight.Finding { return []preflight.Finding{{Detail: "q9loose"}} }, Common: &answer.Common{Queues: d.queues}}
		for _, of := range things {
			if of.system != "" {
				p.Systems = append(p.Systems, d.system(of))
				p.Finds = append(p.Finds, answer.Finds{System: of.system, Finder: &finder{places: []answer.Lookup{has("events of "+of.word, answer.EventHit(of.system, "event", of.word, "same", of.word))},
					tells: func(owner, id string) (api.Explanation, error) {
						return answer.NewStory(of.system, "event", owner, of.word, time.Now()).Explanation, nil
					}}})
			}
		}
		d.desk = newDesk(t, p)
		defer d.api.Close()
		for _, of := range things {
			d.plant(of, p.Trail)
		}
		time.Sleep(time.Millisecond)
		do(d)
	})
}

// system is one that runs, whose books cannot be read and have the word in their error.
func (d *grantDesk) system(of thing) admin.System {
	return admin.System{Name: of.system, Notes: func() []string { return []string{of.word} },
		Books: map[string]tidemill.Bookkeeper{of.queue: unread(of.word)},
		Audit: func(context.Context) (any, bool, error) {
			return map[string]any{"system": of.system, "balanced": true, "faults": []string{of.word}}, true, nil
		}}
}

// unread are books that cannot be read.
type unread string

func (u unread) Books(context.Context) (tidemill.Books, error) {
	return tidemill.Books{}, errors.New(string(u))
}

// plant puts in what there is of a system.
func (d *grantDesk) plant(of thing, tr trail.Trail) {
	ctx := d.Context()
	var ls []tidemill.DeadLetter
	var jobs []*tidemill.Message
	message := func(i int) *tidemill.Message {
		return &tidemill.Message{To: of.queue, ID: fmt.Sprint(of.word, "-", i), Tenant: of.word, Type: of.word, Payload: []byte(`{"note":"payload of ` + of.word + `"}`), Header: []tidemill.Field{{Name: []byte(of.word), Value: []byte(of.word)}}}
	}
	for i := range of.dead {
		ls = append(ls, tidemill.DeadLetter{Pipeline: of.queue, Message: message(i), Kind: tidemill.Validation, Cause: of.word + " failed", At: time.Now()})
	}
	for i := range of.jobs {
		jobs = append(jobs, message(i))
	}
	jobs = append(jobs, &tidemill.Message{To: of.queue, ID: "same", Tenant: of.word})
	add(d.T, d.queues, jobs[0])
	if err := errors.Join(d.letters.Put(ctx, ls), d.queues.Add(ctx, jobs[1:], nil)); err != nil {
		d.Fatal(err)
	}
	time.Sleep(time.Millisecond)                            // what is there was there before
	d.post("queues/"+url.PathEscape(of.queue)+"/pause", "") // a change, and what wants attention
	d.asAdmin("operations?what=jobs.remove&queue=" + url.QueryEscape(of.queue) + "&max=1&expect_at_most=1")
}

// asAdmin starts an operation.
func (d *grantDesk) asAdmin(path string) {
	d.Helper()
	d.good(d.as("admin", http.MethodPost, path))
}

// methodOf is that of a change.
func methodOf(path string) string {
	if strings.Contains(path, "/payload") {
		return http.MethodPut
	}
	return http.MethodPost
}

// as asks as somebody with rights, who may see payloads of what they are an operator of.
func (d *grantDesk) as(grant, method, path string) *httptest.ResponseRecorder {
	d.Helper()
	rights, err := caller.ParseRights(grant)
	if err != nil {
		d.Fatal(err)
	}
	body := ""
	if strings.HasSuffix(path, "/settings") || strings.Contains(path, "/payload") {
		body = `{"paused": true}`
	}
	w, r := httptest.NewRecorder(), request(method, admin.Prefix+path, body)
	r.Header.Set(operation.IfMatch, operation.Whatever)
	if d.keys++; method != http.MethodGet {
		r.Header.Set("Idempotency-Key", fmt.Sprint("k", d.keys))
	}
	d.api.Inside().ServeHTTP(w, r.WithContext(caller.With(r.Context(), caller.Caller{Name: "ada", Rights: rights, Payloads: true, Via: "token"})))
	asDescribed(d.T, r, w)
	return w
}

// tells says which of a thing's words a text has; its counts are looked for by their fields.
func (of *thing) tells(text string) bool {
	return slices.ContainsFunc([]string{of.word, url.QueryEscape(of.word), strings.NewReplacer("<", `\u003c`, ">", `\u003e`, "&", `\u0026`).Replace(of.word),
		fmt.Sprintf(`:%d,`, of.dead), fmt.Sprintf(`:%d,`, of.jobs+1), fmt.Sprintf(`:%d,`, of.jobs), fmt.Sprintf(`:%d}`, of.dead), `"` + of.queue + `"`}, func(s string) bool { return strings.Contains(text, s) })
}
