package endpoint_test

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/tidemill/tidemill/serve/endpoint"
	"github.com/tidemill/tidemill/serve/request"
)

// watching writes down what it is shown.
type watching struct {
	on  bool
	saw []string
}

func (w *watching) On() bool { return w.on }

func (w *watching) Came(system, owner, verdict string, n int, why string) {
	w.saw = append(w.saw, fmt.Sprintf("%s %q %s %d %s", system, owner, verdict, n, why))
}

// TestWhatAWatcherIsShown: what was counted of a request, and why it was refused; nothing while nobody
// looks.
func TestWhatAWatcherIsShown(t *testing.T) {
	w := &watching{}
	do := map[string]func(*asked) *request.Problem{
		"/good": func(x *asked) *request.Problem {
			x.Owner.Project.Name = "shop"
			x.Count("accepted", 2)
			x.Count("known", 1)
			x.Count("full", 0)
			return nil
		},
		"/wrong":  func(x *asked) *request.Problem { x.Count("rejected", 3); return request.BadRequest("none is valid") },
		"/closed": func(*asked) *request.Problem { return request.Unauthorized("the API key is not known") },
	}
	h, err := endpoint.New(endpoint.Protocol[*asked]{Name: "a test", System: "s", New: func() *asked { return new(asked) }, Help: "it is elsewhere", Defaults: endpoint.Limits{Body: 1 << 20},
		Find: func(x *asked) *endpoint.Route[*asked] {
			return &endpoint.Route[*asked]{Allow: "GET, POST", Do: do[x.R.URL.Path]}
		},
		Least: func(l *endpoint.Limits) int64 { return int64(l.Body) }}, &endpoint.Options{Watch: w}, &endpoint.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	all := func() {
		for _, r := range []string{"POST /good", "POST /wrong", "POST /closed", "GET /closed", "POST /nowhere"} {
			var method, path string
			_, _ = fmt.Sscan(r, &method, &path)
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), method, path, nil))
		}
		h.Count(0, "accepted", 4)
	}
	if all(); len(w.saw) != 0 {
		t.Errorf("nobody looks, and it is shown %q", w.saw)
	}
	w.on = true
	all()
	want := []string{`s "shop" accepted 2 `, `s "shop" known 1 `, `s "" rejected 3 bad_request: none is valid`, `s ""  1 unauthorized: the API key is not known`, `s ""  1 not_found: there is nothing at this path; it is elsewhere`, `s "" accepted 4 `}
	if !slices.Equal(w.saw, want) {
		t.Errorf("it is shown\n%q\nwant\n%q", w.saw, want)
	}
}
