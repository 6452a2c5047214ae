package operation_test

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
)

type covered struct {
	ID      string                     `json:"id"`
	N       int                        `json:"n"`
	Payload string                     `json:"payload,omitempty" covered:"payload"`
	Base64  string                     `json:"payload_base64,omitempty" covered:"payload"`
	Bag     map[string]json.RawMessage `json:"bag,omitempty" covered:"properties"`
	Headers []head                     `json:"headers,omitempty"`
	Row     json.RawMessage            `json:"row,omitempty"` // nothing describes it
	Inner   operation.JSON[head]       `json:"inner,omitempty"`
	Next    *covered                   `json:"next,omitempty"`
}

type head struct {
	Name  string `json:"name"`
	Value string `json:"value" covered:"headers" by:"name"`
}

var showCovered = operation.View[operation.None, covered]("showCovered", "covered", "Show it.")

// shown is an answer as a caller sees it.
func shown(t testing.TB, v covered, payloads bool, paths ...string) string {
	t.Helper()
	h := showCovered.By(func(context.Context, *operation.None) (covered, error) { return v, nil })
	r := httptest.NewRequest(http.MethodGet, "/api/v1/covered", nil)
	ctx := caller.With(r.Context(), caller.Caller{Name: "ada", Rights: caller.All(caller.Admin), Payloads: payloads})
	if len(paths) > 0 {
		ctx = operation.WithCover(ctx, paths)
	}
	w := httptest.NewRecorder()
	if err := h.Serve(w, r.WithContext(ctx)); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(w.Body.String(), "\n")
}

func TestWhoMayNotSeePayloadsSeesNamesAndTypes(t *testing.T) {
	for _, c := range []struct {
		v    covered
		want string
	}{
		{covered{ID: "a", N: 3}, `{"id":"a","n":3}`},
		{covered{Payload: `{"email": "a@b.c", "n": 1.50, "vip": true, "no": null, "in": {"x": ["y", 2]}, "n": 2, "": ""}`},
			`{"id":"","n":0,"payload":"{\"email\":\"(text)\",\"n\":\"(number)\",\"vip\":\"(true or false)\",\"no\":null,\"in\":{\"x\":[\"(text)\",\"(number)\"]},\"n\":\"(number)\",\"\":\"\"}"}`},
		{covered{Payload: "a@b.c"}, `{"id":"","n":0,"payload":"(text)"}`},
		{covered{Payload: `{"a": `}, `{"id":"","n":0,"payload":"(text)"}`},
		{covered{Payload: `"a@b.c"`}, `{"id":"","n":0,"payload":"(text)"}`},
		{covered{Base64: "YUBiLmM="}, `{"id":"","n":0,"payload_base64":"KHRleHQp"}`},
		{covered{Bag: map[string]json.RawMessage{"email": json.RawMessage(`"a@b.c"`)}}, `{"id":"","n":0,"bag":{"email":"(text)"}}`},
		{covered{Headers: []head{{"authorization", "s3cret"}}}, `{"id":"","n":0,"headers":[{"name":"authorization","value":"(text)"}]}`},
		{covered{Row: json.RawMessage(`{"email":"a@b.c"}`)}, `{"id":"","n":0,"row":{"email":"(text)"}}`},
		{covered{Inner: operation.JSON[head](`{"name":"x","value":"a@b.c","other":["a@b.c"]}`)}, `{"id":"","n":0,"inner":{"name":"x","value":"(text)","other":["(text)"]}}`},
		{covered{Next: &covered{Payload: "a@b.c"}}, `{"id":"","n":0,"next":{"id":"","n":0,"payload":"(text)"}}`},
	} {
		if got := shown(t, c.v, false); got != c.want {
			t.Errorf("%+v is shown as\n%s\nwant\n%s", c.v, got, c.want)
		}
		whole, _ := json.Marshal(c.v)
		if got := shown(t, c.v, true); got != string(whole) {
			t.Errorf("who may see it is shown\n%s\nwant\n%s", got, whole)
		}
	}
}

func TestPathsAreCoveredForEverybody(t *testing.T) {
	v := covered{Payload: `{"who": [{"email": "a@b.c", "n": 1}, {"email": {"x": 2}}], "email": "stays"}`, Bag: map[string]json.RawMessage{"$ip": json.RawMessage(`"10.0.0.1"`), "n": json.RawMessage(`1`)},
		Headers: []head{{"Authorization", "s3cret"}, {"x", "y"}}, Base64: "YUBiLmM="}
	want := `{"id":"","n":0,"payload":"{\"who\":[{\"email\":\"(text)\",\"n\":1},{\"email\":{\"x\":\"(number)\"}}],\"email\":\"stays\"}","payload_base64":"YUBiLmM=","bag":{"$ip":"(text)","n":1},` +
		`"headers":[{"name":"Authorization","value":"(text)"},{"name":"x","value":"y"}]}`
	if got := shown(t, v, true, "payload.who.email", "properties.$ip", "headers.authorization", "document.x"); got != want {
		t.Errorf("shown\n%s\nwant\n%s", got, want)
	}
	whole, _ := json.Marshal(v)
	if got := shown(t, v, true, "payload.other", "properties.email.x"); got != string(whole) {
		t.Errorf("without anything at the paths:\n%s\nwant\n%s", got, whole)
	}
}

// secret stands in everything that is covered.
const secret = "s3cr3t"

func TestNoValueOfWhatIsCoveredIsShown(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		v := tree(rt, 3)
		text, err := json.Marshal(v)
		if err != nil {
			rt.Fatal(err)
		}
		for _, c := range []covered{{Payload: string(text)}, {Payload: string(text) + " "}, {Payload: "x" + string(text)}, {Row: text}, {Inner: operation.JSON[head](`{"more":` + string(text) + `}`)}, {Bag: map[string]json.RawMessage{"x": text}}} {
			got := shown(t, c, false)
			if strings.Contains(got, secret) || !json.Valid([]byte(got)) {
				rt.Fatalf("%s is shown as %s", text, got)
			}
		}
	})
}

// tree is a JSON value with the secret in all its texts.
func tree(t *rapid.T, deep int) any {
	kind := rapid.IntRange(0, 5).Draw(t, "kind")
	if deep == 0 {
		kind %= 4
	}
	switch kind {
	case 0:
		return secret + rapid.String().Draw(t, "text")
	case 1:
		return rapid.Int().Draw(t, "number")
	case 2:
		return true
	case 3:
		return `{"in a text": "` + secret + `"}`
	case 4:
		return []any{tree(t, deep-1), tree(t, deep-1)}
	}
	return map[string]any{rapid.StringN(0, 5, 20).Draw(t, "name"): tree(t, deep-1)}
}

type row struct {
	N string `json:"n"`
}

// AppendJSON writes a member that the type does not have too.
func (row) AppendJSON(b []byte) []byte {
	return append(b, `{"n":"shown","ip":"s3cr3t","properties":{"a":"s3cr3t"}}`...)
}

func TestLinesThatWriteThemselvesAreCovered(t *testing.T) {
	l := operation.List[operation.None, row]("rows", "rows", "List rows.").By(func(context.Context, *operation.None) (iter.Seq2[row, error], error) {
		return func(yield func(row, error) bool) {
			for range 2 {
				if !yield(row{}, nil) {
					return
				}
			}
		}, nil
	})
	for payloads, want := range map[bool]string{false: `{"n":"shown","ip":"(text)","properties":{"a":"(text)"}}`, true: `{"n":"shown","ip":"s3cr3t","properties":{"a":"s3cr3t"}}`} {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/api/v1/rows", nil)
		r.Header.Set("Accept", operation.LinesType)
		if err := l.Serve(w, r.WithContext(caller.With(r.Context(), caller.Caller{Rights: caller.All(caller.Admin), Payloads: payloads}))); err != nil || w.Body.String() != want+"\n"+want+"\n"+`{"whole":{"items":2}}`+"\n" {
			t.Errorf("%v, %s; want twice %s", err, w.Body, want)
		}
	}
}
