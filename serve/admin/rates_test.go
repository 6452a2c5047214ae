package admin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/internal/giveway"
	"github.com/tidemill/tidemill/serve/access"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/state/access/tableaccess"
	"github.com/tidemill/tidemill/systems"
)

// usualRates is a configuration in which nothing is set.
func usualRates(t *testing.T) func() *config.Loaded {
	t.Helper()
	c, err := systems.All().Settings().Load(config.Layers{})
	if err != nil {
		t.Fatal(err)
	}
	return constant(c)
}

var (
	hold = operation.View[operation.None, operation.None]("hold", "hold", "Hold.")
	all  = operation.List[pagedOf, keyedOf]("all", "all", "All.").For(caller.Viewer)
	take = operation.Act[operation.None, operation.None]("take", "take", "Take events.").AsIngest()
)

func init() { operation.Costs(operation.Dear, hold.Description) }

type (
	pagedOf struct {
		Max    int  `query:"max"`
		Follow bool `query:"follow"`
		operation.Page
	}
	keyedOf struct{}
)

func (keyedOf) PageKey() string { return "" }

// held is a room whose dear operation goes on until it is let go.
func held(work <-chan bool) admin.Room {
	return admin.Room{Does: []operation.Handler{
		hold.By(func(ctx context.Context, _ *operation.None) (none operation.None, err error) {
			select {
			case <-work:
			case <-ctx.Done():
			}
			return none, nil
		}),
		all.By(func(context.Context, *pagedOf) (iter.Seq2[keyedOf, error], error) {
			return func(func(keyedOf, error) bool) {}, nil
		}),
		take.By(func(context.Context, *operation.None) (none operation.None, err error) { return none, nil }),
	}}
}

// fast is an API of usual rates, with a viewer's token beside its own.
func fast(t *testing.T, p admin.Parts) (ask func(token, method, path string) *httptest.ResponseRecorder, viewer string) {
	t.Helper()
	p.Config, p.People = usualRates(t), access.Options{Store: tableaccess.Memory()}
	p.Rooms = append(p.Rooms, systems.All().Rooms(nil)...)
	d := newDesk(t, p)
	var made struct{ Secret string }
	if err := json.Unmarshal([]byte(d.post("tokens?name=ci&role=viewer", "")), &made); err != nil {
		t.Fatal(err)
	}
	return func(token, method, path string) *httptest.ResponseRecorder {
		w, r := httptest.NewRecorder(), request(method, admin.Prefix+path, "")
		r.Header.Set("Authorization", "Bearer "+token)
		d.api.ServeHTTP(w, r)
		return w
	}, made.Secret
}

func TestACallerWhoHammersIsTold(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	metrics := prometheus.NewRegistry()
	ask, viewer := fast(t, admin.Parts{Rooms: []admin.Room{held(nil)}, Now: func() time.Time { return now }, Metrics: metrics})
	for n := range 60 {
		w := ask(token, http.MethodGet, "me")
		if w.Code != http.StatusOK || w.Header().Get("RateLimit-Policy") != `"reads";q=60;w=3` || w.Header().Get("RateLimit") != fmt.Sprintf(`"reads";r=%d;t=%d`, 59-n, n/20+1) {
			t.Fatalf("read %d is answered %d, %v", n, w.Code, w.Header())
		}
	}
	w := ask(token, http.MethodGet, "me")
	refused(t, w, http.StatusTooManyRequests, "key:admin asks for more than 20 reads a second, which is what admin.rates.reads allows: wait for 1 s")
	if w.Header().Get("Retry-After") != "1" || w.Header().Get("RateLimit") != `"reads";r=0;t=3` || w.Header().Get("Connection") != "" {
		t.Errorf("its header is %v", w.Header())
	}
	if w := ask(viewer, http.MethodGet, "me"); w.Code != http.StatusOK {
		t.Errorf("another caller from the same address is answered %d", w.Code)
	}
	for range 9 { // and one made the token
		ask(token, http.MethodPost, "queues/none/pause")
	}
	w = ask(token, http.MethodPost, "queues/none/pause")
	if refused(t, w, http.StatusTooManyRequests, "more than 2 changes a second"); w.Header().Get("RateLimit-Policy") != `"changes";q=10;w=5` {
		t.Errorf("its header is %v", w.Header())
	}
	for n := range 100 { // what takes events in is not held up
		if w := ask(token, http.MethodPost, "take"); w.Code != http.StatusOK {
			t.Fatalf("event %d is answered %d", n, w.Code)
		}
	}
	if now = now.Add(time.Second); ask(token, http.MethodGet, "me").Code != http.StatusOK || ask(token, http.MethodPost, "queues/none/pause").Code != http.StatusNotFound {
		t.Error("after a second there is nothing again")
	}
	if err := testutil.GatherAndCompare(metrics, strings.NewReader(`# HELP tidemill_api_limited_total Requests to the API and the console that were answered 429, as their caller asked for more than admin.rates allows: reads or changes a second, or dear requests at a time, of the caller or of all.
# TYPE tidemill_api_limited_total counter
tidemill_api_limited_total{limit="changes"} 1
tidemill_api_limited_total{limit="dear"} 0
tidemill_api_limited_total{limit="dear-of-all"} 0
tidemill_api_limited_total{limit="reads"} 1
`), "tidemill_api_limited_total"); err != nil {
		t.Error(err)
	}
}

func TestDearRequestsAreOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := make(chan bool)
		ask, viewer := fast(t, admin.Parts{Rooms: []admin.Room{held(work)}, Now: time.Now})
		ended := make(chan int)
		go func() { ended <- ask(token, http.MethodGet, "hold").Code }()
		synctest.Wait()
		w := ask(token, http.MethodGet, "hold")
		refused(t, w, http.StatusTooManyRequests, "hold is dear, and key:admin has 1 such at work already")
		if w.Header().Get("Retry-After") != "2" || w.Header().Get("RateLimit-Policy") != `"dear";q=1;qu="concurrent-requests"` || w.Header().Get("RateLimit") != `"dear";r=0;t=2` {
			t.Errorf("its header is %v", w.Header())
		}
		for path, code := range map[string]int{"all": 429, "all?count=exact&limit=5": 429, "all?limit=5": 200, "all?max=5": 200, "all?follow=true": 200, "me": 200} {
			if w := ask(token, http.MethodGet, path); w.Code != code && (code == 429 || w.Code == 429) {
				t.Errorf("beside it %s is answered %d, want %d", path, w.Code, code)
			}
		}
		if w := ask(viewer, http.MethodGet, "all"); w.Code != http.StatusOK {
			t.Errorf("another caller is answered %d", w.Code)
		}
		work <- true
		if code := <-ended; code != http.StatusOK {
			t.Errorf("the first is answered %d", code)
		}
		go func() { ended <- ask(token, http.MethodGet, "hold").Code }()
		work <- true
		if code := <-ended; code != http.StatusOK {
			t.Errorf("the next is answered %d", code)
		}
	})
}

// A page waits while requests to endpoints take long, and what is no page does not.
func TestPagesGiveWayToEndpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g giveway.Gate
		ask, viewer := fast(t, admin.Parts{Rooms: []admin.Room{held(nil)}, Now: time.Now, Common: &answer.Common{Log: slog.New(slog.DiscardHandler), Readers: &g}})
		defer g.Enter(giveway.First(t.Context()))()
		for _, c := range []struct {
			path   string
			waited time.Duration
		}{{"all?limit=5", 15 * time.Millisecond}, {"all", 0}, {"openapi.json", 0}} {
			time.Sleep(time.Second)
			g.Enter(t.Context())()
			leave := g.Enter(t.Context())
			time.Sleep(40 * time.Millisecond)
			leave()
			began := time.Now()
			if w := ask(viewer, http.MethodGet, c.path); w.Code != http.StatusOK {
				t.Errorf("%s is answered %d: %s", c.path, w.Code, w.Body)
			}
			if waited := time.Since(began); waited != c.waited {
				t.Errorf("%s waited %v behind a page of 40ms, want %v", c.path, waited, c.waited)
			}
		}
	})
}

// TestAPatientClientGoesOn reads as a command of the CLI does, from an API that says that it is too fast.
func TestAPatientClientGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, admin.Parts{Config: usualRates(t), Now: time.Now})
		c := operation.Client{HTTP: &http.Client{Transport: &operation.InProcess{Handler: d.api}}, Base: "http://localhost", Token: token}
		me := operation.View[operation.None, map[string]any]("getMe", "me", "")
		var last error
		for range 61 {
			_, last = me.Call(t.Context(), &c, &operation.None{})
		}
		if p, ok := last.(*operation.Problem); !ok || p.Status != http.StatusTooManyRequests || p.After != 1 {
			t.Fatalf("one too many is %v", last)
		}
		c.Patience = 10 * time.Second
		began := time.Now()
		for range 100 {
			if _, err := me.Call(t.Context(), &c, &operation.None{}); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took < 4*time.Second || took > 6*time.Second {
			t.Errorf("a hundred reads took %v", took)
		}
		c.Token, began = "wrong", time.Now()
		for range 20 {
			_, last = me.Call(t.Context(), &c, &operation.None{})
		}
		if p, ok := last.(*operation.Problem); !ok || p.Status != http.StatusTooManyRequests || time.Since(began) > 15*time.Second {
			t.Errorf("with a wrong token it waits %v for %v", time.Since(began), last)
		}
	})
}
