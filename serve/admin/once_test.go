package admin_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/systems/analytics"
	"github.com/tidemill/tidemill/systems/analytics/analyticsapi"
)

// onceDesk is an API that takes events, and counts how often.
type onceDesk struct {
	*desk
	mu    sync.Mutex
	taken int
	fail  error
	hold  chan struct{} // nil: it does not wait
}

// one project there is.
type one struct{ project.Store }

func (one) List(context.Context) ([]project.Project, error) {
	return []project.Project{{ID: uuid.Max, Name: "shop"}}, nil
}

func newOnceDesk(t *testing.T, keys ledger.Ledger) *onceDesk {
	d := &onceDesk{}
	a := &analyticsapi.API{Common: &answer.Common{Projects: one{}}, Send: func(ctx context.Context, _ uuid.UUID, events [][]byte) (analyticsapi.Sent, error) {
		d.mu.Lock()
		d.taken += len(events)
		n, fail := d.taken, d.fail
		d.mu.Unlock()
		if d.hold != nil {
			<-d.hold
		}
		return analyticsapi.Sent{Accepted: n, Reasons: []string{}}, errors.Join(fail, ctx.Err())
	}}
	d.desk = newDesk(t, admin.Parts{Once: keys, Common: a.Common, Rooms: only(analytics.Name, a.Operations())})
	return d
}

// send sends a body under keys.
func (d *onceDesk) send(ctx context.Context, path, body string, keys ...string) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), request(http.MethodPost, admin.Prefix+path, body).WithContext(ctx)
	r.Header[operation.IdempotencyKey] = keys
	d.api.ServeHTTP(w, r)
	asDescribed(d.T, r, w)
	return w
}

func TestAChangeIsMadeOnceForItsKey(t *testing.T) {
	keys := tableledger.Memory(tableledger.Options{})
	d := newOnceDesk(t, keys)
	first := d.send(t.Context(), "events", "{}", "k")
	again := newOnceDesk(t, keys).send(t.Context(), "events", "{}", "k") // of another instance
	if d.good(first) != again.Body.String() || again.Code != first.Code || again.Header().Get("Content-Type") != first.Header().Get("Content-Type") || d.taken != 1 {
		t.Errorf("answered %s, then %d %s; %d were taken", first.Body, again.Code, again.Body, d.taken)
	}
	for _, other := range [][2]string{{"events", "{}{}"}, {"events?project=shop", "{}"}, {"crm/events", "{}"}} {
		refused(t, d.send(t.Context(), other[0], other[1], "k"), http.StatusUnprocessableEntity, "another request")
	}
	if d.good(d.send(t.Context(), "events", "{}", "other")); d.taken != 2 {
		t.Errorf("another key: %d were taken", d.taken)
	}
}

func TestKeysAreNamesOfOneRequest(t *testing.T) {
	d := newOnceDesk(t, tableledger.Memory(tableledger.Options{}))
	for _, bad := range [][]string{{""}, {"a", "b"}, {strings.Repeat("k", 256)}, {"ä"}, {"a\tb"}} {
		refused(t, d.send(t.Context(), "events", "{}", bad...), http.StatusBadRequest, "printable")
	}
	refused(t, newOnceDesk(t, nil).send(t.Context(), "events", "{}", "k"), http.StatusBadRequest, "leave it out")
	if d.taken > 0 {
		t.Errorf("%d were taken", d.taken)
	}
}

// What was refused as a whole has used no key; what failed in between may be done in part.
func TestOnlyWhatWasRefusedMayBeSentAgain(t *testing.T) {
	d := newOnceDesk(t, tableledger.Memory(tableledger.Options{}))
	refused(t, d.send(t.Context(), "events?nix=1", "{}", "k"), http.StatusBadRequest, "no parameter")
	d.good(d.send(t.Context(), "events", "{}", "k"))
	refused(t, d.send(t.Context(), "crm/events", "{}", "elsewhere"), http.StatusNotFound, "does not run")
	d.good(d.send(t.Context(), "events", "{}", "elsewhere"))
	d.fail = errors.New("the disk is full")
	for range 2 {
		refused(t, d.send(t.Context(), "events", "{}", "part"), http.StatusServiceUnavailable, "full")
	}
	if d.taken != 3 {
		t.Errorf("%d were taken, want no second try of what may be done in part", d.taken)
	}
}

func TestARequestThatRunsIsNotMadeTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newOnceDesk(t, tableledger.Memory(tableledger.Options{}))
		d.hold = make(chan struct{})
		ctx, leave := context.WithCancel(t.Context())
		ended := make(chan *httptest.ResponseRecorder)
		go func() { ended <- d.send(ctx, "events", "{}", "k") }()
		synctest.Wait()
		w := d.send(t.Context(), "events", "{}", "k")
		refused(t, w, http.StatusConflict, "being worked on")
		if w.Header().Get("Retry-After") == "" {
			t.Error("it is not said when to ask again")
		}
		leave() // the client is gone, and asks again later
		close(d.hold)
		first := <-ended
		if again := d.send(t.Context(), "events", "{}", "k"); d.good(first) != d.good(again) || d.taken != 1 {
			t.Errorf("answered %s, then %s; %d were taken", first.Body, again.Body, d.taken)
		}
	})
}

// A request that never ended may have been done: it is not made again by itself.
func TestWhatNeverEndedIsForPeople(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newOnceDesk(t, tableledger.Memory(tableledger.Options{}))
		d.hold = make(chan struct{})
		ended := make(chan *httptest.ResponseRecorder)
		go func() { ended <- d.send(t.Context(), "events", "{}", "k") }()
		synctest.Wait()
		time.Sleep(11 * time.Minute) // the lease
		for range 2 {
			refused(t, d.send(t.Context(), "events", "{}", "k"), http.StatusConflict, "nobody knows how it ended")
		}
		close(d.hold)
		if <-ended; d.taken != 1 {
			t.Errorf("%d were taken", d.taken)
		}
	})
}

// broken fails at one of its calls.
type broken struct {
	ledger.Ledger
	begin, end error
}

func (b broken) Begin(ctx context.Context, es []*ledger.Entry, o ledger.Begin) error {
	return errors.Join(b.begin, b.Ledger.Begin(ctx, es, o))
}

func (b broken) End(ctx context.Context, es []*ledger.Entry) error {
	return errors.Join(b.end, b.Ledger.End(ctx, es))
}

func TestNothingIsDoneBeforeTheKeyIsKept(t *testing.T) {
	away := errors.New("the store is away")
	d := newOnceDesk(t, broken{tableledger.Memory(tableledger.Options{}), away, nil})
	if refused(t, d.send(t.Context(), "events", "{}", "k"), http.StatusServiceUnavailable, "away"); d.taken > 0 {
		t.Errorf("%d were taken", d.taken)
	}
	d = newOnceDesk(t, broken{tableledger.Memory(tableledger.Options{}), nil, away})
	if d.good(d.send(t.Context(), "events", "{}", "k")); !strings.Contains(d.log.String(), "not kept") {
		t.Error("it is not said that the answer is not kept")
	}
}

func TestKeysAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := tableledger.Memory(tableledger.Options{})
		d := newOnceDesk(t, keys)
		for n := range 1500 {
			d.good(d.send(t.Context(), "events", "{}", fmt.Sprint(n)))
		}
		forget := func() {
			if err := admin.ForgetOnce(t.Context(), keys, time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(admin.KeptOnce - time.Second)
		forget()
		if d.good(d.send(t.Context(), "events", "{}", "7")); d.taken != 1500 {
			t.Error("a key was forgotten before its time")
		}
		time.Sleep(2 * time.Second)
		forget()
		for n := range 1500 {
			d.good(d.send(t.Context(), "events", "{}", fmt.Sprint(n)))
		}
		if d.taken != 3000 {
			t.Errorf("%d were taken: keys are kept for ever", d.taken)
		}
	})
}

// An instance has a store for its keys.
func TestAnInstanceKeepsItsKeys(t *testing.T) {
	in := start(t, nil)
	for range 2 {
		r := request(http.MethodPost, admin.Prefix+"events", `{"event":"bought","distinct_id":"u"}`)
		r.Header.Set(operation.IdempotencyKey, "k")
		if w := in.do(r); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"accepted":1,"duplicates":0`) {
			t.Errorf("answered %d %s", w.Code, w.Body)
		}
	}
}
