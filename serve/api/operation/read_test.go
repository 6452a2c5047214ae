package operation_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/serve/api/operation"
)

type textBody struct {
	Body []byte `body:"text/plain"`
}

type jsonBody struct {
	Body struct{ A int } `body:"application/json"`
}

// An empty body is described as wrong: it asks for nothing.
func TestABodyIsWanted(t *testing.T) {
	texts := operation.Act[textBody, operation.None]("a", "a", "").By(func(context.Context, *textBody) (a operation.None, err error) { return })
	objects := operation.Act[jsonBody, operation.None]("b", "b", "").By(func(context.Context, *jsonBody) (a operation.None, err error) { return })
	for _, h := range []operation.Handler{texts, objects} {
		for body, wanted := range map[string]bool{"": false, "{}": true} {
			err := h.Serve(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)))
			p, _ := err.(*operation.Problem)
			if wanted != (err == nil) || p != nil && p.Status != http.StatusBadRequest {
				t.Errorf("%s of the body %q: %v", h.ID, body, err)
			}
		}
	}
}

type wanted struct {
	Max   int    `query:"max"`
	Sure  bool   `query:"sure"`
	State string `query:"state" enum:",held"`
	ID    string `query:"id" form:"uuid"`
	Name  string `query:"name"`
}

// What has nothing behind its name is a mistake where it cannot be meant: all would be shown.
func TestAnEmptyParameterIsNoCountAndNoChoice(t *testing.T) {
	h := operation.View[wanted, operation.None]("a", "a", "").By(func(context.Context, *wanted) (a operation.None, err error) { return })
	for query, wanted := range map[string]bool{"max=": false, "sure=": false, "state=": false, "id=": false, "name=": true, "": true, "max=0&sure=false&state=held": true} {
		err := h.Serve(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/?"+query, nil))
		if p, _ := err.(*operation.Problem); wanted != (err == nil) || p != nil && p.Status != http.StatusBadRequest {
			t.Errorf("%q: %v", query, err)
		}
	}
}
