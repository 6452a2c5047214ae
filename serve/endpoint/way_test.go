package endpoint_test

import (
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill/internal/giveway"
	"github.com/tidemill/tidemill/serve/endpoint"
	"github.com/tidemill/tidemill/serve/request"
)

// Work gives way while a request of few items takes long, and no longer.
func TestWorkGivesWayToRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var way giveway.Way
		rests := func() bool { return way.Rest(time.Now(), time.Millisecond, time.Second) > 0 } // no core is free
		do := func(items int) func(*asked) *request.Problem {
			return func(x *asked) *request.Problem {
				ctx, done := x.Urgent(x.R.Context(), items)
				defer done()
				if first := giveway.IsFirst(ctx); first != (items <= 16) {
					t.Errorf("%d items go first: %v", items, first)
				}
				time.Sleep(time.Second)
				return nil
			}
		}
		h, err := endpoint.New(endpoint.Protocol[*asked]{Name: "a test", New: func() *asked { return new(asked) }, Help: "it is elsewhere", Defaults: endpoint.Limits{Body: 1 << 20},
			Find: func(x *asked) *endpoint.Route[*asked] {
				return &endpoint.Route[*asked]{Allow: "POST", Do: map[string]func(*asked) *request.Problem{"/few": do(16), "/many": do(17)}[x.R.URL.Path]}
			},
			Least: func(l *endpoint.Limits) int64 { return int64(l.Body) }}, &endpoint.Options{Way: &way}, &endpoint.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		ask := func(path string) {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "POST", path, nil))
		}
		for path, want := range map[string]bool{"/few": true, "/many": false} {
			go ask(path)
			time.Sleep(500 * time.Millisecond)
			if rests() != want {
				t.Errorf("while %s is worked on for half a second, work rests: %v", path, !want)
			}
			time.Sleep(time.Second)
			if rests() {
				t.Errorf("work rests after %s was answered", path)
			}
		}
	})
}
