package admin_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/pb33f/jsonschema/v6"

	"github.com/tidemill/tidemill/internal/golden"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/api/apitest"
	"github.com/tidemill/tidemill/serve/api/operation"
)

// exampleFile has the examples that openapi.json shows.
var exampleFile = filepath.Join("..", "api", "examples.json")

// withoutExample are the operations that have none.
var withoutExample = []string{
	"getOpenAPI", "getOpenAPIYAML", // they would be in themselves
	"giveUpFile", // of a file that is gone while it is read
	"makeBackup", // an archive
}

// mostOfExample is how many bytes an example has at most: what an answer is like is seen in few.
const mostOfExample = 2 << 10

// exampling asks for things, and keeps the first answer of each operation as its example.
type exampling struct {
	*testing.T
	to    http.Handler
	as    *http.Cookie // nil: the admin's key
	plain map[string]string
	kept  apitest.Examples
}

// ask asks for something that is answered, and keeps it.
func (e *exampling) ask(method, path, body string) string {
	e.Helper()
	answer, id := e.look(method, path, body)
	e.keep(id, body, answer)
	return answer
}

func (e *exampling) get(path string) string { e.Helper(); return e.ask(http.MethodGet, path, "") }

func (e *exampling) post(path, body string) string {
	e.Helper()
	return e.ask(http.MethodPost, path, body)
}

// until asks until an answer has this, and keeps that one.
func (e *exampling) until(path, want string) string {
	e.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) { // between two looks at what runs beside it
		answer, id := e.look(http.MethodGet, path, "")
		if strings.Contains(answer, want) {
			e.keep(id, "", answer)
			return answer
		}
		if time.Now().After(end) {
			e.Fatalf("%s never has %q: %s", path, want, answer)
		}
	}
}

// look asks, and says of which operation the answer is.
func (e *exampling) look(method, path, body string) (answer, id string) {
	e.Helper()
	r := request(method, admin.Prefix+path, body)
	r.Header.Del("Accept") // listings are objects
	if e.as != nil {
		r.Header.Del("Authorization")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		r.AddCookie(e.as)
	}
	if method != http.MethodGet {
		r.Header.Set(operation.IfMatch, operation.Whatever)
		r.Header.Set("Content-Type", "application/json")
		if strings.HasPrefix(path, "bridge/entries") {
			r.Header.Set("Content-Type", operation.LinesType)
		}
		if strings.HasPrefix(path, "operations?") {
			r.Header.Set(operation.IdempotencyKey, path)
		}
	}
	w := httptest.NewRecorder()
	e.to.ServeHTTP(w, r)
	asDescribed(e.T, r, w)
	d := described()
	_, pattern := d.mux.Handler(r)
	if w.Code/100 != 2 {
		e.Fatalf("%s %s is answered %d: %s", method, path, w.Code, w.Body)
	}
	return w.Body.String(), d.ids[pattern]
}

// secret asks for something whose answer has a secret, and keeps it with an invented one.
func (e *exampling) secret(path, member, invented string) (answer string) {
	e.Helper()
	answer, id := e.look(http.MethodPost, path, "")
	var of map[string]any
	e.into(answer, &of)
	secret, _ := of[member].(string)
	if secret == "" {
		e.Fatalf("%s has no %s: %s", path, member, answer)
	}
	e.plain[secret] = invented
	e.keep(id, "", answer)
	return answer
}

// keep keeps the example of an operation, if it is the first.
func (e *exampling) keep(id, body, answer string) {
	e.Helper()
	if _, ok := e.kept[id]; ok {
		return
	}
	one := apitest.Example{Answer: e.short(id, answer)}
	if h := described().of[id]; h.Body() != nil {
		one.Body = e.short(id, body)
	}
	e.kept[id] = one
}

// short is a text as an example: JSON with short lists, and without names of this machine.
func (e *exampling) short(id, text string) json.RawMessage {
	e.Helper()
	for is, shown := range e.plain {
		text = strings.ReplaceAll(text, is, shown)
	}
	if id == "getConfig" {
		begins, _, _ := strings.Cut(text, "\nadmin:")
		b, err := yaml.YAMLToJSON([]byte(begins))
		if err != nil {
			e.Fatal(err)
		}
		text = string(b)
	}
	if d := described().of[id]; d.Gives == payloadType || !json.Valid([]byte(text)) {
		b, err := json.Marshal(text)
		if err != nil || !utf8.ValidString(text) {
			e.Fatalf("%s: %v, %q", id, err, text)
		}
		return b
	}
	for most := 2; ; most-- {
		if b := apitest.Shortened(e, []byte(text), most); len(b) < mostOfExample/3 || most == 1 {
			return b
		}
	}
}

// The examples are what was answered when they were written: each answer has its own times and ids. What
// can be asked for and what is answered are tried each time.
func TestExamplesAreAnswers(t *testing.T) {
	e := &exampling{T: t, kept: apitest.Examples{}, plain: map[string]string{}}
	e.shop()
	e.people()
	e.elsewhere()
	delete(e.kept, "getOpenAPI")
	if got := e.kept.Without(admin.New(allParts).Operations()); !slices.Equal(got, withoutExample) {
		t.Errorf("no example is got of %v, want those of all but %v", got, withoutExample)
	}
	if golden.Update() && !t.Failed() {
		if err := os.WriteFile(exampleFile, e.kept.Bytes(t), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestExamplesAreAsDescribed(t *testing.T) {
	all := apitest.ReadExamples(t, exampleFile)
	if got := all.Without(admin.New(allParts).Operations()); !slices.Equal(got, withoutExample) {
		t.Errorf("%s has no example of %v, and is to have those of all but %v: go test ./serve/admin -run TestExamples -update writes it", exampleFile, got, withoutExample)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		h := described().of[id]
		if h == nil {
			t.Errorf("no operation is called %s", id)
			continue
		}
		parts := map[string]json.RawMessage{"answer": all[id].Answer}
		if all[id].Body != nil {
			parts["body"] = all[id].Body
		}
		for part, text := range parts {
			schema, err := described().example(h, part)
			if err != nil {
				t.Errorf("%s: %v", id, err)
				continue
			}
			v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
			if err == nil {
				err = schema.Validate(v)
			}
			if err != nil {
				t.Errorf("the %s of %s is not as described: %v\n%s", part, id, err, text)
			}
			if len(text) > mostOfExample {
				t.Errorf("the %s of %s has %d bytes, and at most %d are sensible", part, id, len(text), mostOfExample)
			}
			for _, of := range []string{`"` + host + `"`, os.TempDir(), "TestExamples", "http://127.0.0.1", "whsec_", "-key-0123456789"} {
				if bytes.Contains(text, []byte(of)) {
					t.Errorf("the %s of %s has %s, which is of the machine that it was made on", part, id, of)
				}
			}
		}
	}
}
