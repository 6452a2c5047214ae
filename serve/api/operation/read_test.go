package operation_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

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
	for query, wanted := range map[string]bool{"max=": false, "sure=": false, "state=": false, "id=": false, "name=": true, "": true, "max=0&sure=false&state=held": true, "max=1&max=2": false, "name=a&name=b": false} {
		err := h.Serve(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/?"+query, nil))
		if p, _ := err.(*operation.Problem); wanted != (err == nil) || p != nil && p.Status != http.StatusBadRequest {
			t.Errorf("%q: %v", query, err)
		}
	}
}

type nested struct {
	Body struct {
		System string `json:"system"`
		Limits map[string]struct {
			PerSecond float64 `json:"per_second"`
		} `json:"limits"`
		Steps []struct{ Kind string } `json:"a/b"`
		At    time.Time               `json:"at"`
		Free  json.RawMessage         `json:"free"`
	} `body:"application/json"`
}

func TestAnUnknownFieldIsRefusedWithTheNearestThatThereIs(t *testing.T) {
	h := operation.Act[nested, operation.None]("a", "a", "").By(func(context.Context, *nested) (a operation.None, err error) { return })
	for body, want := range map[string]operation.Mistake{
		`{"sytem":"crm"}`:                               {Pointer: "/sytem", Detail: `unknown field "sytem": did you mean "system"?`},
		`{"colour":1}`:                                  {Pointer: "/colour", Detail: `unknown field "colour": there are system, limits, a/b, at, free`},
		`{"limits":{"shop":{"per_secnod":1}}}`:          {Pointer: "/limits/shop/per_secnod", Detail: `unknown field "per_secnod": did you mean "per_second"?`},
		`{"a/b":[{"Kind":"x"},{"Kin":"x"}]}`:            {Pointer: "/a~1b/1/Kin", Detail: `unknown field "Kin": did you mean "Kind"?`},
		`{"System":"crm","free":{"any":1},"at":null}`:   {},
		`{"system":"crm","limits":{"x":{}},"a/b":[]}  `: {},
	} {
		err := h.Serve(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)))
		p, _ := err.(*operation.Problem)
		switch {
		case want.Detail == "" && err != nil:
			t.Errorf("%s: %v", body, err)
		case want.Detail != "" && (p == nil || p.Status != http.StatusBadRequest || len(p.Errors) != 1 || p.Errors[0] != want || !strings.HasSuffix(p.Detail, want.Detail)):
			t.Errorf("%s: %+v, want %+v", body, p, want)
		}
	}
	for _, body := range []string{`{"system":1}`, `{"system"`, `{} {}`, `[]`} {
		if err := h.Serve(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))); err == nil {
			t.Errorf("%s is taken", body)
		}
	}
}

func TestAnUnknownParameterAndAnUnknownValueAreRefusedWithTheNearest(t *testing.T) {
	h := operation.View[wanted, operation.None]("a", "a", "").By(func(context.Context, *wanted) (a operation.None, err error) { return })
	for query, want := range map[string]operation.Mistake{
		"stat=held":  {Parameter: "stat", Detail: `"stat" is no parameter: did you mean "state"?`},
		"colour=red": {Parameter: "colour", Detail: `"colour" is no parameter: there are max, sure, state, id, name`},
		"state=hold": {Parameter: "state", Detail: `state="hold": want held; did you mean "held"?`},
		"state=xxxx": {Parameter: "state", Detail: `state="xxxx": want held`},
	} {
		err := h.Serve(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/?"+query, nil))
		if p, _ := err.(*operation.Problem); p == nil || len(p.Errors) != 1 || p.Errors[0] != want || p.Detail != want.Detail {
			t.Errorf("%s: %+v, want %+v", query, p, want)
		}
	}
}
