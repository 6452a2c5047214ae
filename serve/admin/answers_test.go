package admin_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/pb33f/jsonschema/v6"

	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/systems"
)

// description is what openapi.json says of answers.
type description struct {
	mu      sync.Mutex
	mux     *http.ServeMux
	schemas *jsonschema.Compiler
	several map[string]bool                   // patterns of operations that answer with several statuses
	tagged  map[string]bool                   // patterns of operations whose answers have an ETag
	ids     map[string]string                 // of operations, by their patterns
	of      map[string]*operation.Description // by id
}

// allParts are those of an API with all operations.
var allParts = admin.Parts{Rooms: systems.All().Rooms(nil)}

var described = sync.OnceValue(func() *description {
	d := &description{mux: http.NewServeMux(), schemas: jsonschema.NewCompiler(), several: map[string]bool{}, tagged: map[string]bool{}, ids: map[string]string{}, of: map[string]*operation.Description{}}
	for _, h := range admin.New(allParts).Operations() {
		pattern := operation.Pattern(h.Description)
		d.ids[pattern], d.of[h.ID] = h.ID, h.Description
		d.mux.Handle(pattern, http.NotFoundHandler())
		d.tagged[pattern] = h.Tagged()
		_, d.several[pattern] = reflect.Zero(h.Gives).Interface().(interface{ Status() int })
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(api.Document()))
	if err == nil {
		closed(doc.(map[string]any)["components"].(map[string]any)["schemas"].(map[string]any))
		err = d.schemas.AddResource("openapi.json", doc)
	}
	if err != nil {
		panic(err)
	}
	return d
})

// closed lets objects have the members that are described and no others. Clients are to take those
// that they do not know, these tests are not.
func closed(schemas map[string]any) {
	for name, s := range schemas {
		if s, ok := s.(map[string]any); ok && s["properties"] != nil && name != "Event" {
			s["additionalProperties"] = false
		}
	}
}

// answer is the schema of an answer, by its pattern, status and type.
func (d *description) answer(pattern string, status int, kind string) (*jsonschema.Schema, error) {
	if status/100 != 2 {
		return d.schema("components/responses/Problem", kind)
	}
	code := strconv.Itoa(status)
	if d.several[pattern] {
		code = "2XX"
	}
	return d.schema(place(pattern)+"/responses/"+code, kind)
}

// place is where the document has an operation, by its pattern.
func place(pattern string) string {
	method, path, _ := strings.Cut(pattern, " ")
	return "paths/" + escaped(strings.TrimSuffix(path, "{$}")) + "/" + strings.ToLower(method)
}

// escaped is a name in a pointer of JSON, in an address.
var escaped = strings.NewReplacer("/", "~1", "{", "%7B", "}", "%7D", " ", "%20").Replace

// schema is that of the content of a type, at a place.
func (d *description) schema(of, kind string) (*jsonschema.Schema, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.schemas.Compile("openapi.json#/" + of + "/content/" + escaped(kind) + "/schema")
}

// example is the schema of the example of an operation's answer or body.
func (d *description) example(h *operation.Description, part string) (*jsonschema.Schema, error) {
	at, kind := place(operation.Pattern(h)), "application/json"
	if part == "body" {
		return d.schema(at+"/requestBody", h.Body().Name)
	}
	switch {
	case h.ID == "getConfig":
		kind = "application/yaml"
	case h.Gives == payloadType:
		kind = operation.PayloadType
	case h.Events:
		kind = operation.EventsType
	}
	code := "200"
	if d.several[operation.Pattern(h)] {
		code = "2XX"
	}
	return d.schema(at+"/responses/"+code, kind)
}

// payloadType is of answers that are bytes.
var payloadType = reflect.TypeFor[operation.Payload]()

// asDescribed checks an answer against openapi.json: its status, its type, and all of it, or each
// of its lines.
func asDescribed(t *testing.T, r *http.Request, w *httptest.ResponseRecorder) {
	t.Helper()
	d := described()
	_, pattern := d.mux.Handler(r)
	kind := w.Header().Get("Content-Type")
	if pattern == "" || w.Code == http.StatusNotModified && d.tagged[pattern] {
		return
	}
	schema, err := d.answer(pattern, w.Code, kind)
	if err != nil {
		t.Errorf("%s answered %d with %s, which is not described: %v", pattern, w.Code, kind, err)
		return
	}
	if tag := w.Header().Get("ETag"); w.Code/100 == 2 && (tag != "" && tag != `""`) != d.tagged[pattern] {
		t.Errorf("%s answered with the ETag %q, want one: %t", pattern, tag, d.tagged[pattern])
	}
	texts := []string{w.Body.String()}
	switch kind {
	case operation.LinesType:
		texts = strings.Split(strings.TrimSuffix(w.Body.String(), "\n"), "\n")
		if w.Body.Len() == 0 {
			texts = nil
		}
		if r.Method == http.MethodGet && r.URL.Query().Get("follow") == "" && (len(texts) == 0 || len(texts) != len(lines(w.Body.String()))+1 && !strings.HasPrefix(texts[len(texts)-1], `{"problem":`)) {
			t.Errorf("%s does not end by saying that it is whole: %s", r.URL, w.Body)
		}
	case operation.PayloadType, "application/yaml", "text/plain; charset=utf-8", "text/html; charset=utf-8", "application/zstd":
		texts = nil
	}
	for _, text := range texts {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err == nil {
			err = schema.Validate(v)
		}
		if err != nil {
			t.Errorf("%s %s answered\n%s\nwhich is not as described: %v", r.Method, r.URL, text, err)
		}
	}
}
